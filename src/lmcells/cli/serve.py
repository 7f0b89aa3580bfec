"""`lmcells serve`: expansion over HTTP, and a page to try it on."""

import argparse
import os
import re
from pathlib import Path

from lmcells.cli.arguments import REPEATED, Command, add_expander, adder, expander_settings
from lmcells.errors import ConfigError, MissingExtra
from lmcells.service.settings import ServiceSettings, read_tokens

_EXTRA = ("fastapi", "httptools", "prometheus_client", "pydantic", "starlette", "uvicorn")
_LIMITS = {
    "max_body": (float, "MB", "per request (%(default)g), else 413"),
    "max_note_length": (int, "N", "characters per note (%(default)d), else 422"),
    "max_notes": (int, "N", "notes per request (%(default)d), else 422"),
    "max_concurrency": (int, "N", "requests at a time in each process (%(default)d), else 429"),
    "max_connections": (int, "N", "open connections of each process (%(default)d); idle ones are closed"),
    "deadline": (float, "SECONDS", "for an answer (%(default)g), else 503"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    add = adder(parser)
    add("--host", "address to listen on (127.0.0.1: this machine only)", default="127.0.0.1")
    port = os.environ.get("LMCELLS_PORT", "8000")
    add("--port", "port to listen on, 0 for a free one (LMCELLS_PORT, else 8000)", type=int, default=port)
    add("--reviews FILE", "file for the reviewers' decisions (SQLite, mode 0600)")
    add_expander(parser)
    add("--workers N", "processes (1)", type=int, default=1)
    add("--log-format", "of the log on standard error", one_of=("text", "json"))
    add("--check", "only ask the service on this port whether it is ready")
    add = adder(parser.add_argument_group("access"))
    add("--token-file FILE", "tokens that clients may send, one per line", type=Path)
    add("--tls-certificate FILE", "PEM file: serve https")
    add("--tls-key FILE", "its private key, unless it is in the same file")
    text = "name by which clients may call it, repeatable (on 127.0.0.1: localhost; else any)"
    add("--allowed-host NAME", text, **REPEATED)
    add("--root-path PATH", "path under which a proxy serves it, such as /acronyms", default="")
    add("--trusted-proxy IP", "proxy whose X-Forwarded-For is believed, repeatable", **REPEATED)
    add = adder(parser.add_argument_group("limits"))
    for name, (kind, metavar, what) in _LIMITS.items():
        default = getattr(ServiceSettings(), name)
        add(f"--{name.replace('_', '-')} {metavar}", what, type=kind, default=default)


def run(options: argparse.Namespace) -> None:
    """Serve until a signal ends it."""
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
    if options.tls_key and not options.tls_certificate:
        raise ConfigError("--tls-key: found without --tls-certificate. Give both.")
    tokens: tuple[str, ...] = (os.environ[TOKEN],) if TOKEN in os.environ else ()
    if options.token_file:
        tokens += read_tokens(options.token_file)
    limits = {name: getattr(options, name) for name in _LIMITS}
    server = ServerOptions(
        expander_settings(options),
        ServiceSettings(
            **limits,
            allowed_hosts=tuple(options.allowed_host),
            reviews=options.reviews,
            reviewer=getattr(options, "reviewer", None) or "",
            tokens=tokens,
        ),
        host=options.host,
        port=options.port,
        root_path=options.root_path,
        certificate=options.tls_certificate,
        key=options.tls_key,
        trusted_proxies=tuple(options.trusted_proxy),
        json_log=options.log_format == "json",
    )
    if options.check:
        check(server)
    else:
        serve(server, n_workers=options.workers)


_SERVE = """\
expand over HTTP, with a page for the browser

Answer POST /v1/expand (one note or several), GET /v1/inventory, /metrics (Prometheus), /livez and /readyz, and
/v1/explore for a look into the model; serve a page for all of it at /, and one of the API at /docs.
Notes of all clients are expanded together, short ones first. No note text is logged. If the environment variable
LMCELLS_TOKEN or a token file is given, clients must send `Authorization: Bearer TOKEN`. On SIGTERM, requests already
accepted are answered first.

examples:
  lmcells serve
  LMCELLS_TOKEN=secret lmcells serve --host 0.0.0.0 --port 8080 --workers 2
  lmcells serve --host 0.0.0.0 --token-file tokens.txt --tls-certificate server.pem --tls-key server.key
  curl -H 'Content-Type: application/json' -d '{"text": "Pt in PT."}' http://127.0.0.1:8000/v1/expand"""
COMMANDS = {"serve": Command(_SERVE, add_arguments, run)}
