"""The weights of the gate by section."""

import json

import pytest

from lmcells.analysis.gate import places_of_examples, summarise_gate, weigh
from lmcells.evaluation.dataset import Example
from lmcells.expansion.ranking import PosteriorRanker


def example(text: str, short_form: str, section: str | None, number: int = 0) -> Example:
    start = text.index(short_form)
    return Example(
        f"e{number}", text, start, start + len(short_form), short_form, section, "multiple sclerosis", "n/1"
    )


def test_sections_are_summed_up_with_the_most_weight_first(shipped_ranker: PosteriorRanker) -> None:
    texts = {"ANESTHESIA": "General MS.", "PLAN": "the patient will see her doctor for MS in a week or two"}
    examples = [example(text, "MS", section) for section, text in texts.items() for _ in range(3)]
    summary = summarise_gate(shipped_ranker, list(weigh(shipped_ranker, places_of_examples(examples))))
    first, second = summary.sections
    assert (first.section, second.section) == ("ANESTHESIA", "PLAN")
    assert (first.n, second.n, summary.n) == (3, 3, 6)
    assert first.deviation == pytest.approx(0, abs=1e-6)
    assert first.quantiles == pytest.approx([first.mean] * 5)
    assert summary.mean == pytest.approx((first.mean + second.mean) / 2)
    assert first.n_training_tokens < second.n_training_tokens
    assert json.loads(json.dumps(summary.to_dict()))["sections"][0]["section"] == "ANESTHESIA"
