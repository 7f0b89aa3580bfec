"""The rankings there are, and which one a model is best at."""

from collections.abc import Sequence
from typing import Literal, Protocol

from lmcells.expansion.context import Mention
from lmcells.expansion.gap_ranking import GapRanker
from lmcells.expansion.inventory import SenseInventory
from lmcells.expansion.long_forms import Floats
from lmcells.expansion.ranking import CellRanker
from lmcells.pretrained import PretrainedModel

Ranking = Literal["auto", "gap", "divergence"]


class Ranker(Protocol):
    """Scores the candidates of mentions: one array a mention, in the inventory's order, higher is better."""

    def scores(self, mentions: Sequence[Mention]) -> list[Floats]:
        """Score the candidates of each mention; -inf for a long form that cannot be known."""
        ...


def ranks_by_gap(model: PretrainedModel, ranking: Ranking = "auto") -> bool:
    """Whether a model is to rank by gaps: what `auto` means for a model that has a phrase store."""
    return ranking == "gap" or (ranking == "auto" and model.phrase_store is not None)


def best_ranker(model: PretrainedModel, inventory: SenseInventory) -> Ranker:
    """Rank by the gap that a short form leaves where the model can, else by divergence, as the paper does."""
    return GapRanker(model, inventory) if ranks_by_gap(model) else CellRanker(model, inventory)
