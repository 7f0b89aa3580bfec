"""The service as one or several processes: sockets, signals, a log without note text."""

import gc
import json
import logging
import os
import signal
import socket
import ssl
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from threading import Thread
from typing import Any

import uvicorn
from fastapi import FastAPI
from prometheus_client import multiprocess

from lmcells.errors import ConfigError, InputError
from lmcells.expansion.expander import Expander
from lmcells.expansion.settings import ExpanderSettings
from lmcells.service.app import create_app
from lmcells.service.connections import limited_connections
from lmcells.service.metrics import SHARED_FOLDER
from lmcells.service.settings import ServiceSettings

TOKEN = "LMCELLS_TOKEN"

_BACKLOG = 2048
_GRACE_SECONDS = 60  # to answer accepted requests, before the rest are cut off
_COLLECT_AFTER = 10_000  # new objects: a batch makes fewer, none of them in reference cycles
_SWITCH_SECONDS = 0.0005  # of computing before other threads get a turn: a request passes through many
_RESTART_SECONDS = 1.0  # between two starts of a worker that exits at once
_SPARE_FILES = 64  # besides connections
_LOCAL = ("localhost", "127.0.0.1", "[::1]")

_log = logging.getLogger("lmcells.service")


@dataclass(frozen=True)
class ServerOptions:
    """What a process serves, and where; pickled for worker processes."""

    expander: ExpanderSettings
    settings: ServiceSettings
    host: str = "127.0.0.1"
    port: int = 8000
    root_path: str = ""
    certificate: str | None = None
    key: str | None = None
    trusted_proxies: tuple[str, ...] = ()
    json_log: bool = False


def serve(
    options: ServerOptions, *, n_workers: int = 1, on_listening: Callable[[int], None] = lambda _: None
) -> None:
    """Serve until a signal arrives; `on_listening` is called with the port as soon as it is ours."""
    start_log(as_json=options.json_log)
    _tls(options)
    # Report errors before anything listens.
    expander = options.expander.open()
    if n_workers == 1 or not hasattr(socket, "SO_REUSEPORT"):
        listening = listen(options.host, options.port)
        _announce(options, listening, 1)
        on_listening(listening.getsockname()[1])
        _serve_here(options, expander, listening)
        return
    del expander
    # Each worker listens on its own socket: the system spreads connections evenly, and a worker that ends takes
    # only its own with it. This one keeps the port, and never listens.
    with listen(options.host, options.port, is_shared=True, backlog=None) as reserved:
        _announce(options, reserved, n_workers)
        on_listening(reserved.getsockname()[1])
        with tempfile.TemporaryDirectory(prefix="lmcells-metrics-") as shared:
            os.environ[SHARED_FOLDER] = shared
            _supervise(options, reserved.getsockname()[1], n_workers)


def check(options: ServerOptions) -> None:
    """Check whether the service on this machine is ready; InputError if not."""
    host = "127.0.0.1" if options.host in ("0.0.0.0", "::") else options.host
    connections = (
        HTTPConnection(host, options.port, timeout=5),
        HTTPSConnection(host, options.port, timeout=5, context=ssl._create_unverified_context()),  # our own
    )
    for connection in connections:
        with closing(connection), suppress(OSError, HTTPException):
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return
    raise InputError(f"no service on {host} port {options.port} is ready. See its log.")


def _serve_here(options: ServerOptions, expander: Expander, listening: socket.socket) -> None:
    settings = options.settings
    if not settings.allowed_hosts and _is_local(listening):  # against DNS rebinding
        settings = replace(settings, allowed_hosts=_LOCAL)
    app = create_app(expander, settings)
    freeze_loaded()
    sys.setswitchinterval(_SWITCH_SECONDS)
    allow_connections(settings.max_connections)
    # uvicorn repeats the signal when all is done; ignoring it then makes the exit code 0.
    signal.signal(signal.SIGTERM, lambda *_: None)
    config = server_config(
        app,
        settings,
        tls=_tls(options),
        root_path=options.root_path,
        proxy_headers=bool(options.trusted_proxies),
        forwarded_allow_ips=list(options.trusted_proxies),
    )
    uvicorn.Server(config).run(sockets=[listening])


def server_config(
    app: FastAPI, settings: ServiceSettings, *, tls: ssl.SSLContext | None = None, **others: Any
) -> uvicorn.Config:
    """Return uvicorn's configuration: our limits on connections, and no log besides ours."""
    return uvicorn.Config(
        app,
        http=limited_connections(settings, tls),
        loop="asyncio" if tls else "auto",
        access_log=False,  # it would contain query strings; `middleware.Observation` writes ours
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        lifespan="on",
        ws="none",
        **others,
    )


def _run_worker(options: ServerOptions, port: int) -> None:
    start_log(as_json=options.json_log)
    parent = parent_process()

    def end_with_parent() -> None:
        if parent is not None:
            wait([parent.sentinel])
            while True:  # the first may come before uvicorn handles signals
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(1)

    Thread(target=end_with_parent, daemon=True).start()
    _serve_here(options, options.expander.open(), listen(options.host, port, is_shared=True))


def _supervise(options: ServerOptions, port: int, n_workers: int) -> None:
    """Run worker processes and replace those that end, until a signal arrives."""
    spawn = get_context("spawn")
    is_ending = False

    def end(*_: object) -> None:
        nonlocal is_ending
        is_ending = True
        for process in workers:
            process.terminate()

    def start() -> None:
        workers.append(spawn.Process(target=_run_worker, args=(options, port)))
        workers[-1].start()

    workers: list[BaseProcess] = []
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP; nohup ignores it
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)
    started = time.monotonic()
    for _ in range(n_workers):
        start()
    while not is_ending:
        wait([process.sentinel for process in workers], timeout=1.0)
        for process in [each for each in workers if not each.is_alive()]:
            workers.remove(process)
            multiprocess.mark_process_dead(process.pid)  # type: ignore[no-untyped-call]
            if is_ending:
                break
            if time.monotonic() - started < _RESTART_SECONDS:
                time.sleep(_RESTART_SECONDS)
            _log.warning("worker %d ended with %s; starting another", process.pid, process.exitcode)
            started = time.monotonic()
            start()
    end()  # a signal may have come while one started
    for process in workers:
        process.join(_GRACE_SECONDS + 10)
        process.kill()


def listen(host: str, port: int, *, is_shared: bool = False, backlog: int | None = _BACKLOG) -> socket.socket:
    """Return a listening socket; port 0 takes a free port, and without a backlog the port is only reserved."""
    listening = None
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        *kind, _, address = found[0]
        listening = socket.socket(*kind)
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listening.bind(address)
        if backlog is not None:
            listening.listen(backlog)
    except (OSError, OverflowError, UnicodeError) as error:
        if listening is not None:
            listening.close()
        reason = (error.strerror if isinstance(error, OSError) else None) or "no such address"
        what = f"cannot listen on {host} port {port}: {reason}"
        raise InputError(f"{what}. Give another --host or --port.") from None
    return listening


def url(listening: socket.socket, *, scheme: str = "http") -> str:
    host, port = listening.getsockname()[:2]
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def start_log(*, as_json: bool = False) -> None:
    """Log to standard error: our own lines, and the server's warnings, which contain no path and no body."""
    handler = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(JsonLines() if as_json else text)
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    _log.setLevel(logging.INFO)


class JsonLines(logging.Formatter):
    """One JSON object per line; that of a request has its fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as JSON, without tracebacks: they may quote a note."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields = {"time": time, "level": record.levelname.lower(), "message": record.getMessage()}
        return json.dumps(fields | getattr(record, "fields", {}), ensure_ascii=False)


def freeze_loaded() -> None:
    """Exclude loaded objects from garbage collection: they are never freed, and searching them takes long."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)


def allow_connections(n_connections: int) -> None:
    """Raise the limit on open files to the system's: each connection is one."""
    try:
        import resource
    except ModuleNotFoundError:  # on Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard != resource.RLIM_INFINITY and hard < n_connections + _SPARE_FILES:
        need = "%d connections need more than the %d open files allowed."
        _log.warning(f"{need} Raise `ulimit -Hn`, or lower --max-connections.", n_connections, hard)


def _announce(options: ServerOptions, listening: socket.socket, n_workers: int) -> None:
    address = url(listening, scheme="https" if options.certificate else "http")
    _log.info("listening on %s (%s)", address, "one process" if n_workers == 1 else f"{n_workers} processes")
    if not options.settings.tokens and not _is_local(listening):
        _log.warning("no token is set: anyone who can reach %s can use it. Set %s.", address, TOKEN)


def _is_local(listening: socket.socket) -> bool:
    local: str = listening.getsockname()[0]
    return local == "::1" or local.startswith("127.")


def _tls(options: ServerOptions) -> ssl.SSLContext | None:
    if options.certificate is None:
        return None
    files = options.certificate + (f" with --tls-key {options.key}" if options.key else "")

    def refuse_encrypted() -> str:  # OpenSSL would ask on the terminal
        raise ConfigError(
            f"--tls-certificate: the key of {files} is encrypted. Give it without a passphrase."
        )

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(options.certificate, options.key, refuse_encrypted)
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or error.reason if isinstance(error, ssl.SSLError) else error.strerror
        raise ConfigError(f"--tls-certificate: cannot use {files}: {reason}.") from None
    return context
