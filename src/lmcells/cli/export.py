"""`lmcells export`: annotations -> the formats of annotation tools and of OMOP."""

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path

from lmcells.cli import arguments
from lmcells.cli.arguments import Command, adder
from lmcells.cli.terminal import account_rows, print_result
from lmcells.errors import ConfigError, InputError
from lmcells.integrations import exports
from lmcells.integrations.omop import export_note_nlp, parse_nlp_time
from lmcells.notes.readers import ReadReport

_FORMATS: dict[str, tuple[str, str | None, Callable[[Iterable[exports.AnnotatedNote], Path], int] | None]] = {
    "brat": ("documents", None, None),
    "doccano": ("documents", ".jsonl", exports.export_doccano),
    "label-studio": ("tasks", ".json", exports.export_label_studio),
    "omop": ("rows", None, None),
    "notes": ("notes", ".jsonl", exports.export_notes),
}  # what is written, the suffix of the file, and by which function where that needs no options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    add = adder(parser)
    add("annotations ANNOTATIONS", "file written by `lmcells annotate`", type=Path)
    add("--notes NOTES", "the notes that were annotated", required=True, nargs="+", type=Path)
    add("--to", "what to write", required=True, choices=tuple(_FORMATS))
    arguments.add_output(parser, "OUT", "folder (brat) or file to write", replaces="an export")
    arguments.add_columns(parser)
    arguments.add_note_nlp(parser)
    arguments.add_json(parser)


def run(options: argparse.Namespace) -> None:
    """Write the export and print how much there is."""
    what, suffix, write = _FORMATS[options.to]
    if suffix not in (None, options.output.suffix.lower()):
        raise ConfigError(f"--output {options.output}: for {options.to} its name must end in {suffix}.")
    if options.to == "label-studio":
        arguments.refuse_existing(options.output.with_suffix(".xml"), options)
    note_nlp = arguments.note_nlp_options(options, is_omop=options.to == "omop", flag="--to")
    report = ReadReport()
    notes = exports.read_annotated(options.annotations, arguments.note_files(options), report=report)
    try:
        if write is not None:
            n_written = write(notes, options.output)
        elif options.to == "brat":
            n_written = exports.export_brat(notes, options.output, overwrite=options.overwrite)
        else:
            time = parse_nlp_time(options.nlp_date) if options.nlp_date else None
            n_written = export_note_nlp(notes, options.output, time=time, options=note_nlp)
    except OSError as error:
        raise InputError(f"{options.output} cannot be written: {error.strerror or error}.") from error
    counts = report.to_dict()
    data = {"output": str(options.output), "n_written": n_written, **counts}
    rows = [("notes read", report.n_read), *account_rows(counts), (what, n_written)]
    print_result(options, data, [(str(options.output), rows)])


_EXPORT = """\
write annotations for brat, doccano, Label Studio or OMOP

Join what `lmcells annotate` wrote with the notes that were annotated, and write it for an annotation tool: brat (a
folder), doccano (JSON lines) or Label Studio (JSON, and its labeling configuration as .xml); as OMOP's NOTE_NLP; or as
notes, JSON lines with the text that the offsets count in.

examples:
  lmcells export expansions.jsonl --notes notes/ --to brat --output brat_folder
  lmcells export expansions.parquet --notes notes.csv --to label-studio --output tasks.json
  lmcells export expansions.csv --notes note.csv --to omop --output note_nlp.csv"""
COMMANDS = {"export": Command(_EXPORT, add_arguments, run)}
