"""Long forms under no section: -KL(q || p(z | long form, null)), the ranking of the paper's interpolation figure."""

from lmcells.expansion.long_forms import LongFormMoments, long_form_moments
from lmcells.expansion.ranking import CellRanker


class NullMetadataRanker(CellRanker):
    """Ranks by the divergence from one Gaussian a long form, which no section moves."""

    def moments(self, short_form: str) -> LongFormMoments:
        """Return the moments of the candidates: those of a mixture of one; computed once."""
        if short_form not in self._moments:
            senses = self.inventory.senses(short_form)
            self._moments[short_form] = long_form_moments(senses, self.model, section_weights=None)
        return self._moments[short_form]
