"""`lmcells`: finds the command, runs it, and turns what goes wrong into one line and an exit code.

argparse rather than typer: commands must start where there is only torch and numpy, and start quickly.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

import lmcells
from lmcells.cli import dataset, evaluate, info, pack, prepare, train, unpack
from lmcells.errors import LmcellsError

COMMANDS = (prepare, train, dataset, evaluate, info, pack, unpack)
BAD_INPUT = 2
INTERRUPTED = 130


class _Parser(argparse.ArgumentParser):
    """Says what is wrong with the arguments in one line, as every other error here."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{self.prog}: {message}. Run: {self.prog} --help\n")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = _Parser(
        prog="lmcells",
        description="Zero-shot clinical acronym expansion by Latent Meaning Cells.",
        epilog="`lmcells COMMAND --help` explains a command, with an example.",
    )
    parser.add_argument("--version", action="version", version=f"lmcells {lmcells.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        subparser = commands.add_parser(
            command.__name__.rpartition(".")[2],
            help=command.SUMMARY,
            description=command.DESCRIPTION,
            epilog=command.EXAMPLE,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(subparser)
        subparser.set_defaults(run=command.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options = build_parser().parse_args(arguments)
    try:
        options.run(options)
    except LmcellsError as error:
        print(f"lmcells {options.command}: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print(f"lmcells {options.command}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone; there is nobody to tell
        return 1
    return 0
