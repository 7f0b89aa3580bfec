"""`lmcells serve` and `lmcells review`: expansion over HTTP, with a page to try it and to review notes."""

import argparse
import getpass
import html
import os
import re
import secrets
import socket
import sys
import time
import webbrowser
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from urllib.parse import quote

from lmcells.cli import arguments
from lmcells.cli.arguments import REPEATED, Command, Options, expander_settings, picked
from lmcells.cli.terminal import ProgressLine
from lmcells.errors import ConfigError, InputError, MissingExtra
from lmcells.notes.readers import ReadReport
from lmcells.service.review_files import EXPORTS, add_notes
from lmcells.service.reviews import ReviewStore
from lmcells.service.settings import ServiceSettings, read_tokens

_START_SECONDS = 60.0  # for the service to answer
_FETCH_SECONDS = 20.0  # for the browser to read the file with the token, which is then removed
_EXTRA = ("fastapi", "httptools", "prometheus_client", "pydantic", "starlette", "uvicorn")


def _add_serve(add: Options) -> None:
    port = os.environ.get("LMCELLS_PORT", "8000")
    add("--port", "port to listen on, 0 for a free one (LMCELLS_PORT, else 8000)", type=int, default=port)
    add("--check", "only check whether the service on this port is ready")
    _add_service(add)


def _add_service(add: Options) -> None:
    add("--host", "address to listen on (127.0.0.1: this machine only)", default="127.0.0.1")
    add("--reviews FILE", "file for the reviewers' decisions (SQLite, mode 0600)")
    add.expander()
    add.finding()
    add("--workers N", "processes (1)", type=int, default=1)
    add("--log-format", "format of the log on standard error", one_of=("text", "json"))
    add = add.group("access")
    add("--token-file FILE", "tokens that clients may send, one per line", type=Path)
    add("--tls-certificate FILE", "PEM file: serve https", dest="certificate")
    add("--tls-key FILE", "its private key, unless it is in the same file", dest="key")
    text = "host name that clients may use; may be repeated (on 127.0.0.1: localhost; else any)"
    add("--allowed-host NAME", text, **REPEATED)
    add("--root-path PATH", "path under which a proxy serves it, such as /acronyms", default="")
    add("--trusted-proxy IP", "proxy whose X-Forwarded-For is trusted; may be repeated", **REPEATED)
    add = add.group("limits")
    for each in fields(ServiceSettings):
        if each.metadata:
            name = f"--{each.name.replace('_', '-')} {each.metadata['metavar']}"
            add(name, each.metadata["help"], type=type(each.default), default=each.default)


def _serve(options: argparse.Namespace, *, on_listening: Callable[[int], None] = lambda _: None) -> None:
    try:
        from lmcells.service.server import TOKEN, ServerOptions, check, serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        raise MissingExtra(str(error.name), extra="serve", purpose="The service") from None
    if options.workers < 1:
        raise ConfigError(f"--workers: found {options.workers}, allowed: 1 or more.")
    if not 0 <= options.port < 65536:
        raise ConfigError(f"--port: found {options.port}, allowed: 0 to 65535.")
    if options.root_path and not re.fullmatch(r"(/[\w.~-]+)+", options.root_path):
        raise ConfigError(f"--root-path: found {options.root_path!r}, allowed: a path such as /acronyms.")
    if options.key and not options.certificate:
        raise ConfigError("--tls-key needs --tls-certificate. Give both.")
    tokens: tuple[str, ...] = (os.environ[TOKEN],) if TOKEN in os.environ else ()
    if options.token_file:
        tokens += read_tokens(options.token_file)
    limits = picked(options, ServiceSettings, reviewer=getattr(options, "reviewer", None) or "")
    server = ServerOptions(
        expander_settings(options),
        ServiceSettings(**limits, allowed_hosts=tuple(options.allowed_host), tokens=tokens),
        **picked(options, ServerOptions),
        trusted_proxies=tuple(options.trusted_proxy),
        json_log=options.log_format == "json",
    )
    if options.check:
        check(server)
    else:
        serve(server, n_workers=options.workers, on_listening=on_listening)


def _add_review(add: Options) -> None:
    add("notes NOTES", "files or folders of notes to add to the queue", nargs="*", type=Path)
    add("--reviewer NAME", "name of the reviewer (%(default)s)", default=_user())
    add("--no-browser", "only print the address of the page")
    add("--export NAME", f"print reviews and exit: {', '.join(EXPORTS)}", choices=tuple(EXPORTS))
    add.group("reading notes").columns()
    add("--port", "port to listen on (0, a free one)", type=int, default=0)
    _add_service(add)
    add.parser.set_defaults(check=False)


def _review(options: argparse.Namespace) -> None:
    if options.reviews is None:
        raise InputError("give --reviews FILE, the file for decisions. It is created if it does not exist.")
    if options.export and not Path(options.reviews).exists():
        raise InputError(f"--reviews {options.reviews} does not exist. Give a file with reviews.")
    store = ReviewStore(Path(options.reviews))
    if options.export:
        inventory = expander_settings(options).open().inventory
        lines = EXPORTS[options.export](store.list_notes(), inventory)
        sys.stdout.buffer.writelines(map(str.encode, lines))  # files are in UTF-8, whatever the terminal is
        return
    if options.notes:
        _add_notes(store, options)
    # Other users of the machine stay out.
    token = os.environ.setdefault("LMCELLS_TOKEN", secrets.token_urlsafe(16))
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "::1": "[::1]"}.get(options.host, options.host)
    origin = f"{'https' if options.certificate else 'http'}://{host}"
    n_notes = store.counts("")["n_notes"]

    def invite(port: int) -> None:
        address = f"{origin}:{port}{options.root_path}/#token={quote(token, safe='')}"
        print(f"{options.reviews}: {n_notes:,} notes. Review them at {address}", flush=True)
        if not options.no_browser:
            given = (options.host, port, address, Path(options.reviews).resolve().parent)
            Thread(target=_open_page, args=given, daemon=True).start()

    _serve(options, on_listening=invite)


def _add_notes(store: ReviewStore, options: argparse.Namespace) -> None:
    report, settings = ReadReport(), expander_settings(options)
    arguments.warn_of_unread_metadata(options, settings)
    notes = arguments.note_files(options).read(report)
    expander = settings.open()
    with ProgressLine() as line:
        add_notes(store, notes, expander, on_progress=lambda n: line.update(f"{n:,} notes expanded"))
    if report.skipped:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in report.skipped.items())
        print(f"lmcells review: skipped: {reasons}", file=sys.stderr)


def _open_page(host: str, port: int, address: str, beside: Path) -> None:
    """Open the page as soon as the service answers, by a private file: everybody sees a browser's command line."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        try:
            socket.create_connection((host, port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
            continue
        with TemporaryDirectory(prefix="review-", dir=beside) as folder:  # also removed when the process ends
            page = Path(folder) / "open.html"
            page.write_text(f'<meta http-equiv="refresh" content="0; url={html.escape(address)}">')
            webbrowser.open(page.as_uri())
            time.sleep(_FETCH_SECONDS)
        return


def _user() -> str:
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # the user has no name
        return "reviewer"


_SERVE = """\
expand over HTTP, with a page for the browser

Answer POST /v1/expand (one note or several), GET /v1/inventory, /metrics (Prometheus), /livez and /readyz, and
/v1/explore for a look inside the model; serve a page for all of these at /, and the API documentation at /docs.
Notes of all clients are expanded together, short ones first. No note text is logged. If the environment variable
LMCELLS_TOKEN or a token file is given, clients must send `Authorization: Bearer TOKEN`. On SIGTERM, requests already
accepted are answered first.

examples:
  lmcells serve
  LMCELLS_TOKEN=secret lmcells serve --host 0.0.0.0 --port 8080 --workers 2
  lmcells serve --host 0.0.0.0 --token-file tokens.txt --tls-certificate server.pem --tls-key server.key
  curl -H 'Content-Type: application/json' -d '{"text": "Pt in PT."}' http://127.0.0.1:8000/v1/expand"""
_REVIEW = """\
review expansions on a page, and keep the decisions

Open the page of `lmcells serve` with notes to review; those with the most doubts and the most frequent unknown forms
come first. Decisions are kept in the file of --reviews (SQLite, mode 0600), with the text of the notes, until they are
deleted on the page. Several reviewers may share the file, even at the same time.
Export decisions on the page or with --export: corrected annotations (annotations.jsonl, or note_nlp.csv for OMOP), a
site inventory (site_inventory.csv, for --inventory), and labelled notes (labelled.jsonl, for lmcells evaluate --notes).
The page uses a free port unless --port is given, and a new token unless LMCELLS_TOKEN is set.

examples:
  lmcells review notes.jsonl --reviews reviews.db
  lmcells review --reviews reviews.db --reviewer Ana
  lmcells review --reviews reviews.db --export site_inventory.csv > site.csv
  lmcells annotate notes.jsonl --output expansions.jsonl --inventory site.csv"""
COMMANDS = {"serve": Command(_SERVE, _add_serve, _serve), "review": Command(_REVIEW, _add_review, _review)}
