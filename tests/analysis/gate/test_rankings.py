"""The rankings that a model is looked into with."""

import numpy as np
import pytest

from expansion.clinic import INVENTORY
from lmcells.analysis.interpolation import Interpolation, cells, interpolate, read_window, section_ranker
from lmcells.expansion.calibration import Calibration
from lmcells.pretrained import PretrainedModel


def probabilities(path: Interpolation, step: int) -> dict[str, float]:
    return {each.long_form: each.probabilities[step] for each in path.long_forms}


def test_long_forms_under_null_metadata_are_single_cells(small: PretrainedModel) -> None:
    ranker = section_ranker(small, INVENTORY, null_metadata=True)
    window = read_window(ranker, "PT", text="clotting PT with warfarin")
    posterior = cells(small, window, np.array([small.section_ids["LABS"]]))
    path = interpolate(ranker, "PT", section="LABS", text="clotting PT with warfarin")
    divergences = []
    for sense in INVENTORY.senses("PT"):
        words = [
            small.word_ids[word] for form in sense.forms for word in form.split() if word in small.word_ids
        ]
        prior = small.prior.of_vectors(small.prior.phrase(np.array(words)), None)  # type: ignore[union-attr]
        log_ratio = float(posterior.log_variance[0] - prior.log_variance)
        gap = float(((posterior.mean[0] - prior.mean) ** 2).sum() / np.exp(prior.log_variance))
        dim = small.sizes.cell_dim
        divergences.append(0.5 * (dim * np.exp(log_ratio) + gap - dim - dim * log_ratio))
    expected = Calibration().probabilities(-np.array(divergences))
    learnt = {each.long_form: each.learnt for each in path.long_forms}
    names = [sense.long_form for sense in INVENTORY.senses("PT")]
    assert [learnt[name] for name in names] == pytest.approx(expected.tolist(), abs=1e-5)
