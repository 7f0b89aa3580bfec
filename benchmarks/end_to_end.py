"""Measure time and peak memory of every stage from a NOTEEVENTS.csv of MIMIC's size to an evaluated model.

    python benchmarks/end_to_end.py --tokens 35e6 104e6 346e6 --output build/end_to_end

The notes are synthetic, in MIMIC-III's columns: words by Zipf's law under headers of real notes, line breaks and quotes
inside fields, and planted senses that can be told apart by their sections and neighbours. The same random seed always
gives the same file. `prepare --sections paper`, `train --preset paper`, `dataset reverse` on held-out notes and
`evaluate` run as separate commands. The table is printed as Markdown; `results.json` in the output folder has the same
figures. Needs the requirements of training, and Linux to measure the memory of processes.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lmcells.notes.tokens import STOP_WORDS

COLUMNS = (
    *("ROW_ID", "SUBJECT_ID", "HADM_ID", "CHARTDATE", "CHARTTIME", "STORETIME"),
    *("CATEGORY", "DESCRIPTION", "CGID", "ISERROR", "TEXT"),
)
CATEGORIES = ("Nursing/other", "Radiology", "Nursing", "ECG", "Physician ", "Discharge summary", "Echo")
HEADERS = (
    *("History of Present Illness", "Past Medical History", "Social History", "Family History", "Allergies"),
    *("Physical Exam", "Pertinent Results", "Brief Hospital Course", "Medications on Admission", "Plan"),
    *("Discharge Medications", "Discharge Disposition", "Discharge Diagnosis", "Discharge Condition"),
    *("Chief Complaint", "Followup Instructions", "Major Surgical or Invasive Procedure", "Service", "Labs"),
    *("INDICATION", "IMPRESSION", "FINDINGS", "TECHNIQUE", "COMPARISON", "REASON FOR THIS EXAMINATION"),
    *("NEURO", "RESP", "CV", "GI", "GU", "SKIN", "SOCIAL", "ASSESSMENT", "ACTION", "RESPONSE", "ENDO"),
)
BLOCK_TOKENS = 1 << 20  # written at a time
NOTE_TOKENS, SECTION_TOKENS = 165, 40  # on average
N_WORDS, EXPONENT = 100_000, 1.05  # of Zipf's law
N_RARE = 1000  # of either half of a rare word; most of these stay out of the vocabulary
N_SHORT_FORMS, N_SENSES, N_CUES = 24, 3, 8
SEPARATORS, SHARES = (" ", ", ", ". ", "\n", ' ""', " 20 "), (0.79, 0.05, 0.05, 0.1, 0.005, 0.005)
KEPT_OUT = 1 << 30  # the number of the block that training does not read
Strings = npt.NDArray[np.object_]


@cache
def words() -> Strings:
    """Return invented words, the most frequent first: of two syllables, then of three."""
    syllables = ["".join(pair) for pair in product("bcdfghjklmnprstvwz", "aeiou")]
    of_two = [word for pair in product(syllables, repeat=2) if (word := "".join(pair)) not in STOP_WORDS]
    of_three = ["".join(three) for three in product(syllables, repeat=3)]
    order = np.random.default_rng(0)
    return np.concatenate([order.permutation(np.array(each, object)) for each in (of_two, of_three)])[
        :N_WORDS
    ]


@cache
def headers() -> Strings:
    """Return headers, the most frequent first."""
    rarer = [f"{header} {word.title()}" for word in words()[:40] for header in HEADERS]
    return np.array([*HEADERS, *rarer], object)


@cache
def senses() -> list[list[str]]:
    """Return the long forms of each short form: two words that occur nowhere else, after its two letters."""
    letters = list(product("bcdfghklmprst", repeat=2))[:: 169 // N_SHORT_FORMS][:N_SHORT_FORMS]
    endings = iter(words()[:: N_WORDS // (2 * N_SHORT_FORMS * N_SENSES + 1)])
    return [
        [f"{first}y{next(endings)} {second}y{next(endings)}" for _ in range(N_SENSES)]
        for first, second in letters
    ]


def inventory() -> list[dict[str, Any]]:
    """Return the planted senses as an inventory."""
    return [
        {"short_form": "".join(word[0] for word in form.split()).upper(), "long_form": form, "forms": [form]}
        for forms in senses()
        for form in forms
    ]


def by_zipf(draw: np.random.Generator, n_values: int, size: int) -> npt.NDArray[np.int64]:
    """Draw numbers below `n_values`, the r-th nearly as often as r to the power of minus EXPONENT."""
    power = 1 - EXPONENT
    ranks = (1 + draw.random(size) * ((n_values + 1) ** power - 1)) ** (1 / power)
    return np.minimum(ranks.astype(np.int64), n_values) - 1


def write_block(block: int, *, seed: int, n_tokens: int) -> bytes:
    """Return rows of a NOTEEVENTS.csv with about so many tokens."""
    draw = np.random.default_rng([seed, block])
    n_sections = n_tokens // SECTION_TOKENS + 1
    ends = np.cumsum(draw.integers(SECTION_TOKENS // 2, 3 * SECTION_TOKENS // 2 + 1, n_sections))
    n = int(ends[-1])
    header = by_zipf(draw, len(headers()), n_sections)
    header_of = np.repeat(header, np.diff(ends, prepend=0))
    ids = by_zipf(draw, N_WORDS, n)
    ids = np.where(
        draw.random(n) < 0.25, (ids + 37 * header_of) % N_WORDS, ids
    )  # a section has words of its own
    text = np.empty((n, 2), object)  # each word, and what follows it
    text[:, 0] = words()[ids]
    text[:, 1] = np.array(SEPARATORS, object)[draw.choice(len(SEPARATORS), n, p=SHARES)]
    rare = draw.integers(n, size=n // 300)
    halves = draw.integers(N_RARE, size=(2, rare.size))
    text[rare, 0] = words()[-1 - halves[0]] + words()[halves[1]]
    _plant(draw, text[:, 0], header_of)

    begins = np.append(True, draw.random(n_sections - 1) < SECTION_TOKENS / NOTE_TOKENS)
    category = np.array(CATEGORIES, object)[by_zipf(draw, len(CATEGORIES), n_sections)]
    first_row = (block % KEPT_OUT) * BLOCK_TOKENS + block // KEPT_OUT * (1 << 50)
    openings = [
        f'"\n{first_row + number},{number % 9973},{number % 7919},2150-01-{number % 28 + 1:02},,,'
        f'"{category[number]}","Report",,,"{title}:\n' if begins[number] else f"\n\n{title}:\n"
        for number, title in enumerate(headers()[header])
    ]  # fmt: skip
    text[ends[:-1] - 1, 1] = openings[1:]
    text[-1, 1] = '"\n'
    return (openings[0].removeprefix('"\n') + "".join(text.ravel().tolist())).encode()


def _plant(draw: np.random.Generator, written: Strings, header_of: npt.NDArray[np.int64]) -> None:
    """Write long forms over some words; header and neighbours mostly tell which sense of a short form it is."""
    places = draw.integers(2, written.size - 2, size=written.size // 300)
    form = draw.integers(N_SHORT_FORMS, size=places.size)
    told = (form + header_of[places]) % N_SENSES
    sense = np.where(draw.random(places.size) < 0.8, told, draw.integers(N_SENSES, size=places.size))
    number = form * N_SENSES + sense
    written[places] = np.array([form for forms in senses() for form in forms], object)[number]
    for offset in (-2, -1, 1, 2):
        cued = draw.random(places.size) < 0.5
        cue = 500 + number * N_CUES + draw.integers(N_CUES, size=places.size)
        written[places[cued] + offset] = words()[cue[cued]]


def write_noteevents(path: Path, *, n_tokens: int, seed: int, workers: int, first_block: int = 0) -> None:
    """Write a NOTEEVENTS.csv of about so many tokens."""
    n_blocks = -(-n_tokens // BLOCK_TOKENS)
    write = partial(write_block, seed=seed, n_tokens=n_tokens // n_blocks)
    with path.open("wb") as file, ProcessPoolExecutor(workers) as pool:
        file.write((",".join(f'"{column}"' for column in COLUMNS) + "\n").encode())
        for rows in pool.map(write, range(first_block, first_block + n_blocks)):
            file.write(rows)


class Stage(NamedTuple):
    """A command that ran: its seconds, its peak memory in bytes, and what it printed."""

    seconds: float
    peak: int
    first_word: float | None  # seconds until it said something
    result: Any


def run_stage(*arguments: object) -> Stage:
    """Run a command of lmcells in a process of its own, and look at the memory of its process tree."""
    command = [sys.executable, "-m", "lmcells", *map(str, arguments), "--json"]
    with tempfile.TemporaryFile("w+") as printed:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=printed, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        peak, done = 0, threading.Event()

        def watch() -> None:
            nonlocal peak
            while not done.wait(0.1):
                peak = max(peak, anonymous_memory(process.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        first_word, last_word = None, ""
        for line in process.stderr:
            first_word, last_word = first_word or time.perf_counter() - started, line
        process.wait()
        seconds = time.perf_counter() - started
        done.set()
        watcher.join()
        if process.returncode:
            sys.exit(f"{' '.join(command[1:5])} ... failed: {last_word.strip()}")
        printed.seek(0)
        return Stage(seconds, peak, first_word, json.load(printed))


def anonymous_memory(pid: int) -> int:
    """Return the memory, in bytes, of a process and its descendants that no file backs."""
    total = 0
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Anonymous:"):
                total += int(line.split()[1]) * 1024
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += sum(anonymous_memory(int(child)) for child in (task / "children").read_text().split())
    except OSError:  # it has just ended
        pass
    return total


def measure(n_tokens: int, folder: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run all stages at one size; -> a row for each."""
    folder.mkdir(parents=True)
    notes, kept_out, senses_file = folder / "NOTEEVENTS.csv", folder / "kept_out.csv", folder / "senses.json"
    corpus, model, dataset = folder / "corpus", folder / "model", folder / "reverse.jsonl"
    workers, seed = options.workers, options.seed
    started = time.perf_counter()
    write_noteevents(notes, n_tokens=n_tokens, seed=seed, workers=workers)
    n_kept_out = min(n_tokens // 5, BLOCK_TOKENS)
    write_noteevents(kept_out, n_tokens=n_kept_out, seed=seed, workers=1, first_block=KEPT_OUT)
    senses_file.write_text(json.dumps(inventory()), encoding="utf-8")
    rows: list[dict[str, Any]] = []

    def add(stage: str, seconds: float, peak: int | None = None, note: str = "") -> None:
        size = {"tokens": n_tokens, "gigabytes": round(notes.stat().st_size / 1e9, 3)}
        gigabytes = None if peak is None else round(peak / 1e9, 2)
        rows.append(
            {**size, "stage": stage, "seconds": round(seconds, 2), "peak_gigabytes": gigabytes, "note": note}
        )
        print(f"{n_tokens:,} tokens, {stage}: {seconds:.1f} s {note}", file=sys.stderr, flush=True)

    add("write the notes", time.perf_counter() - started)
    prepared = run_stage("prepare", notes, "--output", corpus, "--sections", "paper", "--workers", workers)
    sizes = prepared.result["sizes"]
    add(
        "prepare",
        prepared.seconds,
        prepared.peak,
        f"{sizes['n_tokens']:,} tokens, {sizes['n_words']:,} words",
    )

    settings = ("--preset", "paper", "--epochs", options.epochs, "--batch-size", options.batch_size)
    where = ("--seed", seed, "--device", options.device)
    overrides = [part for override in options.set for part in ("--set", override)]
    trained = run_stage("train", corpus, "--output", model, *settings, *where, *overrides)
    steps = float(trained.result["seconds"])
    start = trained.first_word or 0.0
    rate = f"{trained.result['centers']:,} centers, {trained.result['centers'] / steps:,.0f} a second"
    add("train, start", start)
    add("train, steps", steps, note=rate)
    add("train, end", trained.seconds - start - steps)
    add("train, all", trained.seconds, trained.peak)

    asked = ("--inventory", senses_file, "--output", dataset, "--sections", "paper")
    made = run_stage("dataset", "reverse", kept_out, *asked, "--max-per-sense", options.max_per_sense)
    add("dataset reverse", made.seconds, made.peak, f"{made.result['datasets'][0]['n_examples']:,} examples")
    scored = run_stage(
        "evaluate", model, "--dataset", dataset, "--inventory", senses_file, "--corpus", corpus
    )
    accuracy = scored.result[0]["accuracy"]
    add("evaluate", scored.seconds, scored.peak, f"accuracy {accuracy:.3f}, {1 / N_SENSES:.3f} by chance")
    if not options.keep:
        shutil.rmtree(folder)
    return rows


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield "| tokens | CSV, GB | stage | seconds | peak memory, GB | |"
    yield "|---|---|---|---|---|---|"
    for row in rows:
        peak = "" if row["peak_gigabytes"] is None else f"{row['peak_gigabytes']:.2f}"
        yield (
            f"| {row['tokens'] / 1e6:,.3g} M | {row['gigabytes']:.2f} | {row['stage']} | {row['seconds']:.1f} "
            f"| {peak} | {row['note']} |"
        )


def main() -> None:
    """Measure the sizes that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "--tokens",
        type=float,
        nargs="+",
        default=[35e6, 104e6, 346e6],
        metavar="N",
        help="sizes of the corpus",
    )
    add("--output", type=Path, default=Path("build/end_to_end"), metavar="DIR", help="folder to write")
    add("--batch-size", type=int, default=65_536, metavar="N")
    add("--epochs", type=int, default=1, metavar="N")
    add(
        "--workers", type=int, default=len(os.sched_getaffinity(0)), metavar="N", help="processes (all cores)"
    )
    add("--device", default="auto", metavar="auto|cpu|cuda")
    add("--seed", type=int, default=0, metavar="N")
    add("--max-per-sense", type=int, default=50, metavar="N", help="examples to evaluate on")
    add(
        "--set",
        action="append",
        default=[],
        metavar="TABLE.KEY=VALUE",
        help="setting of train; may be repeated",
    )
    add("--keep", action="store_true", help="keep notes, corpora and models")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for n_tokens in map(int, options.tokens):
        folder = options.output / f"{n_tokens}"
        shutil.rmtree(folder, ignore_errors=True)
        rows += measure(n_tokens, folder, options)
        (options.output / "results.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
