"""Options that several commands share: their names and what they mean are said once."""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmcells.corpus.settings import SECTION_STYLES
from lmcells.errors import InputError
from lmcells.notes.readers import FORMATS

Group = argparse._ArgumentGroup  # what add_argument_group returns has no public name
Commands = argparse._SubParsersAction  # nor has what add_subparsers returns


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command: how `--help` describes it, its options, and what it does with them."""

    summary: str
    description: str
    example: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], None]


def command_group(
    commands: Mapping[str, Command], *, summary: str, description: str, example: str, metavar: str = "ACTION"
) -> Command:
    """Return a command that has commands of its own, such as `inventory find` and `inventory check`."""

    def add_arguments(parser: argparse.ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", metavar=metavar, required=True)
        for name, command in commands.items():
            add_command(actions, name, command)

    return Command(
        summary=summary,
        description=description,
        example=example,
        add_arguments=add_arguments,
        run=lambda options: commands[options.action].run(options),
    )


def add_command(commands: "Commands[Any]", name: str, command: Any) -> argparse.ArgumentParser:
    """Add a command under its name; -> its parser."""
    if not isinstance(command, Command):  # a module that has not been converted yet
        command = Command(
            summary=command.SUMMARY,
            description=command.DESCRIPTION,
            example=command.EXAMPLE,
            add_arguments=command.add_arguments,
            run=command.run,
        )
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=command.summary,
        description=command.description,
        epilog=command.example,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser)
    return parser


def at_least(least: int) -> Callable[[str], int]:
    """Return the type of an option that is a whole number from `least` on."""

    def whole_number(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            raise argparse.ArgumentTypeError(f"found {text!r}, allowed: a whole number from {least} on")
        return number

    return whole_number


def add_json(parser: argparse._ActionsContainer) -> None:
    """--json, for machines."""
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def add_running(parser: argparse.ArgumentParser, *, resumes: str) -> Group:
    """--resume and --json, and the group they stand in."""
    running = parser.add_argument_group("running")
    running.add_argument("--resume", action="store_true", help=f"go on with {resumes} that was stopped")
    add_json(running)
    return running


def add_reading(parser: argparse.ArgumentParser) -> Group:
    """How notes are read, and the group to which a command adds its own."""
    reading = parser.add_argument_group("reading notes")
    reading.add_argument(
        "--format", choices=FORMATS, default="auto", help="format of the notes (found automatically)"
    )
    reading.add_argument(
        "--sections",
        choices=SECTION_STYLES,
        default="auto",
        help="paper: the paper's expression; rules: ours; given: the file's own; auto: given, else rules; "
        "none: no note is cut",
    )
    reading.add_argument(
        "--header-rules", type=Path, metavar="FILE", help='own headers: {"NAME": ["alias", ...]} in JSON'
    )
    reading.add_argument("--text-column", metavar="NAME", help="where the text is")
    reading.add_argument("--id-column", metavar="NAME", help="where the id is")
    return reading


def add_overwrite(parser: argparse._ActionsContainer, *, replaces: str) -> None:
    """--overwrite, without which no command replaces a file."""
    parser.add_argument("--overwrite", action="store_true", help=f"replace {replaces} that exists")


def refuse_existing_files(options: argparse.Namespace) -> None:
    """Refuse to replace files that the options name as output, unless they say so.

    `annotate` and `prepare` know when a job is done and check for themselves, and so do commands that write folders.
    """
    given = vars(options)
    if given.get("overwrite") or given.get("resume") or given.get("command") in ("annotate", "prepare"):
        return
    for name in ("output", "inventory_output"):
        path = given.get(name)
        # A split writes one file a part: rs.dev.jsonl, rs.test.jsonl.
        parts = (part.partition("=")[0].strip() for part in (given.get("split") or "").split(","))
        for each in [part_of_split(path, part) for part in parts] if isinstance(path, Path) else []:
            if each.is_file():
                flag = f"--{name.replace('_', '-')}"
                advice = ", or replace it with --overwrite" if "overwrite" in given else ""
                raise InputError(f"{flag} {each} exists already. Choose another name{advice}.")


def part_of_split(output: Path, part: str) -> Path:
    """Return the file of one part of a split; "" is the whole."""
    return output.with_name(f"{output.stem}.{part}{output.suffix}") if part else output


def add_dataset_output(parser: argparse.ArgumentParser, *, senses: str) -> None:
    """Where a dataset and its senses go."""
    parser.add_argument("--output", required=True, type=Path, metavar="DATASET", help="JSON lines to write")
    parser.add_argument(
        "--inventory-output",
        type=Path,
        metavar="FILE",
        help=f"also write the senses that {senses} (JSON or CSV)",
    )
    add_overwrite(parser, replaces="a dataset or inventory")
