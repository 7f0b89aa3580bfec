"""The service as a process, or several: a socket, signals, a log without notes."""

import gc
import json
import logging
import os
import signal
import socket
import tempfile
from dataclasses import asdict, dataclass

import uvicorn
from fastapi import FastAPI
from uvicorn.supervisors import Multiprocess

from lmcells.errors import InputError
from lmcells.expansion.expander import Expander
from lmcells.service.app import create_app
from lmcells.service.metrics import SHARED_FOLDER
from lmcells.service.settings import ServiceSettings

LOADED = "LMCELLS_SERVICE"  # what a worker process is to load, as JSON
TOKEN = "LMCELLS_TOKEN"

_BACKLOG = 2048
_GRACE = 60  # seconds in which to finish what was taken, before what is left is cut off
_COLLECT_AFTER = 10_000  # new objects: a batch makes fewer, and none that only the collector could free

_log = logging.getLogger("lmcells.service")


@dataclass(frozen=True, slots=True)
class Loaded:
    """What to open: a model folder and an inventory file, or the shipped ones."""

    model: str | None = None
    inventory: str | None = None

    def open(self) -> Expander:
        """Open them."""
        return Expander.from_pretrained(self.model, inventory=self.inventory)


def serve(
    loaded: Loaded,
    settings: ServiceSettings,
    *,
    host: str,
    port: int,
    n_workers: int = 1,
    root_path: str = "",
) -> None:
    """Answer until a signal ends it; what was taken is answered first."""
    write_log()
    expander = loaded.open()  # what is wrong with it is said before anything listens
    listening = listen(host, port)
    address = url(listening)
    _log.info("listening on %s (%d short forms, %s)", address, len(expander.inventory), _of(n_workers))
    if settings.token is None and not _is_local(listening):
        _log.warning("no token is asked for: whoever reaches %s may use it. Set %s.", address, TOKEN)
    # uvicorn repeats the signal when all is done: it then ends nothing, and the exit code is 0.
    signal.signal(signal.SIGTERM, lambda *_: None)
    if n_workers == 1:
        app = create_app(expander, settings)
        spare_collector()
        uvicorn.Server(_config(app, root_path=root_path)).run(sockets=[listening])
        return
    with tempfile.TemporaryDirectory(prefix="lmcells-metrics-") as shared:
        os.environ[SHARED_FOLDER] = shared
        limits = {name: value for name, value in asdict(settings).items() if name != "token"}
        os.environ[LOADED] = json.dumps({"loaded": asdict(loaded), "settings": limits})
        config = _config(f"{__name__}:worker_app", n_workers=n_workers, root_path=root_path)
        Multiprocess(config, sockets=[listening]).run()


def worker_app() -> FastAPI:
    """The application of a worker process, from what its parent left in the environment."""
    write_log()
    given = json.loads(os.environ[LOADED])
    settings = ServiceSettings(**given["settings"], token=os.environ.get(TOKEN) or None)
    app = create_app(Loaded(**given["loaded"]).open(), settings)
    spare_collector()
    return app


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 takes a free one."""
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


def write_log() -> None:
    """Log to standard error: ours, and the server's from warnings on, which name no path and no body."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    _log.setLevel(logging.INFO)


def spare_collector() -> None:
    """Let the garbage collector pass over what is loaded: it stays, and takes long to look through each time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER)


def _config(app: FastAPI | str, *, n_workers: int = 1, root_path: str) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        factory=isinstance(app, str),
        workers=n_workers,
        root_path=root_path,
        access_log=False,  # it would hold query strings; `observation.py` keeps ours
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=_GRACE,
        lifespan="on",
        ws="none",
    )


def _is_local(listening: socket.socket) -> bool:
    host: str = listening.getsockname()[0]
    return host == "::1" or host.startswith("127.")


def _of(n_workers: int) -> str:
    return "one process" if n_workers == 1 else f"{n_workers} processes"
