"""Estimate what the paper's protocol costs on this machine: the rate of each model at the paper's sizes, and hours.

    PYTHONPATH=src python benchmarks/protocol_costs.py --seconds 120

Trains each kind with `lmcells train --preset paper` on synthetic notes with MIMIC's numbers of words (100,000) and
sections (10,000), drawn by Zipf's law, and stops after some time. The rate excludes the first seconds (`--warm-up`),
when kernels are compiled; the rates of both halves show how steady it is. Hours are for the paper's five epochs of 289
million centers (what subsampling leaves of the 346 million tokens of `end_to_end.py`; ELMo reads all tokens), without
start-up and the time after the last step.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

CENTERS, TOKENS, EPOCHS, SEEDS = 289e6, 346e6, 5, 5
KINDS = {"lmc": "centers", "mbsge": "centers", "bsg": "centers", "elmo": "words"}
FILES = 8  # of synthetic notes
LONGEST_START = 180  # seconds to the first report


def write_notes(
    seed: int, *, folder: Path, n_tokens: int, n_words: int = 100_000, n_sections: int = 10_000
) -> None:
    """Write a file of notes of ten sections with a hundred words each."""
    draw = np.random.default_rng(seed)
    word_bounds, section_bounds = (np.cumsum(1 / np.arange(1, n + 1)) for n in (n_words, n_sections))
    names = np.array([f"w{number:x}q" for number in range(n_words)])
    with (folder / f"{seed}.jsonl").open("w", encoding="utf-8") as file:
        for note in range(n_tokens // 1000):
            words = names[np.searchsorted(word_bounds, draw.random(1000) * word_bounds[-1])].reshape(10, 100)
            headers = np.searchsorted(section_bounds, draw.random(10) * section_bounds[-1]).tolist()
            sections = [
                {"header": f"SECTION {header}", "text": " ".join(text)}
                for header, text in zip(headers, words, strict=True)
            ]
            note_of = {"id": f"n/{seed}-{note}", "category": f"kind {note % 16}", "sections": sections}
            file.write(json.dumps(note_of) + "\n")


def reports_of(metrics: Path) -> list[dict[str, float]]:
    """The reports of a training run so far; its last line may still be incomplete."""
    text = metrics.read_text() if metrics.exists() else ""
    reports = map(json.loads, text[: text.rfind("\n") + 1].splitlines())
    return [report for report in reports if "seconds" in report]


def measure(kind: str, corpus: Path, options: argparse.Namespace) -> float:
    """Train for some time; -> centers or words per second."""
    output = corpus.parent / kind
    command = [sys.executable, "-m", "lmcells", "train", str(corpus), "--output", str(output)]
    command += ["--kind", kind, "--preset", "paper", "--epochs", "1000"]
    command += ["--batch-size", str(options.batch_size)] if options.batch_size and kind != "elmo" else []
    metrics = corpus.parent / f"{kind}.training" / "metrics.jsonl"
    latest = time.monotonic() + LONGEST_START
    reports: list[dict[str, float]] = []  # after the warm-up
    log = corpus.parent / f"{kind}.log"
    with log.open("w") as said, subprocess.Popen(command, stdout=said, stderr=said) as training:
        while training.poll() is None and (
            not reports or reports[-1]["seconds"] - reports[0]["seconds"] < options.seconds
        ):
            if not reports and time.monotonic() > latest + options.warm_up:
                break
            time.sleep(0.5)
            reports = [each for each in reports_of(metrics) if each["seconds"] > options.warm_up]
        training.kill()
    if len(reports) < 3:
        end_of_log = "\n".join(log.read_text().splitlines()[-5:])
        raise SystemExit(
            f"{kind}: fewer than three reports after {options.warm_up} s; it said:\n{end_of_log}"
        )
    unit, middle = KINDS[kind], len(reports) // 2
    spans = [(reports[0], reports[-1]), (reports[0], reports[middle]), (reports[middle], reports[-1])]
    rate, *halves = (
        (last[unit] - first[unit]) / (last["seconds"] - first["seconds"]) for first, last in spans
    )
    seconds, memory = reports[-1]["seconds"] - reports[0]["seconds"], reports[-1]["peak_memory"] / 1e9
    of_halves = " and ".join(f"{half:,.0f}" for half in halves)
    print(f"{kind}: {rate:,.0f} {unit}/s over {seconds:.0f} s (halves: {of_halves}), {memory:.1f} GB")
    return float(rate)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=120.0, help="of each model (120)")
    parser.add_argument("--warm-up", type=float, default=20.0, metavar="SECONDS", help="not counted (20)")
    parser.add_argument("--tokens", type=int, default=64_000_000, help="of the corpus (64,000,000)")
    parser.add_argument("--batch-size", type=int, help="centers per step (the preset's, 1,024)")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        notes, corpus = Path(temporary) / "notes", Path(temporary) / "corpus"
        notes.mkdir()
        with ProcessPoolExecutor() as pool:
            write = partial(write_notes, folder=notes, n_tokens=options.tokens // FILES)
            list(pool.map(write, range(FILES)))
        prepare = ["prepare", str(notes), "--output", str(corpus)]
        prepare += ["--min-count", "0", "--min-header-count", "1", "--workers", str(FILES)]
        subprocess.run([sys.executable, "-m", "lmcells", *prepare], check=True)
        total = 0.0
        for kind in options.kinds:
            rate = measure(kind, corpus, options)
            hours = EPOCHS * (TOKENS if kind == "elmo" else CENTERS) / rate / 3600
            total += SEEDS * hours
            print(f"{kind}: {hours:.2f} hours for one run, {SEEDS * hours:.1f} for {SEEDS} seeds", flush=True)
    print(f"all: {total:.1f} hours")


if __name__ == "__main__":
    main()
