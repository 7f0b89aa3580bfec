"""The service as one or several processes: a socket, signals, a log without note text."""

import gc
import json
import logging
import os
import signal
import socket
import tempfile
from dataclasses import asdict

import uvicorn
from fastapi import FastAPI
from uvicorn.supervisors import Multiprocess

from lmcells.errors import InputError
from lmcells.expansion.settings import ExpanderSettings
from lmcells.service.app import create_app
from lmcells.service.metrics import SHARED_FOLDER
from lmcells.service.settings import ServiceSettings

TOKEN = "LMCELLS_TOKEN"

_WORKER = "LMCELLS_SERVICE"  # what a worker process is to load, as JSON
_BACKLOG = 2048
_GRACE_SECONDS = 60  # to answer what was accepted, before what is left is cut off
_COLLECT_AFTER = 10_000  # new objects: a batch makes fewer, and none that only the collector could free

_log = logging.getLogger("lmcells.service")


def serve(
    expanding: ExpanderSettings,
    settings: ServiceSettings,
    *,
    host: str,
    port: int,
    n_workers: int = 1,
    root_path: str = "",
) -> None:
    """Serve an expander until a signal ends it."""
    start_log()
    expander = expanding.open()  # errors are reported before anything listens
    listening = listen(host, port)
    address = url(listening)
    processes = "one process" if n_workers == 1 else f"{n_workers} processes"
    _log.info("listening on %s (%d short forms, %s)", address, len(expander.inventory), processes)
    local = listening.getsockname()[0]
    if settings.token is None and not (local == "::1" or local.startswith("127.")):
        _log.warning("no token is set: anyone who can reach %s may use it. Set %s.", address, TOKEN)
    # uvicorn repeats the signal when all is done; ignoring it then makes the exit code 0.
    signal.signal(signal.SIGTERM, lambda *_: None)
    if n_workers == 1:
        app = create_app(expander, settings)
        freeze_loaded()
        uvicorn.Server(_config(app, root_path=root_path)).run(sockets=[listening])
        return
    with tempfile.TemporaryDirectory(prefix="lmcells-metrics-") as shared:
        os.environ[SHARED_FOLDER] = shared
        limits = {name: value for name, value in asdict(settings).items() if name != "token"}
        os.environ[_WORKER] = json.dumps({"expander": asdict(expanding), "settings": limits})
        config = _config(f"{__name__}:worker_app", n_workers=n_workers, root_path=root_path)
        Multiprocess(config, sockets=[listening]).run()


def worker_app() -> FastAPI:
    """Return the application of a worker process, from what its parent left in the environment."""
    start_log()
    given = json.loads(os.environ[_WORKER])
    settings = ServiceSettings(**given["settings"], token=os.environ.get(TOKEN) or None)
    app = create_app(ExpanderSettings(**given["expander"]).open(), settings)
    freeze_loaded()
    return app


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes a free one."""
    listening = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except (OSError, OverflowError, UnicodeError) as error:
        if listening is not None:
            listening.close()
        reason = (error.strerror if isinstance(error, OSError) else None) or "no such address"
        raise InputError(
            f"cannot listen on {host} port {port}: {reason}. Give another --host or --port."
        ) from None
    return listening


def url(listening: socket.socket) -> str:
    """Return the address of the page."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def start_log() -> None:
    """Log to standard error: our own lines, and the server's warnings, which name no path and no body."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    _log.setLevel(logging.INFO)


def freeze_loaded() -> None:
    """Keep the garbage collector from searching what is loaded: it stays, and searching it takes long."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)


def _config(app: FastAPI | str, *, n_workers: int = 1, root_path: str) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        factory=isinstance(app, str),
        workers=n_workers,
        root_path=root_path,
        access_log=False,  # it would hold query strings; `middleware.Observation` writes ours
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        lifespan="on",
        ws="none",
    )
