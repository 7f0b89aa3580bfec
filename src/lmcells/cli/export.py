"""`lmcells export`: annotations -> the formats of annotation tools and of OMOP."""

import argparse
from pathlib import Path

from lmcells.cli.annotate import add_note_files, note_files
from lmcells.cli.arguments import Command, add_json
from lmcells.cli.terminal import account_rows, print_json, print_table
from lmcells.errors import ConfigError, InputError
from lmcells.integrations.exports import export_brat, export_doccano, export_label_studio, read_annotated
from lmcells.integrations.omop import export_note_nlp, parse_nlp_time
from lmcells.notes.readers import ReadReport

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
        "--output", required=True, type=Path, metavar="OUT", help="folder (brat) or file to write"
    )
    add_note_files(parser)
    parser.add_argument("--nlp-date", metavar="DATE", help="date, or date and time, for omop (now)")
    add_json(parser)


def run(options: argparse.Namespace) -> None:
    """Write the export and print how much there is."""
    suffix = _SUFFIX.get(options.to, options.output.suffix.lower())
    if options.output.suffix.lower() != suffix:
        raise ConfigError(f"--output {options.output}: for {options.to} its name must end in {suffix}.")
    if options.output.exists():
        raise InputError(f"{options.output} exists already. Choose another --output.")
    if options.nlp_date and options.to != "omop":
        raise ConfigError("--nlp-date is for --to omop. Leave it out.")
    report = ReadReport()
    notes = read_annotated(options.annotations, note_files(options.notes, options), report=report)
    try:
        if options.to == "omop":
            time = parse_nlp_time(options.nlp_date) if options.nlp_date else None
            n_written = export_note_nlp(notes, options.output, time=time)
        else:
            n_written = _WRITERS[options.to](notes, options.output)
    except OSError as error:
        raise InputError(f"{options.output} cannot be written: {error.strerror or error}.") from error
    counts = report.to_dict()
    if options.json:
        print_json({"output": str(options.output), "n_written": n_written, **counts})
    else:
        rows = [("notes read", report.n_read), *account_rows(counts), (_WRITTEN[options.to], n_written)]
        print_table(rows, title=f"{options.output}")


COMMANDS = {
    "export": Command(
        summary="write annotations for brat, doccano, Label Studio or OMOP",
        description="""\
Join what `lmcells annotate` wrote with the notes it was made from, and write it for an annotation tool: brat (a
folder), doccano (JSON lines) or Label Studio (JSON, and its labeling configuration as .xml); or as OMOP's NOTE_NLP.""",
        example="""\
examples:
  lmcells export expansions.jsonl --notes notes/ --to brat --output brat_folder
  lmcells export expansions.parquet --notes notes.csv --to label-studio --output tasks.json
  lmcells export expansions.csv --notes note.csv --to omop --output note_nlp.csv""",
        add_arguments=add_arguments,
        run=run,
    )
}
