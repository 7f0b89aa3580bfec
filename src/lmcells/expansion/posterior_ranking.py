"""What all rankings by a model's posteriors share: windows are read, posteriors computed, candidates scored."""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from lmcells.expansion.context import Mention, ReadWindows
from lmcells.expansion.inventory import SenseInventory
from lmcells.expansion.long_forms import Floats
from lmcells.expansion.section_ids import SectionIds
from lmcells.expansion.windows import WindowReader
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.numpy_network import NumpyPosterior

_BATCH = 1024

Ids = npt.NDArray[np.int64]
Scorer = Callable[[str, list[int]], Floats]  # a short form and rows of a batch -> (rows, candidates)


class PosteriorRanker(ABC):
    """Scores the candidates of a mention by the posterior of its window; how, is left to the ranking."""

    def __init__(self, model: PretrainedModel, inventory: SenseInventory, *, reader: WindowReader) -> None:
        self.model = model
        self.inventory = inventory
        self._reader = reader
        self._sections = SectionIds(model)

    def scores(self, mentions: Sequence[Mention]) -> list[Floats]:
        """Score the candidates of each mention; -inf where the model can read no word of a long form."""
        return [
            scores for batch in batches(mentions) for scores in self.window_scores(self.read(batch), batch)
        ]

    @property
    def reads(self) -> Container[str]:
        """The words that the model reads around a mention."""
        return self._reader.words

    def read(self, mentions: Sequence[Mention]) -> ReadWindows:
        """Return what the model reads of each mention."""
        return self._reader(mentions)

    def section_ids(self, mentions: Sequence[Mention]) -> Ids:
        """Return the metadata ids under which the model knows the sections of mentions: -> (B,)."""
        return np.array([self._sections[mention.section] for mention in mentions], np.int64)

    def posterior(self, windows: ReadWindows, sections: Ids) -> NumpyPosterior:
        """Return q(z | w, m, c) of mentions whose windows are read, in sections with these ids."""
        return self.model.variational.posterior(
            windows.center,
            sections,
            windows.context,
            windows.context_mask,
            center_mask=windows.center_mask,
            unknown=windows.unknown,
        )

    def window_scores(self, windows: ReadWindows, mentions: Sequence[Mention]) -> list[Floats]:
        """Score the candidates of mentions whose windows are read already."""
        scores: list[Floats] = [np.zeros(0)] * len(mentions)
        score = self.scorer(self.posterior(windows, self.section_ids(mentions)))
        for short_form, rows in _rows_by_short_form(mentions).items():
            for row, of_senses in zip(rows, score(short_form, rows), strict=True):
                scores[row] = of_senses
        return scores

    @abstractmethod
    def scorer(self, posterior: NumpyPosterior) -> Scorer:
        """Return what scores the candidates of a short form by the posteriors of a batch."""


def batches(mentions: Sequence[Mention]) -> Iterator[Sequence[Mention]]:
    """Yield so many mentions at a time as are read and ranked together."""
    for start in range(0, len(mentions), _BATCH):
        yield mentions[start : start + _BATCH]


def _rows_by_short_form(mentions: Sequence[Mention]) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = defaultdict(list)
    for row, mention in enumerate(mentions):
        rows[mention.short_form].append(row)
    return rows
