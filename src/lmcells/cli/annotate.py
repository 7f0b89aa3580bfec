"""`lmcells annotate`: files of notes -> one row per expansion."""

import argparse
import sys
from contextlib import nullcontext, redirect_stdout
from datetime import datetime
from pathlib import Path
from typing import Any

from lmcells.cli import arguments
from lmcells.cli.arguments import Command, adder
from lmcells.cli.terminal import ProgressLine, account_rows, print_result
from lmcells.errors import ConfigError
from lmcells.expansion.reader import SECTION_STYLES
from lmcells.integrations.annotate import annotate, annotate
from lmcells.integrations.omop import parse_nlp_time
from lmcells.integrations.shards import ENGINES, SHARD_NOTES


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    add = adder(parser)
    add("notes INPUT", "file or folder of notes, - for standard input", nargs="+", type=Path)
    written = "file to write: .jsonl, .csv or .parquet; - writes JSON lines to standard output"
    arguments.add_output(parser, "OUT", written, replaces="a file")
    text = "rows: the fields of an expansion and note_id; omop: rows of NOTE_NLP"
    add("--output-format", text, one_of=("rows", "omop"))
    arguments.add_note_nlp(parser)
    expanding = parser.add_argument_group("expanding")
    arguments.add_expander(expanding)
    arguments.add_finding(expanding)
    text = "how to find sections that the file does not give"
    adder(expanding)("--sections", text, one_of=SECTION_STYLES)
    arguments.add_columns(parser.add_argument_group("reading notes"))
    add = adder(arguments.add_running(parser, resumes="a job"))
    add("--engine", "where to run", one_of=ENGINES)
    add("--workers N", "processes, each of which loads the model (1)", type=int, default=1)
    add("--shard-notes N", "notes per shard (%(default)d)", type=int, default=SHARD_NOTES)


def run(options: argparse.Namespace) -> None:
    """Expand the notes and print the counts."""
    omop = options.output_format == "omop"
    note_nlp = arguments.note_nlp_options(options, is_omop=omop, flag="--output-format")
    with ProgressLine() as line:
        notes = arguments.note_files(options)
        nlp_time = parse_nlp_time(options.nlp_date) if options.nlp_date else None
        running: dict[str, Any] = {
            "expander": arguments.expander_settings(options),
            "note_nlp": note_nlp,
            **{name: getattr(options, name) for name in ("engine", "workers", "shard_notes")},
            "on_progress": line.notes,
        }
        if to_stdout := options.output == Path("-"):
            if options.resume:
                raise ConfigError("--resume: standard output cannot be written again. Write to a file.")
            nlp_time = (nlp_time or datetime.now()) if omop else None
            report = annotate(notes, sys.stdout.buffer, nlp_time=nlp_time, **running)
        else:
            keep = {"resume": options.resume, "overwrite": options.overwrite}
            report = annotate(notes, options.output, omop=omop, nlp_time=nlp_time, **keep, **running)
    title = "standard output" if to_stdout else str(options.output)
    with redirect_stdout(sys.stderr) if to_stdout else nullcontext():  # standard output is for the rows
        print_result(options, {"output": str(options.output), **report}, [(title, _summary(report))])


def _summary(report: dict[str, Any]) -> list[tuple[str, Any]]:
    return [
        ("notes read", report["n_read"]),
        *account_rows(report),
        *((f"not expanded: {reason}", n) for reason, n in report["failed"].items()),
        ("short forms found", report["n_expansions"]),
        ("expanded by the model", report["expanded"]["model"]),
        ("expanded by a definition in the note", report["expanded"]["definition"]),
        *([("pinned by the inventory", n)] if (n := report["expanded"]["pinned"]) else []),
        ("abstained", sum(report["abstained"].values())),
        *((f"abstained: {reason}", n) for reason, n in report["abstained"].items()),
    ]


_ANNOTATE = """\
expand the short forms of files of notes

Expand the short forms of whole files and folders of notes, and write one row per expansion: JSON lines, CSV or Parquet,
by the name of --output. OUT.report.json holds exact counts; if rows were skipped, OUT.rejected.jsonl has the file, line
and reason of each. A job that was stopped continues with --resume; neither that nor --workers or --engine changes the
output by a byte.

examples:
  lmcells annotate notes.jsonl more/ --output expansions.parquet --workers 8
  lmcells annotate NOTEEVENTS.csv.gz --output expansions.jsonl --resume
  zcat notes.jsonl.gz | lmcells annotate - --output - | jq -r .long_form
  lmcells annotate note.csv --output note_nlp.csv --output-format omop"""
COMMANDS = {"annotate": Command(_ANNOTATE, add_arguments, run)}
