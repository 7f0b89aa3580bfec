"""Counts and times for Prometheus; never a word of a note."""

import collections
import os
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess

from lmcells.expansion import Expansion

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # where several worker processes count together

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_NOTES = (1, 2, 4, 8, 16, 32, 64, 96)


class ServiceMetrics:
    """What the service counts, in a registry of its own."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "lmcells_requests", "Requests answered.", ("path", "status"), registry=registry
        )
        self.request_seconds = Histogram(
            "lmcells_request_seconds",
            "From a request's first byte to the last of its answer.",
            ("path",),
            buckets=_SECONDS,
            registry=registry,
        )
        self.in_progress = Gauge(
            "lmcells_requests_in_progress",
            "Requests to expand that were let in.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.waiting_notes = Gauge(
            "lmcells_waiting_notes",
            "Notes that wait for a batch.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.given_up = Counter(
            "lmcells_requests_given_up", "Requests whose client left first.", registry=registry
        )
        self.notes = Counter("lmcells_notes", "Notes expanded.", registry=registry)
        self.characters = Counter("lmcells_characters", "Characters of these notes.", registry=registry)
        self.batch_notes = Histogram(
            "lmcells_batch_notes", "Notes ranked together.", buckets=_NOTES, registry=registry
        )
        self.batch_seconds = Histogram(
            "lmcells_batch_seconds", "Time that a batch takes.", buckets=_SECONDS, registry=registry
        )
        expansions = Counter("lmcells_expansions", "Short forms found.", ("outcome",), registry=registry)
        self._expansions = {name: expansions.labels(name) for name in ("model", "definition", "abstained")}

    def count_notes(self, texts: Sequence[str], expanded: Sequence[Sequence[Expansion]]) -> None:
        """Count notes of a batch, and their short forms by what became of each."""
        self.notes.inc(len(texts))
        self.characters.inc(sum(map(len, texts)))
        outcomes = collections.Counter(
            "abstained" if each.abstained else each.source for expansions in expanded for each in expansions
        )
        for name, n_short_forms in outcomes.items():
            self._expansions[name].inc(n_short_forms)

    def watch(self, n_waiting: Callable[[], int]) -> None:
        """Tell how to learn the length of the queue."""
        self._n_waiting = n_waiting

    def render(self) -> bytes:
        """Return all of it in Prometheus' text format; with several worker processes, their sums."""
        self.waiting_notes.set(self._n_waiting())
        if SHARED_FOLDER not in os.environ:
            return generate_latest(self._registry)
        together = CollectorRegistry()
        multiprocess.MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)
