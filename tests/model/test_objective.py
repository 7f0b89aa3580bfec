import dataclasses

import pytest
import torch
from torch import Tensor
from torch.func import functional_call

import lmcells.model.recurrence
from lmcells.model import Batch, Loss, SectionDraws
from lmcells.model.recurrence import aligned_lstm
from model.loop_reference import slow_loss
from model.tiny import gradients_of, tiny_batch, tiny_config, tiny_draws, tiny_model

KINDS = pytest.mark.parametrize("kind", ["lmc", "bsg", "mbsge"])


@KINDS
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_moment_table_gives_the_loss_and_gradients_of_plain_loops(kind: str, seed: int) -> None:
    model = tiny_model(kind, seed=seed)
    batch, draws = tiny_batch(model.config, seed=seed), tiny_draws(model.config, seed=seed)
    fast, slow = model.loss(batch, draws), slow_loss(model, batch, draws)
    torch.testing.assert_close(fast.reconstruction, torch.stack([hinge for hinge, _ in slow]))
    torch.testing.assert_close(fast.prior_divergence, torch.stack([divergence for _, divergence in slow]))
    assert fast.reconstruction.count_nonzero() > 1  # the comparison has something to compare

    weight = torch.rand(len(slow), dtype=torch.float64)  # tells the rows apart
    of_fast = gradients_of(model, (fast.total * weight).sum())
    of_slow = gradients_of(model, (torch.stack([sum(parts) for parts in slow]) * weight).sum())
    for name, gradient in of_fast.items():
        torch.testing.assert_close(gradient, of_slow[name], msg=lambda text, name=name: f"{name}: {text}")


def test_the_static_shapes_of_the_gpu_give_the_same_loss_and_gradients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = tiny_model()
    batch, draws = tiny_batch(model.config), tiny_draws(model.config)
    packed = model.loss(batch, draws).total
    monkeypatch.setattr(lmcells.model.recurrence, "packed_lstm", aligned_lstm)
    aligned = model.loss(batch, draws).total
    torch.testing.assert_close(packed, aligned)
    of_packed, of_aligned = gradients_of(model, packed.sum()), gradients_of(model, aligned.sum())
    for name, gradient in of_packed.items():
        torch.testing.assert_close(gradient, of_aligned[name])


@KINDS
def test_the_whole_loss_passes_gradcheck(kind: str) -> None:
    model = tiny_model(kind, seed=3, n_words=5, cell_dim=2, embedding_dim=2, hidden_dim=2, window=2)
    batch, draws = tiny_batch(model.config, n_rows=4), tiny_draws(model.config)
    named = dict(model.named_parameters())

    def total(*values: Tensor) -> Tensor:
        loss: Loss = functional_call(model, dict(zip(named, values, strict=True)), (batch, draws))
        return loss.total

    assert torch.autograd.gradcheck(total, tuple(named.values()), fast_mode=True)


def test_a_table_of_the_batchs_words_gives_the_loss_of_the_whole_vocabulary() -> None:
    model = tiny_model()
    batch, draws = tiny_batch(model.config), tiny_draws(model.config)
    needed = torch.cat([batch.context[batch.context_mask], batch.negatives[batch.context_mask]]).unique()
    some = needed.flip(0)
    assert len(some) < model.config.n_words
    few = SectionDraws(words=some, sections=draws.sections[some])
    torch.testing.assert_close(model.loss(batch, few).total, model.loss(batch, draws).total)


def test_a_word_missing_from_the_table_is_an_error() -> None:
    model = tiny_model()
    batch, draws = tiny_batch(model.config), tiny_draws(model.config)
    with pytest.raises(IndexError):
        model.loss(batch, SectionDraws(words=torch.tensor([0]), sections=draws.sections[:1]))


@KINDS
def test_padding_and_the_order_of_rows_never_change_a_loss(kind: str) -> None:
    model = tiny_model(kind)
    batch, draws = tiny_batch(model.config), tiny_draws(model.config)
    expected = model.loss(batch, draws)
    for n_left, n_right in ((3, 0), (0, 3), (2, 1)):
        found = model.loss(padded(batch, n_left, n_right), draws)
        torch.testing.assert_close(found.reconstruction, expected.reconstruction)
        torch.testing.assert_close(found.prior_divergence, expected.prior_divergence)
    order = torch.tensor([5, 2, 0, 4, 3, 1])
    values = {field.name: getattr(batch, field.name) for field in dataclasses.fields(batch)}
    shuffled = Batch(**{name: None if value is None else value[order] for name, value in values.items()})
    torch.testing.assert_close(model.loss(shuffled, draws).total, expected.total[order])


def padded(batch: Batch, n_left: int, n_right: int) -> Batch:
    """The batch with absent positions around its windows, which hold whatever they hold."""

    def widen(values: Tensor, filler: int) -> Tensor:
        left, right = (values.new_full((len(values), n), filler) for n in (n_left, n_right))
        return torch.cat([left, values, right], dim=1)

    return dataclasses.replace(
        batch,
        context=widen(batch.context, 7),
        context_mask=widen(batch.context_mask, False),
        negatives=widen(batch.negatives, 3),
    )


def test_a_masked_context_word_leaves_the_hinge() -> None:
    model = tiny_model(margin=1000.0)  # every present word violates the margin
    batch, draws = tiny_batch(model.config), tiny_draws(model.config)
    hinge = model.loss(batch, draws).reconstruction
    assert hinge[0] == 0  # no word present
    assert (hinge[1:] > 500 * batch.context_mask[1:].sum(dim=1)).all()


def test_a_masked_center_keeps_its_prior() -> None:
    model = tiny_model()
    batch, draws = tiny_batch(model.config), tiny_draws(model.config)
    masked = dataclasses.replace(batch, center_mask=torch.zeros_like(batch.center_mask))
    other = dataclasses.replace(masked, center=(batch.center + 1) % 13)
    first, second = model.loss(masked, draws), model.loss(other, draws)
    torch.testing.assert_close(first.reconstruction, second.reconstruction)
    assert not torch.isclose(first.prior_divergence, second.prior_divergence).any()


@KINDS
@pytest.mark.parametrize("lstm", ["packed", "aligned"])
@pytest.mark.usefixtures("bf16_without_amx")
def test_bf16_gives_nearly_the_same_loss_and_finite_gradients(
    kind: str, lstm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lstm == "aligned":
        monkeypatch.setattr(lmcells.model.recurrence, "packed_lstm", aligned_lstm)
    sizes = {"n_words": 50, "cell_dim": 100, "embedding_dim": 100, "hidden_dim": 64, "window": 10}
    model = tiny_model(kind, dtype=torch.float32, **sizes)
    batch, draws = tiny_batch(model.config, n_rows=32), tiny_draws(model.config)
    exact = model.loss(batch, draws)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = model.loss(batch, draws)
    assert rounded.total.dtype == torch.float32
    torch.testing.assert_close(rounded.total.mean(), exact.total.mean(), rtol=0.01, atol=0)
    assert all(gradient.isfinite().all() for gradient in gradients_of(model, rounded.total.mean()).values())


@pytest.mark.parametrize("of_q", [-30.0, 30.0])
@pytest.mark.parametrize("of_p", [-30.0, 30.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.usefixtures("bf16_without_amx")
def test_gradients_are_finite_at_extreme_variances(of_q: float, of_p: float, dtype: torch.dtype) -> None:
    model = tiny_model(dtype=torch.float32)
    with torch.no_grad():
        model.variational.heads.log_variance.bias.fill_(of_q)
        model.prior.heads.log_variance.bias.fill_(of_p)
    batch, draws = tiny_batch(model.config), tiny_draws(model.config)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
        loss = model.loss(batch, draws)
    assert loss.total.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in gradients_of(model, loss.total.mean()).values())


def test_every_parameter_of_every_kind_is_trained() -> None:
    for kind in ("lmc", "bsg", "mbsge"):
        model = tiny_model(kind)
        batch, draws = tiny_batch(model.config, n_rows=64), tiny_draws(model.config)
        for name, gradient in gradients_of(model, model.loss(batch, draws).total.sum()).items():
            assert gradient.any(), name


def test_negatives_of_another_shape_are_refused() -> None:
    batch = tiny_batch(tiny_config())
    with pytest.raises(ValueError, match=r"negatives has shape \(6, 5\); context has \(6, 6\)"):
        dataclasses.replace(batch, negatives=batch.negatives[:, :5])
