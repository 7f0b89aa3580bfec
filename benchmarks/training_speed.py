"""Compare the training speed of the engine with a straightforward implementation, on a synthetic Zipf corpus.

    PYTHONPATH=src python benchmarks/training_speed.py                      # 300 steps on a GPU, full sizes
    PYTHONPATH=src python benchmarks/training_speed.py --batch-sizes 1024 4096 16384 65536 --profile FILE
    PYTHONPATH=src python benchmarks/training_speed.py --epochs 1 --scaling # a whole epoch; 1x, 3x, 10x tokens
    PYTHONPATH=src python benchmarks/training_speed.py --check              # the kernels against the float32 model
    PYTHONPATH=src python benchmarks/training_speed.py --device cpu         # small sizes, 2 cores

The engine: corpus, sampler, moment table, kernels and optimiser on the device, one CUDA graph per step. The
straightforward implementation: the model network evaluated for each of 2 x 20 words and 10 sections of every
center (400 times), batches of 1,024 made on the CPU by a loader with 4 workers, cuDNN's LSTM.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from lmcells.model import Batch, LatentMeaningCells, Loss, ModelConfig, SectionDraws, Windows, kl_divergence
from lmcells.training.cells import table_adam
from lmcells.training.device_corpus import MAX_PER_WORD, AliasTable, Chunk, OccurrenceSections
from lmcells.training.sampler import Sampler
from lmcells.training.task import Adam, descend

LEARNING_RATE = 1e-3


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Of the corpus, the model and the batches."""

    n_tokens: int
    n_words: int
    n_sections: int
    batch: int
    plain_batch: int = 1024
    mean_section: int = 100  # words of a section

    def config(self, *, dropout: float = 0.2) -> ModelConfig:
        return ModelConfig(n_words=self.n_words, n_metadata=self.n_sections, dropout=dropout)


GPU_SIZES = Sizes(n_tokens=330_000_000, n_words=100_000, n_sections=10_000, batch=65_536)
CPU_SIZES = Sizes(n_tokens=3_000_000, n_words=20_000, n_sections=1_000, batch=4_096)


@dataclass(frozen=True)
class SyntheticCorpus:
    """Words and sections that follow Zipf's law, on a device."""

    chunk: Chunk
    metadata: Tensor  # of each segment
    sections: OccurrenceSections
    negatives: AliasTable

    @classmethod
    def draw(cls, sizes: Sizes, *, device: torch.device) -> "SyntheticCorpus":
        """Each token is drawn alone; sections are 1 to 2 x mean_section - 1 words long."""
        generator = torch.Generator(device).manual_seed(0)
        n_tokens = sizes.n_tokens
        tokens = zipf(sizes.n_words, n_tokens, generator)
        n_segments = 2 * n_tokens // sizes.mean_section + 1
        lengths = torch.randint(1, 2 * sizes.mean_section, (n_segments,), generator=generator, device=device)
        ends = lengths.cumsum(0)
        segments = torch.empty(n_tokens, dtype=torch.int32, device=device)
        for start in range(0, n_tokens, 1 << 25):
            places = torch.arange(start, min(start + (1 << 25), n_tokens), device=device)
            segments[start : start + places.shape[0]] = torch.searchsorted(
                ends, places, right=True, out_int32=True
            )
        metadata = zipf(sizes.n_sections, n_segments, generator)
        counts = torch.bincount(tokens, minlength=sizes.n_words)
        sections = occurrence_sections(tokens, metadata[segments], counts, n_sections=sizes.n_sections)
        negatives = AliasTable.of_weights(counts.cpu().numpy().astype(np.float64) ** 0.75, device=device)
        return cls(Chunk(tokens, segments), metadata, sections, negatives)


def zipf(n_kinds: int, n_draws: int, generator: torch.Generator) -> Tensor:
    """Ids 0..n_kinds-1 drawn with probability proportional to 1 / (rank + 2.7): (n_draws,) int32."""
    device = generator.device
    heights = 1 / (torch.arange(n_kinds, dtype=torch.float64, device=device) + 2.7)
    bounds = (heights.cumsum(0) / heights.sum()).float()
    drawn = torch.empty(n_draws, dtype=torch.int32, device=device)
    for start in range(0, n_draws, 1 << 26):
        size = min(1 << 26, n_draws - start)
        chances = torch.rand(size, generator=generator, device=device)
        drawn[start : start + size] = torch.searchsorted(bounds, chances, out_int32=True).clamp_(
            max=n_kinds - 1
        )
    return drawn


def occurrence_sections(
    tokens: Tensor, section_of: Tensor, counts: Tensor, *, n_sections: int
) -> OccurrenceSections:
    """Sections grouped by word, evenly spaced ones of words with very many."""
    device = tokens.device
    grouped = section_of[tokens.sort(stable=True).indices]
    sizes = counts.clamp(max=MAX_PER_WORD)
    ends, starts = sizes.cumsum(0), counts.cumsum(0) - counts
    entries = torch.arange(int(ends[-1]), device=device)
    words = torch.searchsorted(ends, entries, right=True)
    rank = entries - (ends - sizes)[words]
    sections = grouped[starts[words] + rank * counts[words] // sizes[words]]
    rate = (n_sections / (counts + n_sections)).float()
    return OccurrenceSections(sections, ends - sizes, sizes.to(torch.int32), rate, n_sections)


class Engine:
    """Batching, loss, gradients and Adam on the device."""

    def __init__(self, corpus: SyntheticCorpus, sizes: Sizes, *, device: torch.device) -> None:
        torch.manual_seed(0)
        self.sizes, self.chunk = sizes, corpus.chunk
        self.model = LatentMeaningCells(sizes.config()).to(device)
        on_gpu = device.type == "cuda"
        self.optimizer = Adam(self.model, learning_rate=LEARNING_RATE, device=device)
        self.tables: Any = None
        generator = torch.Generator(device).manual_seed(1)
        self.sampler = Sampler(
            self.model.config, generator, corpus.negatives, corpus.sections, corpus.metadata
        )
        self.places = torch.zeros(sizes.batch, dtype=torch.int32, device=device)
        self.present = torch.ones(sizes.batch, dtype=torch.bool, device=device)
        self.weights = torch.full((2,), 1 / sizes.batch, device=device)  # of both parts of a center's loss
        self.losses = torch.zeros(2, device=device)  # sums of both parts over all steps
        self.norm = torch.zeros((), device=device)
        self.loss: Callable[..., Loss] = self.model.loss
        self.draw: Callable[[], tuple[Any, SectionDraws]] = self.draw_plainly
        self.run: Callable[[], None] = self.step
        if on_gpu:
            from lmcells.training.kernels import CapturedStep
            from lmcells.training.kernels.loss import FusedLoss

            self.loss = fused = FusedLoss(self.model)
            self.tables = table_adam(fused, self.optimizer)
            self.draw = lambda: fused.draw(self.sampler, self.chunk, self.places, present=self.present)
            self.run = CapturedStep(self.step, generators=[self.sampler.generator])

    def draw_plainly(self) -> tuple[Any, SectionDraws]:
        batch = self.sampler.batch(self.chunk, self.places, present=self.present)
        return batch, self.sampler.section_draws(batch)

    def step(self) -> None:
        """One step at `places`, as `lmcells train` takes it, in a form that a CUDA graph can hold."""
        windows, draws = self.draw()
        if self.tables:
            self.tables.begin(windows.words)
        loss = self.loss(windows, draws)
        parts = torch.stack([loss.reconstruction.sum(), loss.prior_divergence.sum()])
        self.model.zero_grad()
        parts.backward(self.weights)  # type: ignore[no-untyped-call]
        self.norm += descend(self.model, self.optimizer, tables=self.tables)
        self.losses += parts.detach()

    def train(self, n_steps: int | None = None) -> "Run":
        """Some steps, or a whole epoch: each token once, in random order."""
        order = torch.randperm(len(self.chunk), dtype=torch.int32, device=self.places.device)
        batches = order[: len(order) // self.sizes.batch * self.sizes.batch].split(self.sizes.batch)
        self.losses.zero_()
        synchronize(self.places.device)
        began, done = time.perf_counter(), 0
        while n_steps is None or done < n_steps:
            for places in batches[: None if n_steps is None else n_steps - done]:
                self.places.copy_(places)
                self.run()
                done += 1
            if n_steps is None:
                break
        synchronize(self.places.device)
        seconds = time.perf_counter() - began
        reconstruction, divergence = (self.losses / (done * self.sizes.batch)).tolist()
        return Run(done * self.sizes.batch, seconds, reconstruction, divergence)


@dataclass(frozen=True)
class Run:
    """A timed stretch of training."""

    centers: int
    seconds: float
    reconstruction: float
    prior_divergence: float

    @property
    def rate(self) -> float:
        return self.centers / self.seconds

    def __str__(self) -> str:
        return (
            f"{self.centers:,} centers in {self.seconds:.2f} s: {self.rate:,.0f} centers/s; mean loss "
            f"{self.reconstruction:.3f} reconstruction + {self.prior_divergence:.3f} prior divergence"
        )


class PlainContext(nn.Module):
    """The context encoder with torch's own LSTM (cuDNN), absent words left in."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.words = nn.Embedding(config.n_words, config.embedding_dim)
        self.lstm = nn.LSTM(2 * config.embedding_dim, config.hidden_dim, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, windows: Windows) -> tuple[Tensor, Tensor]:
        context = self.words(windows.context)
        center = self.words(windows.center).unsqueeze(1).expand_as(context)
        states: Tensor = self.lstm(self.dropout(torch.cat([context, center], dim=-1)))[0]
        return states, context


class Straightforward:
    """The objective as it is written: one evaluation of the model network for each word and section."""

    def __init__(self, sizes: Sizes, *, device: torch.device) -> None:
        torch.manual_seed(0)
        self.model = LatentMeaningCells(sizes.config())
        self.model.variational.context = PlainContext(self.model.config)
        self.model.to(device)
        self.device = device
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=LEARNING_RATE)

    def step(self, arrays: dict[str, Tensor]) -> None:
        moved = {name: values.to(self.device, non_blocking=True) for name, values in arrays.items()}
        sections = moved.pop("sections")  # (B, 40, 10)
        batch = Batch(**moved)
        cell = self.model.posterior(batch).cell
        words = torch.cat([batch.context, batch.negatives], dim=1).unsqueeze(-1)  # (B, 40, 1)
        components = self.model.prior(words.expand_as(sections), sections)
        widened = type(cell)(cell.mean[:, None, None], cell.log_variance[:, None, None])
        of_context, of_negatives = kl_divergence(widened, components).mean(dim=-1).chunk(2, dim=1)
        violations = functional.relu(1 + of_context - of_negatives) * batch.context_mask
        prior = self.model.prior(batch.center, batch.metadata)
        loss = (violations.sum(dim=1) + kl_divergence(cell, prior)).mean()
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

    def train(self, corpus: SyntheticCorpus, sizes: Sizes, *, n_steps: int) -> tuple[float, float]:
        """Centers per second over `n_steps`, the loader's start left out; and with one batch over and over."""
        loader = DataLoader(
            PlainBatches(corpus, self.model.config, sizes),
            batch_size=None,
            num_workers=4,
            pin_memory=self.device.type == "cuda",
        )
        batches = iter(loader)
        for _ in range(max(2, n_steps // 5)):
            arrays = next(batches)
            self.step(arrays)
        with_loader = self._timed(lambda: self.step(next(batches)), n_steps=n_steps)
        alone = self._timed(lambda: self.step(arrays), n_steps=max(1, n_steps // 4))
        return sizes.plain_batch / with_loader, sizes.plain_batch / alone

    def _timed(self, step: Callable[[], None], *, n_steps: int) -> float:
        """Seconds a step."""
        synchronize(self.device)
        began = time.perf_counter()
        for _ in range(n_steps):
            step()
        synchronize(self.device)
        return (time.perf_counter() - began) / n_steps


class PlainBatches(IterableDataset[dict[str, Tensor]]):
    """Batches made on the CPU, in numpy, a whole batch at a time."""

    def __init__(self, corpus: SyntheticCorpus, config: ModelConfig, sizes: Sizes) -> None:
        super().__init__()
        sections = corpus.sections
        self.tokens = corpus.chunk.tokens.cpu().numpy()
        self.segments = corpus.chunk.segments.cpu().numpy()
        self.metadata = corpus.metadata.cpu().numpy()
        self.sections = sections.sections.cpu().numpy()
        self.offsets = sections.offsets.cpu().numpy()
        self.sizes = sections.sizes.cpu().numpy()
        self.config, self.batch = config, sizes.plain_batch
        weights = np.bincount(self.tokens, minlength=config.n_words) ** 0.75
        self.negative_bounds = np.cumsum(weights / weights.sum())

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        worker = get_worker_info()
        torch.set_num_threads(1)
        random = np.random.default_rng(worker.id if worker else 0)
        window, rows = self.config.window, self.batch
        offsets = np.concatenate([np.arange(-window, 0), np.arange(1, window + 1)])
        while True:
            centers = random.integers(0, self.tokens.size, rows)
            places = np.clip(centers[:, None] + offsets, 0, self.tokens.size - 1)
            segment = self.segments[centers]
            mask = (self.segments[places] == segment[:, None]) & (places == centers[:, None] + offsets)
            mask &= random.random(mask.shape) >= self.config.context_mask_rate
            context = self.tokens[places]
            chances = random.random(context.shape)
            negatives = np.searchsorted(self.negative_bounds, chances).clip(max=self.config.n_words - 1)
            words = np.concatenate([context, negatives], axis=1)[..., None]
            drawn = (
                random.random((*words.shape[:2], self.config.n_section_draws)) * self.sizes[words]
            ).astype(int)
            yield {
                "center": torch.from_numpy(self.tokens[centers].astype(np.int64)),
                "center_mask": torch.from_numpy(random.random(rows) >= self.config.center_mask_rate),
                "metadata": torch.from_numpy(self.metadata[segment].astype(np.int64)),
                "context": torch.from_numpy(context.astype(np.int64)),
                "context_mask": torch.from_numpy(mask),
                "negatives": torch.from_numpy(negatives.astype(np.int64)),
                "sections": torch.from_numpy(self.sections[self.offsets[words] + drawn].astype(np.int64)),
            }


GROUPS = (  # parts of kernel names, first match counts
    ("LSTM forward", ("lstm_forward",)),
    ("LSTM backward", ("lstm_backward",)),
    ("attention", ("attention_forward", "attention_backward")),
    ("moment table", ("moments_", "linear_backward", "project_rows")),
    ("hinge", ("hinge_forward", "hinge_backward")),
    ("windows and sections drawn", ("draw_windows", "draw_sections", "lay_out", "number_groups", "mark")),
    ("lookup", ("look_up",)),
    ("heads, prior and divergence of the centers", ("centers_forward", "centers_backward", "heads_")),
    ("sorted sums (gradients of all tables)", ("sum_runs", "sum_whole_chunks")),
    (
        "sorting ids",
        ("sort", "Sort", "searchsorted", "radix", "Radix", "histogram", "scan", "Scan", "find_runs"),
    ),
    ("Adam", ("Adam", "adam", "update_rows")),
    ("matrix products", ("gemm", "nvjet", "cutlass", "splitK", "cublas", "dot_kernel", "gemv")),
    ("random numbers and dropout", ("distribution", "dropout", "random")),
    ("gathers of the sampler", ("index", "gather")),
    ("other elementwise and reductions", ("",)),
)


def profile(engine: Engine, *, n_steps: int = 10) -> str:
    """Where a step's time goes, by the kernels of replayed graphs, as a table."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    with record(activities=[ProfilerActivity.CUDA]) as recorded:
        for _ in range(n_steps):
            engine.run()
        synchronize(engine.places.device)
    events = [event for event in recorded.key_averages() if event.self_device_time_total > 0]
    by_group = {name: [0.0, 0] for name, _ in GROUPS}
    for event in events:
        group = next(name for name, parts in GROUPS if any(part in event.key for part in parts))
        by_group[group][0] += event.self_device_time_total / n_steps / 1e3
        by_group[group][1] += event.count // n_steps
    total = sum(spent for spent, _ in by_group.values())
    n_launches = sum(launches for _, launches in by_group.values())
    lines = [
        f"Where a step of {engine.sizes.batch:,} goes ({total:.3f} ms in {n_launches} kernels, many of them side by "
        f"side; {engine.train(100).rate / 1e6:.2f} M centers/s)"
    ]
    for name, (spent, launches) in sorted(by_group.items(), key=lambda entry: -entry[1][0]):
        lines.append(f"  {name:44s} {spent:7.3f} ms {100 * spent / total:5.1f} %  {launches:4d} launches")
    lines.append("  longest kernels:")
    for event in sorted(events, key=lambda event: -event.self_device_time_total)[:40]:
        spent, count = event.self_device_time_total / n_steps / 1e3, event.count // n_steps
        lines.append(f"    {spent:7.3f} ms {100 * spent / total:5.1f} % {count:3d} x {event.key[:110]}")
    return "\n".join(lines)


def measure_batches(
    sizes: Sizes, batches: list[int], *, device: torch.device, profile_to: Path | None, seconds: float = 4.0
) -> None:
    """The engine's rate at each batch size, on one corpus, and the profiles of the smallest and the largest."""
    corpus = SyntheticCorpus.draw(sizes, device=device)
    print(
        f"{sizes.n_tokens:,} tokens, {sizes.n_words:,} words\n   batch   centers/s   ms a step   peak GB",
        flush=True,
    )
    profiles = []
    for batch in batches:
        if device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        engine = Engine(corpus, replace(sizes, batch=batch), device=device)
        tried = engine.train(20)
        run = engine.train(max(20, int(20 * seconds / tried.seconds)))
        peak = torch.cuda.max_memory_allocated() / 1e9 if device.type == "cuda" else 0.0
        print(f"{batch:8,d} {run.rate:11,.0f} {1e3 * batch / run.rate:11.3f} {peak:9.1f}", flush=True)
        if profile_to is not None and batch in (min(batches), max(batches)):
            profiles.append(profile(engine))
            profile_to.write_text("\n\n".join(profiles) + "\n", encoding="utf-8")
        del engine
    if profile_to is not None:
        print("\n" + "\n\n".join(profiles))


def print_floor(sizes: Sizes, *, bandwidth: float = 4.3e12, rate: float = 790e12) -> None:
    """What bytes and operations allow: each thing moved once at the speed of a copy, each product at that of a
    large bf16 product (both measured on an H200), nothing else counted and nothing overlapped."""
    rows, steps, words, draws = sizes.batch, 20, sizes.n_words, 10
    cells = rows * steps * 2
    parameters = words * 200 + sizes.n_sections * 228
    parts = {
        "LSTM products, forward and both gradients": (0.0, 3 * cells * 2 * 164 * 256),
        "embedding rows of the LSTM, read and gradient": (2 * rows * steps * 200.0, 0),
        "LSTM states and gates kept for backward": (2 * cells * 64 * 2 * 6.0, 0),
        "moment table, forward and twice back": (2.0 * words * draws * 128, 3 * words * draws * 2 * 64 * 100),
        "hinge: table rows read, gradients added": (2 * rows * 2 * steps * 102 * 4.0, 0),
        "Adam: 4 reads, 3 writes": (parameters * 28.0, 0),
    }
    print("\nFloor by bytes and operations")
    total = 0.0
    for name, (moved, operations) in parts.items():
        spent = max(moved / bandwidth, operations / rate) * 1e3
        total += spent
        print(f"  {name:48s} {moved / 1e9:6.2f} GB {operations / 1e9:7.0f} GFLOP {spent:6.3f} ms")
    print(f"  {'together':48s} {total:32.3f} ms: {rows / total / 1e3:.1f} M centers/s")


def check(device: torch.device) -> bool:
    """The kernels' values and gradients against the model's own in float32; its own under bf16 beside them."""
    from lmcells.training.kernels import TABLE, beside
    from lmcells.training.kernels.loss import FusedLoss
    from lmcells.training.kernels.windows import TimeMajor

    torch.manual_seed(0)
    sizes = Sizes(n_tokens=0, n_words=5_000, n_sections=300, batch=4_096 + 37)
    model = LatentMeaningCells(sizes.config(dropout=0.0)).to(device)
    with torch.no_grad():  # means and variances that differ as a trained model's do
        for heads in (model.prior.heads, model.variational.heads):
            heads.mean.weight.mul_(2.0)
    batch, draws = random_batch(sizes, device)
    fused = FusedLoss(model)

    def gradients(loss: Callable[[Batch, SectionDraws], Loss]) -> tuple[Loss, dict[str, Tensor]]:
        model.zero_grad()
        parts = loss(batch, draws)
        parts.total.mean().backward()
        return parts, {name: value.grad.clone() for name, value in model.named_parameters()}

    def narrow(batch: Batch, draws: SectionDraws) -> Loss:
        with torch.autocast(device.type, torch.bfloat16):
            return model.loss(batch, draws)

    def by_kernels(batch: Batch, draws: SectionDraws) -> Loss:
        """In the order of the batch, as the model's."""
        windows = TimeMajor.of_windows(batch, config=model.config)
        words = windows.words
        with beside(TABLE, draws.sections):
            is_group = torch.arange(words.capacity, device=device) < words.n_groups
            drawn = draws.sections[words.of_group].int().masked_fill(~is_group.unsqueeze(1), sizes.n_sections)
        loss = fused(windows, SectionDraws(sections=drawn, words=words.of_group))
        return Loss(*map(windows.in_given_order, (loss.reconstruction, loss.prior_divergence)))

    wanted, wanted_gradients = gradients(model.loss)
    rounded, rounded_gradients = gradients(narrow)
    found, found_gradients = gradients(by_kernels)
    _, again = gradients(by_kernels)
    print(f"{'':42s} {'kernels':>10s} {'bf16 autocast':>14s}   (error relative to float32)")
    good = True
    for name in ("reconstruction", "prior_divergence"):
        errors = [relative(getattr(parts, name), getattr(wanted, name)) for parts in (found, rounded)]
        good &= errors[0] < 0.02
        print(f"{name:42s} {errors[0]:10.2e} {errors[1]:14.2e}")
    for name, gradient in wanted_gradients.items():
        errors = [relative(found_gradients[name], gradient), relative(rounded_gradients[name], gradient)]
        good &= errors[0] < 0.05
        print(f"{name:42s} {errors[0]:10.2e} {errors[1]:14.2e}")
    same = all(bool((again[name] == value).all()) for name, value in found_gradients.items())
    transposed = dropout_is_its_own_transpose(model, batch)
    print(f"gradients bit for bit the same when repeated: {same}; dropout the same in backward: {transposed}")
    good = good and same and transposed
    print("kernels agree with the model" if good else "KERNELS DISAGREE")
    return good


def random_batch(sizes: Sizes, device: torch.device) -> tuple[Batch, SectionDraws]:
    """A batch with everything that can be absent absent somewhere, and one very frequent word."""
    generator = torch.Generator(device).manual_seed(3)

    def ids(below: int, *shape: int) -> Tensor:
        return torch.randint(below, shape, generator=generator, device=device)

    def happens(rate: float, *shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, device=device) < rate

    rows = sizes.batch
    context_mask = happens(0.7, rows, 20)
    context_mask[:5] = False
    batch = Batch(
        center=ids(sizes.n_words, rows),
        center_mask=happens(0.8, rows),
        metadata=ids(sizes.n_sections, rows).masked_fill(happens(0.1, rows), -1),
        context=ids(sizes.n_words, rows, 20).masked_fill(happens(0.2, rows, 20), 7),
        context_mask=context_mask,
        negatives=ids(sizes.n_words, rows, 20),
    )
    return batch, SectionDraws(sections=ids(sizes.n_sections, sizes.n_words, 10))


def dropout_is_its_own_transpose(model: LatentMeaningCells, batch: Batch) -> bool:
    """<D t, g> = <t, D' g> for the lookup with dropout D, and as much is dropped as should be."""
    from lmcells.training.kernels.lookup import look_up
    from lmcells.training.kernels.operands import Dropout
    from lmcells.training.kernels.windows import TimeMajor

    windows = TimeMajor.of_windows(batch, config=model.config)
    table = model.prior.words.weight.detach().double().abs().float().add(1).requires_grad_()
    seed = torch.tensor([12345], dtype=torch.int32, device=table.device)
    rows = look_up(
        table, windows.word_ids[: windows.n_steps + 1], windows.words, present=windows.present,
        dtype=torch.float32, dropout=Dropout(0.2, seed),
    )  # fmt: skip
    weights = torch.randn_like(rows)
    (gradient,) = torch.autograd.grad(rows, table, weights)
    one, other = (rows.double() * weights).sum(), (table.double() * gradient).sum()
    kept = (rows[..., : table.shape[1]] != 0).float().mean() / windows.present.float().mean()
    size = (rows.double() * weights).norm()
    return bool((one - other).abs() < 1e-4 * size) and bool((kept - 0.8).abs() < 2e-3)


def relative(found: Tensor, wanted: Tensor) -> float:
    return float(((found - wanted).norm() / wanted.norm()).detach())


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, help="steps to time (default: 300 on a GPU, 20 on the CPU)")
    parser.add_argument("--epochs", type=int, default=0, help="time whole epochs instead")
    parser.add_argument("--tokens", type=int, help="of the corpus (default: 330 M on a GPU, 3 M on the CPU)")
    parser.add_argument("--words", type=int, help="of the vocabulary (default: 100,000 or 20,000)")
    parser.add_argument("--batch", type=int, help="centers a step of the engine")
    parser.add_argument(
        "--plain-steps", type=int, help="of the straightforward one (default: 400, 5); 0: none"
    )
    parser.add_argument("--plain-batch", type=int, default=Sizes.plain_batch, help="centers a step of it")
    parser.add_argument("--scaling", action="store_true", help="an epoch at 1x, 3x and 10x tokens")
    parser.add_argument("--batch-sizes", type=int, nargs="+", help="rates of the engine at these, and stop")
    parser.add_argument("--profile", type=Path, metavar="FILE", help="write where a step's time goes")
    parser.add_argument("--check", action="store_true", help="compare the kernels with the model, and stop")
    options = parser.parse_args()
    device = torch.device(options.device)
    if options.check:
        raise SystemExit(0 if check(device) else 1)
    on_gpu = device.type == "cuda"
    if not on_gpu:
        torch.set_num_threads(2)
    sizes = GPU_SIZES if on_gpu else CPU_SIZES
    sizes = Sizes(
        n_tokens=options.tokens or sizes.n_tokens,
        n_words=options.words or sizes.n_words,
        n_sections=sizes.n_sections,
        batch=options.batch or sizes.batch,
        plain_batch=options.plain_batch,
    )
    if options.batch_sizes:
        measure_batches(sizes, options.batch_sizes, device=device, profile_to=options.profile)
    else:
        compare(sizes, options, device=device)


def compare(sizes: Sizes, options: argparse.Namespace, *, device: torch.device) -> None:
    """Print all tables."""
    on_gpu = device.type == "cuda"
    name = torch.cuda.get_device_name(device) if on_gpu else f"{torch.get_num_threads()} CPU threads"
    print(f"{name}, torch {torch.__version__}; {sizes}")
    began = time.perf_counter()
    corpus = SyntheticCorpus.draw(sizes, device=device)
    synchronize(device)
    print(f"corpus drawn in {time.perf_counter() - began:.1f} s")
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    engine = Engine(corpus, sizes, device=device)
    engine.train(10 if on_gpu else 2)
    print(f"engine ready after {time.perf_counter() - began:.1f} s (kernels compiled, step captured)")
    if options.epochs:
        runs = [engine.train() for _ in range(options.epochs)]
        for run in runs:
            print(f"engine, epoch: {run}")
        run = runs[-1]
        print(f"five epochs: {5 * sizes.n_tokens / run.rate:.0f} s at this rate")
    else:
        run = engine.train(options.steps or (300 if on_gpu else 20))
        print(f"engine: {run}")
    print(f"        {1e3 * sizes.batch / run.rate:.2f} ms a step of {sizes.batch:,}")
    if on_gpu:
        peak, held = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
        print(
            f"        GPU memory: {peak / 1e9:.1f} GB at the peak ({held / 1e9:.1f} GB reserved), corpus included"
        )
        if options.profile is not None:
            options.profile.write_text(profile(engine) + "\n", encoding="utf-8")
        print_floor(sizes)
    if options.scaling:
        print("\nCost by tokens\n      tokens    epoch      centers/s")
        for part in (10, 10 / 3, 1):
            smaller = Sizes(
                n_tokens=int(sizes.n_tokens / part),
                n_words=sizes.n_words,
                n_sections=sizes.n_sections,
                batch=sizes.batch,
            )
            if part > 1:
                of_part = Engine(SyntheticCorpus.draw(smaller, device=device), smaller, device=device)
                of_part.train(10 if on_gpu else 2)
                timed = of_part.train()
            else:
                timed = run if options.epochs else engine.train()
            print(f"{smaller.n_tokens:12,d} {timed.seconds:7.2f} s {timed.rate:14,.0f}", flush=True)
    plain_steps = options.plain_steps if options.plain_steps is not None else (400 if on_gpu else 5)
    if plain_steps:
        plain = Straightforward(sizes, device=device)
        plain_rate, alone = plain.train(corpus, sizes, n_steps=plain_steps)
        print(f"\nstraightforward, batch {sizes.plain_batch:,}, 4 workers: {plain_rate:,.0f} centers/s")
        print(f"                 (with batches at hand, no loader: {alone:,.0f} centers/s)")
        print(f"the engine is {run.rate / plain_rate:.1f} times as fast")


if __name__ == "__main__":
    main()
