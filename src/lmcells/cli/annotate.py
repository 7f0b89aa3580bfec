"""`lmcells annotate`: files of notes -> one row an expansion."""

import argparse
import time
from pathlib import Path
from typing import Any

from lmcells.cli.arguments import add_json
from lmcells.cli.terminal import ProgressLine, account_rows, notes_message, print_json, print_table
from lmcells.errors import ConfigError
from lmcells.expansion.reader import SECTION_STYLES
from lmcells.integrations.annotate import Progress, annotate
from lmcells.integrations.annotation_shard import SHARD_NOTES, AnnotationTask, ExpanderSettings
from lmcells.integrations.engines import ENGINES
from lmcells.integrations.omop import NlpRun
from lmcells.integrations.rows import NoteFiles
from lmcells.notes.readers import FORMATS, Columns

SUMMARY = "expand the short forms of files of notes"
DESCRIPTION = """\
Expand the short forms of whole files and folders of notes, and write one row an expansion: JSON lines, CSV or Parquet,
by the name of --output. Beside it stand OUT.report.json with exact counts and, where rows were broken,
OUT.rejected.jsonl with the file, line and reason of each. A job that was stopped goes on with --resume; neither that
nor --workers or --engine changes the output by a byte."""
EXAMPLE = """\
examples:
  lmcells annotate notes.jsonl more/ --output expansions.parquet --workers 8
  lmcells annotate NOTEEVENTS.csv.gz --output expansions.jsonl --resume
  lmcells annotate note.csv --output note_nlp.csv --output-format omop"""

ROWS, OMOP = "rows", "omop"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("inputs", nargs="+", type=Path, metavar="INPUT", help="file or folder of notes")
    parser.add_argument(
        "--output", required=True, type=Path, metavar="OUT", help="file to write: .jsonl, .csv or .parquet"
    )
    parser.add_argument(
        "--output-format",
        choices=(ROWS, OMOP),
        default=ROWS,
        help="rows: the fields of an expansion and note_id; omop: rows of NOTE_NLP (rows)",
    )
    parser.add_argument(
        "--nlp-date",
        metavar="DATE",
        help="date, or date and time, of the rows of NOTE_NLP (when the job began)",
    )
    expanding = parser.add_argument_group("expanding")
    expanding.add_argument("--model", metavar="DIR", help="model folder (the shipped one)")
    expanding.add_argument("--inventory", metavar="FILE", help="senses, JSON or CSV (the shipped ones)")
    expanding.add_argument(
        "--sections",
        choices=SECTION_STYLES,
        default="rules",
        help="how sections are found where the file does not give them (rules)",
    )
    expanding.add_argument(
        "--threshold", type=float, metavar="P", help="abstain below this probability (the model's own)"
    )
    reading = parser.add_argument_group("reading notes")
    reading.add_argument(
        "--format", choices=FORMATS, default="auto", help="format of the notes (found automatically)"
    )
    reading.add_argument("--text-column", metavar="NAME", help="where the text is")
    reading.add_argument("--id-column", metavar="NAME", help="where the id is")
    running = parser.add_argument_group("running")
    running.add_argument("--engine", choices=ENGINES, default="local", help="who does the work (local)")
    running.add_argument(
        "--workers", type=int, default=1, metavar="N", help="processes, each of which loads the model (1)"
    )
    running.add_argument(
        "--shard-notes", type=int, default=SHARD_NOTES, metavar="N", help=f"notes in a part ({SHARD_NOTES})"
    )
    running.add_argument("--resume", action="store_true", help="go on with a job that was stopped")
    running.add_argument("--overwrite", action="store_true", help="replace an existing file")
    add_json(running)


def run(options: argparse.Namespace) -> None:
    """Expand the notes and print the counts."""
    task = AnnotationTask(
        ExpanderSettings(options.model, options.inventory, options.sections, options.threshold),
        _omop(options),
    )
    source = NoteFiles(
        options.inputs, options.format, Columns(text=options.text_column, id=options.id_column)
    )
    with ProgressLine() as line:
        started = time.monotonic()

        def on_progress(progress: Progress) -> None:
            seconds = time.monotonic() - started
            line.update(notes_message(progress.n_notes, progress.n_characters, seconds=seconds))

        report = annotate(
            source,
            options.output,
            task=task,
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
        print_table(summary_rows(report), title=f"{options.output}")


def _omop(options: argparse.Namespace) -> NlpRun | None:
    if options.output_format == OMOP:
        return NlpRun.parse(options.nlp_date) if options.nlp_date else NlpRun()
    if options.nlp_date:
        raise ConfigError(f"--nlp-date is for --output-format {OMOP}. Leave it out.")
    return None


def summary_rows(report: dict[str, Any]) -> list[tuple[str, Any]]:
    """Exact counts, a row of a table each."""
    n_abstained = sum(report["abstained"].values())
    return [
        ("notes read", report["n_read"]),
        *account_rows(report),
        *((f"not expanded: {reason}", n) for reason, n in report["failed"].items()),
        ("short forms found", report["n_expansions"]),
        ("expanded by the model", report["expanded"]["model"]),
        ("expanded by a definition in the note", report["expanded"]["definition"]),
        ("abstained", n_abstained),
        *((f"abstained: {reason}", n) for reason, n in report["abstained"].items()),
    ]
