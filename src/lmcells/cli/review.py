"""`lmcells review`: the page, opened on notes to review, the most useful first."""

import argparse
import getpass
import os
import secrets
import socket
import sys
import time
import webbrowser
from pathlib import Path
from threading import Thread

from lmcells.cli import serve
from lmcells.cli.arguments import Command, add_columns, adder, expander_settings, note_files
from lmcells.cli.terminal import ProgressLine
from lmcells.errors import InputError
from lmcells.notes.readers import ReadReport
from lmcells.service.review_files import EXPORTS, add_notes
from lmcells.service.reviews import ReviewStore

_TOKEN = "LMCELLS_TOKEN"
_START_SECONDS = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command: those of `lmcells serve`, and its own."""
    add = adder(parser)
    add("notes NOTES", "files or folders of notes to add to the queue", nargs="*", type=Path)
    add("--reviewer NAME", "name of the reviewer (%(default)s)", default=_user())
    add("--no-browser", "only print the address of the page")
    add("--export NAME", f"print reviews and exit: {', '.join(EXPORTS)}", choices=tuple(EXPORTS))
    add_columns(parser.add_argument_group("reading notes"))
    serve.add_arguments(parser)
    parser.set_defaults(port=0)


def run(options: argparse.Namespace) -> None:
    """Add the notes, then serve the page until a signal ends it; or export."""
    if options.reviews is None:
        raise InputError("give --reviews FILE, where decisions are kept. It is made if it does not exist.")
    if options.export and not Path(options.reviews).exists():
        raise InputError(f"--reviews {options.reviews} does not exist. Give a file with reviews.")
    store = ReviewStore(Path(options.reviews))
    if options.export:
        inventory = expander_settings(options).open().inventory
        sys.stdout.writelines(EXPORTS[options.export](store.list_notes(), inventory))
        return
    if options.notes:
        _add_notes(store, options)
    if options.port == 0:
        options.port = _free_port(options.host)
    token = os.environ.setdefault(_TOKEN, secrets.token_urlsafe(16))  # other users of the machine stay out
    scheme = "https" if options.tls_certificate else "http"
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "::1": "[::1]"}.get(options.host, options.host)
    address = f"{scheme}://{host}:{options.port}{options.root_path}/#token={token}"
    print(f"{options.reviews}: {store.counts('')['n_notes']:,} notes. Review them at {address}", flush=True)
    if not options.no_browser:
        Thread(target=_open_page, args=(options, address), daemon=True).start()
    serve.run(options)


def _add_notes(store: ReviewStore, options: argparse.Namespace) -> None:
    report = ReadReport()
    notes = note_files(options).read(report)
    expander = expander_settings(options).open()
    with ProgressLine() as line:
        add_notes(store, notes, expander, on_progress=lambda n: line.update(f"{n:,} notes expanded"))
    if report.skipped:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in report.skipped.items())
        print(f"lmcells review: skipped: {reasons}", file=sys.stderr)


def _open_page(options: argparse.Namespace, address: str) -> None:
    """Open the page as soon as the service listens."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        try:
            socket.create_connection((options.host, options.port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            webbrowser.open(address)
            return


def _free_port(host: str) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:
        return int(server.getsockname()[1])


def _user() -> str:
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # nobody is logged in under a name
        return "reviewer"


_REVIEW = """\
review expansions on a page, and keep the decisions

Open the page of `lmcells serve` on notes to review: those with the most doubt and with the most frequent unknown forms
come first. Decisions are kept in the file of --reviews (SQLite, mode 0600), with the text of the notes, until they are
deleted on the page. Several reviewers may share the file, also at the same time.
They are exported on the page, or with --export: corrected annotations (annotations.jsonl, or note_nlp.csv for OMOP), a
site inventory (site_inventory.csv, for --inventory), and labelled notes (labelled.jsonl, for lmcells evaluate --notes).
The page is on a free port unless --port names one, and is opened with a new token unless LMCELLS_TOKEN is set.

examples:
  lmcells review notes.jsonl --reviews reviews.db
  lmcells review --reviews reviews.db --reviewer Ana
  lmcells review --reviews reviews.db --export site_inventory.csv > site.csv
  lmcells annotate notes.jsonl --output expansions.jsonl --inventory site.csv"""
COMMANDS = {"review": Command(_REVIEW, add_arguments, run)}
