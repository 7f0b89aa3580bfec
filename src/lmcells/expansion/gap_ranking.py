"""Ranking by the gap that a short form leaves: which long form would fit where it stands?

The short form is taken out of the text, and the posterior of the gap is a direction among the cells. What would fit is
known in two ways: by the gaps that a long form left in the training text, and by its words (see `sense_directions`).
"""

from collections.abc import Iterable, Sequence
from itertools import islice

from lmcells.errors import ModelError
from lmcells.expansion.context import Mention, ReadWindows
from lmcells.expansion.inventory import SenseInventory
from lmcells.expansion.long_forms import Floats
from lmcells.expansion.posterior_ranking import PosteriorRanker, Scorer
from lmcells.expansion.sense_directions import AS_MEASURED, ScoreWeights, SenseDirections, SensesOfShortForm
from lmcells.expansion.sense_reading import SenseReader, unit_length
from lmcells.expansion.windows import WindowReader
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.numpy_network import NumpyPosterior


class GapRanker(PosteriorRanker):
    """Ranks with the phrase network and the phrase store of a model that has them.

    ranker = GapRanker(model, inventory)
    ranker.scores(mentions)   # for each mention one score a sense, in the inventory's order; higher is better
    """

    def __init__(
        self, model: PretrainedModel, inventory: SenseInventory, *, weights: ScoreWeights = AS_MEASURED
    ) -> None:
        if model.phrase_network is None or model.phrase_store is None:
            raise ModelError(
                f"{model.folder} has no phrase network and store, which ranking by gaps needs. "
                "Train with the preset default, or rank by divergence."
            )
        sizes = model.sizes
        reader = WindowReader(
            model.word_ids,
            radius=sizes.window,
            hides_center=True,
            gap_id=sizes.gap_id if sizes.marks_gap else None,
            subwords=model.subwords,
            stop_words=model.reads_stop_words,
        )
        super().__init__(model, inventory, reader=reader)
        self._center = model.phrase_store.gap_center
        self._read_senses = SenseReader(model, model.phrase_network, model.phrase_store)
        self._weights = weights
        self._senses: dict[str, SensesOfShortForm] = {}

    def directions(self, short_form: str) -> Sequence[SenseDirections]:
        """Return what is known of a short form's candidates."""
        return self._of_short_form(short_form).senses

    def window_scores(self, windows: ReadWindows, mentions: Sequence[Mention]) -> list[Floats]:
        self._look_up(dict.fromkeys(mention.short_form for mention in mentions))
        return super().window_scores(windows, mentions)

    def scorer(self, posterior: NumpyPosterior) -> Scorer:
        gaps = unit_length(posterior.mean - self._center)
        return lambda short_form, rows: self._of_short_form(short_form).scores(gaps[rows])

    def _of_short_form(self, short_form: str) -> SensesOfShortForm:
        if short_form not in self._senses:
            self._look_up([short_form])
        return self._senses[short_form]

    def _look_up(self, short_forms: Iterable[str]) -> None:
        """Look up the candidates of short forms that are new, all together."""
        new = [short_form for short_form in short_forms if short_form not in self._senses]
        candidates = [self.inventory.senses(short_form) for short_form in new]
        read = iter(self._read_senses([sense for senses in candidates for sense in senses]))
        for short_form, senses in zip(new, candidates, strict=True):
            self._senses[short_form] = SensesOfShortForm(list(islice(read, len(senses))), self._weights)
