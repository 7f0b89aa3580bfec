"""`lmcells annotate`, `audit` and `export`: files of notes, gaps in the inventory, and formats for other tools."""

import argparse
import sys
from collections.abc import Callable
from contextlib import nullcontext, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lmcells.cli import arguments
from lmcells.cli.arguments import Command, Options, expander_settings, note_files, picked
from lmcells.cli.terminal import ProgressLine, account_rows, print_result
from lmcells.errors import ConfigError, MissingExtra
from lmcells.expansion.expansion import Source
from lmcells.expansion.reader import SECTION_STYLES
from lmcells.files import explain_unwritable
from lmcells.integrations import exports
from lmcells.integrations.annotate import annotate
from lmcells.integrations.audit import audit
from lmcells.integrations.omop import export_note_nlp
from lmcells.integrations.shards import ENGINES, SHARD_NOTES
from lmcells.notes.readers import ReadReport

_SOURCES: dict[Source, str] = {
    "model": "expanded by the model",
    "definition": "expanded by a definition in the note",
    "header": "expanded as a header",
    "letters": "expanded by the letters",
    "grammar": "expanded by the grammar",
    "pinned": "pinned by the inventory",
    "review": "decided by a reviewer",
}


def _add_annotate(add: Options) -> None:
    add("notes INPUT", "file or folder of notes, - for standard input", nargs="+", type=Path)
    written = "file to write: .jsonl, .csv or .parquet; - writes JSON lines to standard output"
    add.output("OUT", written, replaces="a file")
    text = "rows: the fields of an expansion and note_id; omop: rows of NOTE_NLP"
    add("--output-format", text, one_of=("rows", "omop"))
    add.note_nlp()
    running = _add_expanding(add, finding=True, resumes="a job")
    running("--engine", "where to run", one_of=ENGINES)
    running("--workers N", "processes; each one loads the model (1)", type=int, default=1)
    running("--shard-notes N", "notes per shard (%(default)d)", type=int, default=SHARD_NOTES)


def _add_expanding(add: Options, *, finding: bool, resumes: str) -> Options:
    """Options for reading and expanding notes; -> the group of options for running."""
    expanding = add.group("expanding")
    expanding.expander()
    if finding:
        expanding.finding()
    expanding("--sections", "how to find sections that the file does not give", one_of=SECTION_STYLES)
    add.group("reading notes").columns()
    return add.running(resumes=resumes)


def _annotate(options: argparse.Namespace) -> None:
    is_omop, to_stdout = options.output_format == "omop", options.output == Path("-")
    omop = arguments.note_nlp_options(options, is_omop=is_omop, flag="--output-format")
    if to_stdout and options.resume:
        raise ConfigError("--resume does not work with standard output. Write to a file.")
    settings = expander_settings(options)
    arguments.warn_of_unread_metadata(options, settings)
    with ProgressLine() as line:
        output = sys.stdout.buffer if to_stdout else options.output
        given = picked(options, annotate, notes=note_files(options), output=output, omop=omop)
        report = annotate(**given, expander=settings, on_progress=line.notes)
    title = "standard output" if to_stdout else str(options.output)
    rows = [
        ("notes read", report["n_read"]),
        *account_rows(report),
        *((f"not expanded: {reason}", n) for reason, n in report["failed"].items()),
        ("short forms found", report["n_expansions"]),
        *(
            (_SOURCES[name], n)
            for name, n in report["expanded"].items()
            if n or name in ("model", "definition")
        ),
        ("abstained", sum(report["abstained"].values())),
        *((f"abstained: {reason}", n) for reason, n in report["abstained"].items()),
    ]
    with redirect_stdout(sys.stderr) if to_stdout else nullcontext():  # standard output is for the rows
        print_result(options, {"output": str(options.output), **report}, [(title, rows)])


def _add_audit(add: Options) -> None:
    add("notes NOTES", "file or folder of notes", nargs="+", type=Path)
    add.output("FOLDER", "folder to write", replaces="an audit")
    add("--min-count N", "list only what occurs in at least N notes", number=2)
    add("--no-context", "write only counts, no examples from the notes")
    _add_expanding(add, finding=False, resumes="an audit")("--workers N", "processes", number=1)


def _audit(options: argparse.Namespace) -> None:
    if find_spec("jinja2") is None:
        raise MissingExtra("Jinja2", extra="report", purpose="The page of an audit")
    settings = expander_settings(options)
    arguments.warn_of_unread_metadata(options, settings)
    given = picked(options, audit, notes=note_files(options), expander=settings)
    with ProgressLine() as line:
        report = audit(**given, with_context=not options.no_context, on_progress=line.notes)
    rows = [
        ("notes read", report["n_read"]),
        *account_rows(report),
        ("short forms that the inventory lacks", report["n_unknown_short_forms"]),
        ("senses proposed for them", report["n_site_inventory"]),
        ("short forms whose sense is unsure", report["n_unsure_short_forms"]),
        ("headers that no rule covers", report["n_sections"]),
    ]
    print_result(options, {"output": str(options.output), **report}, [(str(options.output), rows)])
    print(
        f"{options.output} contains patient data: words from the notes. Only you can read it; look through it before "
        "you share it.",
        file=sys.stderr,
    )


_FORMATS: dict[str, tuple[str, str | None, Callable[..., int]]] = {
    "brat": ("documents", None, exports.export_brat),
    "doccano": ("documents", ".jsonl", exports.export_doccano),
    "label-studio": ("tasks", ".json", exports.export_label_studio),
    "omop": ("rows", None, export_note_nlp),
    "notes": ("notes", ".jsonl", exports.export_notes),
}  # what is written, the suffix of the file, and by which function


def _add_export(add: Options) -> None:
    add("annotations ANNOTATIONS", "file written by `lmcells annotate`", type=Path)
    add("--notes NOTES", "the notes that were annotated", required=True, nargs="+", type=Path)
    add("--to", "what to write", required=True, choices=tuple(_FORMATS))
    add.output("OUT", "folder (brat) or file to write", replaces="an export")
    add.columns()
    add.note_nlp()
    add.json()


def _export(options: argparse.Namespace) -> None:
    what, suffix, write = _FORMATS[options.to]
    if suffix not in (None, options.output.suffix.lower()):
        raise ConfigError(f"--output {options.output}: for {options.to} the name must end in {suffix}.")
    if options.to == "label-studio":
        arguments.refuse_existing(options.output.with_suffix(".xml"), options)
    note_nlp = arguments.note_nlp_options(options, is_omop=options.to == "omop", flag="--to")
    report = ReadReport()
    notes = exports.read_annotated(options.annotations, note_files(options), report=report)
    more: dict[str, Any] = {
        "brat": {"overwrite": options.overwrite},
        "omop": {"options": note_nlp, "report": report},
    }
    with explain_unwritable(options.output):
        n_written = write(notes, options.output, **more.get(options.to, {}))
    counts = report.to_dict()
    data = {"output": str(options.output), "n_written": n_written, **counts}
    rows = [("notes read", report.n_read), *account_rows(counts), (what, n_written)]
    print_result(options, data, [(str(options.output), rows)])


_ANNOTATE = """\
expand the short forms of files of notes

Expand the short forms of whole files and folders of notes, and write one row per expansion: JSON lines, CSV or Parquet,
depending on the extension of --output. OUT.report.json has exact counts; if rows were skipped, OUT.rejected.jsonl lists
the file, line and reason of each. --resume continues an interrupted job. The output is the same to the byte, with or
without --resume and for any --workers and --engine.

examples:
  lmcells annotate notes.jsonl more/ --output expansions.parquet --workers 8
  lmcells annotate NOTEEVENTS.csv.gz --output expansions.jsonl --resume
  zcat notes.jsonl.gz | lmcells annotate - --output - | jq -r .long_form
  lmcells annotate note.csv --output note_nlp.csv --output-format omop"""
_AUDIT = """\
find what the inventory and the section rules lack for your notes

Read notes and list, by frequency, the short forms that the inventory lacks, with long forms that the notes define or
that the letters suggest; those whose sense was often unsure; and headers that no rule covers. FOLDER gets a page
(audit.html), tables, and two files to edit and use: site_inventory.csv (--inventory) and header_rules.json
(--header-rules). They contain text from the notes, so only you can read them. --resume continues an interrupted audit.

examples:
  lmcells audit notes/ --output audit
  lmcells audit NOTEEVENTS.csv.gz --output audit --workers 8 --min-count 20 --resume
  lmcells audit notes.jsonl --output audit2 --inventory audit/site_inventory.csv --no-context"""
_EXPORT = """\
write annotations for brat, doccano, Label Studio or OMOP

Join the output of `lmcells annotate` with its notes, and write it for an annotation tool: brat (a folder), doccano
(JSON lines) or Label Studio (JSON, and its labeling configuration as .xml); as OMOP's NOTE_NLP; or as notes, JSON lines
with the text that the offsets refer to.

examples:
  lmcells export expansions.jsonl --notes notes/ --to brat --output brat_folder
  lmcells export expansions.parquet --notes notes.csv --to label-studio --output tasks.json
  lmcells export expansions.csv --notes note.csv --to omop --output note_nlp.csv"""
COMMANDS = {
    "annotate": Command(_ANNOTATE, _add_annotate, _annotate),
    "audit": Command(_AUDIT, _add_audit, _audit),
    "export": Command(_EXPORT, _add_export, _export),
}
