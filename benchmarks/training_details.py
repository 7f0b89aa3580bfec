"""Measure what details of training are worth in which we differ from the authors' code (docs/differences.md).

    export LMCELLS_DATA=FOLDER
    lmcells reproduce --config configs/open.toml --output build/open --only corpus/main
    python benchmarks/training_details.py --prepare build/open                      # two more corpora, on the CPU
    PYTHONPATH=src python benchmarks/training_details.py build/open --output FILE    # needs torch and numpy only

Each detail is trained as we do it and as the authors do, with several seeds and the preset `paper`, and scored by the
paper's ranking on `reverse_dev`. The difference is ours minus theirs, with its standard error. `lmc` uses our kernels;
details that these cannot express are compared in torch (`lmc-torch`).
"""

import argparse
import json
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from lmcells.corpus import Corpus
from lmcells.corpus.sections import NO_SECTION
from lmcells.evaluation.dataset import read_dataset
from lmcells.evaluation.evaluate import predict
from lmcells.evaluation.metrics import measure
from lmcells.expansion.inventory_files import load_inventory
from lmcells.expansion.long_form_moments import LongFormOccurrences
from lmcells.expansion.ranking import best_ranker
from lmcells.model import CellModel, ModelConfig, Windows, networks
from lmcells.model.networks import ContextEncoder, WordPrior
from lmcells.model.recurrence import BidirectionalLstm
from lmcells.notes.readers import ReadReport
from lmcells.pretrained import PretrainedModel, ReadWindows, save_pretrained
from lmcells.pretrained.network import NumpyPosterior
from lmcells.training import TrainingSettings
from lmcells.training.cells import train
from lmcells.training.device_corpus import AliasTable, Chunk
from lmcells.training.distributed import ORDER, generator_for
from lmcells.training.sampler import Centers, Sampler, ShardReader
from locations import ROOT, SETS, text_folder

MAIN, TEN_TIMES, CARRIED_ON = "corpus", "corpus-ten-times", "corpus-carried-on"  # folders
Patches = list[Any]  # context managers


@dataclass(frozen=True)
class Detail:
    """A way to train: what it changes in the corpus, the model's settings and the code."""

    base: str  # "lmc", "lmc-torch", "bsg" or "mbsge"
    corpus: str = MAIN
    settings: tuple[tuple[str, Any], ...] = ()  # of the model
    patches: Callable[[], Patches] = list
    after: Callable[[CellModel, Corpus], None] = lambda *_: None  # changes the trained model


# Each patch makes our code do what the authors' does.


def negatives_after_subsampling() -> Patches:
    original = Sampler.of_corpus.__func__  # type: ignore[attr-defined]

    def of_corpus(cls: type[Sampler], corpus: Corpus, *, settings: TrainingSettings, **given: Any) -> Sampler:
        sampler = original(cls, corpus, settings=settings, **given)
        device = sampler.generator.device
        chunk = Chunk.load(corpus, ((0, int(corpus.tokens.size)),), settings=settings, device=device)
        counts = np.bincount(chunk.tokens.cpu().numpy(), minlength=len(corpus.words)).astype(np.float64)
        weights = counts**settings.negative_exponent
        return replace(sampler, negatives=AliasTable.of_weights(weights, device=device))

    return [patch.object(Sampler, "of_corpus", classmethod(of_corpus))]


def same_batches_in_every_epoch() -> Patches:
    """The batches of the first epoch in another order, without the last, incomplete one."""

    def rows_of(self: ShardReader, _epoch: int) -> Any:
        return np.full(self.lengths[0] // self.batch_size, self.batch_size)

    def epoch(self: ShardReader, epoch: int, *, first_step: int = 0) -> Iterator[Centers]:
        source, size = self._chunk(0), self.batch_size
        generator = generator_for(self._device, self._settings.seed, ORDER, self.shard, 0, 0)
        positions = torch.randperm(
            len(source.chunk), generator=generator, device=self._device, dtype=torch.int32
        )
        batches = positions.split(size)[: len(source.chunk) // size]
        order = np.random.default_rng(epoch).permutation(len(batches))
        for index in order[first_step:]:
            yield self._centers(source, batches[index])
        while True:
            yield self._centers(source, source.chunk.tokens[:0])

    return [patch.object(ShardReader, "rows_of", rows_of), patch.object(ShardReader, "epoch", epoch)]


def absent_words_stepped_over() -> Patches:
    """The LSTM reads a zero vector where a word is absent or masked; scoring runs in torch, to do the same."""
    forward = BidirectionalLstm.forward

    def stepped(self: BidirectionalLstm, inputs: Tensor, mask: Tensor, *, constant: Tensor) -> Tensor:
        inputs = torch.where(mask.unsqueeze(-1), inputs, 0.0)
        return forward(self, inputs, torch.ones_like(mask), constant=constant)

    return [patch.object(BidirectionalLstm, "forward", stepped)]


def center_dropped_out_by_position() -> Patches:
    def forward(self: ContextEncoder, windows: Windows) -> tuple[Tensor, Tensor]:
        n_rows, n_steps = windows.context.shape
        vectors = self.words(torch.cat([windows.context.flatten(), windows.center]))
        context, center = vectors.split_with_sizes([n_rows * n_steps, n_rows])
        if windows.center_mask is not None:
            center = torch.where(windows.center_mask.unsqueeze(-1), center, 0.0)
        tiled = self.dropout(center.unsqueeze(1).expand(-1, n_steps, -1).contiguous())
        context = self.dropout(context).view(n_rows, n_steps, -1)
        joined = torch.cat([context, tiled], dim=-1)
        return self.lstm(joined, windows.context_mask, constant=center[:, :0]), context

    return [patch.object(ContextEncoder, "forward", forward)]


def unscaled_attention() -> Patches:
    attend = networks.attend

    def unscaled(query: Tensor, states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        return attend(query * query.shape[-1] ** 0.5, states, mask)

    return [patch.object(networks, "attend", unscaled)]


def prior_of_the_word() -> Patches:
    """mbsge: p(z | x) is that of the word also where the note type or section replaces it."""
    replaced, forward = Sampler._replaced, WordPrior.forward
    words: list[tuple[Tensor, Tensor]] = []  # the last centers of the posterior, and the words under them

    def remember(self: Sampler, center: Tensor, segment: Tensor) -> Tensor:
        words[:] = [(replaced(self, center, segment), center)]
        return words[0][0]

    def of_word(self: WordPrior, centers: Tensor, metadata: Tensor | None = None) -> Any:
        under = [word for center, word in words if center is centers]
        return forward(self, under[0] if under else centers, metadata)

    return [patch.object(Sampler, "_replaced", remember), patch.object(WordPrior, "forward", of_word)]


def scale_query(model: CellModel, _: Corpus) -> None:
    """Make the scaled attention of scoring an unscaled one."""
    query = model.get_parameter("variational.query")
    query.data *= query.shape[-1] ** 0.5


def without_null_section(model: CellModel, corpus: Corpus) -> None:
    """A test example without a section has zero vectors."""
    no_section = corpus.metadata_names("section").index(NO_SECTION)
    for name in ("variational.metadata.weight", "prior.metadata.weight"):
        model.get_parameter(name).data[no_section] = 0.0


def in_torch() -> Patches:
    """No kernels of ours: the loss is that of the model."""
    return [patch("lmcells.training.cells.fused_loss", lambda *_: None)]


AS_IN_THEIR_CODE = (("context_mask_rate", 0.0), ("center_mask_rate", 0.0), ("variance_floor", 0.0))
DETAILS = {
    "lmc": Detail("lmc"),
    "lmc: words seen ten times": Detail("lmc", corpus=TEN_TIMES),
    "lmc: text under no header has the section before it": Detail(
        "lmc", corpus=CARRIED_ON, after=without_null_section
    ),
    "lmc: the same batches in every epoch": Detail("lmc", patches=same_batches_in_every_epoch),
    "lmc: negatives counted after subsampling": Detail("lmc", patches=negatives_after_subsampling),
    "lmc-torch": Detail("lmc-torch"),
    "lmc-torch: absent words stepped over": Detail("lmc-torch", patches=absent_words_stepped_over),
    "lmc-torch: center dropped out by position": Detail("lmc-torch", patches=center_dropped_out_by_position),
    "bsg": Detail("bsg"),
    "bsg: as in the authors' code": Detail(
        "bsg", settings=AS_IN_THEIR_CODE, patches=unscaled_attention, after=scale_query
    ),
    "mbsge": Detail("mbsge"),
    "mbsge: as in the authors' code": Detail(
        "mbsge",
        settings=AS_IN_THEIR_CODE,
        patches=lambda: unscaled_attention() + prior_of_the_word(),
        after=scale_query,
    ),
}


@contextmanager
def applied(patches: Sequence[Any]) -> Iterator[None]:
    with ExitStack() as stack:
        for each in patches:
            stack.enter_context(each)
        yield


class TorchPosterior:
    """The model in torch in place of its copy in numpy."""

    def __init__(self, model: CellModel) -> None:
        self.model = model.eval()

    def posterior(self, windows: ReadWindows, metadata: Any, **_: Any) -> NumpyPosterior:
        arrays = [windows.center, windows.context, windows.context_mask, metadata, windows.center_mask]
        center, context, mask, sections, center_mask = (torch.from_numpy(np.asarray(each)) for each in arrays)
        read = Windows(
            center=center, context=context, context_mask=mask, metadata=sections, center_mask=center_mask
        )
        with torch.no_grad():
            found = self.model.posterior(read)
        parts = (found.cell.mean, found.cell.log_variance, found.gate, found.attention)
        return NumpyPosterior(*(part.numpy() for part in parts))


def run(name: str, seed: int, *, folder: Path, epochs: int, device: str) -> dict[str, Any]:
    """Train and score one model."""
    detail = DETAILS[name]
    corpus = Corpus.open(folder / detail.corpus)
    kind = detail.base.partition("-")[0]
    config = ModelConfig(
        kind=kind,  # type: ignore[arg-type]
        n_words=len(corpus.words),
        n_metadata=corpus.n_metadata("section"),
        n_categories=corpus.n_metadata("category") if kind == "mbsge" else 0,
        **dict(detail.settings),
    )
    is_torch = detail.base == "lmc-torch"
    with (
        applied(detail.patches() + (in_torch() if is_torch else [])),
        tempfile.TemporaryDirectory() as output,
    ):
        settings = TrainingSettings(epochs=epochs, seed=seed)
        result = train(corpus, model_config=config, settings=settings, output=Path(output), device=device)
        model = result.model.cpu()
        detail.after(model, corpus)
        save_pretrained(model, Path(output) / "model", corpus=corpus)
        pretrained = PretrainedModel.from_pretrained(Path(output) / "model")
        senses = load_inventory(SETS / "casi_inventory.json")
        ranker = best_ranker(pretrained, senses, occurrences=LongFormOccurrences(corpus))
        if is_torch:
            ranker._network = TorchPosterior(model)  # type: ignore[assignment]
        examples = list(read_dataset(SETS / "reverse_dev.jsonl", report=ReadReport()))
        metrics = measure(predict("model", ranker, examples, senses))
    return {
        "name": name,
        "seed": seed,
        "seconds": result.record["seconds"],
        "accuracy": metrics.accuracy,
        "macro_f1": metrics.macro_f1,
    }


def print_table(runs: Sequence[dict[str, Any]]) -> None:
    """Print each detail's scores, and how ours, those of its base, differ from them."""
    print("| | seeds | accuracy | macro F1 | difference of accuracy | of macro F1 |")
    print("|---|---|---|---|---|---|")
    for name, detail in DETAILS.items():
        cells = [name, str(sum(run["name"] == name for run in runs))]
        differences = []
        for metric in ("accuracy", "macro_f1"):
            own, base = ([run[metric] for run in runs if run["name"] == each] for each in (name, detail.base))
            if len(own) < 2 or len(base) < 2:
                break
            mean, error = statistics.fmean(base) - statistics.fmean(own), 0.0
            for values in (own, base):
                error += statistics.variance(values) / len(values)
            cells.append(f"{statistics.fmean(own):.3f} ± {statistics.stdev(own):.3f}")
            differences.append("" if name == detail.base else f"{mean:+.3f} ± {error**0.5:.3f}")
        if differences:
            print(f"| {' | '.join(cells + differences)} |")


def prepare(folder: Path) -> None:
    """Build the corpora that differ from the main one."""
    config = tomllib.loads((ROOT / "configs" / "open.toml").read_text())
    texts = [text_folder() / each.removeprefix("${LMCELLS_DATA}/") for each in config["corpus"]["inputs"]]
    command = [sys.executable, "-m", "lmcells", "prepare", "--sections", "given"]
    given = [*map(str, texts), "--output", str(folder / TEN_TIMES), "--min-count", "9"]
    subprocess.run([*command, *given], check=True)
    with tempfile.TemporaryDirectory() as temporary:
        notes = Path(temporary) / "notes.jsonl"
        write_carried_on(texts, notes)
        given = [str(notes), "--output", str(folder / CARRIED_ON), "--min-count", "10"]
        subprocess.run([*command, *given], check=True)


def write_carried_on(texts: Sequence[Path], notes: Path) -> None:
    """Write notes in which text under no header has the header before it, also of the previous note."""
    from pyarrow import parquet

    header = ""
    with notes.open("w", encoding="utf-8") as file:
        for text in texts:
            for row in parquet.read_table(text).to_pylist():
                for section in row["sections"]:
                    header = section["header"] or header
                    section["header"] = header
                file.write(json.dumps(row) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="of the corpora: build/open")
    parser.add_argument("--prepare", action="store_true", help="build the two other corpora, and stop")
    parser.add_argument("--only", nargs="+", default=list(DETAILS), choices=list(DETAILS), metavar="NAME")
    parser.add_argument("--bases", nargs="+", metavar="BASE", help="lmc, lmc-torch, bsg, mbsge (all)")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=4, help="runs at once (4)")
    parser.add_argument(
        "--output", type=Path, help="a file for all runs, as JSON lines; finished runs are kept"
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    if options.prepare:
        prepare(options.folder)
        return
    runs: list[dict[str, Any]] = []
    if options.output and options.output.exists():
        runs = [json.loads(line) for line in options.output.read_text().splitlines()]
    done = {(run["name"], run["seed"]) for run in runs}
    chosen = [name for name in options.only if DETAILS[name].base in (options.bases or DETAILS)]
    wanted = [(name, seed) for seed in range(options.seeds) for name in chosen if (name, seed) not in done]
    train_one = partial(run, folder=options.folder, epochs=options.epochs, device=options.device)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=spawn) as pool:
        for finished in as_completed([pool.submit(train_one, *each) for each in wanted]):
            runs.append(finished.result())
            print(runs[-1], flush=True)
            if options.output:
                with options.output.open("a") as file:
                    file.write(json.dumps(runs[-1]) + "\n")
    print_table(runs)


if __name__ == "__main__":
    main()
