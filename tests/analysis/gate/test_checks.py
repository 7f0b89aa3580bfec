"""Do short, topical sections get more weight?"""

from pathlib import Path

import pytest

from lmcells.analysis.gate import (
    ALONE,
    EXAMPLES,
    SECTIONS,
    TOKENS,
    TOPICALITY,
    WORDS,
    WeighedExample,
    check_gate,
    places_of_examples,
    summarise_gate,
    weigh,
    weigh_alone,
)
from lmcells.evaluation.dataset import read_dataset
from lmcells.expansion.ranking import PosteriorRanker
from lmcells.notes.readers import ReadReport

REVERSE_DEV = Path(__file__).parents[4] / "shared" / "data" / "benchmarks" / "reverse_dev.jsonl"


def test_checks_leave_out_what_says_nothing(
    shipped_ranker: PosteriorRanker, of_note: list[WeighedExample]
) -> None:
    checks = check_gate(of_note[:2], summarise_gate(shipped_ranker, of_note[:2]), weigh_alone(shipped_ranker))
    assert {check.among for check in checks} == {ALONE}
    assert {check.n for check in checks} == {len(weigh_alone(shipped_ranker))}
    for check in checks:
        assert check.rho.low <= check.rho.estimate <= check.rho.high
    assert [check.against for check in checks if check.given == TOKENS] == [TOPICALITY]


@pytest.mark.skipif(not REVERSE_DEV.is_file(), reason="the benchmark is not there")
def test_in_real_notes_short_and_topical_sections_get_more_weight(shipped_ranker: PosteriorRanker) -> None:
    dataset = read_dataset(REVERSE_DEV, report=ReadReport())
    examples = list(weigh(shipped_ranker, places_of_examples(dataset)))
    checks = check_gate(examples, summarise_gate(shipped_ranker, examples), weigh_alone(shipped_ranker))
    found = {(check.among, check.against, check.given): check.rho for check in checks}
    assert found[EXAMPLES, WORDS, None].high < 0
    assert found[SECTIONS, TOPICALITY, None].estimate > 0
