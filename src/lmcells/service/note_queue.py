"""Notes of all waiting requests, handed out in batches, no request held up by a larger one."""

from collections import deque
from threading import Condition

from lmcells.service.job import Job

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
