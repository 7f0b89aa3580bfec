"""`lmcells audit`: what the inventory and the section rules lack for one's own notes."""

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

from lmcells.cli import arguments
from lmcells.cli.arguments import Command, adder
from lmcells.cli.terminal import ProgressLine, account_rows, print_result
from lmcells.errors import MissingExtra
from lmcells.expansion.reader import SECTION_STYLES
from lmcells.integrations.audit import audit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    add = adder(parser)
    add("notes NOTES", "file or folder of notes", nargs="+", type=Path)
    arguments.add_output(parser, "FOLDER", "folder to write", replaces="an audit")
    add("--min-count N", "minimum number of notes that have what is listed", number=2)
    add("--no-context", "write only counts, no examples from the notes")
    expanding = parser.add_argument_group("expanding")
    arguments.add_expander(expanding)
    text = "how to find sections that the file does not give"
    adder(expanding)("--sections", text, one_of=SECTION_STYLES)
    arguments.add_columns(parser.add_argument_group("reading notes"))
    add = adder(arguments.add_running(parser, resumes="an audit"))
    add("--workers N", "processes", number=1)


def run(options: argparse.Namespace) -> None:
    """Read the notes, write the folder and print the counts."""
    if find_spec("jinja2") is None:
        raise MissingExtra("Jinja2", extra="report", purpose="The page of an audit")
    with ProgressLine() as line:
        report = audit(
            arguments.note_files(options),
            options.output,
            expander=arguments.expander_settings(options),
            min_count=options.min_count,
            with_context=not options.no_context,
            workers=options.workers,
            resume=options.resume,
            on_progress=line.notes,
        )
    rows = [
        ("notes read", report["n_read"]),
        *account_rows(report),
        ("short forms that the inventory lacks", report["n_unknown_short_forms"]),
        ("senses proposed for them", report["n_site_inventory"]),
        ("short forms whose sense is unsure", report["n_unsure_short_forms"]),
        ("headers that no rule knows", report["n_sections"]),
    ]
    print_result(options, {"output": str(options.output), **report}, [(str(options.output), rows)])
    print(
        f"{options.output} holds words of the notes: patient data. Only you may read it; look through it before you "
        "pass it on.",
        file=sys.stderr,
    )


_AUDIT = """\
what the inventory and the section rules lack for your notes

Read notes and list, by frequency, the short forms that the inventory lacks, with long forms that the notes define or
that the letters suggest; those it has whose sense was often unsure; and headers that no rule knows. FOLDER gets a page
(audit.html), tables, and two files to edit and use: site_inventory.csv (--inventory) and header_rules.json
(--header-rules). They hold text of the notes, so only you may read them. An audit that was stopped goes on with
--resume.

examples:
  lmcells audit notes/ --output audit
  lmcells audit NOTEEVENTS.csv.gz --output audit --workers 8 --min-count 20 --resume
  lmcells audit notes.jsonl --output audit2 --inventory audit/site_inventory.csv --no-context"""
COMMANDS = {"audit": Command(_AUDIT, add_arguments, run)}
