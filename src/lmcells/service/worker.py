"""The one thread that expands: it takes batches from the queue until there will be no more."""

import logging
from threading import Lock, Thread

from lmcells.service.batch_expander import BatchExpander
from lmcells.service.job import Job
from lmcells.service.metrics import ServiceMetrics
from lmcells.service.note_queue import NoteQueue
from lmcells.service.observation import describe

_log = logging.getLogger(__name__)


class Worker:
    """Starts with the first request, since a mounted application has no start-up of its own.

    `stop` returns when all that was queued is answered.
    """

    def __init__(self, queue: NoteQueue, expand: BatchExpander, metrics: ServiceMetrics) -> None:
        self._queue = queue
        self._expand = expand
        self._metrics = metrics
        self._thread: Thread | None = None
        self._starting = Lock()

    def put(self, job: Job) -> None:
        """Queue a request."""
        self._queue.put(job)
        with self._starting:
            if self._thread is None:
                self._thread = Thread(target=self._run, name="lmcells-expander", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Answer what waits, then end."""
        self._queue.close()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while (batch := self._queue.take()) is not None:
            self._metrics.batch_notes.observe(len(batch))
            try:
                with self._metrics.batch_seconds.time():
                    self._expand(batch)
            except Exception as error:  # nobody else would answer those who wait
                _log.error("%s", describe(error))
