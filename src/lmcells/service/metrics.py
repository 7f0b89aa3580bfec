"""Counts and times for Prometheus, without any note text."""

import collections
import os
from collections.abc import Callable, Sequence
from typing import Any, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess

from lmcells.expansion.expansion import Expansion, Source

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # where several worker processes count together

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_NOTES = (1, 2, 4, 8, 16, 32, 64, 96)


class ServiceMetrics:
    """The service's metrics, in their own registry; `n_waiting` returns the length of the queue."""

    def __init__(self, n_waiting: Callable[[], int] = lambda: 0) -> None:
        self._n_waiting = n_waiting
        self._registry = CollectorRegistry()
        own: dict[str, Any] = {"registry": self._registry}
        summed = own | {"multiprocess_mode": "livesum"}
        self.requests = Counter("lmcells_requests", "Requests answered.", ("path", "status"), **own)
        text = "From a request's first byte to the last of its answer."
        self.request_seconds = Histogram("lmcells_request_seconds", text, ("path",), buckets=_SECONDS, **own)
        text = "Requests to expand that were accepted."
        self.in_progress = Gauge("lmcells_requests_in_progress", text, **summed)
        self.waiting_notes = Gauge("lmcells_waiting_notes", "Notes that wait for a batch.", **summed)
        self.given_up = Counter("lmcells_requests_given_up", "Requests whose client left first.", **own)
        self.notes = Counter("lmcells_notes", "Notes expanded.", **own)
        self.characters = Counter("lmcells_characters", "Characters of these notes.", **own)
        self.batch_notes = Histogram("lmcells_batch_notes", "Notes ranked together.", buckets=_NOTES, **own)
        self.batch_seconds = Histogram("lmcells_batch_seconds", "Time per batch.", buckets=_SECONDS, **own)
        expansions = Counter("lmcells_expansions", "Short forms found.", ("outcome",), **own)
        self._expansions = {name: expansions.labels(name) for name in (*get_args(Source), "abstained")}

    def count_note(self, text: str, expansions: Sequence[Expansion]) -> None:
        self.notes.inc()
        self.characters.inc(len(text))
        outcomes = collections.Counter("abstained" if each.abstained else each.source for each in expansions)
        for name, n_short_forms in outcomes.items():
            self._expansions[name].inc(n_short_forms)

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format, summed over worker processes."""
        self.waiting_notes.set(self._n_waiting())
        if SHARED_FOLDER not in os.environ:
            return generate_latest(self._registry)
        together = CollectorRegistry()
        multiprocess.MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)
