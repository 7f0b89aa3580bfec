"""`lmcells export`: annotations -> the formats of annotation tools and of OMOP."""

import argparse
from pathlib import Path

from lmcells.cli.arguments import add_json
from lmcells.cli.terminal import account_rows, print_json, print_table
from lmcells.errors import ConfigError, InputError
from lmcells.integrations.exports import export_brat, export_doccano, export_label_studio, read_annotated
from lmcells.integrations.omop import NlpRun, export_note_nlp
from lmcells.integrations.rows import NoteFiles
from lmcells.notes.readers import FORMATS, Columns, ReadReport

SUMMARY = "write annotations for brat, doccano, Label Studio or OMOP"
DESCRIPTION = """\
Join what `lmcells annotate` wrote with the notes it was made from, and write it for an annotation tool: brat (a
folder), doccano (JSON lines) or Label Studio (JSON, and its labeling configuration as .xml); or as OMOP's NOTE_NLP."""
EXAMPLE = """\
examples:
  lmcells export expansions.jsonl --notes notes/ --to brat --output brat_folder
  lmcells export expansions.parquet --notes notes.csv --to label-studio --output tasks.json
  lmcells export expansions.csv --notes note.csv --to omop --output note_nlp.csv"""

_WRITERS = {"brat": export_brat, "doccano": export_doccano, "label-studio": export_label_studio}
_SUFFIX = {"doccano": ".jsonl", "label-studio": ".json"}
_WRITTEN = {"brat": "documents", "doccano": "documents", "label-studio": "tasks", "omop": "rows"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("annotations", type=Path, metavar="ANNOTATIONS", help="what lmcells annotate wrote")
    parser.add_argument(
        "--notes", required=True, nargs="+", type=Path, metavar="NOTES", help="the notes it was made from"
    )
    parser.add_argument("--to", required=True, choices=tuple(_WRITTEN), help="what to write")
    parser.add_argument(
        "--output", required=True, type=Path, metavar="OUT", help="folder to write (brat), or file"
    )
    parser.add_argument(
        "--format", choices=FORMATS, default="auto", help="format of the notes (found automatically)"
    )
    parser.add_argument("--text-column", metavar="NAME", help="where the text is")
    parser.add_argument("--id-column", metavar="NAME", help="where the id is")
    parser.add_argument(
        "--nlp-date", metavar="DATE", help="date, or date and time, of the rows of NOTE_NLP (now)"
    )
    add_json(parser)


def run(options: argparse.Namespace) -> None:
    """Write the export and print how much there is."""
    _check(options)
    report = ReadReport()
    columns = Columns(text=options.text_column, id=options.id_column)
    notes = read_annotated(
        options.annotations, NoteFiles(options.notes, options.format, columns), report=report
    )
    try:
        if options.to == "omop":
            run = NlpRun.parse(options.nlp_date) if options.nlp_date else None
            n_written = export_note_nlp(notes, options.output, run=run)
        else:
            n_written = _WRITERS[options.to](notes, options.output)
    except OSError as error:
        raise InputError(f"{options.output} cannot be written: {error.strerror or error}.") from error
    if options.json:
        print_json({"output": str(options.output), "n_written": n_written, **report.to_dict()})
    else:
        rows = [
            ("notes read", report.n_read),
            *account_rows(report.to_dict()),
            (_WRITTEN[options.to], n_written),
        ]
        print_table(rows, title=f"{options.output}")


def _check(options: argparse.Namespace) -> None:
    expected = _SUFFIX.get(options.to)
    if expected and options.output.suffix.lower() != expected:
        raise ConfigError(f"--output {options.output}: for {options.to} its name must end in {expected}.")
    if options.output.exists():
        raise InputError(f"{options.output} exists already. Choose another --output.")
    if options.nlp_date and options.to != "omop":
        raise ConfigError("--nlp-date is for --to omop. Leave it out.")
