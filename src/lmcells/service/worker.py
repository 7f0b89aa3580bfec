"""The one thread that expands: it takes batches from the queue until there will be no more."""

import logging
from threading import Thread

from lmcells.service.batch_expander import BatchExpander
from lmcells.service.metrics import ServiceMetrics
from lmcells.service.note_queue import NoteQueue
from lmcells.service.observation import describe

_log = logging.getLogger(__name__)


class Worker:
    """Started with the service; `stop` returns when all that was queued is answered."""

    def __init__(self, queue: NoteQueue, expand: BatchExpander, metrics: ServiceMetrics) -> None:
        self._queue = queue
        self._expand = expand
        self._metrics = metrics
        self._thread = Thread(target=self._run, name="lmcells-expander", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def stop(self) -> None:
        """Answer what waits, then end."""
        self._queue.close()
        self._thread.join()

    def _run(self) -> None:
        while (batch := self._queue.take()) is not None:
            self._metrics.batch_notes.observe(len(batch))
            try:
                with self._metrics.batch_seconds.time():
                    self._expand(batch)
            except Exception as error:  # nobody else would answer those who wait
                _log.error("%s", describe(error))
