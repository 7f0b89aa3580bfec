"""`lmcells expand`: the short forms of one note and what they stand for, as JSON or on the terminal."""

import argparse
import re
import shutil
import sys
import textwrap
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from lmcells.cli.arguments import REPEATED, Command, Options, expander_settings
from lmcells.cli.terminal import has_colors, print_json
from lmcells.errors import ConfigError, FormatError, InputError
from lmcells.expansion.expanded_text import expand_text
from lmcells.expansion.expansion import Expansion
from lmcells.expansion.reader import SECTION_STYLES

_WIDEST, _NARROWEST = 120, 40
_LIKELY, _UNSURE = 0.9, 0.6
_GREEN, _YELLOW, _RED, _CYAN, _DIM, _BOLD = "32", "33", "31", "36", "2", "1"
_N_ALTERNATIVES = 3
_LEAST_SHOWN = 0.005
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # would move the cursor, or worse
_WIDEST_NAME = 34
_SUFFIXES = (".txt", ".text", ".md")  # a name that ends so is a file, even if it does not exist


def _add_arguments(add: Options) -> None:
    add("note TEXT | FILE | -", "the note, a file, or - for standard input", nargs="?", default="-")
    add.expander()
    add.finding()
    add("--sections", "how sections are found", one_of=SECTION_STYLES)
    text = "metadata of the note, such as category=Echo, for rules that depend on it; may be repeated"
    add("--metadata NAME=VALUE", text, **REPEATED)
    add("--encoding NAME", "encoding of the file or standard input (utf-8)", default="utf-8")
    add = add.either()
    add("--json", "print JSON even on a terminal")
    add("--pretty", "show the note even when piped, without colours")
    add("--expanded", "print the note with its short forms written out")


def _run(options: argparse.Namespace) -> None:
    text = read_text(options.note, encoding=options.encoding)
    metadata = dict(each.partition("=")[::2] for each in options.metadata)
    if not all(name and value for name, value in metadata.items()):
        raise InputError("--metadata: give NAME=VALUE, such as category=Echo.")
    expansions = expander_settings(options).open()(text, metadata=metadata)
    if options.expanded:
        print(expand_text(text, expansions).text, end="" if text.endswith("\n") else "\n")
    elif options.json or not (options.pretty or sys.stdout.isatty()):
        print_json([expansion.to_dict() for expansion in expansions])
    else:
        columns = max(_NARROWEST, min(shutil.get_terminal_size().columns, _WIDEST))
        print(render(text, expansions, width=columns, color=has_colors(sys.stdout)))


_EXPAND = """\
expand the short forms of a note

Find the short forms of a note, and rank what each may stand for by its section and the words around it. On a terminal,
show the note with the answers; when piped, or with --json, print a JSON list with one object per short form.

examples:
  lmcells expand "PMH: Pt with CVA in 2019, now in PT twice weekly."
  lmcells expand note.txt --inventory mine.csv --expanded
  cat note.txt | lmcells expand - --model model --json"""
COMMANDS = {"expand": Command(_EXPAND, _add_arguments, _run)}


def read_text(given: str, *, encoding: str = "utf-8") -> str:
    """Return the note: the content of a file if there is one, standard input for "-", else the text given."""
    if given == "-":
        if sys.stdin.isatty():
            how = 'lmcells expand "TEXT", or a file, or - for a pipe'
            raise InputError(f"no note was given. Give one: {how}.")
        return _decode(sys.stdin.buffer.read(), encoding, name="standard input")
    try:
        given.encode("utf-8")
    except UnicodeEncodeError:
        raise FormatError("TEXT is not UTF-8 text. Give a file, or set the terminal to UTF-8.") from None
    if not given:
        return given  # an empty note, not the folder that Path takes it for
    path = Path(given)
    try:
        is_folder = path.is_dir()
        if path.exists() and not is_folder:
            return _decode(path.read_bytes(), encoding, name=str(path))
    except (OSError, ValueError) as error:  # too long for a name, or with a null character: text
        if isinstance(error, PermissionError):
            raise InputError(f"{path} cannot be read: {error.strerror}. Check its permissions.") from None
        return given
    if is_folder:
        raise InputError(f"{path} is a folder. Give one file or a text.")
    looks_like_path = given.startswith(("/", "./", "../", "~/")) or path.suffix.lower() in _SUFFIXES
    if looks_like_path and not any(character.isspace() for character in given):
        raise InputError(f"{path} does not exist. Check the path.")
    return given


def _decode(content: bytes, encoding: str, *, name: str) -> str:
    """Decode without changing line endings, so that offsets match the file after its byte order mark."""
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except LookupError:
        raise ConfigError(f"--encoding: found {encoding!r}, allowed: utf-8, cp1252, utf-16, ...") from None
    except UnicodeError as error:
        place = f" (byte {error.start:,})" if isinstance(error, UnicodeDecodeError) else ""
        found = f"{name} is not {encoding.upper()} text{place}"
        raise FormatError(f"{found}. Give its encoding with --encoding.") from None


def render(text: str, expansions: Sequence[Expansion], *, width: int = 100, color: bool = True) -> str:
    """Return the note with its short forms marked, and what each stands for, section by section.

    Without color, short forms are in brackets.
    """

    def paint(painted: str, code: str) -> str:
        return f"\x1b[{code}m{painted}\x1b[0m" if color else painted

    lines = list(_marked(text, expansions, width=width, color=color))
    if not expansions:
        return "\n".join([*lines, "", paint("No short form of the inventory was found.", _DIM)])
    names = [_name(expansion, text) for expansion in expansions]
    name_width = min(_WIDEST_NAME, max(map(len, names)))
    written_width = max(expansion.end - expansion.start for expansion in expansions)
    for section, group in groupby(zip(expansions, names, strict=True), key=lambda pair: pair[0].section):
        lines += ["", paint(_clean(section or "no section"), _BOLD if section else _DIM)]
        for expansion, name in group:
            written = _clean(text[expansion.start : expansion.end])
            certainty = "-" if expansion.probability is None else f"{expansion.probability:.0%}"
            certainty = "def." if expansion.source == "definition" else certainty
            opening = f"  {paint(f'{written:<{written_width}}', _color(expansion))}  {name:<{name_width}}  "
            opening += f"{certainty:>5}"
            # Alternatives have their own column, or go below the names if these take up its space.
            indent = short_indent = len(f"  {written:<{written_width}}  ")
            if len(name) <= name_width and indent + name_width + 8 <= width // 2 + 20:
                indent += name_width + 8
            alternatives = textwrap.wrap(_alternatives(expansion), max(20, width - indent - 1))
            if alternatives and indent > short_indent:
                opening += f" {paint(alternatives.pop(0), _DIM)}"
            lines += [opening, *(" " * indent + paint(line, _DIM) for line in alternatives)]
    return "\n".join(lines)


def _name(expansion: Expansion, text: str) -> str:
    if expansion.long_form is not None:
        return _clean(expansion.long_form)
    written = text[expansion.start : expansion.end]
    best = expansion.candidates[0].long_form if expansion.candidates else written
    return f"? {_clean(best)} ({(expansion.abstained or '').replace('_', ' ')})"


def _alternatives(expansion: Expansion) -> str:
    others = [each for each in expansion.candidates[1:] if each.probability >= _LEAST_SHOWN]
    return ", ".join(f"{_clean(each.long_form)} {each.probability:.0%}" for each in others[:_N_ALTERNATIVES])


def _color(expansion: Expansion) -> str:
    if expansion.source == "definition":
        return _CYAN
    if expansion.abstained or not expansion.candidates:
        return _DIM
    probability = expansion.candidates[0].probability
    return _GREEN if probability >= _LIKELY else _YELLOW if probability >= _UNSURE else _RED


def _marked(text: str, expansions: Sequence[Expansion], *, width: int, color: bool) -> Iterator[str]:
    """Yield the text in lines no wider than the terminal, short forms marked."""
    remaining = list(expansions)
    mark_width = 0 if color else 2
    for start, end in _lines(text, width, [expansion.start for expansion in expansions], mark_width):
        pieces, position = [], start
        while remaining and remaining[0].start < end:
            expansion = remaining.pop(0)
            written = _clean(text[expansion.start : expansion.end])
            pieces.append(_clean(text[position : expansion.start]))
            pieces.append(f"\x1b[1;4;{_color(expansion)}m{written}\x1b[0m" if color else f"[{written}]")
            position = expansion.end
        pieces.append(_clean(text[position:end]))
        yield "".join(pieces).rstrip()


def _lines(text: str, width: int, marks: list[int], mark_width: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each line on the terminal; words longer than a line stay whole."""
    position = 0
    for line in text.rstrip().split("\n"):
        start = position
        for word in re.finditer(r"\S+", line):
            end = position + word.end()
            n_marks = bisect_left(marks, end) - bisect_left(marks, start)
            if end - start + mark_width * n_marks > width and position + word.start() > start:
                yield start, position + word.start()
                start = position + word.start()
        yield start, position + len(line)
        position += len(line) + 1


def _clean(text: str) -> str:
    """Return text on one line, without control characters."""
    return _CONTROL.sub("", text.replace("\t", "    ").replace("\n", " "))
