"""Requests waiting to be expanded, in lanes by size: a request waits only behind requests of its own size."""

from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from threading import Condition
from typing import TypeVar

from pydantic import TypeAdapter

from lmcells.errors import InputError
from lmcells.expansion import ExpandedText, Expansion
from lmcells.expansion.explain import Explanation
from lmcells.service.messages import ManyNotes, NoteMessage, OneNote

Item = TypeVar("Item")

BATCH_NOTES = 96  # larger batches rank no faster, and delay small requests
BATCH_COST = 400_000
TURN_NOTES = 32  # notes a request may put into a batch before it is the next request's turn
TURN_COST = 100_000

# What a note costs, in characters to be read and ranked.
_NOTE = 100
_EXPLAINED = 10  # times as much as without explanations
_MENTION_EXPLAINED = 1_000
_EDITED = 300  # an inventory of one's own,
_EDIT = 15  # and each sense and rule of it,
_EDIT_LOOKED_UP = 0.01  # and for each character that is searched for it

_WRITTEN = 500  # expansions written to JSON before other threads get a turn
_TEXT: TypeAdapter[str | None] = TypeAdapter(str | None)
_EXPANSIONS: TypeAdapter[list[Expansion]] = TypeAdapter(list[Expansion])
_EXPLANATIONS: TypeAdapter[list[Explanation | None]] = TypeAdapter(list[Explanation | None])
_EXPANDED: TypeAdapter[ExpandedText | None] = TypeAdapter(ExpandedText | None)


class Job:
    """A request: its notes, the answers so far as JSON, and the future of the whole answer.

    A lane's thread fills it and also writes the JSON, which leaves the event loop free. Cancelling `answered` stops the
    work. With `deliver`, answers are handed out one by one, in order, and an invalid note is answered with
    its error; the whole answer is then empty.
    """

    def __init__(
        self,
        request: OneNote | ManyNotes,
        *,
        deliver: Callable[[bytes], None] | None = None,
        mistakes: Mapping[int, str] | None = None,
    ) -> None:
        self.request = request
        self.notes: tuple[NoteMessage, ...] = request.notes if isinstance(request, ManyNotes) else (request,)
        self.answers: dict[int, bytes] = {}  # by the index of the note
        self.answered: Future[bytes] = Future()
        self.n_taken = 0  # notes handed out so far
        self._deliver = deliver
        self._n_delivered = 0
        for index, mistake in (mistakes or {}).items():
            self.fail(InputError(mistake), index)
        self._finish()

    @property
    def n_waiting(self) -> int:
        """The number of notes not yet handed out."""
        return 0 if self.answered.done() else len(self.notes) - self.n_taken

    def cost(self, index: int) -> int:
        """Estimate the work for a note, in characters."""
        explain, edits, length = self.request.explain, self.request.inventory, len(self.notes[index].text)
        cost = _NOTE
        if edits:
            n_edits = len(edits.add) + len(edits.remove) + len(edits.rules)
            cost += int(_EDIT_LOOKED_UP * n_edits * length) + (_EDITED + _EDIT * n_edits if index == 0 else 0)
        if isinstance(explain, bool):
            return cost + length * (_EXPLAINED if explain else 1)
        return cost + length + _MENTION_EXPLAINED * len(explain)

    def answer(self, index: int, content: bytes) -> None:
        self.answers[index] = content
        while self._deliver and self._n_delivered in self.answers:
            self._deliver(self.answers[self._n_delivered])
            self.answers[self._n_delivered] = b""
            self._n_delivered += 1
        self._finish()

    def fail(self, error: Exception, index: int | None = None) -> None:
        """End the request with an error; if answers are handed out one by one, only the note with the mistake."""
        if self._deliver and index is not None and isinstance(error, InputError):
            detail = b'{"id":%b,"detail":%b}'
            self.answer(index, detail % (_TEXT.dump_json(self.notes[index].id), _TEXT.dump_json(str(error))))
        elif self._may_settle():
            self.answered.set_exception(error)

    def _finish(self) -> None:
        if len(self.answers) == len(self.notes) and self._may_settle():
            content = b",".join(self.answers[index] for index in range(len(self.notes)))
            if self._deliver:
                content = b""
            elif isinstance(self.request, ManyNotes):
                content = b'{"notes":[%b]}' % content
            self.answered.set_result(content)

    def _may_settle(self) -> bool:
        return not self.answered.done() and self.answered.set_running_or_notify_cancel()


def write_answer(
    id_: str | None,
    expansions: list[Expansion],
    explanations: list[Explanation | None] | None,
    expanded: ExpandedText | None,
) -> bytes:
    """Return a `NoteAnswer` as JSON, written from the library's own types."""
    explained = b"null" if explanations is None else _list(_EXPLANATIONS, explanations)
    parts = _TEXT.dump_json(id_), _list(_EXPANSIONS, expansions), explained, _EXPANDED.dump_json(expanded)
    return b'{"id":%b,"expansions":%b,"explanations":%b,"expanded":%b}' % parts


def _list(adapter: TypeAdapter[list[Item]], values: list[Item]) -> bytes:
    parts = (values[start : start + _WRITTEN] for start in range(0, len(values), _WRITTEN))
    return b"[%b]" % b",".join(adapter.dump_json(part)[1:-1] for part in parts)


Batch = list[tuple[Job, int]]  # a request, and the index of one of its notes


class Lane:
    """A queue in turns: a small request goes through whole, a large one lets others pass.

    `guards` limits the number of waiting requests.
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
        with self._changed:
            if self._is_closed:
                raise RuntimeError("the lane is closed")
            self._jobs.append(job)
            self._changed.notify()

    def take(self) -> Batch | None:
        """Wait for notes and return a batch; None once the lane is closed and empty."""
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
        left = BATCH_COST
        while self._jobs and len(batch) < BATCH_NOTES and left > 0:
            job = self._jobs.popleft()
            of_turn = min(left, TURN_COST)
            for _ in range(min(job.n_waiting, TURN_NOTES, BATCH_NOTES - len(batch))):
                cost = job.cost(job.n_taken)
                batch.append((job, job.n_taken))
                job.n_taken += 1
                of_turn -= cost
                left -= cost
                if of_turn <= 0:
                    break
            if job.n_waiting:
                self._jobs.append(job)
        return batch
