"""The thread that expands: it takes batches of notes from many requests and answers them together."""

import logging
from collections import defaultdict
from functools import lru_cache, partial
from threading import Lock, Thread

from lmcells.errors import InputError, InventoryError, nearest
from lmcells.expansion import SenseInventory, expand_text
from lmcells.expansion.expander import Expander
from lmcells.expansion.layers import extend
from lmcells.expansion.reader import Occurrence
from lmcells.service.jobs import AnsweredNote, Batch, Job, NoteQueue
from lmcells.service.messages import InventoryEdits
from lmcells.service.metrics import ServiceMetrics
from lmcells.service.middleware import describe_error

_log = logging.getLogger(__name__)

_MAX_INVENTORIES = 8  # the expander keeps its tables for as many


class Worker:
    """Expands the notes in the queue, those of a batch together; a request with a mistake in it fails alone.

    Its thread starts with the first request: a mounted application has no start-up of its own.
    """

    def __init__(self, queue: NoteQueue, expander: Expander, metrics: ServiceMetrics) -> None:
        self._queue = queue
        self._expander = expander
        # The latest edited inventories are kept, so that a session pays once.
        self._edited = lru_cache(_MAX_INVENTORIES)(partial(edit_inventory, expander.inventory))
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
        """Answer all queued requests, then end the thread."""
        self._queue.close()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while (batch := self._queue.take()) is not None:
            self._metrics.batch_notes.observe(len(batch))
            try:
                with self._metrics.batch_seconds.time():
                    self.expand(batch)
            except Exception as error:  # the thread must outlive it: nobody else answers those who wait
                _log.error("%s", describe_error(error))

    def expand(self, batch: Batch) -> None:
        """Answer every note of a batch, or fail its request."""
        by_edits: dict[InventoryEdits | None, Batch] = defaultdict(list)
        for job, index in batch:
            by_edits[job.request.inventory].append((job, index))
        for edits, notes in by_edits.items():
            try:
                self._expand(edits, notes)
            except Exception:  # try each request alone, so that only the one to blame fails
                for each in dict.fromkeys(job for job, _ in notes):
                    own = [(job, index) for job, index in notes if job is each and index not in job.answers]
                    try:
                        self._expand(edits, own)
                    except Exception as error:
                        each.fail(error)

    def _expand(self, edits: InventoryEdits | None, notes: Batch) -> None:
        try:
            lexicon = self._expander.lexicon(only_inventory=self._edited(edits) if edits else None)
        except InputError as error:
            for job, _ in notes:
                job.fail(error)
            return
        read: list[tuple[Job, int, list[Occurrence]]] = []
        for job, index in notes:
            if job.answered.done():
                continue
            note = job.notes[index]
            try:
                read.append((job, index, lexicon.read(note.text, note.sections, dict(note.metadata))))
            except InputError as error:
                job.fail(error)
        expanded = self._expander.expand_read([occurrences for *_, occurrences in read], lexicon)
        answers: list[AnsweredNote] = []
        for (job, index, occurrences), expansions in zip(read, expanded, strict=True):
            note, style = job.notes[index], job.request.expanded_text
            asked = job.request.explain
            starts = None if isinstance(asked, bool) else set(asked)
            explanations = self._expander.explain_read(occurrences, lexicon, starts) if asked else None
            written_out = expand_text(note.text, expansions, style=style) if style else None
            answers.append(AnsweredNote(note.id, expansions, explanations, written_out))
        self._metrics.count_notes([job.notes[index].text for job, index, _ in read], expanded)
        for (job, index, _), answer in zip(read, answers, strict=True):
            job.answer(index, answer)


def edit_inventory(inventory: SenseInventory, edits: InventoryEdits) -> SenseInventory:
    """Return an inventory with changes; InventoryError if they contradict it."""
    below = SenseInventory() if edits.only else inventory
    for name in edits.remove:
        senses = below.senses(name.short_form)
        names = [sense.long_form for sense in senses]
        if name.long_form is not None and name.long_form.casefold() not in map(str.casefold, names):
            near = nearest(name.long_form, names)
            raise InventoryError(f"{name.long_form!r} is not a sense of {name.short_form!r}.{near}")
    removed = [each.model_dump() | {"action": "forbid"} for each in edits.remove]
    return extend(below, [*removed, *(each.model_dump() for each in (*edits.add, *edits.rules))])
