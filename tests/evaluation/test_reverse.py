"""Reverse substitution: planted long forms come back as short forms, and every one found is accounted for."""

import os
import re
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora import corpus_of
from lmcells.errors import ConfigError
from lmcells.evaluation import reverse
from lmcells.evaluation.dataset import NoteSplit
from lmcells.evaluation.long_form_finder import LongFormFinder, lower_text, spells_in_order
from lmcells.expansion import Sense, SenseInventory, load_inventory
from lmcells.notes.note import Note
from lmcells.notes.readers import ReadReport, read_notes
from lmcells.notes.section_styles import section_finder
from lmcells.notes.tokens import iterate_tokens

INVENTORY = SenseInventory.from_senses(
    [
        Sense("PT", "physical therapy", ("physical therapy", "physiotherapy")),
        Sense("PT", "prothrombin time"),
        Sense("PA", "pulmonary artery"),
        Sense("PA", "physician assistant"),
        Sense("PAP", "pulmonary artery pressure"),
        Sense("PAP", "Papanicolaou smear"),
    ]
)


def parts_of(
    notes: Iterable[Note],
    *,
    inventory: SenseInventory = INVENTORY,
    sections: str = "rules",
    split: NoteSplit | None = None,
    **settings: Any,
) -> dict[str, reverse.ReversePart]:
    return reverse.build_reverse_dataset(
        notes,
        inventory,
        finder=LongFormFinder(inventory),
        find_sections=section_finder(sections),
        **settings,
        split=split,
    )


def draw(*texts: str, **settings: Any) -> reverse.ReversePart:
    return parts_of([Note(f"n/{number}", text) for number, text in enumerate(texts)], **settings)[""]


def shown(part: reverse.ReversePart) -> list[tuple[str, str, str]]:
    return [(example.text, example.short_form, example.long_form) for example in part.examples]


def found(text: str, *, inventory: SenseInventory = INVENTORY) -> list[str]:
    return [text[match.start : match.end] for match in LongFormFinder(inventory).find(text)]


# ---- finding long forms


def test_long_forms_are_whole_words_in_any_case_and_spacing() -> None:
    assert found("Physical\n  THERAPY, physiotherapy.") == ["Physical\n  THERAPY", "physiotherapy"]
    assert found("physical therapys, metaphysical therapy, physical-therapy, physical_therapy") == []
    assert found("(physical therapy)/physiotherapy") == ["physical therapy", "physiotherapy"]


def test_of_long_forms_of_a_short_form_that_overlap_the_longest_is_taken() -> None:
    forms = ["prothrombin time", "prothrombin"]
    inventory = SenseInventory.from_senses(Sense("PT", form) for form in forms)
    assert found("the prothrombin time and prothrombin", inventory=inventory) == forms
    inventory = SenseInventory.from_senses([Sense("A", "a b"), Sense("A", "b c d"), Sense("A", "d e")])
    assert found("a b c d e", inventory=inventory) == ["b c d"]


def test_a_long_form_inside_that_of_another_short_form_is_found_too() -> None:
    peptides = [("BNP", "brain natriuretic peptide"), ("NP", "natriuretic peptide"), ("NP", "nasopharyngeal")]
    inventory = SenseInventory.from_senses(Sense(*each) for each in peptides)
    assert found("a brain natriuretic peptide", inventory=inventory) == [
        "brain natriuretic peptide",
        "natriuretic peptide",
    ]


def test_a_word_that_only_begins_like_a_form_hides_none() -> None:
    inventory = SenseInventory.from_senses([Sense("A", "ab ab")])
    assert found("xab ab ab", inventory=inventory) == ["ab ab"]


def test_letters_beyond_ascii_keep_their_places() -> None:
    text = "İİ “physical therapy” für Bell’s palsy"
    inventory = SenseInventory.from_senses([Sense("PT", "physical therapy"), Sense("BP", "Bell's palsy")])
    assert found(text, inventory=inventory) == ["physical therapy", "Bell’s palsy"]
    greek = SenseInventory.from_senses([Sense("G", "γλυκόζη")])
    assert found("Η ΓΛΥΚΌΖΗ", inventory=greek) == ["ΓΛΥΚΌΖΗ"]


pieces = st.sampled_from(["a", "b", "ab", "a b", "b  a", "c", " ", "\n", "-", ",", "é", "aé", "_", "B A"])


@given(st.lists(pieces, max_size=12).map("".join))
def test_matches_are_those_of_a_plain_search_for_each_form(text: str) -> None:
    forms = ["a", "a b", "b a", "ab c", "é", "a-b"]
    inventory = SenseInventory.from_senses(Sense("S", form) for form in forms)
    finder = LongFormFinder(inventory)
    expected = {
        (match.start(), match.end())
        for form in forms
        for match in re.finditer(rf"(?<!\w)(?={form.replace(' ', chr(92) + 's+')}(?!\w))", lower_text(text))
        for match in [re.compile(form.replace(" ", r"\s+")).match(lower_text(text), match.start())]
        if match
    }
    matches = finder.find(text)
    assert {(match.start, match.end) for match in matches} <= expected
    assert all(one.end <= other.start for one, other in pairwise(matches))
    for start, end in expected:  # what is not taken overlaps something at least as long
        assert any(m.start < end and start < m.end and m.end - m.start >= end - start for m in matches)


def test_forms_of_two_senses_are_dropped_and_reported() -> None:
    inventory = SenseInventory.from_senses(
        [
            Sense("GT", "transferase", ("transferase", "Gamma  transferase")),
            Sense("GT", "gamma", ("gamma transferase", "gamma", "GT", "--")),
        ]
    )
    finder = LongFormFinder(inventory)
    assert [tuple(dropped.values()) for dropped in finder.dropped] == [
        ("GT", "gamma transferase", "shared by two senses of the short form"),
        ("GT", "gt", "the short form itself"),
        ("GT", "--", "contains no word"),
    ]
    assert finder.n_forms == 2


def test_forms_can_be_held_to_spell_their_short_form() -> None:
    spelled = {"CVA": "cerebrovascular accident", "C&S": "culture and sensitivity"}
    assert all(spells_in_order(form, short_form) for short_form, form in spelled.items())
    others = [("anthracycline", "AX"), ("stroke", "CVA"), ("acute cva", "CVA"), ("x", "&")]
    assert not any(spells_in_order(form, short_form) for form, short_form in others)
    assert LongFormFinder(INVENTORY, spelled_only=True).dropped == []
    finder = LongFormFinder(INVENTORY.add(Sense("PA", "heart")), spelled_only=True)
    assert [dropped["form"] for dropped in finder.dropped] == ["heart"]


# ---- windows


def window_of(text: str, start: int, end: int, *, n_words: int) -> str:
    window = reverse.window_around(
        text, reverse.readable_words(text), start, end, n_words=n_words, bounds=(0, len(text))
    )
    assert window is not None
    return text[slice(*window)]


def test_a_window_has_as_many_words_on_the_left_as_on_the_right() -> None:
    # The authors kept 20 - n words of the n between 11 and 19 that stood on the left.
    for n_left in range(30):
        before = "".join(f"w{number} " for number in range(n_left))
        text = before + "(X)" + "".join(f" v{number}" for number in range(30))
        words = window_of(text, len(before) + 1, len(before) + 2, n_words=20).split()
        assert len(words) == min(20, n_left) + 1 + 20
        assert words.index("(X)") == min(20, n_left)


def test_words_that_no_model_reads_do_not_count() -> None:
    text = "pain of the knee and of a hip, X for all of the very very severe pain in the arm"
    assert window_of(text, 31, 32, n_words=2) == "knee and of a hip, X for all of the very very severe pain"
    assert window_of("gait gait gait pain X", 20, 21, n_words=2) == "gait gait gait pain X"


@given(st.text("abc \n", max_size=40), st.text("abc \n", max_size=40), st.integers(1, 5))
def test_windows_are_cut_between_words_and_hold_as_many_as_a_model_reads(
    before: str, after: str, n_words: int
) -> None:
    text = f"{before} X {after}"
    found = window_of(text, len(before) + 1, len(before) + 2, n_words=n_words)
    at = text.index(found, max(0, len(before) + 2 - len(found)))
    assert found == found.strip()
    assert not at or text[at - 1].isspace()
    assert text[at + len(found) : at + len(found) + 1] in ("", " ", "\n")
    left, right = found.split("X")
    for side, whole in ((left, before), (right, after)):
        assert min(n_words, n_read(whole)) == min(n_words, n_read(side))


def n_read(text: str) -> int:
    words = [token.word for token in iterate_tokens(text)]
    return len([word for at, word in enumerate(words) if at == 0 or words[at - 1] != word])


def test_windows_stay_inside_their_section() -> None:
    text = "HISTORY: long ago.\nPLAN: begin physical therapy now.\nDISPOSITION: home, prothrombin time."
    part = draw(text)
    assert shown(part) == [
        ("begin PT now.", "PT", "physical therapy"),
        ("home, PT.", "PT", "prothrombin time"),
    ]
    assert [example.section for example in part.examples] == ["PLAN", "DISPOSITION"]
    assert {example.note_id for example in part.examples} == {"n/0"}


def test_text_without_words_gives_no_window() -> None:
    part = draw("physical therapy " + "x" * 100_000, "prothrombin time " + "y z " * 100)
    assert part.dropped == {reverse.TOO_LONG: 1, reverse.SINGLE_SENSE: 1}


# ---- drawing


def test_a_long_form_in_a_header_is_no_example() -> None:
    part = draw("PHYSICAL THERAPY:\nwalks.\nLABS: prothrombin time up", "a physiotherapy b")
    assert part.dropped == {reverse.IN_HEADER: 1}
    assert len(part.examples) == 2


def test_another_long_form_of_the_short_form_gives_the_answer_away() -> None:
    texts = (
        "physical therapy and prothrombin time",
        "physiotherapy, then physiotherapy",
        "physical therapy",
        "a prothrombin time",
    )
    part = draw(*texts)
    assert part.dropped == {reverse.GIVEN_AWAY: 4}
    assert len(part.examples) == 2
    assert len(draw(*texts, allow_candidates=True).examples) == 6
    far = "physical therapy" + "".join(f" w{n}" for n in range(20)) + " prothrombin time"
    assert len(draw(far).examples) == 2


def test_a_form_shared_by_several_short_forms_gives_an_example_to_each() -> None:
    inventory = INVENTORY.add(Sense("PHT", "physical therapy"), Sense("PHT", "phenytoin"))
    part = draw("physical therapy", "prothrombin time", "phenytoin", inventory=inventory)
    assert Counter(example.short_form for example in part.examples) == {"PT": 2, "PHT": 2}
    assert part.n_found == 4
    assert len({example.id for example in part.examples}) == 4


def test_a_short_form_needs_two_senses() -> None:
    part = draw("physical therapy", "physiotherapy", "pulmonary artery", "physician assistant")
    assert {example.short_form for example in part.examples} == {"PA"}
    assert part.dropped == {reverse.SINGLE_SENSE: 2}
    assert part.inventory.short_forms == ("PA",)


def test_a_short_form_needs_every_long_form_in_all_notes_and_keeps_all_candidates() -> None:
    """The paper's rule: each long form at least twice in MIMIC, counted before any split."""
    texts = ["physical therapy", "prothrombin time", "pulmonary artery", "physician assistant"]
    assert {each.short_form for each in draw(*texts, *texts[:2], min_found=2).examples} == {"PT"}
    part = draw(*texts, *texts[:2], min_found=2)
    assert part.dropped == {reverse.RARE_SENSE: 2}
    assert {(form, n) for (_, form), n in part.too_rare.items()} >= {
        ("pulmonary artery", 1),
        ("Papanicolaou smear", 0),
    }
    assert [sense.long_form for sense in part.inventory] == ["physical therapy", "prothrombin time"]
    in_header = draw("PROTHROMBIN TIME:\nup\nPROTHROMBIN TIME:\nup", *["physical therapy"] * 2, min_found=2)
    assert len(in_header.examples) == 2  # no candidate is dropped because its examples ran out
    assert in_header.inventory.n_senses == 2

    notes = [Note(f"n/{number}", text) for number, text in enumerate(texts[:2] * 2)]
    split = NoteSplit.parse("a=0.5")
    inside = [note for note in notes if split.part_of(note.id)]
    assert 0 < len(inside) < len(notes)
    of_split = parts_of(notes, split=split, min_found=2)["a"]
    assert (
        {each.note_id for each in of_split.examples} == {note.id for note in inside} == set(of_split.note_ids)
    )
    assert not parts_of(inside, min_found=2)[""].examples


def test_examples_with_the_words_of_another_are_dropped_where_asked_for() -> None:
    texts = [
        "the physical therapy, 3 times",
        "physiotherapy 5 times",
        "physical therapy once",
        "prothrombin time",
    ]
    assert len(draw(*texts).examples) == 4
    part = draw(*texts, drop_repeated=True)
    assert part.dropped == {reverse.REPEATED: 1}
    assert [example.note_id for example in part.examples] == ["n/0", "n/2", "n/3"]


def test_sections_are_those_of_a_corpus_of_the_same_notes(tmp_path: Path) -> None:
    """A header rarer than the threshold is body text in both, not a section of its own in one."""
    texts = ["PLAN: gait then physical therapy\nRARELY SEEN: prothrombin time up"] + [
        "PLAN: prothrombin time"
    ] * 3
    notes = [Note(f"n/{number}", text) for number, text in enumerate(texts)]
    find_sections = reverse.frequent_sections(notes, style="paper", min_count=2)
    (part,) = reverse.build_reverse_dataset(
        notes, INVENTORY, finder=LongFormFinder(INVENTORY), find_sections=find_sections, allow_candidates=True
    ).values()
    corpus = corpus_of(tmp_path, texts, sections="paper", min_count=0, min_header_count=2)
    assert {example.section for example in part.examples} == {"PLAN"} < set(corpus.metadata_names("section"))
    first = next(example for example in part.examples if example.note_id == "n/0")
    assert first.text == "gait then PT\nRARELY SEEN: prothrombin time up"
    assert "rarely" in corpus.words


def test_at_most_so_many_examples_of_a_sense_are_drawn() -> None:
    part = draw(*["physical therapy"] * 30, *["prothrombin time"] * 3, max_per_sense=5)
    drawn = Counter(example.long_form for example in part.examples)
    assert drawn == {"physical therapy": 5, "prothrombin time": 3}
    assert part.dropped == {reverse.NOT_DRAWN: 25}


phrases = st.sampled_from(
    "physical therapy|physiotherapy|prothrombin  time|pulmonary artery pressure|pulmonary artery|Physician Assistant|"
    "papanicolaou smear|the|PLAN:|\nPLAN:\n|walks|(|,|PT".split("|")
)
texts = st.lists(st.lists(phrases, max_size=30).map(" ".join), max_size=8)


@given(texts, st.integers(1, 3), st.integers(1, 4), st.booleans())
def test_examples_hold_their_short_form_and_everything_found_is_accounted_for(
    given_texts: list[str], max_per_sense: int, window: int, allow: bool
) -> None:
    part = draw(*given_texts, max_per_sense=max_per_sense, window=window, allow_candidates=allow)
    assert part.n_found == len(part.examples) + part.dropped.total()
    assert all(count <= max_per_sense for count in part.senses.values())
    senses: dict[str, set[str]] = {}
    for example in part.examples:
        senses.setdefault(example.short_form, set()).add(example.long_form)
        assert example.text[example.start : example.end] == example.short_form
        if not allow:
            forms = [form for sense in INVENTORY.senses(example.short_form) for form in sense.forms]
            tight = " ".join(example.text.lower().split())
            assert not any(re.search(rf"\b{form.lower()}\b", tight) for form in forms)
    assert all(len(long_forms) > 1 for long_forms in senses.values())


@given(texts, st.randoms(use_true_random=False), st.integers(0, 3))
def test_the_choice_depends_on_the_seed_and_not_on_the_order_of_the_notes(
    given_texts: list[str], random: Random, seed: int
) -> None:
    notes = [Note(f"n/{number}", text) for number, text in enumerate(given_texts)]
    one, shuffled, again = (
        parts_of(ordered, max_per_sense=2, seed=seed)[""].examples
        for ordered in (notes, random.sample(notes, len(notes)), notes)
    )
    assert one == shuffled == again


def test_another_seed_draws_other_examples() -> None:
    texts = [f"physical therapy {number}" for number in range(50)] + ["prothrombin time"] * 50
    one, other = (draw(*texts, max_per_sense=10, seed=seed) for seed in (1, 2))
    assert one.examples != other.examples


def test_every_occurrence_is_drawn_equally_often() -> None:
    texts = ["physical therapy"] * 20 + ["prothrombin time"]
    drawn: Counter[str] = Counter()
    for seed in range(400):
        drawn.update(example.note_id for example in draw(*texts, max_per_sense=5, seed=seed).examples)
    assert drawn.pop("n/20") == 400
    assert drawn.total() == 2000
    assert all(60 < drawn[f"n/{note}"] < 145 for note in range(20))  # 100 expected, standard deviation 8.7


@pytest.mark.parametrize("settings", [{"max_per_sense": 0}, {"window": 0}])
def test_impossible_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"is 0.*allowed: 1 or more"):
        draw("PT", **settings)


# ---- the split


def test_a_split_is_by_note_and_always_the_same() -> None:
    split = NoteSplit.parse("dev=0.1, test=0.3")
    parts = Counter(split.part_of(f"n/{number}") for number in range(5000))
    assert 400 < parts["dev"] < 600
    assert 1350 < parts["test"] < 1650
    assert [split.part_of(f"n/{number}") for number in range(8)] == [
        NoteSplit({"dev": 0.1, "test": 0.3}).part_of(f"n/{number}") for number in range(8)
    ]


def test_parts_share_no_note_and_are_whole_datasets() -> None:
    texts = ["physical therapy", "prothrombin time", "nothing"] * 40
    notes = [Note(f"n/{number}", text) for number, text in enumerate(texts)]
    parts = parts_of(notes, max_per_sense=4, split=NoteSplit.parse("a=0.5,b=0.4"))
    ids = [{example.note_id for example in parts[name].examples} for name in "ab"]
    assert ids[0].isdisjoint(ids[1])
    assert [len(part.examples) for part in parts.values()] == [8, 8]
    assert sum(part.n_notes for part in parts.values()) < len(notes)


@pytest.mark.parametrize(
    "written", "|dev|dev=|dev=x|dev=0|dev=2|a=0.6,b=0.6|a=0.1,a=0.1|a b=0.1|../x=0.1|a=nan".split("|")
)
def test_malformed_splits_are_refused(written: str) -> None:
    with pytest.raises(ConfigError, match="split"):
        NoteSplit.parse(written)


# ---- real notes


DATA = Path(os.environ.get("LMCELLS_DATA", ""))


@pytest.mark.skipif(
    not (DATA / "dev" / "mtsamples.parquet").is_file(), reason="needs LMCELLS_DATA with dev/ and benchmarks/"
)
def test_real_notes_give_examples_of_many_short_forms() -> None:
    pytest.importorskip("pyarrow")
    notes = read_notes(DATA / "dev" / "mtsamples.parquet", report=ReadReport())
    inventory = load_inventory(DATA / "benchmarks" / "casi_inventory.json")
    part = parts_of(notes, inventory=inventory, sections="given")[""]
    assert part.n_found == len(part.examples) + part.dropped.total()
    assert len({target.short_form for target in part.senses}) > 20
