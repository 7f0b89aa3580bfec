"""The models once more, as loops over rows, words and sections, straight from the paper's formulas.

Slow on purpose and sharing nothing with the package but its parameters. No dropout.
"""

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from lmcells.model import Batch, CellModel, SectionDraws
from lmcells.model.recurrence import BidirectionalLstm

Parameters = tuple[Tensor, Tensor]  # mean (d,), variance ()


def slow_loss(model: CellModel, batch: Batch, draws: SectionDraws) -> list[tuple[Tensor, Tensor]]:
    """(hinge, divergence from the prior) of each row."""
    return [slow_row(model, batch, draws, row) for row in range(len(batch.center))]


def slow_row(model: CellModel, batch: Batch, draws: SectionDraws, row: int) -> tuple[Tensor, Tensor]:
    config = model.config
    q = slow_posterior(model, batch, row)
    hinge = torch.zeros((), dtype=q[0].dtype)
    for j in range(batch.context.shape[1]):
        if batch.context_mask[row, j]:
            near = slow_mixture_divergence(model, q, int(batch.context[row, j]), draws)
            far = slow_mixture_divergence(model, q, int(batch.negatives[row, j]), draws)
            hinge = hinge + torch.clamp(config.margin + near - far, min=0)
    section = None if batch.metadata is None else int(batch.metadata[row])
    return hinge, slow_kl(q, slow_prior(model, int(batch.center[row]), section))


def slow_mixture_divergence(model: CellModel, q: Parameters, word: int, draws: SectionDraws) -> Tensor:
    """The upper bound on the divergence to the word's mixture: the mean over its drawn sections."""
    sections = [None] if draws.sections is None else draws.sections[word].tolist()
    total = torch.zeros((), dtype=q[0].dtype)
    for section in sections:
        mean, variance = slow_prior(model, word, section)
        total = total + slow_kl(q, (mean, variance + model.config.variance_floor))
    return total / len(sections)


def slow_kl(q: Parameters, p: Parameters) -> Tensor:
    (mu_q, v_q), (mu_p, v_p) = q, p
    total = torch.zeros((), dtype=mu_q.dtype)
    for k in range(len(mu_q)):  # an isotropic Gaussian is a product of d normals
        total = total + 0.5 * (
            v_q / v_p + (mu_q[k] - mu_p[k]) ** 2 / v_p - 1 + torch.log(v_p) - torch.log(v_q)
        )
    return total


def slow_prior(model: CellModel, center: int, section: int | None) -> Parameters:
    prior = model.prior
    if model.config.kind != "lmc":
        return prior.mean.weight[center], prior.log_variance.weight[center, 0].exp()
    joined = torch.cat([prior.words.weight[center], prior.metadata.weight[section]])
    return heads(prior.heads, torch.relu(prior.hidden.weight @ joined + prior.hidden.bias))


def slow_posterior(model: CellModel, batch: Batch, row: int) -> Parameters:
    network, lmc = model.variational, model.config.kind == "lmc"
    words = network.context.words.weight
    center = words[batch.center[row]] * batch.center_mask[row]
    sequence = [
        torch.cat([words[word], center])
        for word, present in zip(batch.context[row], batch.context_mask[row], strict=True)
        if present
    ]
    query = network.metadata.weight[batch.metadata[row]] if lmc else network.query
    h_word = torch.zeros_like(query)
    if sequence:
        states = run_lstm(network.context.lstm, torch.stack(sequence))
        scores = torch.stack([query @ state for state in states]) / len(query) ** 0.5
        for weight, state in zip(functional.softmax(scores, dim=0), states, strict=True):
            h_word = h_word + weight * state
    if not lmc:
        return heads(network.heads, h_word)
    scores = torch.tanh(network.gate.weight @ torch.cat([query, h_word]) + network.gate.bias)
    p_metadata, p_word = functional.softmax(scores, dim=0)
    return heads(network.heads, p_metadata * query + p_word * h_word)


def run_lstm(lstm: BidirectionalLstm, sequence: Tensor) -> Tensor:
    """torch's own LSTM with these weights on one sequence without absent positions: (T, I) -> (T, 2H)."""
    theirs = nn.LSTM(sequence.shape[1], lstm.hidden.shape[2], bidirectional=True, dtype=sequence.dtype)
    values = {}
    for direction, suffix in enumerate(("", "_reverse")):
        values[f"weight_ih_l0{suffix}"] = lstm.input[direction]
        values[f"weight_hh_l0{suffix}"] = lstm.hidden[direction]
        values[f"bias_ih_l0{suffix}"] = lstm.input_bias[direction]
        values[f"bias_hh_l0{suffix}"] = lstm.hidden_bias[direction]
    return functional_call(theirs, values, (sequence,))[0]


def heads(layer: nn.Module, hidden: Tensor) -> Parameters:
    mean = layer.mean.weight @ hidden + layer.mean.bias
    return mean, torch.exp(layer.log_variance.weight @ hidden + layer.log_variance.bias).squeeze(0)
