"""Measure how fast `Expander` expands whole notes, beside a BERT-base ranker and medspaCy's sectionizer, and starts up.

    python benchmarks/expansion_speed.py                    # speed, start, size: two minutes
    python benchmarks/expansion_speed.py --medspacy PYTHON  # and medspaCy's sectionizer
    python benchmarks/expansion_speed.py --memory           # peak memory over 10,000 and 100,000 notes

Everything runs in one process with one thread, except for the row that says two. A third of the notes is expanded first
and not timed: each short form is looked up when it first occurs, which a million notes do once. The BERT-base has the
real sizes (12 layers of 768 units) and random weights, which do not affect speed. It ranks the same mentions, with the
long forms' vectors cached, as ours are. medspaCy needs an older spaCy than we test with, so it runs in a separate
interpreter (`pip install medspacy` there). Notes come from LMCELLS_DATA if it is set, otherwise from examples/notes;
`--notes` takes others.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import metadata
from itertools import cycle, islice
from multiprocessing import get_context
from pathlib import Path
from statistics import median

for pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[pool] = "1"

import lmcells
from lmcells import Expander
from lmcells.notes.readers import ReadReport, read_notes
from locations import notes_or_examples

N_BERT = 48  # mentions that BERT ranks
SECTIONIZER = """\
import json, sys, time, warnings
warnings.filterwarnings("ignore")
import medspacy, spacy
nlp = spacy.blank("en")
nlp.add_pipe("medspacy_sectionizer")
first, timed = json.load(open(sys.argv[1]))
list(nlp.pipe(first))
begin = time.perf_counter()
for _ in nlp.pipe(timed):
    pass
print(len(timed) / (time.perf_counter() - begin))
"""


def read_texts(path: Path) -> list[str]:
    """Read the notes that the benchmark repeats."""
    return [note.text for note in read_notes(path, report=ReadReport())]


def warm_up_and_timed(texts: list[str]) -> tuple[list[str], list[str]]:
    """Divide the notes into a third that comes first and the rest."""
    n_first = len(texts) // 3
    return texts[:n_first], texts[n_first:]


def expand_all(texts: list[str]) -> tuple[int, float]:
    """Expand notes in this process: -> expansions, seconds."""
    expander = Expander.from_pretrained()
    first, timed = warm_up_and_timed(texts)
    list(expander.pipe(first))
    begin = time.perf_counter()
    n_expansions = sum(len(expansions) for expansions in expander.pipe(timed))
    return n_expansions, time.perf_counter() - begin


def with_two_processes(texts: list[str]) -> float:
    """Notes a second of two processes that share the notes, from when both have loaded."""
    with get_context("spawn").Pool(2) as pool:
        halves = [texts[0::2], texts[1::2]]
        pool.map(expand_all, [half[:20] for half in halves])
        slowest = max(seconds for _, seconds in pool.map(expand_all, halves))
    return sum(len(warm_up_and_timed(half)[1]) for half in halves) / slowest


def bert_mentions_per_second(texts: list[str]) -> float:
    """Mentions a second of a ranker of BERT-base's size."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizer

    from lmcells.evaluation.encoder_baselines import PretrainedEncoder, transformer_ranker

    torch.set_num_threads(1)
    expander = Expander.from_pretrained()
    occurrences = (each for text in texts for each in expander.lexicon().read(text))
    mentions = list(
        islice(
            (each.mention for each in occurrences if each.mention is not None and each.source == "model"),
            N_BERT,
        )
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = sorted({word.lower() for text in texts[:200] for word in text.split() if word.isalpha()})
        vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(chr, range(33, 127)), *words]
        distinct = list(dict.fromkeys(vocabulary))
        (folder / "vocab.txt").write_text("\n".join(distinct), encoding="utf-8")
        BertModel(BertConfig(vocab_size=len(distinct))).save_pretrained(folder)
        BertTokenizer(str(folder / "vocab.txt"), do_lower_case=True).save_pretrained(folder)
        ranker = transformer_ranker(PretrainedEncoder.bert(folder), expander.inventory)
        ranker.scores(mentions)  # the vectors of the long forms are kept
        begin = time.perf_counter()
        ranker.scores(mentions)
        return len(mentions) / (time.perf_counter() - begin)


def sectionizer_notes_per_second(python: Path, texts: list[str]) -> float:
    """Notes a second of medspaCy's sectionizer alone."""
    with tempfile.TemporaryDirectory() as name:
        notes = Path(name) / "notes.json"
        notes.write_text(json.dumps(warm_up_and_timed(texts)), encoding="utf-8")
        done = subprocess.run(
            [python, "-c", SECTIONIZER, notes], capture_output=True, text=True, check=True, cwd=name
        )
    return float(done.stdout.split()[-1])


def seconds_of(code: str) -> float:
    """The fastest of five runs of a fresh interpreter."""
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        times.append(time.perf_counter() - begin)
    return min(times)


def installed_megabytes() -> float:
    """What the package and numpy, its only dependency, take on disk."""
    numpy_files = metadata.files("numpy") or []
    of_numpy = sum(
        Path(file.locate()).stat().st_size for file in numpy_files if Path(file.locate()).is_file()
    )
    package = Path(lmcells.__file__).parent
    ours = sum(path.stat().st_size for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return (of_numpy + ours) / 1e6


def print_speed(texts: list[str], options: argparse.Namespace) -> None:
    """Print what is fast and what is not."""
    rounds = [expand_all(texts) for _ in range(options.rounds)]
    n_expansions, seconds = rounds[0][0], median(seconds for _, seconds in rounds)
    n_notes = len(warm_up_and_timed(texts)[1])
    notes_per_second, per_second = n_notes / seconds, n_expansions / seconds
    print(f"{n_notes:,} notes, {n_expansions:,} expansions ({n_expansions / n_notes:.1f} a note)")
    print(
        f"  Expander, one process            {notes_per_second:10,.0f} notes/s {per_second:10,.0f} short forms/s"
    )
    print(f"  Expander, two processes          {with_two_processes(texts):10,.0f} notes/s")
    bert = bert_mentions_per_second(texts)
    print(
        f"  BERT-base ranker, one thread     {'':18} {bert:10.1f} short forms/s  we are {per_second / bert:,.0f}x"
    )
    if options.medspacy:
        rival = sectionizer_notes_per_second(options.medspacy, texts)
        ratio = notes_per_second / rival
        print(
            f"  medspaCy's sectionizer alone     {rival:10,.0f} notes/s  we are {ratio:.1f}x, with everything"
        )
    bare = seconds_of("pass")
    print(f"  import lmcells                   {seconds_of('import lmcells') - bare:10.2f} s")
    first = "from lmcells import Expander; Expander.from_pretrained()('Pt with CVA and MS.')"
    print(f"  first expansion, cold            {seconds_of(first):10.2f} s")
    print(f"  base install                     {installed_megabytes():10.0f} MB")


def print_memory(texts: list[str]) -> None:
    """Print the peak memory of streams of notes, each in a process of its own."""
    for n_notes in (10_000, 100_000):
        with get_context("spawn").Pool(1) as pool:
            peak = pool.apply(_peak_after, (texts, n_notes))
        print(f"  {n_notes:>7,} notes  peak {peak / 1e6:,.0f} MB")


def _peak_after(texts: list[str], n_notes: int) -> int:
    import resource

    stream: Iterator[str] = islice(cycle(texts), n_notes)
    for _ in Expander.from_pretrained().pipe(stream):
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--notes", type=Path, default=notes_or_examples("dev/mtsamples_raw.parquet"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--medspacy", type=Path, metavar="PYTHON", help="an interpreter that has medspaCy")
    parser.add_argument("--memory", action="store_true")
    options = parser.parse_args()
    texts = read_texts(options.notes)
    if options.memory:
        print_memory(texts)
    else:
        print_speed(texts, options)


if __name__ == "__main__":
    main()
