"""`lmcells serve`: expansion over HTTP, and a page to try it on."""

import argparse
import os
import re

from lmcells.cli.arguments import Command, add_expander, expander_settings
from lmcells.errors import ConfigError, MissingExtra
from lmcells.service import ServiceSettings

_EXTRA = ("fastapi", "prometheus_client", "pydantic", "starlette", "uvicorn")
_LIMITS = {
    "max_body": (float, "MB", "per request (%(default)g), else 413"),
    "max_note_length": (int, "N", "characters per note (%(default)d), else 422"),
    "max_concurrency": (int, "N", "requests at a time in each process (%(default)d), else 429"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="address to listen on (127.0.0.1: this machine only)")
    add("--port", type=int, default=8000, help="port to listen on, 0 for a free one (%(default)d)")
    add(
        "--root-path",
        default="",
        metavar="PATH",
        help="path under which a proxy serves it, such as /acronyms",
    )
    add("--reviews", metavar="FILE", help="keep what reviewers decide on the page (SQLite, mode 0600)")
    add_expander(parser)
    limits = parser.add_argument_group("limits")
    for name, (kind, metavar, what) in _LIMITS.items():
        default = getattr(ServiceSettings(), name)
        flag = "--" + name.replace("_", "-")
        limits.add_argument(flag, type=kind, default=default, metavar=metavar, help=what)
    add("--workers", type=int, default=1, metavar="N", help="processes (1)")


def run(options: argparse.Namespace) -> None:
    """Serve until a signal ends it."""
    try:
        from lmcells.service.server import TOKEN, serve
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
    limits = {name: getattr(options, name) for name in _LIMITS}
    serve(
        expander_settings(options),
        ServiceSettings(
            **limits,
            reviews=options.reviews,
            reviewer=getattr(options, "reviewer", None) or "",
            token=os.environ.get(TOKEN) or None,
        ),
        host=options.host,
        port=options.port,
        n_workers=options.workers,
        root_path=options.root_path,
    )


COMMANDS = {
    "serve": Command(
        summary="expand over HTTP, with a page for the browser",
        description="""\
Answer POST /expand (one note or several), GET /inventory, /health and /metrics (Prometheus), and /explore for a look
into the model; serve a page for all of it at /.
Notes of all clients are expanded together. No note text is logged. If the environment variable LMCELLS_TOKEN is set,
clients must send `Authorization: Bearer TOKEN`. On SIGTERM, requests already accepted are answered first.""",
        example="""\
examples:
  lmcells serve
  LMCELLS_TOKEN=secret lmcells serve --host 0.0.0.0 --port 8080 --workers 2
  curl -H 'Content-Type: application/json' -d '{"text": "Pt in PT."}' http://127.0.0.1:8000/expand""",
        add_arguments=add_arguments,
        run=run,
    )
}
