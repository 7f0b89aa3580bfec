"""The one thread that expands: it takes batches from the queue until there will be no more."""

import logging
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Condition, Lock, Thread

from lmcells.errors import InputError
from lmcells.expansion import ExpandedText, Expansion, Sense, SenseInventory, expand_text
from lmcells.expansion.expander import Expander
from lmcells.expansion.explain import Explanation
from lmcells.expansion.reader import Occurrence
from lmcells.service.guards import describe
from lmcells.service.messages import InventoryEdits, ManyNotes, NoteMessage, OneNote
from lmcells.service.metrics import ServiceMetrics

# A request on its way through the service: its notes, their answers so far, and who waits for them.


@dataclass(frozen=True, slots=True)
class AnsweredNote:
    """What `NoteAnswer` describes, in the library's own types: written to JSON without a detour."""

    id: str | None
    expansions: list[Expansion]
    explanations: list[Explanation | None] | None = field(repr=False)
    expanded: ExpandedText | None


class Job:
    """Filled by the worker's thread, and given up from any other.

    `on_done` is called once by the worker, when the last note is answered or when one cannot be.
    """

    def __init__(self, request: OneNote | ManyNotes, on_done: Callable[["Job"], object]) -> None:
        self.request = request
        self.notes: tuple[NoteMessage, ...] = request.notes if isinstance(request, ManyNotes) else (request,)
        self.answers: list[AnsweredNote | None] = [None] * len(self.notes)
        self.n_taken = 0  # notes that went into a batch
        self.error: Exception | None = None
        self.is_given_up = False
        self._n_missing = len(self.notes)
        self._on_done = on_done

    @property
    def n_untaken(self) -> int:
        """Notes that still wait for a batch."""
        return 0 if self.is_over else len(self.notes) - self.n_taken

    @property
    def is_over(self) -> bool:
        """Whether more work on it would be wasted: nobody waits, or a note cannot be answered."""
        return self.is_given_up or self.error is not None

    def give_up(self) -> None:
        """The client left."""
        self.is_given_up = True

    def answer(self, index: int, answer: AnsweredNote) -> None:
        """Keep the answer to a note, and tell who waits when it was the last."""
        self.answers[index] = answer
        self._n_missing -= 1
        if self._n_missing == 0 and not self.is_over:
            self._on_done(self)

    def fail(self, error: Exception) -> None:
        """Tell who waits why there will be no answer."""
        if not self.is_over:
            self.error = error
            self._on_done(self)


# Notes of all waiting requests, handed out in batches, no request held up by a larger one.


BATCH_NOTES = 96  # more are ranked no faster, and hold up a small request longer
BATCH_CHARACTERS = 400_000
TURN = 32  # notes that a request may put into a batch before it stands at the end of the line again

Batch = list[tuple[Job, int]]  # a request, and which of its notes


class NoteQueue:
    """First come, first served, in turns: small requests go through whole, large ones let others pass.

    How many requests may wait is bounded where they come in (`limits.py`).
    """

    def __init__(self) -> None:
        self._line: deque[Job] = deque()
        self._changed = Condition()
        self._is_closed = False

    @property
    def n_waiting(self) -> int:
        """Notes that nobody works on yet."""
        with self._changed:
            return sum(job.n_untaken for job in self._line)

    def put(self, job: Job) -> None:
        """Let a request wait for its turn; what is put before `close` is handed out."""
        with self._changed:
            if self._is_closed:
                raise RuntimeError("the queue is closed")
            self._line.append(job)
            self._changed.notify()

    def take(self) -> Batch | None:
        """Wait for notes and return a batch of them; None when the queue is closed and empty."""
        with self._changed:
            while True:
                batch = self._batch()
                if batch:
                    return batch
                if self._is_closed:
                    return None
                self._changed.wait()

    def close(self) -> None:
        """Take no more requests."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _batch(self) -> Batch:
        batch: Batch = []
        n_characters = 0
        while self._line and len(batch) < BATCH_NOTES and n_characters < BATCH_CHARACTERS:
            job = self._line.popleft()
            in_turn = 0
            while job.n_untaken and in_turn < TURN and len(batch) < BATCH_NOTES:
                n_characters += len(job.notes[job.n_taken].text)
                batch.append((job, job.n_taken))
                job.n_taken += 1
                in_turn += 1
                if n_characters >= BATCH_CHARACTERS:
                    break
            if job.n_untaken:
                self._line.append(job)
        return batch


# The inventory of a request: the service's own, with the request's changes.


_KEPT = 8  # as many as the expander keeps what it computed for


class EditedInventories:
    """Inventories by their changes; those used last are kept, so that a session pays for its changes once."""

    def __init__(self, inventory: SenseInventory) -> None:
        self._inventory = inventory
        self._kept: OrderedDict[InventoryEdits, SenseInventory] = OrderedDict()

    def of(self, edits: InventoryEdits | None) -> SenseInventory:
        """Return the inventory with these changes; InventoryError where they contradict it."""
        if edits is None or not (edits.add or edits.remove):
            return self._inventory
        if edits not in self._kept:
            self._kept[edits] = edited(self._inventory, edits)
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(edits)
        return self._kept[edits]


def edited(inventory: SenseInventory, edits: InventoryEdits) -> SenseInventory:
    """Change only the short forms that are named: checking all of a large inventory for each change takes long."""
    removed = {name.short_form: inventory.senses(name.short_form) for name in edits.remove}
    touched = dict.fromkeys([*removed, *(sense.short_form for sense in edits.add)])
    part = SenseInventory({name: inventory.by_short_form[name] for name in touched if name in inventory})
    changed = part.with_senses(
        add=[
            Sense(each.short_form.strip(), each.long_form.strip(), each.forms, each.concept_id)
            for each in edits.add
        ],
        remove=[
            (name.short_form, name.long_form) if name.long_form is not None else name.short_form
            for name in edits.remove
        ],
    )
    kept = {name: senses for name, senses in inventory.by_short_form.items() if name not in touched}
    return SenseInventory({**kept, **changed.by_short_form})


# Notes of many requests expanded together: read one by one, ranked at once.


class BatchExpander:
    """Answers the notes of a batch; a request with a mistake in it fails alone."""

    def __init__(self, expander: Expander, metrics: ServiceMetrics) -> None:
        self._expander = expander
        self._inventories = EditedInventories(expander.inventory)
        self._metrics = metrics

    def __call__(self, batch: Batch) -> None:
        """Answer all notes of a batch, or say of their jobs why they cannot be answered."""
        by_edits: dict[InventoryEdits | None, Batch] = defaultdict(list)
        for job, index in batch:
            by_edits[job.request.inventory].append((job, index))
        for edits, notes in by_edits.items():
            try:
                self._expand(edits, notes)
            except Exception as error:
                self._blame(edits, notes, error)

    def _blame(self, edits: InventoryEdits | None, notes: Batch, error: Exception) -> None:
        """Find the request that cannot be answered by trying each alone."""
        jobs = list(dict.fromkeys(job for job, _ in notes))
        if len(jobs) == 1:
            jobs[0].fail(error)
            return
        for each in jobs:
            own = [(job, index) for job, index in notes if job is each and job.answers[index] is None]
            try:
                self._expand(edits, own)
            except Exception as its_error:
                each.fail(its_error)

    def _expand(self, edits: InventoryEdits | None, notes: Batch) -> None:
        try:
            lexicon = self._expander.lexicon(self._inventories.of(edits))
        except InputError as error:
            for job, _ in notes:
                job.fail(error)
            return
        read: list[tuple[Job, int, list[Occurrence]]] = []
        for job, index in notes:
            if job.is_over:
                continue
            note = job.notes[index]
            try:
                read.append((job, index, lexicon.read(note.text, note.sections)))
            except InputError as error:
                job.fail(error)
        expanded = self._expander.expand_read([occurrences for *_, occurrences in read], lexicon)
        answers: list[AnsweredNote] = []
        for (job, index, occurrences), expansions in zip(read, expanded, strict=True):
            note, style = job.notes[index], job.request.expanded_text
            explanations = self._expander.explain_read(occurrences, lexicon) if job.request.explain else None
            written_out = expand_text(note.text, expansions, style=style) if style else None
            answers.append(AnsweredNote(note.id, expansions, explanations, written_out))
        self._metrics.count_notes([job.notes[index].text for job, index, _ in read], expanded)
        for (job, index, _), answer in zip(read, answers, strict=True):
            job.answer(index, answer)


# The one thread that expands: it takes batches from the queue until there will be no more.


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
