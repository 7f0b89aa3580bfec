"""`lmcells expand`: what the short forms of one note stand for."""

import argparse
import os
import shutil
import sys
from pathlib import Path

from lmcells.cli.expansion_view import render
from lmcells.cli.terminal import print_json
from lmcells.errors import FormatError, InputError
from lmcells.expansion.expanded_text import expand_text
from lmcells.expansion.expander import Expander
from lmcells.expansion.reader import SECTION_STYLES

SUMMARY = "expand the short forms of a note"
DESCRIPTION = """\
Find the short forms of a note, and rank what each may stand for by the words around it and its section. On a terminal
the note is shown with what was found; piped, or with --json, a JSON list is printed, one object a short form."""
EXAMPLE = """\
examples:
  lmcells expand "PMH: Pt with CVA in 2019, now in PT twice weekly."
  lmcells expand note.txt --inventory mine.csv --expanded
  cat note.txt | lmcells expand - --model model --json"""

_WIDEST = 120
_NARROWEST = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "note",
        nargs="?",
        default="-",
        metavar="TEXT | FILE | -",
        help="the note, a file, or - for standard input",
    )
    parser.add_argument("--model", metavar="DIR", help="model folder (the shipped one)")
    parser.add_argument(
        "--inventory", type=Path, metavar="FILE", help="senses, JSON or CSV (the shipped ones)"
    )
    parser.add_argument(
        "--sections", choices=SECTION_STYLES, default="rules", help="how sections are found (rules)"
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print JSON on a terminal too")
    output.add_argument("--pretty", action="store_true", help="show the note when piped too, without colours")
    output.add_argument(
        "--expanded", action="store_true", help="print the note with its short forms written out"
    )


def run(options: argparse.Namespace) -> None:
    """Expand the note and print what was found."""
    text = read_text(options.note)
    expander = Expander.from_pretrained(options.model, inventory=options.inventory, sections=options.sections)
    expansions = expander(text)
    if options.expanded:
        print(expand_text(text, expansions).text, end="" if text.endswith("\n") else "\n")
    elif options.json or not (options.pretty or sys.stdout.isatty()):
        print_json([expansion.to_dict() for expansion in expansions])
    else:
        columns = max(_NARROWEST, min(shutil.get_terminal_size().columns, _WIDEST))
        color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        print(render(text, expansions, width=columns, color=color))


def read_text(given: str) -> str:
    """Return the text that was meant: of a file where there is one of that name, of standard input for "-"."""
    if given == "-":
        if sys.stdin.isatty():
            raise InputError(
                'no note was given. Give one: lmcells expand "TEXT", or a file, or - for a pipe.'
            )
        return _decode(sys.stdin.buffer.read(), name="standard input")
    try:
        given.encode("utf-8")
    except UnicodeEncodeError:
        raise FormatError("TEXT is not UTF-8 text. Give a file, or set the terminal to UTF-8.") from None
    path = Path(given)
    try:
        if path.is_file():
            return _decode(path.read_bytes(), name=str(path))
        is_folder = path.is_dir()
    except (OSError, ValueError) as error:  # too long for a name, or with a null character: text
        if isinstance(error, PermissionError):
            raise InputError(f"{path} cannot be read: {error.strerror}. Check its permissions.") from None
        return given
    if is_folder:
        raise InputError(f"{path} is a folder. Give one file or a text.")
    if path.suffix == ".txt" and not any(character.isspace() for character in given):
        raise InputError(f"{path} does not exist. Check the path.")
    return given


def _decode(content: bytes, *, name: str) -> str:
    """Decode without changing line ends, so that offsets are the file's."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"{name} is not UTF-8 text (byte {error.start:,}). Save it as UTF-8.") from None
