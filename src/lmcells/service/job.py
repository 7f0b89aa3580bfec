"""A request on its way through the service: its notes, their answers so far, and who waits for them."""

from collections.abc import Callable
from dataclasses import dataclass, field

from lmcells.expansion import ExpandedText, Expansion
from lmcells.expansion.explanation import Explanation
from lmcells.service.requests import ManyNotes, NoteMessage, OneNote


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
