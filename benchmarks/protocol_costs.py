"""Estimate what the paper's protocol costs on this machine: the rate of each model at the paper's sizes, and hours.

    PYTHONPATH=src python benchmarks/protocol_costs.py --minutes 2

Trains each kind with `lmcells train --preset paper` on synthetic notes with MIMIC's numbers of words (100,000) and
sections (10,000), drawn by Zipf's law, and stops after a few minutes. The rate excludes the first 20 seconds, when
kernels are compiled. Hours are for the paper's five epochs of 254 million centers (346 million tokens after
subsampling; ELMo reads all tokens), excluding start-up and the time after the last step.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

CENTERS, TOKENS, EPOCHS, SEEDS = 254e6, 346e6, 5, 5
WARM_UP = 20  # seconds
KINDS = {"lmc": "centers", "mbsge": "centers", "bsg": "centers", "elmo": "words"}


def write_notes(path: Path, n_tokens: int, *, n_words: int = 100_000, n_sections: int = 10_000) -> None:
    """Write notes of ten sections with a hundred words each."""
    draw = np.random.default_rng(0)
    word_bounds, section_bounds = (np.cumsum(1 / np.arange(1, n + 1)) for n in (n_words, n_sections))
    names = np.array([f"w{number:x}q" for number in range(n_words)])
    with path.open("w", encoding="utf-8") as file:
        for note in range(n_tokens // 1000):
            words = names[np.searchsorted(word_bounds, draw.random(1000) * word_bounds[-1])].reshape(10, 100)
            headers = np.searchsorted(section_bounds, draw.random(10) * section_bounds[-1]).tolist()
            sections = [
                {"header": f"SECTION {header}", "text": " ".join(text)}
                for header, text in zip(headers, words, strict=True)
            ]
            note_of = {"id": f"n/{note}", "category": f"kind {note % 16}", "sections": sections}
            file.write(json.dumps(note_of) + "\n")


def measure(kind: str, corpus: Path, folder: Path, minutes: float, batch_size: int | None) -> float:
    """Train for some minutes; -> centers or words a second."""
    command = [sys.executable, "-m", "lmcells", "train", str(corpus), "--output", str(folder / kind)]
    command += ["--kind", kind, "--preset", "paper", "--epochs", "1000"]
    command += ["--batch-size", str(batch_size)] if batch_size and kind != "elmo" else []
    subprocess.run(
        ["timeout", "--signal", "TERM", str(int(60 * minutes) + WARM_UP + 15), *command], check=False
    )
    lines = (folder / f"{kind}.training" / "metrics.jsonl").read_text().splitlines()
    reports = [each for each in map(json.loads, lines) if each.get("seconds", 0) > WARM_UP]
    if len(reports) < 2:
        raise SystemExit(f"{kind}: fewer than two reports after {WARM_UP} s; give more --minutes.")
    first, last = reports[0], reports[-1]
    done, seconds = last[KINDS[kind]] - first[KINDS[kind]], last["seconds"] - first["seconds"]
    print(f"{kind}: {done / seconds:,.0f} {KINDS[kind]}/s over {seconds:.0f} s", flush=True)
    return float(done / seconds)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=2.0, help="of each model (2)")
    parser.add_argument("--tokens", type=int, default=20_000_000, help="of the corpus (20,000,000)")
    parser.add_argument("--batch-size", type=int, help="centers a step (the preset's, 1,024)")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_notes(folder / "notes.jsonl", options.tokens)
        prepare = ["prepare", str(folder / "notes.jsonl"), "--output", str(folder / "corpus")]
        prepare += ["--min-count", "0", "--min-header-count", "1", "--workers", "8"]
        subprocess.run([sys.executable, "-m", "lmcells", *prepare], check=True)
        total = 0.0
        for kind in options.kinds:
            rate = measure(kind, folder / "corpus", folder, options.minutes, options.batch_size)
            hours = EPOCHS * (TOKENS if kind == "elmo" else CENTERS) / rate / 3600
            total += SEEDS * hours
            print(f"{kind}: {hours:.2f} hours for one run, {SEEDS * hours:.1f} for {SEEDS} seeds", flush=True)
    print(f"all: {total:.1f} hours")


if __name__ == "__main__":
    main()
