"""The kernels against the model they replace; they need a GPU. The same check: benchmarks/training_speed.py --check."""

import pytest
import torch
from torch import Tensor

from lmcells.errors import ConfigError
from lmcells.model import Batch, LatentMeaningCells, Loss, ModelConfig, SectionDraws
from lmcells.training.kernels import kernels_available

needs_gpu = pytest.mark.skipif(not kernels_available(), reason="needs a CUDA device and Triton")

N_WORDS, N_SECTIONS, ROWS, STEPS, DRAWS = 3_000, 200, 1_037, 20, 10


def lmc(*, dropout: float = 0.0, **sizes: int) -> LatentMeaningCells:
    torch.manual_seed(0)
    return LatentMeaningCells(
        ModelConfig(n_words=N_WORDS, n_metadata=N_SECTIONS, dropout=dropout, **sizes)  # type: ignore[arg-type]
    ).cuda()


def random_batch() -> tuple[Batch, SectionDraws]:
    """Everything that can be absent is so somewhere; word 7 is far more frequent than the rest."""
    generator = torch.Generator("cuda").manual_seed(1)

    def ids(below: int, *shape: int) -> Tensor:
        return torch.randint(below, shape, generator=generator, device="cuda")

    def happens(rate: float, *shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, device="cuda") < rate

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


def gradients(model: LatentMeaningCells, loss: Loss) -> dict[str, Tensor]:
    model.zero_grad()
    loss.total.mean().backward()  # type: ignore[no-untyped-call]
    return {name: value.grad.clone() for name, value in model.named_parameters() if value.grad is not None}


def assert_near(found: Tensor, wanted: Tensor, *, within: float) -> None:
    assert float((found - wanted).detach().norm()) <= within * float(wanted.detach().norm())


@needs_gpu
def test_loss_and_gradients_are_the_models() -> None:
    from lmcells.training.kernels.loss import FusedLoss

    model, (batch, draws) = lmc(), random_batch()
    wanted, found = model.loss(batch, draws), FusedLoss(model)(batch, draws)
    assert_near(found.reconstruction, wanted.reconstruction, within=0.01)
    assert_near(found.prior_divergence, wanted.prior_divergence, within=0.01)
    wanted_gradients, found_gradients = gradients(model, wanted), gradients(model, found)
    assert found_gradients.keys() == wanted_gradients.keys()
    for name, gradient in wanted_gradients.items():
        assert_near(found_gradients[name], gradient, within=0.03)


@needs_gpu
def test_repeated_step_is_the_same_bit_for_bit() -> None:
    from lmcells.training.kernels.loss import FusedLoss

    model, (batch, draws) = lmc(dropout=0.2), random_batch()
    fused, results = FusedLoss(model), []
    for _ in range(2):
        torch.cuda.manual_seed(5)
        results.append(gradients(model, fused(batch, draws)))
    assert all(torch.equal(results[0][name], results[1][name]) for name in results[0])


@needs_gpu
def test_posterior_alone_is_the_models() -> None:
    from lmcells.training.kernels.loss import FusedLoss

    model, (batch, _) = lmc(), random_batch()
    wanted, found = model.posterior(batch).cell, FusedLoss(model).posterior(batch)
    assert_near(found.mean, wanted.mean, within=0.01)
    assert_near(found.log_variance, wanted.log_variance, within=0.01)


@needs_gpu
def test_absent_metadata_and_center_mask_are_null_and_present() -> None:
    from lmcells.training.kernels.loss import FusedLoss

    model, (batch, draws) = lmc(), random_batch()
    bare = Batch(
        center=batch.center, context=batch.context, context_mask=batch.context_mask, negatives=batch.negatives
    )
    assert_near(FusedLoss(model)(bare, draws).total, model.loss(bare, draws).total, within=0.01)


@needs_gpu
def test_dropout_in_attention_is_undone_in_backward() -> None:
    """With the masks made in torch the same result and gradients come out."""
    from lmcells.training.kernels.attention import attend_and_mix
    from lmcells.training.kernels.grouping import Dropout

    torch.manual_seed(2)
    states = torch.randn(STEPS, ROWS, 128, device="cuda").bfloat16().requires_grad_()
    section = torch.randn(ROWS, 128, device="cuda", requires_grad=True)
    weight = (torch.randn(2, 256, device="cuda") * 0.1).requires_grad_()
    bias = torch.randn(2, device="cuda", requires_grad=True)
    lengths = torch.randint(STEPS + 1, (ROWS,), device="cuda", dtype=torch.int32).sort(descending=True).values
    present = torch.arange(STEPS, device="cuda").unsqueeze(1) < lengths
    known = torch.ones(ROWS, dtype=torch.bool, device="cuda")
    dropout = Dropout(0.2, torch.tensor([77], dtype=torch.int32, device="cuda"))
    inputs = (states, section, weight, bias)
    found = attend_and_mix(
        states, section, lengths=lengths, has_metadata=known, gate=(weight, bias), dropout=dropout
    )

    kept = kept_in_torch(ROWS * 384, seed=77, threshold=dropout.threshold).view(ROWS, 384) * dropout.scale
    scores = (states.float() * section).sum(dim=-1) / 128**0.5
    shares = scores.masked_fill(~present, -1e30).softmax(dim=0).masked_fill(~present, 0.0)
    summary = (shares.unsqueeze(-1) * states.float()).sum(dim=0)
    both = (torch.cat([section, summary], dim=-1) * kept[:, :256]) @ weight.T + bias
    gate = torch.sigmoid(both[:, 0].tanh() - both[:, 1].tanh()).unsqueeze(-1)
    wanted = torch.lerp(summary, section, gate) * kept[:, 256:]

    direction = torch.randn_like(wanted)
    assert_near(found.float(), wanted, within=0.005)
    d_states, *others = torch.autograd.grad(found, inputs, direction.bfloat16())
    wanted_d_states, *wanted_others = torch.autograd.grad(wanted, inputs, direction)
    there = present.unsqueeze(-1)  # beyond the lengths nothing is written
    assert_near(torch.where(there, d_states.float(), 0.0), wanted_d_states.float(), within=0.01)
    for one, other in zip(others, wanted_others, strict=True):
        assert_near(one, other, within=0.01)


def kept_in_torch(n: int, *, seed: int, threshold: int) -> Tensor:
    """The kernels' hash, in 64-bit integers."""
    low = 0xFFFFFFFF
    mixed = ((torch.arange(n, device="cuda") * 0x9E3779B1) & low) ^ (seed & low)
    mixed = ((mixed ^ (mixed >> 16)) * 0x7FEB352D) & low
    mixed = ((mixed ^ (mixed >> 15)) * 0x846CA68B) & low
    return ((mixed ^ (mixed >> 16)) >= threshold).float()


@needs_gpu
def test_sums_by_id_are_exact_for_runs_of_any_length() -> None:
    from lmcells.training.kernels.grouping import group_places, sum_rows

    generator = torch.Generator("cuda").manual_seed(4)
    ids = torch.randint(50, (5_000,), generator=generator, device="cuda", dtype=torch.int32) ** 2 // 40
    ids[:2_000] = 3  # a run over many whole chunks
    present = torch.rand(5_000, generator=generator, device="cuda") < 0.9
    rows = torch.randint(-8, 9, (5_000, 128), generator=generator, device="cuda").float()
    found = sum_rows(rows, group_places(ids, n_groups=70, present=present), width=100)
    wanted = torch.zeros(70, 128, device="cuda").index_add_(0, ids.long(), rows * present.unsqueeze(1))
    assert torch.equal(found, wanted[:, :100])


@needs_gpu
def test_captured_step_goes_on_drawing_other_dropouts() -> None:
    from lmcells.training.kernels.capture import CapturedStep
    from lmcells.training.kernels.loss import FusedLoss

    model, (batch, draws) = lmc(dropout=0.2), random_batch()
    fused, seen = FusedLoss(model), torch.zeros((), device="cuda")

    def step() -> None:
        loss = fused(batch, draws).total.mean()
        model.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        seen.copy_(loss.detach())

    replay, values = CapturedStep(step), []
    for _ in range(3):
        replay()
        values.append(float(seen))
    assert len(set(values)) == 3


@needs_gpu
def test_other_sizes_are_refused() -> None:
    from lmcells.training.kernels.loss import FusedLoss

    with pytest.raises(ConfigError, match="hidden_dim is 32"):
        FusedLoss(lmc(hidden_dim=32))


def test_cpu_has_no_kernels() -> None:
    assert not kernels_available("cpu")
