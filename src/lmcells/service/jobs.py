"""Requests that wait to be expanded, and the queue that hands out their notes in batches."""

from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Condition

from pydantic import TypeAdapter

from lmcells.expansion import ExpandedText, Expansion
from lmcells.expansion.explain import Explanation
from lmcells.service.messages import ManyNotes, NoteMessage, OneNote

BATCH_NOTES = 96  # larger batches rank no faster, and delay small requests
BATCH_CHARACTERS = 400_000
TURN_NOTES = 32  # notes a request may put into a batch before the next request has its turn


@dataclass(frozen=True, slots=True)
class AnsweredNote:
    """A `NoteAnswer` in the library's own types, which are written to JSON without being copied into messages."""

    id: str | None
    expansions: list[Expansion]
    explanations: list[Explanation | None] | None = field(repr=False)
    expanded: ExpandedText | None


_ONE: TypeAdapter[AnsweredNote] = TypeAdapter(AnsweredNote)
_MANY: TypeAdapter[dict[str, list[AnsweredNote]]] = TypeAdapter(dict[str, list[AnsweredNote]])


class Job:
    """A request: its notes, the answers so far, and the future that will hold them as JSON.

    The worker's thread fills it, and writes the JSON too, which leaves the event loop free. Whoever waits may cancel
    `answered`: then no more work is done for it.
    """

    def __init__(self, request: OneNote | ManyNotes) -> None:
        self.request = request
        self.notes: tuple[NoteMessage, ...] = request.notes if isinstance(request, ManyNotes) else (request,)
        self.answers: dict[int, AnsweredNote] = {}  # by the index of the note
        self.answered: Future[bytes] = Future()
        self.n_taken = 0  # notes handed out so far
        if not self.notes:
            self.answered.set_result(_MANY.dump_json({"notes": []}))

    @property
    def n_waiting(self) -> int:
        """The number of notes not yet handed out."""
        return 0 if self.answered.done() else len(self.notes) - self.n_taken

    def answer(self, index: int, answer: AnsweredNote) -> None:
        """Store the answer to one note."""
        self.answers[index] = answer
        if len(self.answers) == len(self.notes) and self._may_settle():
            ordered = [self.answers[index] for index in range(len(self.notes))]
            many = isinstance(self.request, ManyNotes)
            self.answered.set_result(_MANY.dump_json({"notes": ordered}) if many else _ONE.dump_json(answer))

    def fail(self, error: Exception) -> None:
        """End the request with an error."""
        if self._may_settle():
            self.answered.set_exception(error)

    def _may_settle(self) -> bool:
        return not self.answered.done() and self.answered.set_running_or_notify_cancel()


Batch = list[tuple[Job, int]]  # a request, and the index of one of its notes


class NoteQueue:
    """First come, first served, in turns: a small request goes through whole, a large one lets others pass.

    How many requests may wait is limited before they get here (`guards.Limits`).
    """

    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()
        self._changed = Condition()
        self._is_closed = False

    @property
    def n_waiting(self) -> int:
        """The number of notes not yet handed out."""
        with self._changed:
            return sum(job.n_waiting for job in self._jobs)

    def put(self, job: Job) -> None:
        """Add a request at the end of the queue."""
        with self._changed:
            if self._is_closed:
                raise RuntimeError("the queue is closed")
            self._jobs.append(job)
            self._changed.notify()

    def take(self) -> Batch | None:
        """Wait for notes and return a batch; None once the queue is closed and empty."""
        with self._changed:
            while not (batch := self._next_batch()):
                if self._is_closed:
                    return None
                self._changed.wait()
            return batch

    def close(self) -> None:
        """Accept no more requests; those already queued are still handed out."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _next_batch(self) -> Batch:
        batch: Batch = []
        n_characters = 0
        while self._jobs and len(batch) < BATCH_NOTES and n_characters < BATCH_CHARACTERS:
            job = self._jobs.popleft()
            for _ in range(min(job.n_waiting, TURN_NOTES, BATCH_NOTES - len(batch))):
                batch.append((job, job.n_taken))
                n_characters += len(job.notes[job.n_taken].text)
                job.n_taken += 1
                if n_characters >= BATCH_CHARACTERS:
                    break
            if job.n_waiting:
                self._jobs.append(job)
        return batch
