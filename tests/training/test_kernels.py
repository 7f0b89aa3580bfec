"""The kernels against the torch model they must equal (see `lmcells.training.kernels`): losses, posteriors, gradients.

With a GPU the tests run there, at realistic sizes. Without one, `test_all_kernels_by_tritons_interpreter` runs this
file again, in a process of its own because TRITON_INTERPRET=1 must be set before Triton is imported: every kernel is
then interpreted on the CPU, with float32 operands. Only a GPU can show:

- rounding of operands to bf16 (its `tl.dot` multiplies bf16 as if their bits were integers) and to TF32;
- `tanh.approx.f32`, inline PTX in the LSTM, where it computes tanh by a formula;
- torch's `mm` of bf16 with a float32 result, where there is no CPU implementation;
- `CapturedStep`: a CUDA graph, no kernel of ours.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import Tensor

from lmcells.errors import ConfigError
from lmcells.model import Batch, LatentMeaningCells, ModelConfig, SectionDraws, Windows
from lmcells.training.kernels import CapturedStep, kernels_available

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if kernels_available() and not INTERPRETED else "cpu"
if INTERPRETED:
    N_WORDS, N_SECTIONS, ROWS, STEPS, DRAWS = 70, 7, 67, 5, 3
else:
    N_WORDS, N_SECTIONS, ROWS, STEPS, DRAWS = 3_000, 200, 1_037, 20, 10

pytestmark = pytest.mark.filterwarnings(
    "ignore:TRITON_DEFAULT_FP_FUSION"
)  # Triton 3.9 on a GPU announces 3.10
needs_gpu = pytest.mark.skipif(DEVICE == "cpu", reason="needs a CUDA device and Triton")
runs_kernels = pytest.mark.skipif(
    DEVICE == "cpu" and not INTERPRETED, reason="run by test_all_kernels_by_tritons_interpreter"
)
if DEVICE == "cuda" or INTERPRETED:
    from lmcells.training.kernels.attention import attend_and_mix
    from lmcells.training.kernels.lookup import group_places, look_up, sum_rows
    from lmcells.training.kernels.loss import FusedLoss
    from lmcells.training.kernels.operands import NARROW, Dropout


@pytest.mark.skipif(DEVICE == "cuda" or INTERPRETED, reason="the kernels run in this process")
@pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton")
def test_all_kernels_by_tritons_interpreter() -> None:
    flags = "-m pytest -p no:cacheprovider -o addopts=--import-mode=importlib"
    done = subprocess.run(
        [sys.executable, *flags.split(), __file__],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert ", 2 skipped" in done.stdout  # this test and the one that needs a GPU


def lmc(**settings: object) -> LatentMeaningCells:
    torch.manual_seed(0)
    config = ModelConfig(**{"n_words": N_WORDS, "n_metadata": N_SECTIONS, "dropout": 0.0, **settings})
    return LatentMeaningCells(config).to(DEVICE)


def ids(below: int, *shape: int) -> Tensor:
    return torch.randint(below, shape, device=DEVICE)


def happens(rate: float, *shape: int) -> Tensor:
    return torch.rand(shape, device=DEVICE) < rate


def random_batch() -> tuple[Batch, SectionDraws]:
    """Everything that can be absent is absent somewhere; word 7 is far more frequent than the rest."""
    torch.manual_seed(1)
    context_mask = happens(0.7, ROWS, STEPS)
    context_mask[:3] = False
    batch = Batch(
        center=ids(N_WORDS, ROWS),
        center_mask=happens(0.8, ROWS),
        metadata=ids(N_SECTIONS, ROWS).masked_fill(happens(0.1, ROWS), -1),
        context=ids(N_WORDS, ROWS, STEPS).masked_fill(happens(0.3, ROWS, STEPS), 7),
        context_mask=context_mask,
        negatives=ids(N_WORDS, ROWS, STEPS),
    )
    return batch, SectionDraws(sections=ids(N_SECTIONS, N_WORDS, DRAWS))


def gradients(model: LatentMeaningCells, value: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    value.backward()
    return {name: value.grad.clone() for name, value in model.named_parameters() if value.grad is not None}


def assert_near(found: Tensor, wanted: Tensor, *, within: float) -> None:
    """Close up to a relative error, which in the interpreter's float32 is far smaller."""
    error, size = float((found - wanted).detach().norm()), float(wanted.detach().norm())
    assert error <= (1e-4 if INTERPRETED else within) * size


def assert_same_gradients(model: LatentMeaningCells, found: Tensor, wanted: Tensor) -> None:
    of_found, of_wanted = gradients(model, found), gradients(model, wanted)
    assert of_found.keys() == of_wanted.keys()
    for name, gradient in of_wanted.items():
        assert_near(of_found[name], gradient, within=0.03)


@runs_kernels
@pytest.mark.parametrize("settings", [{}, {"context_dim": 32}, {"masks_span": True}])
def test_loss_and_gradients_are_the_models(settings: dict[str, int]) -> None:
    model, (batch, draws) = lmc(**settings), random_batch()
    wanted, found = model.loss(batch, draws), FusedLoss(model)(batch, draws)
    assert_near(found.reconstruction, wanted.reconstruction, within=0.01)
    assert_near(found.prior_divergence, wanted.prior_divergence, within=0.01)
    assert_same_gradients(model, found.total.mean(), wanted.total.mean())


@runs_kernels
@pytest.mark.parametrize("settings", [{}, {"context_dim": 32}, {"masks_span": True, "masked_span_dim": 32}])
def test_posteriors_and_gradients_are_the_models(settings: dict[str, int]) -> None:
    model, (batch, _) = lmc(**settings), random_batch()
    context = batch.context.clone()
    if model.config.masks_span:
        context[::2, STEPS // 2] = model.config.mask_id
    windows = Windows(
        center=batch.center, context=context, context_mask=batch.context_mask, metadata=batch.metadata
    )
    wanted, found = model.posterior(windows).cell, FusedLoss(model).posterior(windows)
    assert_near(found.mean, wanted.mean, within=0.01)
    assert_near(found.log_variance, wanted.log_variance, within=0.01)
    weight = torch.randn_like(wanted.mean)
    totals = ((cell.mean * weight).sum() + cell.log_variance.sum() for cell in (found, wanted))
    assert_same_gradients(model, *totals)


@runs_kernels
def test_without_metadata_and_center_mask_they_are_null_and_present() -> None:
    model, (batch, draws) = lmc(), random_batch()
    bare = Batch(
        center=batch.center, context=batch.context, context_mask=batch.context_mask, negatives=batch.negatives
    )
    assert_near(FusedLoss(model)(bare, draws).total, model.loss(bare, draws).total, within=0.01)


@runs_kernels
def test_a_repeated_step_is_the_same_bit_for_bit() -> None:
    model, (batch, draws) = lmc(dropout=0.2), random_batch()
    fused, results = FusedLoss(model), []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        results.append(gradients(model, fused(batch, draws).total.mean()))
    first, second, other = results
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first)


@runs_kernels
def test_dropout_in_attention_is_undone_in_backward() -> None:
    """With the same masks made in torch the same result and gradients come out."""
    torch.manual_seed(2)
    states = torch.randn(STEPS, ROWS, 128, device=DEVICE).to(NARROW).requires_grad_()
    section = torch.randn(ROWS, 128, device=DEVICE, requires_grad=True)
    weight = (torch.randn(2, 256, device=DEVICE) * 0.1).requires_grad_()
    bias = torch.randn(2, device=DEVICE, requires_grad=True)
    lengths = ids(STEPS + 1, ROWS).int().sort(descending=True).values
    present = torch.arange(STEPS, device=DEVICE).unsqueeze(1) < lengths
    known = torch.ones(ROWS, dtype=torch.bool, device=DEVICE)
    inputs, dropout = (states, section, weight, bias), some_dropout()
    found = attend_and_mix(
        states, section, lengths=lengths, has_metadata=known, gate=(weight, bias), dropout=dropout
    )

    kept = kept_in_torch(ROWS * 384, dropout).view(ROWS, 384)
    scores = (states.float() * section).sum(dim=-1) / 128**0.5
    shares = scores.masked_fill(~present, -1e30).softmax(dim=0).masked_fill(~present, 0.0)
    summary = (shares.unsqueeze(-1) * states.float()).sum(dim=0)
    both = (torch.cat([section, summary], dim=-1) * kept[:, :256]) @ weight.T + bias
    gate = torch.sigmoid(both[:, 0].tanh() - both[:, 1].tanh()).unsqueeze(-1)
    wanted = torch.lerp(summary, section, gate) * kept[:, 256:]

    direction = torch.randn_like(wanted)
    assert_near(found.float(), wanted, within=0.005)
    d_states, *others = torch.autograd.grad(found, inputs, direction.to(NARROW))
    wanted_d_states, *wanted_others = torch.autograd.grad(wanted, inputs, direction)
    there = present.unsqueeze(-1)  # beyond the lengths nothing is written
    assert_near(torch.where(there, d_states.float(), 0.0), wanted_d_states.float(), within=0.01)
    for one, other in zip(others, wanted_others, strict=True):
        assert_near(one, other, within=0.01)


@runs_kernels
def test_dropout_in_lookups_is_undone_in_backward() -> None:
    torch.manual_seed(3)
    table = torch.randn(N_WORDS, 100, device=DEVICE, requires_grad=True)
    words, present, dropout = ids(N_WORDS, ROWS).int(), happens(0.8, ROWS), some_dropout()
    grouping = group_places(words.masked_fill(~present, N_WORDS), n_ids=N_WORDS)
    found = look_up(table, words, grouping, dtype=torch.float32, present=present, dropout=dropout)
    kept = kept_in_torch(ROWS * 128, dropout).view(ROWS, 128)[:, :100]
    assert 0.75 < (kept > 0).float().mean() < 0.85
    wanted = table[words.long()] * kept * present.unsqueeze(1)
    torch.testing.assert_close(found, torch.nn.functional.pad(wanted, (0, 28)))
    direction = torch.randn_like(found)
    (d_found,) = torch.autograd.grad(found, table, direction)
    (d_wanted,) = torch.autograd.grad(wanted, table, direction[:, :100])
    torch.testing.assert_close(d_found, d_wanted)


def some_dropout() -> "Dropout":
    return Dropout(0.2, torch.tensor([-77], dtype=torch.int32, device=DEVICE))


def kept_in_torch(n: int, dropout: "Dropout") -> Tensor:
    """The kernels' hash, in 64-bit integers: the scale where an element is kept, 0 where it is dropped."""
    low = 0xFFFFFFFF
    mixed = ((torch.arange(n, device=DEVICE) * 0x9E3779B1) & low) ^ (dropout.seed.long() & low)
    mixed = ((mixed ^ (mixed >> 16)) * 0x7FEB352D) & low
    mixed = ((mixed ^ (mixed >> 15)) * 0x846CA68B) & low
    return ((mixed ^ (mixed >> 16)) >= dropout.rate * 2**32).float() / (1 - dropout.rate)


@runs_kernels
def test_sums_by_id_are_exact_for_runs_of_any_length() -> None:
    torch.manual_seed(4)
    places = ids(50, 5_000).int() ** 2 // 40
    places[:2_000] = 3  # a run over many whole chunks
    present = happens(0.9, 5_000)
    rows = torch.randint(-8, 9, (5_000, 128), device=DEVICE).float()
    found = sum_rows(rows, group_places(places.masked_fill(~present, 70), n_ids=70), width=100)
    wanted = torch.zeros(70, 128, device=DEVICE).index_add_(0, places.long(), rows * present.unsqueeze(1))
    assert torch.equal(found, wanted[:, :100])


@needs_gpu
def test_a_captured_step_goes_on_drawing_other_dropouts() -> None:
    model, (batch, draws) = lmc(dropout=0.2), random_batch()
    fused, seen = FusedLoss(model), torch.zeros((), device="cuda")

    def step() -> None:
        loss = fused(batch, draws).total.mean()
        model.zero_grad()
        loss.backward()
        seen.copy_(loss.detach())

    replay, values = CapturedStep(step), []
    for _ in range(3):
        replay()
        values.append(float(seen))
    assert len(set(values)) == 3


@runs_kernels
def test_sizes_and_draws_that_the_kernels_do_not_know_are_refused() -> None:
    with pytest.raises(ConfigError, match="hidden_dim is 32"):
        FusedLoss(lmc(hidden_dim=32))
    batch, draws = random_batch()
    with pytest.raises(ValueError, match="every word of the vocabulary"):
        FusedLoss(lmc())(batch, SectionDraws(sections=draws.sections, words=ids(N_WORDS, 3)))


def test_the_cpu_has_no_kernels() -> None:
    assert not kernels_available("cpu")
