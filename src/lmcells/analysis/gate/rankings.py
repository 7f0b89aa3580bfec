"""The ranking that a model is looked into with, and what turns its scores into probabilities."""

from lmcells.analysis.gate.null_metadata import NullMetadataRanker
from lmcells.analysis.names import require_sections
from lmcells.errors import InputError
from lmcells.expansion.calibration import Calibration
from lmcells.expansion.gap_ranking import GapRanker
from lmcells.expansion.inventory import SenseInventory
from lmcells.expansion.posterior_ranking import PosteriorRanker
from lmcells.expansion.rankers import Ranking, ranks_by_gap
from lmcells.expansion.ranking import CellRanker
from lmcells.pretrained import PretrainedModel


def section_ranker(
    model: PretrainedModel,
    inventory: SenseInventory,
    *,
    ranking: Ranking = "auto",
    null_metadata: bool = False,
) -> PosteriorRanker:
    """The ranker of a model that reads sections, as `lmcells evaluate` has it.

    With `null_metadata` a long form is seen under no section, as in the paper's figure, not under all of its own.
    """
    require_sections(model)
    by_gap = ranks_by_gap(model, ranking)
    if null_metadata:
        if by_gap:
            raise InputError(
                "long forms under null metadata are of the ranking by divergence; this model ranks by gaps. "
                "Add: --ranking divergence"
            )
        return NullMetadataRanker(model, inventory)
    return GapRanker(model, inventory) if by_gap else CellRanker(model, inventory)


def calibration_of(model: PretrainedModel, *, ranking: Ranking = "auto") -> Calibration:
    """The model's own calibration for its own ranking; plain softmax for another, whose scores are others."""
    is_own = ranks_by_gap(model, ranking) == ranks_by_gap(model)
    return Calibration.load(model.folder) if is_own else Calibration()
