"""The gate: weights of examples and sections, their summary and the checks."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.planted import NOTE
from lmcells.analysis import gate
from lmcells.evaluation.dataset import Example, read_dataset
from lmcells.expansion.explain import explain
from lmcells.expansion.ranking import PosteriorRanker
from lmcells.expansion.reader import NoteReader
from lmcells.notes.readers import ReadReport


def example(text: str, short_form: str, section: str | None, number: int = 0) -> Example:
    start = text.index(short_form)
    return Example(
        f"e{number}", text, start, start + len(short_form), short_form, section, "multiple sclerosis", "n/1"
    )


def weighed(weight: float, section: str) -> gate.WeighedExample:
    return gate.WeighedExample("MS", "n/1", None, section, section, weight, 1, None, "", "")


def test_weights_of_a_note_are_those_that_explain_it(
    shipped_ranker: PosteriorRanker, of_note: list[gate.WeighedExample]
) -> None:
    read = NoteReader(shipped_ranker.inventory)(NOTE)
    explained = explain(shipped_ranker, [each.mention for each in read if each.mention is not None])
    expected = [each.section_weight for each in explained]
    assert [each.weight for each in of_note] == pytest.approx(expected, abs=1e-6)
    assert all(0.1 < weight < 0.9 for weight in expected)


def test_a_note_tells_the_length_of_its_sections(of_note: list[gate.WeighedExample]) -> None:
    by_short_form = {each.short_form: each for each in of_note}
    assert by_short_form["MAC"].n_section_tokens == 1
    assert by_short_form["MAC"].n_words == 0
    history = by_short_form["CVA"].n_section_tokens
    assert history is not None
    assert history > 20
    assert (by_short_form["CVA"].section, by_short_form["MS"].section) == (
        "HISTORY OF PRESENT ILLNESS",
        "MEDICATIONS",
    )


def test_a_short_section_weighs_more_than_a_long_one(of_note: list[gate.WeighedExample]) -> None:
    weight = {each.short_form: each.weight for each in of_note}
    assert weight["MAC"] > weight["CVA"]


def test_examples_of_a_dataset_keep_their_label_and_the_words_around_them(
    shipped_ranker: PosteriorRanker,
) -> None:
    text = "one two three four five six seven eight MS nine ten\neleven twelve thirteen fourteen fifteen"
    (found,) = gate.weigh(shipped_ranker, gate.occurrences_of([example(text, "MS", "past medical history")]))
    assert found.long_form == "multiple sclerosis"
    assert (found.section, found.read_as) == ("past medical history", "PAST MEDICAL HISTORY")
    assert found.before == "three four five six seven eight"
    assert found.after == "nine ten eleven twelve thirteen fourteen"
    assert found.n_section_tokens is None
    assert "seven" not in repr(found)


def test_words_cut_by_the_reach_are_left_out(shipped_ranker: PosteriorRanker) -> None:
    text = "abcdefghij" * 9 + " before MS after " + "klmnopqrst" * 9
    (found,) = gate.weigh(shipped_ranker, gate.occurrences_of([example(text, "MS", None)]))
    assert (found.before, found.after) == ("before", "after")
    assert found.read_as == "<no section>"


def test_sections_alone_weigh_what_the_gate_says_of_an_empty_text(shipped_ranker: PosteriorRanker) -> None:
    alone = {each.section: each.weight for each in gate.weigh_alone(shipped_ranker)}
    (found,) = gate.weigh(shipped_ranker, gate.occurrences_of([example("MS", "MS", "MEDICATIONS")]))
    assert alone["MEDICATIONS"] == pytest.approx(found.weight, abs=1e-6)
    assert len(alone) > 100


@given(
    st.lists(st.tuples(st.floats(0.1, 0.9), st.sampled_from("ABC")), min_size=1, max_size=30),
    st.integers(0, 12),
)
def test_shown_examples_go_from_the_least_weight_to_the_most(rows: list[tuple[float, str]], n: int) -> None:
    examples = [weighed(weight, section) for weight, section in rows]
    shown = [each.weight for each in gate.spread(examples, n=n)]
    assert shown == sorted(shown)
    assert len(shown) == min(n, len(examples))
    if n > 1:
        assert (shown[0], shown[-1]) == (min(rows)[0], max(rows)[0])


def test_shown_examples_are_of_different_sections() -> None:
    examples = [weighed(weight, "A") for weight in np.linspace(0.2, 0.8, 61)] + [weighed(0.51, "B")]
    assert {each.section for each in gate.spread(examples, n=3)} == {"A", "B"}


def test_sections_are_summed_up_with_the_most_weight_first(shipped_ranker: PosteriorRanker) -> None:
    texts = {"ANESTHESIA": "General MS.", "PLAN": "the patient will see her doctor for MS in a week or two"}
    examples = [example(text, "MS", section) for section, text in texts.items() for _ in range(3)]
    summary = gate.summarise_gate(
        shipped_ranker, list(gate.weigh(shipped_ranker, gate.occurrences_of(examples)))
    )
    first, second = summary.sections
    assert (first.section, second.section) == ("ANESTHESIA", "PLAN")
    assert (first.n, second.n, summary.n) == (3, 3, 6)
    assert first.deviation == pytest.approx(0, abs=1e-6)
    assert first.quantiles == pytest.approx([first.mean] * 5)
    assert summary.mean == pytest.approx((first.mean + second.mean) / 2)
    assert first.n_training_tokens < second.n_training_tokens
    assert json.loads(json.dumps(summary))["sections"][0]["section"] == "ANESTHESIA"


REVERSE_DEV = Path(os.environ.get("LMCELLS_DATA", "none")) / "benchmarks" / "reverse_dev.jsonl"


def test_checks_leave_out_what_says_nothing(
    shipped_ranker: PosteriorRanker, of_note: list[gate.WeighedExample]
) -> None:
    checks = gate.check_gate(
        of_note[:2], gate.summarise_gate(shipped_ranker, of_note[:2]), gate.weigh_alone(shipped_ranker)
    )
    assert {check.among for check in checks} == {gate.ALONE}
    assert {check.n for check in checks} == {len(gate.weigh_alone(shipped_ranker))}
    for check in checks:
        assert check.rho.low <= check.rho.estimate <= check.rho.high
    assert [check.against for check in checks if check.given == gate.TOKENS] == [gate.TOPICALITY]


@pytest.mark.skipif(not REVERSE_DEV.is_file(), reason="LMCELLS_DATA does not hold the benchmark")
def test_in_real_notes_short_and_topical_sections_get_more_weight(shipped_ranker: PosteriorRanker) -> None:
    dataset = read_dataset(REVERSE_DEV, report=ReadReport())
    examples = list(gate.weigh(shipped_ranker, gate.occurrences_of(dataset)))
    checks = gate.check_gate(
        examples, gate.summarise_gate(shipped_ranker, examples), gate.weigh_alone(shipped_ranker)
    )
    found = {(check.among, check.against, check.given): check.rho for check in checks}
    assert found[gate.EXAMPLES, gate.WORDS, None].high < 0
    assert found[gate.SECTIONS, gate.TOPICALITY, None].estimate > 0
