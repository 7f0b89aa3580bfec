"""`lmcells annotate`: files of notes -> one row per expansion."""

import argparse
import time
from pathlib import Path
from typing import Any

from lmcells.cli.arguments import Command, add_json
from lmcells.cli.terminal import ProgressLine, account_rows, notes_message, print_json, print_table
from lmcells.errors import ConfigError
from lmcells.expansion.reader import SECTION_STYLES
from lmcells.integrations.annotate import annotate
from lmcells.integrations.engines import ENGINES
from lmcells.integrations.omop import parse_nlp_time
from lmcells.integrations.rows import NoteFiles
from lmcells.integrations.shards import SHARD_NOTES, ExpanderSettings
from lmcells.notes.readers import FORMATS, Columns


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("inputs", nargs="+", type=Path, metavar="INPUT", help="file or folder of notes")
    parser.add_argument(
        "--output", required=True, type=Path, metavar="OUT", help="file to write: .jsonl, .csv or .parquet"
    )
    parser.add_argument(
        "--output-format",
        choices=("rows", "omop"),
        default="rows",
        help="rows: the fields of an expansion and note_id; omop: rows of NOTE_NLP (rows)",
    )
    parser.add_argument(
        "--nlp-date", metavar="DATE", help="date, or date and time, for omop (the job's start)"
    )
    expanding = parser.add_argument_group("expanding")
    expanding.add_argument("--model", metavar="DIR", help="model folder (the shipped one)")
    expanding.add_argument("--inventory", metavar="FILE", help="senses, JSON or CSV (the shipped ones)")
    expanding.add_argument(
        "--sections",
        choices=SECTION_STYLES,
        default="rules",
        help="how to find sections that the file does not give (rules)",
    )
    expanding.add_argument(
        "--threshold", type=float, metavar="P", help="abstain below this probability (the model's own)"
    )
    add_note_files(parser.add_argument_group("reading notes"))
    running = parser.add_argument_group("running")
    running.add_argument("--engine", choices=ENGINES, default="local", help="where to run (local)")
    running.add_argument(
        "--workers", type=int, default=1, metavar="N", help="processes, each of which loads the model (1)"
    )
    running.add_argument(
        "--shard-notes", type=int, default=SHARD_NOTES, metavar="N", help="notes per shard (%(default)d)"
    )
    running.add_argument("--resume", action="store_true", help="continue a job that was stopped")
    running.add_argument("--overwrite", action="store_true", help="replace an existing file")
    add_json(running)


def add_note_files(parser: argparse._ActionsContainer) -> None:
    """Declare how notes are read."""
    parser.add_argument("--format", choices=FORMATS, default="auto", help="format of the notes (auto)")
    parser.add_argument("--text-column", metavar="NAME", help="column of the text")
    parser.add_argument("--id-column", metavar="NAME", help="column of the id")


def note_files(paths: list[Path], options: argparse.Namespace) -> NoteFiles:
    """Return the notes that the options describe."""
    return NoteFiles(paths, options.format, Columns(text=options.text_column, id=options.id_column))


def run(options: argparse.Namespace) -> None:
    """Expand the notes and print the counts."""
    omop = options.output_format == "omop"
    if options.nlp_date and not omop:
        raise ConfigError("--nlp-date is for --output-format omop. Leave it out.")
    with ProgressLine() as line:
        started = time.monotonic()

        def on_progress(n_notes: int, n_characters: int) -> None:
            line.update(notes_message(n_notes, n_characters, seconds=time.monotonic() - started))

        report = annotate(
            note_files(options.inputs, options),
            options.output,
            expander=ExpanderSettings(options.model, options.inventory, options.sections, options.threshold),
            omop=omop,
            nlp_time=parse_nlp_time(options.nlp_date) if options.nlp_date else None,
            engine=options.engine,
            workers=options.workers,
            shard_notes=options.shard_notes,
            resume=options.resume,
            overwrite=options.overwrite,
            on_progress=on_progress,
        )
    if options.json:
        print_json({"output": str(options.output), **report})
    else:
        print_table(_summary(report), title=f"{options.output}")


def _summary(report: dict[str, Any]) -> list[tuple[str, Any]]:
    return [
        ("notes read", report["n_read"]),
        *account_rows(report),
        *((f"not expanded: {reason}", n) for reason, n in report["failed"].items()),
        ("short forms found", report["n_expansions"]),
        ("expanded by the model", report["expanded"]["model"]),
        ("expanded by a definition in the note", report["expanded"]["definition"]),
        ("abstained", sum(report["abstained"].values())),
        *((f"abstained: {reason}", n) for reason, n in report["abstained"].items()),
    ]


COMMANDS = {
    "annotate": Command(
        summary="expand the short forms of files of notes",
        description="""\
Expand the short forms of whole files and folders of notes, and write one row per expansion: JSON lines, CSV or Parquet,
by the name of --output. OUT.report.json holds exact counts; if rows were skipped, OUT.rejected.jsonl has the file, line
and reason of each. A job that was stopped continues with --resume; neither that nor --workers or --engine changes the
output by a byte.""",
        example="""\
examples:
  lmcells annotate notes.jsonl more/ --output expansions.parquet --workers 8
  lmcells annotate NOTEEVENTS.csv.gz --output expansions.jsonl --resume
  lmcells annotate note.csv --output note_nlp.csv --output-format omop""",
        add_arguments=add_arguments,
        run=run,
    )
}
