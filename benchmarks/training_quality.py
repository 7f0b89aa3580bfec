"""Check whether the engine gives up quality for speed: the paper preset, trained both ways with several seeds.

    PYTHONPATH=src python benchmarks/training_quality.py CORPUS --dataset D --inventory I --output FOLDER
    python benchmarks/training_quality.py --plot FOLDER/curves.json          # FOLDER/curves.png, .pdf
    PYTHONPATH=src python benchmarks/training_quality.py CORPUS --gradient-noise 64 256 1024 4096

The engine draws ten sections per word and step, for the moment table. The straightforward way draws ten sections for
every context word and negative of every center and evaluates the model network for each, as described in the paper.
Windows, masks, negatives, batch size, optimiser and epochs are the same. `--variant` adds the engine with another
setting: `--variant shards=2` gives each half of a batch draws of its own. Needs only torch and numpy.

`--gradient-noise` measures what sharing a word's draws costs at each batch size: the variance of a step's gradient
after a short training run, over fresh batches, both ways and with two halves of the batch that each have draws of their
own (`training.shards=2`). A variance 1.2 times as large has the effect of a batch 1.2 times smaller.
"""

import argparse
import json
import statistics
import tempfile
import time
import tomllib
from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lmcells.corpus import Corpus
from lmcells.evaluation.dataset import read_dataset
from lmcells.evaluation.evaluate import predict
from lmcells.evaluation.metrics import measure
from lmcells.expansion.inventory_files import load_inventory
from lmcells.expansion.ranking import CellRanker
from lmcells.model import Batch, CellModel, Gaussian, LatentMeaningCells, ModelConfig, kl_divergence
from lmcells.model.moments import raised
from lmcells.notes.readers import ReadReport
from lmcells.pretrained import PretrainedModel, save_pretrained
from lmcells.training import TrainingSettings
from lmcells.training.cells import train
from lmcells.training.device_corpus import Chunk
from lmcells.training.sampler import Sampler

REPORTS = 40  # points of a curve
QUANTITIES = ("final_loss", "accuracy", "macro_f1", "seconds")
PART = 128  # centers whose 400 evaluations are held at once


def straightforward_loss(model: LatentMeaningCells, sampler: Sampler, batch: Batch) -> torch.Tensor:
    """The objective with sections of its own for every word of every center: (B,)."""
    words = torch.cat([batch.context, batch.negatives], dim=1)  # (B, 40)
    assert sampler.sections is not None
    drawn = sampler.sections.draw(
        words.flatten(), n_draws=model.config.n_section_draws, generator=sampler.generator
    )
    sections = drawn.view(*words.shape, -1)  # (B, 40, 10)
    components = model.prior(words.unsqueeze(-1).expand_as(sections), sections)
    components = Gaussian(components.mean, raised(components.log_variance, model.config.variance_floor))
    cell = model.posterior(batch).cell
    widened = Gaussian(cell.mean[:, None, None], cell.log_variance[:, None, None])
    of_context, of_negatives = kl_divergence(widened, components).mean(dim=-1).chunk(2, dim=1)  # (B, 20) each
    violations = torch.relu(model.config.margin + of_context - of_negatives) * batch.context_mask
    return violations.sum(dim=1) + kl_divergence(cell, model.prior(batch.center, batch.metadata))


def train_straightforward(
    corpus: Corpus, *, config: ModelConfig, settings: TrainingSettings, device: torch.device
) -> tuple[CellModel, list[float]]:
    """Train as the paper writes it; return the model and the mean loss of each stretch of steps."""
    torch.manual_seed(settings.seed)
    model = LatentMeaningCells(config).to(device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.learning_rate)
    generator = torch.Generator(device).manual_seed(settings.seed)
    chunk = Chunk.load(corpus, [(0, corpus.tokens.size)], settings=settings, device=device)
    sampler = Sampler.of_corpus(corpus, config=config, settings=settings, generator=generator)
    losses = []
    for places in _batches(len(chunk), settings, generator):
        batch = sampler.batch(chunk, places, present=torch.ones_like(places, dtype=torch.bool))
        loss = straightforward_loss(model, sampler, batch).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return model.eval(), _stretches(torch.stack(losses).tolist())


def _batches(n: int, settings: TrainingSettings, generator: torch.Generator) -> Iterator[torch.Tensor]:
    for _ in range(settings.epochs):
        order = torch.randperm(n, generator=generator, device=generator.device)
        yield from order.split(settings.batch_size)[: n // settings.batch_size]


def _stretches(losses: list[float]) -> list[float]:
    return [float(part.mean()) for part in np.array_split(losses, min(REPORTS, len(losses)))]


def train_engine(
    corpus: Corpus, *, config: ModelConfig, settings: TrainingSettings, device: torch.device
) -> tuple[CellModel, list[float]]:
    """Train with the engine; return the same two things."""
    with tempfile.TemporaryDirectory() as folder:
        result = train(
            corpus, model_config=config, settings=settings, output=Path(folder), device=device.type
        )
        lines = [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()]
    totals = [line["reconstruction"] + line["prior_divergence"] for line in lines if "reconstruction" in line]
    return result.model, _stretches(totals)


def gradient_noise(options: argparse.Namespace) -> None:
    """Print the variance of a step's gradient by batch size, of each way."""
    corpus, device = Corpus.open(options.corpus), torch.device(options.device)
    config = ModelConfig(n_words=len(corpus.words), n_metadata=corpus.n_metadata("section"))
    settings = TrainingSettings(epochs=options.epochs)
    model, _ = train_engine(corpus, config=config, settings=settings, device=device)
    assert isinstance(model, LatentMeaningCells)
    model.train()
    generator = torch.Generator(device).manual_seed(1)
    chunk = Chunk.load(corpus, [(0, corpus.tokens.size)], settings=settings, device=device)
    sampler = Sampler.of_corpus(corpus, config=config, settings=settings, generator=generator)

    def gradient(batch_size: int, *, n_shared: int) -> torch.Tensor:
        """Of the mean loss of one batch, of all parameters; so many parts share draws, 0: each center has its own."""
        places = torch.randint(len(chunk), (batch_size,), generator=generator, device=device)
        batch = sampler.batch(chunk, places, present=torch.ones_like(places, dtype=torch.bool))
        model.zero_grad()
        size = batch_size // n_shared if n_shared else PART  # 400 evaluations of each center take memory
        for first in range(0, batch_size, size):
            part = Batch(
                **{each.name: getattr(batch, each.name)[first : first + size] for each in fields(batch)}
            )
            if n_shared:
                losses = model.loss(part, sampler.section_draws(part)).total
            else:
                losses = straightforward_loss(model, sampler, part)
            (losses.sum() / batch_size).backward()
        return torch.cat([each.grad.flatten() for each in model.parameters() if each.grad is not None])

    ways = {"engine": 1, "two draws": 2, "straightforward": 0}
    print(f"{'batch':>8}" + "".join(f"{way:>17}" for way in ways) + "   (variance of the gradient, summed)")
    for batch_size in options.gradient_noise:
        variances = []
        for n_shared in ways.values():
            total = squares = None
            for _ in range(options.repeats):
                found = gradient(batch_size, n_shared=n_shared).double()
                total = found if total is None else total + found
                squares = found.square() if squares is None else squares + found.square()
            assert total is not None
            assert squares is not None
            n = options.repeats
            variances.append(float((squares - total.square() / n).sum()) / (n - 1))
        print(f"{batch_size:8,d}" + "".join(f"{variance:17.4g}" for variance in variances), flush=True)


@torch.no_grad()
def final_loss(model: CellModel, corpus: Corpus, *, device: torch.device, n_batches: int = 50) -> float:
    """The paper's objective, dropout off, on batches that are the same for every model.

    Training losses cannot be compared: the engine drops out a word once a step, the straightforward way once for
    each of ten sections, whose mean then varies less, and the hinge of what varies less is lower.
    """
    assert isinstance(model, LatentMeaningCells)
    settings = TrainingSettings(seed=0)
    generator = torch.Generator(device).manual_seed(12345)
    chunk = Chunk.load(corpus, [(0, corpus.tokens.size)], settings=settings, device=device)
    sampler = Sampler.of_corpus(corpus, config=model.config, settings=settings, generator=generator)
    batches = islice(_batches(len(chunk), settings, generator), n_batches)
    losses = []
    for places in batches:
        batch = sampler.batch(chunk, places, present=torch.ones_like(places, dtype=torch.bool))
        losses.append(straightforward_loss(model, sampler, batch).mean())
    return float(torch.stack(losses).mean())


def score(model: CellModel, corpus: Corpus, *, dataset: Path, inventory: Path) -> dict[str, float]:
    """Rank the dataset's short forms with a model, as the paper does."""
    senses = load_inventory(inventory)
    examples = list(read_dataset(dataset, report=ReadReport()))
    with tempfile.TemporaryDirectory() as folder:
        save_pretrained(model.cpu(), Path(folder) / "model", corpus=corpus)
        ranker = CellRanker(PretrainedModel.from_pretrained(Path(folder) / "model"), senses)
        metrics = measure(predict("model", ranker, examples, senses))
    return {"accuracy": metrics.accuracy, "macro_f1": metrics.macro_f1}


def spread(values: list[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else float("nan")


def distance(one: list[float], other: list[float]) -> float:
    """The difference of two means, in standard deviations of both, pooled."""
    pooled = ((spread(one) ** 2 + spread(other) ** 2) / 2) ** 0.5
    return (statistics.fmean(one) - statistics.fmean(other)) / pooled if pooled else float("nan")


def compare(options: argparse.Namespace) -> None:
    """Train both ways with each seed, and print what came out."""
    corpus = Corpus.open(options.corpus)
    device = torch.device(options.device)
    config = ModelConfig(
        n_words=len(corpus.words),
        n_metadata=corpus.n_metadata("section"),
        dropout=options.dropout,
        hidden_dropout=not options.no_hidden_dropout,
    )
    results: dict[str, list[dict[str, Any]]] = {}
    for seed in range(options.seeds):
        settings = TrainingSettings(epochs=options.epochs, seed=seed, report_steps=10)
        ways = {"engine": (train_engine, settings), "straightforward": (train_straightforward, settings)}
        for variant in options.variant:
            ways[f"engine, {variant}"] = train_engine, replace(settings, **tomllib.loads(variant))
        for name, (way, own_settings) in ways.items():
            began = time.perf_counter()
            model, curve = way(corpus, config=config, settings=own_settings, device=device)
            seconds = time.perf_counter() - began
            loss = final_loss(model.eval(), corpus, device=device)
            scores = score(model, corpus, dataset=options.dataset, inventory=options.inventory)
            results.setdefault(name, []).append(
                {"seed": seed, "seconds": seconds, "curve": curve, "final_loss": loss, **scores}
            )
            print(
                name, {key: value for key, value in results[name][-1].items() if key != "curve"}, flush=True
            )
    print(f"\n{'':34}" + "".join(f"{name:>20}" for name in QUANTITIES))
    for name, runs in results.items():
        values = [[run[quantity] for run in runs] for quantity in QUANTITIES]
        cells = [f"{statistics.fmean(each):.4f} ± {spread(each):.4f}" for each in values]
        print(f"{name:34}" + "".join(f"{cell:>20}" for cell in cells))
    print("differences from the straightforward way, in standard deviations (of both, pooled)")
    plain = results["straightforward"]
    for name, runs in results.items():
        pairs = [([run[each] for run in runs], [run[each] for run in plain]) for each in QUANTITIES[:3]]
        cells = [f"{distance(*pair):.2f}" for pair in pairs]
        print(f"{name:34}" + "".join(f"{cell:>20}" for cell in cells))
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "curves.json").write_text(json.dumps(results))


def plot(path: Path) -> None:
    """Draw the loss curves of all seeds, both ways."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5, 3.2), layout="constrained")
    results = json.loads(path.read_text())
    for name, colour in (("engine", "#0072B2"), ("straightforward", "#D55E00")):
        for run in results[name]:
            share = [(point + 1) / len(run["curve"]) for point in range(len(run["curve"]))]
            label = name if run["seed"] == 0 else None
            axes.plot(share, run["curve"], color=colour, label=label, linewidth=1, alpha=0.8)
    axes.set(xlabel="share of training done", ylabel="training loss per center word")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    for suffix in (".png", ".pdf"):
        figure.savefig(path.with_suffix(suffix), dpi=200)


def main() -> None:
    """Compare, or plot what was compared."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path, nargs="?")
    parser.add_argument("--dataset", type=Path)
    parser.add_argument("--inventory", type=Path)
    parser.add_argument("--output", type=Path, default=Path("build/quality"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--dropout", type=float, default=0.2, help="of both ways (0.2)")
    parser.add_argument(
        "--no-hidden-dropout", action="store_true", help="none after the model network's ReLU"
    )
    parser.add_argument(
        "--variant",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a training setting; may be repeated",
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--plot", type=Path, metavar="CURVES")
    parser.add_argument(
        "--gradient-noise", type=int, nargs="+", metavar="BATCH", help="batch sizes; and stop"
    )
    parser.add_argument("--repeats", type=int, default=20, help="gradients for each variance (20)")
    options = parser.parse_args()
    if options.plot:
        plot(options.plot)
    elif options.corpus and options.gradient_noise:
        gradient_noise(options)
    elif not (options.corpus and options.dataset and options.inventory):
        parser.error("CORPUS, --dataset and --inventory are needed, or --plot")
    else:
        compare(options)


if __name__ == "__main__":
    main()
