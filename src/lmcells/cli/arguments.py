"""Options that several commands share."""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmcells.corpus.settings import SECTION_STYLES
from lmcells.errors import ConfigError, InputError
from lmcells.notes.readers import FORMATS, Columns

if TYPE_CHECKING:  # not needed to parse, and slow to import
    from lmcells.expansion.settings import ExpanderSettings
    from lmcells.integrations.omop import NoteNlpOptions
    from lmcells.integrations.rows import NoteFiles

REPEATED: dict[str, Any] = {"action": "append", "default": []}
_HEADER_RULES = 'your own headers, as JSON: {"NAME": ["alias", ...]}'


class Options:
    """Adds options to a parser: `add("--seed N", "random seed (0)", type=int, default=0)`.

    The first word is the name, the rest is how --help shows the value. A name with nothing else is a flag. `number` is
    the default of an integer that must be at least `least`; `one_of` are choices, with the first as the default. Help
    shows the default at the end. Options that several commands share are methods.
    """

    def __init__(
        self, parser: argparse.ArgumentParser, group: argparse._ActionsContainer | None = None
    ) -> None:
        self.parser = parser
        self._group = group or parser

    def __call__(
        self,
        declared: str,
        help_: str,
        *,
        number: int | None = None,
        least: int = 1,
        one_of: Sequence[str] = (),
        **how: Any,
    ) -> None:
        name, _, metavar = declared.partition(" ")
        if number is not None:
            help_, how = f"{help_} ({number:,})", how | {"type": at_least(least), "default": number}
        if one_of:
            help_, how = f"{help_} ({one_of[0]})", how | {"choices": one_of, "default": one_of[0]}
        if metavar:
            how["metavar"] = metavar
        elif not how:
            how["action"] = "store_true"
        self._group.add_argument(name, help=help_, **how)

    def group(self, title: str) -> "Options":
        return Options(self.parser, self.parser.add_argument_group(title))

    def either(self) -> "Options":
        """Return a mutually exclusive group: only one of its options may be given."""
        return Options(self.parser, self.parser.add_mutually_exclusive_group())

    def json(self) -> None:
        self("--json", "print the summary as JSON")

    def running(self, *, resumes: str) -> "Options":
        """--resume and --json, and the group they stand in."""
        running = self.group("running")
        running("--resume", f"continue {resumes} that was interrupted")
        running.json()
        return running

    def columns(self) -> None:
        """--format and the columns of a note: how notes are read; see `columns_of`."""
        self("--format", "format of the notes (detected automatically)", choices=FORMATS, default="auto")
        self("--text-column NAME", "column of the text")
        self("--id-column NAME", "column of the id")
        self("--category-column NAME", "column of the note type")
        self("--metadata-column NAME", "column of further metadata; may be repeated", **REPEATED)
        self("--encoding NAME", "text encoding, such as cp1252 or utf-16 (utf-8)", default="utf-8")
        self("--delimiter CHARACTER", "field separator of a table; tab for a tab (set by the format)")

    def reading(self) -> "Options":
        """How notes are read and cut into sections, and the group to which a command adds its own."""
        reading = self.group("reading notes")
        reading.columns()
        styles = "paper: the paper's regular expression; rules: ours; given: the file's own; auto: given, else rules; "
        reading("--sections", styles + "none: no sections", choices=SECTION_STYLES, default="auto")
        reading("--header-rules FILE", _HEADER_RULES, type=Path)
        return reading

    def finding(self) -> None:
        """What to expand besides the short forms of the inventory, and when to abstain."""
        self("--no-letters", "do not guess shorthand that the inventory lacks from its letters")
        self("--codes", "also expand codes such as pT3a, L5 and CD20")
        self("--threshold P", "abstain below this probability (the model's own)", type=float)

    def expander(self) -> None:
        """The model, own senses and own headers; see `expander_settings`."""
        self("--model DIR", "model folder (the shipped one)")
        layers = "senses to add to the shipped ones, forbid or pin: CSV, TSV or JSON; may be repeated"
        self("--inventory FILE", layers, **REPEATED)
        self("--only-inventory FILE", "senses that replace the shipped ones")
        self("--header-rules FILE", _HEADER_RULES)

    def note_nlp(self) -> None:
        """How OMOP's NOTE_NLP is written; see `note_nlp_options`."""
        self("--nlp-date DATE", "omop: date, or date and time (now)")
        self("--first-id N", "omop: note_nlp_id of the first row, for appending (1)", type=at_least(0))
        concepts = "omop: CSV of section and concept_id, for section_concept_id"
        self("--section-concepts FILE", concepts, type=Path)
        self("--no-abstained", "omop: leave out short forms that were not expanded")

    def output(self, metavar: str, meaning: str, *, replaces: str) -> None:
        self(f"--output {metavar}", meaning, required=True, type=Path)
        self.overwrite(replaces=replaces)

    def overwrite(self, *, replaces: str) -> None:
        """--overwrite, without which no command replaces a file or a folder."""
        self("--overwrite", f"replace {replaces} that already exists")

    def dataset_output(self, *, senses: str) -> None:
        """Where a dataset and its senses go."""
        self.output("DATASET", "JSON lines to write", replaces="a dataset or inventory")
        self("--inventory-output FILE", f"also write the senses that {senses} (JSON or CSV)", type=Path)


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its help (summary, description, examples, separated by blank lines), options and function."""

    help: str
    add_options: Callable[[Options], None]
    run: Callable[[argparse.Namespace], None]

    def add_to(self, commands: Any, name: str) -> argparse.ArgumentParser:
        """Add the command to the result of `add_subparsers`; -> its parser."""
        summary, text = self.help.split("\n\n", 1)
        description, examples = text.rsplit("\n\n", 1)
        plain = argparse.RawDescriptionHelpFormatter
        parser: argparse.ArgumentParser = commands.add_parser(
            name, help=summary, description=description, epilog=examples, formatter_class=plain
        )
        self.add_options(Options(parser))
        return parser


def command_group(help_: str, commands: Mapping[str, Command], *, metavar: str = "ACTION") -> Command:
    """Return a command with subcommands, such as `inventory find` and `inventory check`."""

    def add_commands(add: Options) -> None:
        actions = add.parser.add_subparsers(dest="action", metavar=metavar, required=True)
        for name, command in commands.items():
            command.add_to(actions, name)

    return Command(help_, add_commands, lambda options: commands[options.action].run(options))


def at_least(least: int) -> Callable[[str], int]:
    """Return the type of an option that is an integer of at least `least`."""

    def whole_number(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            raise argparse.ArgumentTypeError(f"found {text!r}, allowed: a whole number of {least} or more")
        return number

    return whole_number


def picked(options: argparse.Namespace, function: Callable[..., Any], **instead: Any) -> dict[str, Any]:
    """Return the options that match parameters of a function or dataclass; `instead` overrides or adds values."""
    names = signature(function).parameters
    return {name: value for name, value in vars(options).items() if name in names} | instead


def columns_of(options: argparse.Namespace) -> Columns:
    return Columns(
        text=options.text_column,
        id=options.id_column,
        category=options.category_column,
        metadata=tuple(options.metadata_column),
        encoding=options.encoding,
        delimiter={"tab": "\t", "\\t": "\t"}.get(options.delimiter, options.delimiter),
    )


def note_files(options: argparse.Namespace) -> "NoteFiles":
    from lmcells.integrations.rows import NoteFiles

    return NoteFiles(options.notes, options.format, columns_of(options))


def expander_settings(options: argparse.Namespace) -> "ExpanderSettings":
    """Return the settings of the expander; options that a command does not have keep their defaults."""
    from lmcells.expansion.settings import ExpanderSettings

    given = {name: value for name, value in picked(options, ExpanderSettings).items() if value is not None}
    return ExpanderSettings(**given, letters=not getattr(options, "no_letters", False))


def warn_of_unread_metadata(options: argparse.Namespace, settings: "ExpanderSettings") -> None:
    """Say which metadata own rules depend on that no option asks for: these rules would never hold."""
    from lmcells.expansion.layers import read_layers

    layers = [*settings.inventory, *filter(None, [settings.only_inventory])]
    asked = {name for rules in read_layers(layers) for rule in rules for name, _ in rule.where}
    read = {"section", "category", *(name.lower() for name in options.metadata_column)}
    if unread := sorted(asked - read):
        flags = " ".join(f"--metadata-column {name}" for name in unread)
        print(
            f"lmcells {options.command}: rules of the inventory depend on {', '.join(unread)}, which is not read. "
            f"Add: {flags}",
            file=sys.stderr,
        )


def note_nlp_options(options: argparse.Namespace, *, is_omop: bool, flag: str) -> "NoteNlpOptions | None":
    """Return the options of NOTE_NLP; None for another format, which refuses them."""
    from lmcells.integrations.omop import NoteNlpOptions, parse_nlp_time, read_section_concepts

    for name in ("nlp_date", "first_id", "section_concepts", "no_abstained"):
        if not is_omop and getattr(options, name) not in (None, False):
            raise ConfigError(f"--{name.replace('_', '-')} is only for {flag} omop. Leave it out.")
    if not is_omop:
        return None
    return NoteNlpOptions(
        first_id=1 if options.first_id is None else options.first_id,
        with_abstained=not options.no_abstained,
        section_concepts=read_section_concepts(options.section_concepts) if options.section_concepts else (),
        time=parse_nlp_time(options.nlp_date) if options.nlp_date else None,
    )


# Outputs. Every command that writes has --output and --overwrite; `main` checks for existing outputs before it runs.

_WRITTEN = ("output", "inventory_output", "errors", "outcomes")
# Options that are paths, but kept as text.
_READ_BY_NAME = ("model", "from_model", "inventory", "only_inventory", "header_rules")
# `annotate` returns the counts of a finished job; `reproduce` always continues in its folder.
_CHECK_THEMSELVES = ("annotate", "reproduce")
# They add files of their own to an existing folder; others replace all of it.
_ADD_TO_FOLDERS = ("evaluate", "inspect", "reproduce")
_BESIDE = (
    "parts",
    "building",
    "report.json",
    "rejected.jsonl",
    "report.csv",
)  # names after that of the output


def part_of_split(output: Path, part: str) -> Path:
    """Return the file of one part of a split, such as rs.dev.jsonl; "" means no split."""
    return output.with_name(f"{output.stem}.{part}{output.suffix}") if part else output


def refuse_existing_outputs(options: argparse.Namespace) -> None:
    """Refuse to replace an input, and to replace existing outputs unless --overwrite or --resume is given."""
    given = vars(options)
    parts = [part.partition("=")[0].strip() for part in (given.get("split") or "").split(",")]
    flags: dict[Path, str] = {}
    for name in _WRITTEN:
        for part in parts if given.get(name) else ():
            path, flag = part_of_split(given[name], part), f"--{name.replace('_', '-')}"
            _refuse_inputs(path, given, flag=flag)
            if flags.setdefault(path.resolve(), flag) != flag:
                raise InputError(f"{flag} {path} is also {flags[path.resolve()]}. Choose another name.")
            if given["command"] not in _CHECK_THEMSELVES:
                if given["command"] not in _ADD_TO_FOLDERS and path.name in ("", ".."):
                    raise InputError(f"{flag} {path} does not end in a name. Give the output one.")
                refuse_existing(path, options, flag=flag)


def _refuse_inputs(path: Path, given: Mapping[str, Any], *, flag: str) -> None:
    """Refuse an output that is an input, would replace one, or lies in a folder of notes."""
    written = [path, *(path.with_name(f"{path.name}.{what}") for what in _BESIDE if path.name)]
    for each in _inputs(given):
        if any(_is_same(one, each) for one in written):
            raise InputError(f"{flag} {path} is also an input. Choose another name.")
        folders = () if given["command"] in _ADD_TO_FOLDERS else each.resolve().parents
        if any(_is_same(one, folder) for one in written for folder in folders):
            raise InputError(f"{flag} {path} would replace {each}, an input. Choose another name.")
    for each in (*_listed(given.get("notes")), *_listed(given.get("inputs"))):
        if each.is_dir() and path.resolve().is_relative_to(each.resolve()):
            raise InputError(f"{flag} {path} is inside {each}, which is an input. Choose another folder.")


def _inputs(given: Mapping[str, Any]) -> Iterator[Path]:
    """Yield the files and folders that the options name for reading."""
    for name, value in given.items():
        for each in _listed(value):
            if name not in _WRITTEN and (isinstance(each, Path) or (each and name in _READ_BY_NAME)):
                yield Path(each)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _is_same(path: Path, other: Path) -> bool:
    """Whether two paths are one file or folder; "-" is a stream."""
    try:
        return path != Path("-") and path.samefile(other)
    except OSError:  # one of them does not exist
        return False


def refuse_existing(path: Path, options: argparse.Namespace, *, flag: str = "--output") -> None:
    """Refuse to replace a file or a folder, unless the folder is empty."""
    may_resume = getattr(options, "resume", None)
    if options.overwrite or may_resume or not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    others = "" if may_resume is None else " continue with --resume,"
    raise InputError(f"{flag} {path} already exists. Choose another,{others} or replace it with --overwrite.")
