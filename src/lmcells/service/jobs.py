"""Requests that wait to be expanded, and the queue that hands out their notes in batches."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Condition

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


class Job:
    """A request: its notes, and the answers so far. The worker's thread fills it; any thread may give it up.

    The worker calls `on_done` once, when the last note is answered or when one cannot be.
    """

    def __init__(self, request: OneNote | ManyNotes, on_done: Callable[["Job"], object]) -> None:
        self.request = request
        self.notes: tuple[NoteMessage, ...] = request.notes if isinstance(request, ManyNotes) else (request,)
        self.answers: list[AnsweredNote | None] = [None] * len(self.notes)
        self.n_taken = 0  # notes handed out so far
        self.error: Exception | None = None
        self.is_given_up = False
        self._n_missing = len(self.notes)
        self._on_done = on_done

    @property
    def n_waiting(self) -> int:
        """The number of notes not yet handed out."""
        return 0 if self.is_over else len(self.notes) - self.n_taken

    @property
    def is_over(self) -> bool:
        """Whether further work would be wasted: the client left, or a note could not be answered."""
        return self.is_given_up or self.error is not None

    def give_up(self) -> None:
        """Drop the request because its client left."""
        self.is_given_up = True

    def answer(self, index: int, answer: AnsweredNote) -> None:
        """Store the answer to one note."""
        self.answers[index] = answer
        self._n_missing -= 1
        if self._n_missing == 0 and not self.is_over:
            self._on_done(self)

    def fail(self, error: Exception) -> None:
        """End the request with an error."""
        if not self.is_over:
            self.error = error
            self._on_done(self)


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
