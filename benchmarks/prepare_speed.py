"""Compare the speed of `lmcells prepare` with the paper's way, and measure its memory.

    python benchmarks/prepare_speed.py            # speed and scaling, a minute
    python benchmarks/prepare_speed.py --memory   # peak memory at 1x and 10x the notes and for 1 GB of CSV
    python benchmarks/prepare_speed.py --against OTHER/src --tokens 20e6 --workers 2   # another version of the code

The baseline is faithful to the paper: its section regex, NLTK's word tokenizer, stop words, one form for all digits,
a vocabulary of words seen more than ten times, ids. Both read the same CSV, in one process with one thread, and
write the same kind of arrays.
Notes come from LMCELLS_DATA if it is set, otherwise from examples/notes; `--notes` takes others.
"""

import argparse
import csv
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from statistics import median

for pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[pool] = "1"

import numpy as np
import psutil
from nltk.tokenize.destructive import NLTKWordTokenizer

from end_to_end import COLUMNS
from end_to_end import write_noteevents as write_synthetic
from lmcells.corpus.build import build_corpus
from lmcells.corpus.settings import CorpusSettings
from lmcells.notes.readers import ReadReport, read_notes
from lmcells.notes.tokens import STOP_WORDS
from locations import notes_or_examples

PAPER_REGEX = re.compile(r"(?:^|\s{4,}|\n)[\d.#]{0,4}\s*([A-Z][A-z0-9/ ]+[A-z]:)")


def read_texts(path: Path) -> list[str]:
    """Read the notes that the benchmark repeats."""
    return [note.text for note in read_notes(path, report=ReadReport())]


def write_noteevents(
    path: Path, texts: Iterator[str], *, n_notes: int | None = None, n_bytes: int | None = None
) -> int:
    """Write notes in MIMIC-III's format until there are enough, and return how many."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow(COLUMNS)
        for number, text in enumerate(texts, start=1):
            writer.writerow([number, 1, 1, "2101-01-01", "", "", "Nursing", "Report", "", "", text])
            if number == n_notes or (n_bytes is not None and number % 100 == 0 and file.tell() >= n_bytes):
                return number
    return number


def prepare_with_nltk(notes: Path, output: Path) -> int:
    """Build token ids and section ids as the paper's scripts do, and return the number of tokens."""
    tokenizer = NLTKWordTokenizer()
    csv.field_size_limit(sys.maxsize)
    word_counts: Counter[str] = Counter()
    header_counts: Counter[str] = Counter()
    segments: list[tuple[str, list[str]]] = []
    with notes.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            text = row["TEXT"]
            header, start = "", 0
            for match in [*PAPER_REGEX.finditer(text), None]:
                end = match.start(1) if match else len(text)
                words = [
                    word
                    for token in tokenizer.tokenize(text[start:end])
                    if (word := token.lower()) not in STOP_WORDS
                ]
                words = [
                    "<digit>" if word[0].isdigit() else word for word in words if any(map(str.isalnum, word))
                ]
                word_counts.update(words)
                segments.append((header, words))
                if match:
                    header, start = match[1], match.end(1)
                    header_counts[header] += 1
    vocabulary = {word: index for index, (word, count) in enumerate(word_counts.most_common()) if count > 10}
    headers = {
        header: index for index, (header, count) in enumerate(header_counts.most_common()) if count >= 10
    }
    tokens = [vocabulary[word] for _, words in segments for word in words if word in vocabulary]
    sections = [headers.get(header, -1) for header, _ in segments]
    np.savez(output, tokens=np.array(tokens, np.int32), sections=np.array(sections, np.int32))
    return len(tokens)


def prepare(notes: Path, output: Path, *, sections: str, workers: int = 1) -> None:
    """Build a corpus, replacing the last one."""
    shutil.rmtree(output, ignore_errors=True)
    settings = CorpusSettings(sections=sections)  # type: ignore[arg-type]
    build_corpus(notes, output=output, settings=settings, workers=workers)


def timed(run: Callable[[], object]) -> float:
    """Return the seconds a run takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def timed_twice(run: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds a run takes by the clock on the wall, and those of the processor, which other work spares."""
    processor = time.process_time()
    wall = timed(run)
    return wall, time.process_time() - processor


def measure_speed(texts: list[str], folder: Path, rounds: int) -> float:
    """Print notes per second of both ways; return the rival's.

    A round measures all ways one after another, and the ratio is the median over the rounds: what else the machine does
    slows both sides of a round.
    """
    notes, output = folder / "NOTEEVENTS.csv", folder / "corpus"
    n_notes = write_noteevents(notes, iter(texts), n_notes=len(texts))
    megabytes = notes.stat().st_size / 1e6
    ways: dict[str, Callable[[], object]] = {
        "NLTK, the paper's way": lambda: prepare_with_nltk(notes, folder / "nltk.npz"),
        "lmcells, --sections paper": lambda: prepare(notes, output, sections="paper"),
        "lmcells, --sections rules": lambda: prepare(notes, output, sections="rules"),
    }
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, run in ways.items():
            seconds[name].append(timed_twice(run))
    print(f"{n_notes:,} notes, {megabytes:.1f} MB, one process, one thread, median of {rounds} rounds")
    print(f"{'':28}{'seconds':>9}{'notes/s':>10}{'MB/s':>8}{'ratio':>8}{'by processor time':>19}")
    rival = next(iter(seconds.values()))
    for name, taken in seconds.items():
        middle = median(wall for wall, _ in taken)
        pairs = list(zip(rival, taken, strict=True))
        by_wall, by_processor = (median(theirs[i] / ours[i] for theirs, ours in pairs) for i in (0, 1))
        rates = f"{n_notes / middle:10,.0f}{megabytes / middle:8.1f}"
        print(f"{name:28}{middle:9.2f}{rates}{by_wall:7.1f}x{by_processor:18.1f}x")
    return n_notes / median(wall for wall, _ in rival)


def measure_command(texts: list[str], folder: Path, *, copies: int, rival: float) -> None:
    """Print notes per second of the command itself, start-up included, on a file of some size."""
    notes = folder / "large.csv"
    n_notes = write_noteevents(notes, cycle(texts), n_notes=copies * len(texts))

    def command(sections: str, workers: int) -> None:
        options = ["--sections", sections, "--workers", str(workers), "--overwrite"]
        arguments = [str(notes), "--output", str(folder / "large"), *options]
        subprocess.run(
            [sys.executable, "-m", "lmcells", "prepare", *arguments], check=True, capture_output=True
        )

    print(f"\nthe command, {n_notes:,} notes ({copies} copies of these), best of 2")
    for sections, workers in (("paper", 1), ("rules", 1), ("rules", 2)):
        best = min(timed(lambda s=sections, n=workers: command(s, n)) for _ in range(2))  # type: ignore[misc]
        name = f"--sections {sections} --workers {workers}"
        print(f"{name:28}{best:9.2f}{n_notes / best:10,.0f}{'':8}{n_notes / best / rival:7.1f}x")


def measure_against(other: Path, folder: Path, *, n_tokens: int, workers: int, rounds: int) -> None:
    """Print how much faster the command is than that of another source folder, in turns, on synthetic notes."""
    notes, output = folder / "NOTEEVENTS.csv", folder / "corpus"
    write_synthetic(notes, n_tokens=n_tokens, seed=0, workers=workers)
    command = [
        "prepare",
        str(notes),
        "--output",
        str(output),
        "--sections",
        "paper",
        "--workers",
        str(workers),
    ]

    def run(source: Path) -> tuple[float, float]:
        shutil.rmtree(output, ignore_errors=True)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        wall = timed(
            lambda: subprocess.run(
                [sys.executable, "-m", "lmcells", *command],
                env={**os.environ, "PYTHONPATH": str(source)},
                check=True,
                capture_output=True,
            )
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    theirs, ours = zip(
        *[(run(other), run(Path(__file__).parents[1] / "src")) for _ in range(rounds)], strict=True
    )
    print(
        f"{n_tokens:,} tokens, {workers} workers, {rounds} rounds: seconds of the other, of this, and the ratio"
    )
    for name, choose, at in (
        ("fastest", min, 0),
        ("median", median, 0),
        ("processor time, median", median, 1),
    ):
        before, now = (choose([each[at] for each in taken]) for taken in (theirs, ours))
        print(f"{name:24}{before:8.2f}{now:8.2f}{before / now:7.2f}x")


def anonymous_memory(process: psutil.Process) -> int:
    """Return the memory of a process and its children that no file backs."""
    total = 0
    for member in [process, *process.children(recursive=True)]:
        try:
            for line in Path(f"/proc/{member.pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Anonymous:"):
                    total += int(line.split()[1]) * 1024
        except (OSError, psutil.Error):
            continue
    return total


def peak_memory(run: Callable[[], object]) -> int:
    """Return the peak of the process tree's anonymous memory while something runs, looked at every 20 ms."""
    peak, done = 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.02):
            peak = max(peak, anonymous_memory(psutil.Process()))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        run()
    finally:
        done.set()
        watcher.join()
    return peak


def measure_memory(texts: list[str], folder: Path) -> None:
    """Print peak memory at 1x and 10x the notes, and for a file of 1 GB."""
    notes, output = folder / "memory.csv", folder / "corpus"
    peaks = []
    for copies in (4, 40):
        n_notes = write_noteevents(notes, cycle(texts), n_notes=copies * len(texts))
        peaks.append(peak_memory(lambda: prepare(notes, output, sections="rules", workers=2)))
        print(f"{n_notes:>9,} notes: peak {peaks[-1] / 1e6:,.0f} MB (process tree, anonymous, 2 workers)")
    print(f"10x the notes, {peaks[1] / peaks[0] - 1:+.1%} memory")
    n_notes = write_noteevents(notes, cycle(texts), n_bytes=10**9)
    start = time.perf_counter()
    peak = peak_memory(lambda: prepare(notes, output, sections="rules", workers=2))
    seconds = time.perf_counter() - start
    size = notes.stat().st_size / 1e9
    print(f"NOTEEVENTS.csv of {size:.2f} GB, {n_notes:,} notes: {seconds:.0f} s, peak {peak / 1e6:,.0f} MB")


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--notes", type=Path, default=notes_or_examples("train/mtsamples_raw.parquet"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", action="store_true", help="measure memory instead of speed")
    parser.add_argument(
        "--against", type=Path, metavar="SRC", help="compare with the lmcells of another folder"
    )
    parser.add_argument("--tokens", type=float, default=20e6, help="with --against: of the notes (20e6)")
    parser.add_argument("--workers", type=int, default=2, help="with --against: processes (2)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.against:
            sizes = {"n_tokens": int(options.tokens), "workers": options.workers, "rounds": options.rounds}
            measure_against(options.against, Path(folder), **sizes)
            return
        texts = read_texts(options.notes)
        texts = list(islice(cycle(texts), max(1000, len(texts))))
        if options.memory:
            measure_memory(texts, Path(folder))
        else:
            rival = measure_speed(texts, Path(folder), options.rounds)
            measure_command(texts, Path(folder), copies=40, rival=rival)


if __name__ == "__main__":
    main()
