"""`lmcells prepare`: notes -> a corpus."""

import argparse
import os
import time
from pathlib import Path

from lmcells.cli.arguments import add_reading, add_running
from lmcells.cli.terminal import ProgressLine, account_rows, notes_message, print_json, print_table
from lmcells.corpus import layout
from lmcells.corpus.build import BuildProgress, NoteSource, Scanned, build_corpus
from lmcells.corpus.settings import CorpusSettings
from lmcells.errors import ConfigError
from lmcells.files import sha256
from lmcells.notes.readers import Columns

SUMMARY = "turn notes into a corpus for training"
DESCRIPTION = """\
Read clinical notes, find their sections and words, and write a compact corpus that training reads through
memory maps. Files may be plain or gzip; folders are read in sorted order."""
EXAMPLE = """\
examples:
  lmcells prepare NOTEEVENTS.csv.gz --output corpus --sections paper
  lmcells prepare notes.jsonl more/ --output corpus --exclude-ids test_ids.txt --workers 8
  lmcells prepare news.parquet --output corpus --text-column body --metadata-column topic"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("inputs", nargs="+", type=Path, metavar="INPUT", help="file or folder of notes")
    parser.add_argument("--output", required=True, type=Path, metavar="CORPUS", help="folder to write")
    reading = add_reading(parser)
    reading.add_argument("--category-column", metavar="NAME", help="where the note type is")
    reading.add_argument(
        "--metadata-column",
        action="append",
        default=[],
        metavar="NAME",
        help="further metadata; may be repeated",
    )
    kept = parser.add_argument_group("what is kept")
    kept.add_argument(
        "--min-count", type=int, default=10, metavar="N", help="keep words seen more than N times (10)"
    )
    kept.add_argument(
        "--min-header-count",
        type=int,
        default=10,
        metavar="N",
        help="headers seen at least N times get an id (10)",
    )
    kept.add_argument(
        "--exclude-ids", type=Path, metavar="FILE", help="ids, or a dataset, whose notes are left out"
    )
    kept.add_argument(
        "--stop-words", action="store_true", help='read words such as "of" and "the" too, not only the others'
    )
    kept.add_argument(
        "--spell-out",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="share of sections in which a short form that the note defines is read as its long form (0)",
    )
    running = add_running(parser, resumes="a build")
    running.add_argument("--overwrite", action="store_true", help="replace an existing corpus")
    running.add_argument(
        "--workers", type=int, default=_available_cores(), metavar="N", help="processes (all cores)"
    )


def run(options: argparse.Namespace) -> None:
    """Build the corpus and print what was read."""
    if options.workers < 1:
        raise ConfigError(f"--workers: found {options.workers}, allowed: 1 or more.")
    settings = CorpusSettings(
        sections=options.sections,
        min_count=options.min_count,
        min_header_count=options.min_header_count,
        metadata_columns=tuple(options.metadata_column),
        header_rules=sha256(options.header_rules)
        if options.header_rules and options.header_rules.is_file()
        else None,
        stop_words=options.stop_words,
        spelled_out=options.spell_out,
    )
    source = NoteSource(
        paths=options.inputs,
        format=options.format,
        columns=Columns(
            text=options.text_column,
            id=options.id_column,
            category=options.category_column,
            metadata=tuple(options.metadata_column),
        ),
        exclude_ids=options.exclude_ids,
        header_rules=options.header_rules,
    )
    with ProgressLine() as line:
        started = time.monotonic()

        def on_notes(scanned: Scanned) -> None:
            seconds = time.monotonic() - started
            line.update(notes_message(scanned.n_notes, scanned.n_characters, seconds=seconds))

        manifest = build_corpus(
            source,
            options.output,
            settings=settings,
            workers=options.workers,
            resume=options.resume,
            overwrite=options.overwrite,
            progress=BuildProgress(on_notes=on_notes, on_step=line.update),
        )
    if options.json:
        print_json({"corpus": str(options.output), **manifest.to_dict()})
    else:
        print_summary(options.output, manifest)


def print_summary(output: Path, manifest: layout.Manifest) -> None:
    """Print what was read and what was made of it."""
    report = manifest.report
    rows = [
        ("notes read", report["n_read"]),
        *account_rows(report),
    ]
    optional = {
        "notes excluded": report["n_excluded"],
        "excluded ids not found": report["n_excluded_ids_not_found"],
        "notes that repeat an id (kept)": report["n_repeated_ids"],
    }
    rows += [(name, count) for name, count in optional.items() if count]
    rows += [
        ("notes in the corpus", manifest.sizes["n_documents"]),
        ("tokens", manifest.sizes["n_tokens"]),
        ("words", manifest.sizes["n_words"]),
        *((f"{kind} values", count) for kind, count in manifest.metadata.items() if kind != "document"),
        ("bytes on disk", sum(file["bytes"] for file in manifest.files.values())),
    ]
    print_table(rows, title=f"{output}")


def _available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
