"""`lmcells`: finds the command, runs it, and turns errors into one line and an exit code.

argparse rather than typer: commands must start quickly, on machines that have only torch and numpy. The rest of the
package is imported inside `main`, where Ctrl-C is caught.
"""

import argparse
import errno
import io
import os
import re
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import lmcells
from lmcells.errors import LmcellsError

if TYPE_CHECKING:
    from lmcells.cli.arguments import Command

# Each command, with the module of `lmcells.cli` that defines it if it has another name.
_NAMES = (
    "expand annotate audit:annotate export:annotate serve review:serve inventory prepare train calibrate:evaluate "
    "dataset evaluate reproduce inspect info pack:info unpack:info completion"
)
COMMANDS = {name: module or name for name, _, module in (each.partition(":") for each in _NAMES.split())}
BAD_INPUT = 2
INTERRUPTED = 130
BROKEN_PIPE = 141  # as if by SIGPIPE
_HOME = re.compile(r"(--[\w-]+=)?(~/.*)", re.DOTALL)
_NO_ROOM = (errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT)


class _Parser(argparse.ArgumentParser):
    """Reports bad arguments in one line, like every other error; flags cannot be abbreviated."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "allow_abbrev": False})

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{self.prog}: {message}. Run: {self.prog} --help\n")


def build_parser(names: Sequence[str] = tuple(COMMANDS)) -> argparse.ArgumentParser:
    """Return the parser of some commands, importing each of them."""
    parser = _Parser(
        prog="lmcells",
        description="Zero-shot clinical acronym expansion with Latent Meaning Cells.",
        epilog="`lmcells COMMAND --help` explains a command, with an example.",
    )
    parser.add_argument("--version", action="version", version=f"lmcells {lmcells.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in names:
        command: Command = import_module(f"lmcells.cli.{COMMANDS[name]}").COMMANDS[name]
        command.add_to(commands, name).set_defaults(run=command.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(map(_in_home, sys.argv[1:] if arguments is None else arguments))
    _open_streams()
    _clean_up_when_ended()
    options = _parse(given)
    try:
        from lmcells.cli.arguments import refuse_existing_outputs

        refuse_existing_outputs(options)
        options.run(options)
        sys.stdout.flush()
    except LmcellsError as error:
        _say(options, error)
        return BAD_INPUT
    except KeyboardInterrupt:
        again = ". Continue with the same command and --resume" if _can_resume(options) else ""
        _say(options, f"interrupted{again}.")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has closed it
        _discard_output()
        return BROKEN_PIPE
    except (OSError, MemoryError) as error:
        why = "not enough memory"
        if isinstance(error, OSError):
            if error.filename is not None:  # a name that is too long, a folder that may not be listed, ...
                _say(options, f"{error.filename}: {error.strerror}.")
                return BAD_INPUT
            if error.errno not in _NO_ROOM:
                raise
            why = f"the output cannot be written: {error.strerror}"
        _say(options, f"{why}.")
        _discard_output()
        return 1
    return 0


def _say(options: argparse.Namespace, what: object) -> None:
    from lmcells.cli.terminal import printable

    print(f"lmcells {options.command}: {printable(str(what))}", file=sys.stderr)


def _open_streams() -> None:
    """Make standard streams usable: a closed one, and a terminal that is not UTF-8, which shows what it can."""
    if sys.stdout is None:
        sys.exit("lmcells: standard output is closed. Send it to a file, or to /dev/null.")
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open()  # noqa: SIM115 - until the process ends
    if sys.stderr is None:  # print would write to standard output instead
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


def _clean_up_when_ended() -> None:
    """Let SIGTERM, and a terminal that is closed, end a command as an error does: half an export holds notes."""

    def end(number: int, _: object) -> NoReturn:
        sys.exit(128 + number)

    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP; nohup ignores it
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            with suppress(ValueError):  # not in the main thread
                signal.signal(number, end)


def _parse(given: Sequence[str]) -> argparse.Namespace:
    # Only the command that is asked for: importing all of them takes longer than expanding a note.
    names = [name for name in given[:1] if name in COMMANDS]
    if not names and given[:1] != ["--version"]:
        names = list(COMMANDS)
    try:
        options, unknown = build_parser(names).parse_known_args(given)
    except KeyboardInterrupt:  # while it is imported: there is nothing to resume
        sys.exit(INTERRUPTED)
    if unknown:
        flags = " ".join(name.partition("=")[0] for name in unknown if name.startswith("--"))
        more = (
            f"{len(unknown):,} more than expected. Put a text with spaces in quotes"  # never the text itself
        )
        _Parser(prog=f"lmcells {options.command}").error(f"unrecognized arguments: {flags or more}")
    return options


def _in_home(argument: str) -> str:
    """Return a path in the home folder in full: the shell leaves "~" as it is after "=", as in --output=~/out.csv."""
    found = _HOME.fullmatch(argument)
    return (found[1] or "") + str(Path(found[2]).expanduser()) if found else argument


def _can_resume(options: argparse.Namespace) -> bool:
    """Whether the command has --resume, and neither reads nor writes a stream, which is gone."""
    streams = [*getattr(options, "notes", ()), getattr(options, "output", None)]
    return hasattr(options, "resume") and Path("-") not in streams


def _discard_output() -> None:
    """Discard buffered output, so that Python does not fail once more at exit."""
    with suppress(OSError, ValueError):  # it may not be a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
