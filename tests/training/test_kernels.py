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
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import Tensor

from lmcells.errors import ConfigError
from lmcells.model import Batch, LatentMeaningCells, Loss, ModelConfig, SectionDraws, Windows
from lmcells.training.device_corpus import AliasTable, Chunk, OccurrenceSections
from lmcells.training.kernels import GROUPS, TABLE, CapturedStep, beside, join, kernels_available
from lmcells.training.sampler import Sampler
from lmcells.training.task import Adam, descend

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if kernels_available() and not INTERPRETED else "cpu"
if INTERPRETED:
    N_WORDS, N_SECTIONS, ROWS, STEPS, DRAWS = 70, 7, 33, 3, 2
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
    from lmcells.training.kernels import model_network
    from lmcells.training.kernels.adam import TableAdam
    from lmcells.training.kernels.attention import attend_and_mix
    from lmcells.training.kernels.lookup import group_by_id, group_distinct, look_up, sum_rows
    from lmcells.training.kernels.loss import FusedLoss
    from lmcells.training.kernels.operands import NARROW, Dropout
    from lmcells.training.kernels.windows import TimeMajor, draw_sections, draw_windows

    if INTERPRETED:  # one after another; most would find no rows
        model_network.N_PROGRAMS = 3


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


def loss_of(fused: "FusedLoss", batch: Batch, draws: SectionDraws) -> Loss:
    """The kernels' loss of a batch, in its order; `draws` are of the whole vocabulary."""
    windows = TimeMajor.of_windows(batch, config=fused.model.config)
    with beside(TABLE, draws.sections):
        is_group = torch.arange(windows.words.capacity, device=DEVICE) < windows.words.n_groups
        sections = (
            draws.sections[windows.words.of_group].int().masked_fill(~is_group.unsqueeze(1), N_SECTIONS)
        )
    loss = fused(windows, SectionDraws(sections=sections, words=windows.words.of_group))
    return Loss(*map(windows.in_given_order, (loss.reconstruction, loss.prior_divergence)))


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
    wanted, found = model.loss(batch, draws), loss_of(FusedLoss(model), batch, draws)
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


def small_sampler(**settings: object) -> tuple[Sampler, Chunk]:
    """A sampler over 500 tokens in segments of about 12, smoothed sections, every word's section 3 or its own."""
    torch.manual_seed(6)
    config = ModelConfig(n_words=N_WORDS, n_metadata=N_SECTIONS, window=3, **settings)
    chunk = Chunk(ids(N_WORDS, 500).int(), (torch.arange(500, device=DEVICE) // 12).int())
    weights = torch.arange(1.0, N_WORDS + 1).double().numpy()
    sections = OccurrenceSections(
        sections=torch.stack([torch.arange(N_WORDS) % N_SECTIONS, torch.full((N_WORDS,), 3)], dim=1)
        .flatten()
        .int()
        .to(DEVICE),
        offsets=2 * torch.arange(N_WORDS, device=DEVICE),
        sizes=torch.full((N_WORDS,), 2, dtype=torch.int32, device=DEVICE),
        uniform_rate=torch.full((N_WORDS,), 0.25, device=DEVICE),
        n_metadata=N_SECTIONS,
    )
    generator = torch.Generator(DEVICE).manual_seed(0)
    negatives = AliasTable.of_weights(weights, device=torch.device(DEVICE))
    return Sampler(config, generator, negatives, sections, ids(N_SECTIONS, 42).int()), chunk


def seed_of(value: int) -> Tensor:
    return torch.tensor([value], dtype=torch.int32, device=DEVICE)


@runs_kernels
def test_kernels_draw_the_samplers_windows() -> None:
    sampler, chunk = small_sampler(context_mask_rate=0.0, center_mask_rate=0.0)
    positions = torch.arange(500, device=DEVICE, dtype=torch.int32)
    present = positions < 490
    wanted = sampler.batch(chunk, positions, present=present)
    found = draw_windows(sampler, chunk, positions, present=present, seed=seed_of(1))
    assert torch.equal(found.center, wanted.center)
    assert torch.equal(found.metadata, wanted.metadata)
    assert torch.equal(found.context_mask, wanted.context_mask)
    assert torch.equal(found.context[wanted.context_mask], wanted.context[wanted.context_mask])
    assert bool(found.center_mask.all())
    other = draw_windows(sampler, chunk, positions, present=present, seed=seed_of(3))
    assert not torch.equal(found.negatives, other.negatives)


@runs_kernels
def test_kernels_draw_masks_negatives_and_sections_as_often_as_the_sampler() -> None:
    sampler, chunk = small_sampler(context_mask_rate=0.3, center_mask_rate=0.1)
    positions = torch.arange(20, 480, device=DEVICE, dtype=torch.int32).repeat(2)
    present = torch.ones_like(positions, dtype=torch.bool)
    batch = draw_windows(sampler, chunk, positions, present=present, seed=seed_of(2))
    _, in_segment, _ = chunk.windows_at(positions, radius=3)
    assert 0.67 < batch.context_mask[in_segment].float().mean() < 0.73
    assert 0.87 < batch.center_mask.float().mean() < 0.93
    # the chance of a word is proportional to its id + 1
    assert float(batch.negatives.float().mean()) == pytest.approx(2 * N_WORDS / 3, rel=0.03)

    grouping = group_distinct(torch.tensor([4, 9, 9], device=DEVICE).int(), n_ids=N_WORDS)
    join(TABLE, positions)
    drawn = draw_sections(sampler.sections, grouping, n_draws=4_000, seed=seed_of(4))
    assert drawn[:2].ne(drawn[1]).any()
    assert bool((drawn[2] == N_SECTIONS).all())
    for row, word in enumerate((4, 9)):
        shares = torch.bincount(drawn[row], minlength=N_SECTIONS) / 4_000
        wanted = torch.full((N_SECTIONS,), 0.25 / N_SECTIONS, device=DEVICE)
        wanted[3] += 0.375
        wanted[word % N_SECTIONS] += 0.375
        assert float((shares - wanted).abs().max()) < 0.04


@runs_kernels
def test_rows_that_fill_up_a_batch_change_nothing() -> None:
    sampler, chunk = small_sampler(context_mask_rate=0.0, center_mask_rate=0.0)
    model = lmc(window=3)
    fused, positions = FusedLoss(model), torch.arange(40, device=DEVICE, dtype=torch.int32)
    windows, draws = fused.draw(sampler, chunk, positions, present=positions < 33)
    loss = fused(windows, draws)
    assert int(windows.counts.sum()) == 33
    for part in (loss.reconstruction, loss.prior_divergence):
        assert bool((part[~windows.counts] == 0).all())
    found = gradients(model, loss.total.sum())

    given = windows.given
    present = Batch(**{field.name: getattr(given, field.name)[:33] for field in fields(given)})
    of_vocabulary = torch.zeros(N_WORDS, draws.sections.shape[1], dtype=torch.int32, device=DEVICE)
    n_words = int(windows.words.n_groups)
    of_vocabulary[draws.words[:n_words].long()] = draws.sections[:n_words]
    wanted = gradients(model, model.loss(present, SectionDraws(sections=of_vocabulary)).total.sum())
    for name, gradient in wanted.items():
        assert_near(found[name], gradient, within=0.03)


@runs_kernels
def test_dropout_of_the_model_network_is_undone_in_backward() -> None:
    """The loss moves along all parameters as their gradients say, the same elements being dropped."""
    model, (batch, draws) = lmc(dropout=0.2), random_batch()
    fused, losses = FusedLoss(model), []

    def loss() -> Tensor:
        torch.manual_seed(8)
        return loss_of(fused, batch, draws).total.double().mean()

    slopes = gradients(model, loss())
    parameters = {name: value for name, value in model.named_parameters() if name.startswith("prior.")}
    before = {name: value.detach().clone() for name, value in parameters.items()}
    for step in (0.01, -0.01):  # what each of the parameters alone changes the loss by
        with torch.no_grad():
            for name, value in parameters.items():
                value.copy_(before[name] + step * slopes[name] / slopes[name].square().sum())
            losses.append(float(loss()))
    assert (losses[0] - losses[1]) / 0.02 == pytest.approx(len(parameters), rel=0.01)


@runs_kernels
def test_without_metadata_and_center_mask_they_are_null_and_present() -> None:
    model, (batch, draws) = lmc(), random_batch()
    bare = Batch(
        center=batch.center, context=batch.context, context_mask=batch.context_mask, negatives=batch.negatives
    )
    assert_near(loss_of(FusedLoss(model), bare, draws).total, model.loss(bare, draws).total, within=0.01)


@runs_kernels
def test_a_repeated_step_is_the_same_bit_for_bit() -> None:
    model, (batch, draws) = lmc(dropout=0.2), random_batch()
    fused, results = FusedLoss(model), []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        results.append(gradients(model, loss_of(fused, batch, draws).total.mean()))
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
    grouping = group_by_id(words.masked_fill(~present, N_WORDS), n_ids=N_WORDS)
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
    return Dropout(0.2, seed_of(-77))


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
    word_ids = ids(50, 1_500).int() ** 2 // 40
    word_ids[:600] = 3  # a run over many whole chunks
    present = happens(0.9, 1_500)
    rows = torch.randint(-8, 9, (1_500, 128), device=DEVICE).float()
    absent = word_ids.masked_fill(~present, 70)
    wanted = torch.zeros(70, 128, device=DEVICE).index_add_(0, word_ids.long(), rows * present.unsqueeze(1))
    assert torch.equal(sum_rows(rows, group_by_id(absent, n_ids=70), width=100), wanted[:, :100])
    grouping, zeros = group_distinct(absent, n_ids=70), torch.zeros(70, 100, device=DEVICE)
    join(GROUPS, absent)
    assert torch.equal(sum_rows(rows, grouping, width=100, into=zeros.clone()), wanted[:, :100])
    distinct = word_ids[present].unique()
    assert torch.equal(grouping.of_group[: len(distinct)], distinct)
    assert torch.equal(grouping.group_of[distinct], torch.arange(len(distinct), device=DEVICE))
    assert int((grouping.group_of < 0).sum()) == 70 - len(distinct)
    assert int(grouping.n_groups) == len(distinct)
    plus = torch.arange(70 * 100, device=DEVICE).float().view(70, 100)
    by_group = sum_rows(rows, grouping, width=100, plus=plus)[: len(distinct)]
    assert torch.equal(by_group, wanted[distinct, :100] + plus[: len(distinct)])
    part = slice(500, 800)
    wanted = torch.zeros(70, 128, device=DEVICE).index_add_(
        0, word_ids[part].long(), (rows * present.unsqueeze(1))[part]
    )
    found = sum_rows(rows[part], grouping, width=100, first_position=500, into=zeros)
    assert torch.equal(found, wanted[:, :100])


@runs_kernels
def test_adam_of_tables_takes_adams_steps() -> None:
    """On a table of words, in two parts, on another table, and on what is left to torch."""
    torch.manual_seed(5)
    shapes = [(70, 100), (30, 128), (5,)]
    given = [torch.randn(shape, device=DEVICE) for shape in shapes]
    found, wanted = (torch.nn.ParameterList([each.clone() for each in given]) for _ in range(2))
    reference = torch.optim.Adam(wanted.parameters(), lr=0.01)
    optimizer = Adam(found, learning_rate=0.01, device=torch.device(DEVICE))
    tables = TableAdam(optimizer, [found[0]], [found[1]])
    for n_ids in (70, 30, 9):
        read = ids(n_ids, 20).int()
        tables.begin(group_distinct(read, n_ids=70))
        for each, other in zip(found, wanted, strict=True):
            each.grad = torch.randn_like(each)
            if each is found[0]:
                each.grad[[word for word in range(70) if word not in read.tolist()]] = 0
            other.grad = each.grad.clone()
        norm = descend(found, optimizer, tables=tables)
        torch.testing.assert_close(norm, torch.nn.utils.get_total_norm([each.grad for each in wanted]))
        reference.step()
    for each, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(each, other, rtol=1e-6, atol=1e-6)
        assert int(optimizer.state[each]["step"]) == 3


@needs_gpu
def test_a_captured_step_goes_on_drawing_other_dropouts() -> None:
    model, (batch, draws) = lmc(dropout=0.2), random_batch()
    fused, seen = FusedLoss(model), torch.zeros((), device="cuda")

    def step() -> None:
        loss = loss_of(fused, batch, draws).total.mean()
        model.zero_grad()
        loss.backward()
        seen.copy_(loss.detach())

    replay, values = CapturedStep(step), []
    for _ in range(3):
        replay()
        values.append(float(seen))
    assert len(set(values)) == 3


@runs_kernels
def test_sizes_that_the_kernels_do_not_know_are_refused() -> None:
    with pytest.raises(ConfigError, match="hidden_dim is 32"):
        FusedLoss(lmc(hidden_dim=32))


def test_the_cpu_has_no_kernels() -> None:
    assert not kernels_available("cpu")
