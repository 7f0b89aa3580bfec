"""Unknown words are read as known ones that are spelt alike."""

import json
import string
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmcells.errors import ModelError
from lmcells.pretrained import PretrainedModel, subwords
from lmcells.pretrained import folder as layout
from lmcells.pretrained.folder import shipped_model
from lmcells.pretrained.subwords import (
    GRAM_LENGTHS,
    KnownSpellings,
    Subwords,
    SubwordSettings,
    fit_subwords,
    grams,
    is_spelt,
    slips,
)

WORDS = [
    *("pneumonia", "hypertension", "metoprolol", "appendectomy", "thrombocytopenia"),
    *("discharge", "ambulating", "laceration", "b12", "<digit>", "mg"),
]
SPELT = WORDS[:8]
COUNTS = np.arange(100, 100 - len(WORDS), -1)
TABLE = np.random.default_rng(0).normal(size=(len(WORDS) + 1, 16)).astype(np.float32)
SETTINGS = SubwordSettings(sharpness=4.0, caution=0.1, explained=0.5)


def planted() -> Subwords:
    return Subwords(WORDS, TABLE, COUNTS, SETTINGS)


def likest(vector: np.ndarray) -> str:
    cosines = TABLE[:8] @ vector / np.linalg.norm(TABLE[:8], axis=1)
    return SPELT[int(cosines.argmax())]


@st.composite
def slips_of(draw: st.DrawFn) -> tuple[str, str]:
    """A known word, and the same with a letter left out, put in, replaced or moved."""
    word = draw(st.sampled_from(SPELT))
    letters = list(word)
    kind = draw(st.sampled_from(["left out", "put in", "replaced", "moved"]))
    letter = draw(st.sampled_from(string.ascii_lowercase))
    if kind != "put in":
        taken = letters.pop(draw(st.integers(0, len(letters) - 1)))
        letter = taken if kind == "moved" else letter
    if kind != "left out":
        letters.insert(draw(st.integers(0, len(letters))), letter)
    return word, "".join(letters)


@given(slips_of())
def test_a_word_one_error_away_is_read_as_the_known_word(pair: tuple[str, str]) -> None:
    word, written = pair
    np.testing.assert_array_equal(planted().vectors([written])[0], TABLE[WORDS.index(word)])


@pytest.mark.parametrize("word", SPELT)
def test_a_word_with_two_letters_wrong_is_nearest_to_the_right_one(word: str) -> None:
    written = word[:2] + word[3:7] + "q" + word[8:]
    assert KnownSpellings.of(WORDS, COUNTS).one_error_away([written]).tolist() == [-1]
    assert likest(planted().vectors([written])[0]) == word


def test_the_most_frequent_of_several_is_meant() -> None:
    known = KnownSpellings.of(["cardiac", "cardiax", "cardial"], np.array([5, 90, 7]))
    assert known.one_error_away(["cardiaz"]).tolist() == [1]


def test_a_short_word_is_not_taken_for_a_slip() -> None:
    assert KnownSpellings.of(["gait", "pains"], np.array([5, 5])).one_error_away(
        ["gaid", "pain"]
    ).tolist() == [-1, -1]


@given(st.lists(st.text("aenopst", min_size=4, max_size=14), min_size=1, max_size=8))
def test_a_word_has_one_vector_alone_and_among_others(words: list[str]) -> None:
    together = planted().vectors(words)
    again = planted()
    for word, vector in zip(words, together, strict=True):
        np.testing.assert_array_equal(again.vectors([word])[0], vector)


def test_a_word_like_no_other_is_the_average_word() -> None:
    with_short = [*range(8), WORDS.index("mg")]
    weights = np.log1p(COUNTS[with_short])
    np.testing.assert_allclose(
        planted().vectors(["zzzzzzz"])[0], weights @ TABLE[with_short] / weights.sum(), rtol=1e-4, atol=1e-6
    )


def test_only_letters_are_read() -> None:
    words = planted()
    assert "pneumonitis" in words
    assert not any(word in words for word in ("ct", "q6h", "<name>", "1234", ""))


def test_no_more_words_are_kept_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subwords, "_MOST_KEPT", 3)
    words = planted()
    first = words.vectors(["pneumonitis"])
    for word in ("lacerated", "ambulates", "discharges"):
        words.vectors([word])
    assert len(words._kept) <= 3
    np.testing.assert_array_equal(words.vectors(["pneumonitis"]), first)


def test_a_vocabulary_without_letters_still_answers() -> None:
    words = Subwords(["<digit>"], TABLE, np.array([4]), SETTINGS)
    assert words.vectors(["pneumonia", "gait"]).tolist() == [[0.0] * 16] * 2


def inflected(*, noise: float, seed: int = 0) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Words whose vector is that of their stem and that of their ending, or nothing but noise."""
    draw = np.random.default_rng(seed)
    stems = sorted({"".join(draw.choice(list("bcdfglmnprstaeiou"), 7)) for _ in range(400)})
    endings = ("", "ing", "ed", "able", "ation")
    of_stem, of_ending = draw.normal(size=(len(stems), 8)), draw.normal(size=(5, 8)) / 2
    words = [stem + ending for stem in stems for ending in endings]
    table = (of_stem[:, None] + of_ending).reshape(-1, 8) * (noise < 1)
    table = table + noise * draw.normal(size=table.shape)
    return words, table.astype(np.float32), draw.integers(10, 1000, len(words))


def test_inflections_that_were_held_out_are_explained() -> None:
    settings = fit_subwords(*inflected(noise=0.1))
    assert settings is not None
    assert settings.explained > 0.6
    assert settings == fit_subwords(*inflected(noise=0.1))


def test_spelling_explains_little_of_noise_and_nothing_of_a_few_words() -> None:
    settings = fit_subwords(*inflected(noise=1.0))
    assert settings is None or settings.explained < 0.05
    words, table, counts = inflected(noise=0.1)
    assert fit_subwords(words[:500], table, counts[:500]) is None


def test_settings_survive_a_round_trip(tmp_path: Path) -> None:
    SETTINGS.save(tmp_path)
    assert SubwordSettings.load(tmp_path) == SETTINGS


@pytest.mark.parametrize(
    "saved", [[], {"sharpness": 2}, {"sharpness": 0, "caution": 1, "explained": 0.1}, None]
)
def test_damaged_settings_are_refused(tmp_path: Path, saved: object) -> None:
    (tmp_path / layout.SUBWORDS).write_text(json.dumps(saved), encoding="utf-8")
    with pytest.raises(ModelError, match="damaged"):
        SubwordSettings.load(tmp_path)


def test_the_shipped_model_reads_out_of_vocabulary_words() -> None:
    model = PretrainedModel.from_pretrained(shipped_model())
    settings = fit_subwords(model.words, model.arrays[subwords.TABLE], model.word_counts)
    assert settings is not None
    assert replace(settings, explained=0) == replace(SubwordSettings.load(model.folder), explained=0)
    assert settings.explained > 0.08
    assert model.subwords is not None
    assert "pneumnoia" in model.subwords
    assert "q6h17" not in model.subwords
    known = model.arrays[subwords.TABLE][model.word_ids["pneumonia"]]
    np.testing.assert_array_equal(model.subwords.vectors(["pneumnoia"])[0], known)


K = 0x9E3779B97F4A7C15
WORD_LISTS = st.lists(st.text("abcdé-'", min_size=1, max_size=12), max_size=6)


def hash_of(part: str) -> int:
    return sum(ord(character) * K ** (place + 1) for place, character in enumerate(part)) % 2**64


def grams_of(word: str) -> list[str]:
    marked = f"<{word}>"
    return [
        marked[start : start + n]
        for n in GRAM_LENGTHS
        if n < len(marked)
        for start in range(len(marked) - n + 1)
    ]


@given(WORD_LISTS)
def test_ngrams_hash_to_the_same_numbers_in_any_process(words: list[str]) -> None:
    found = grams(words)
    expected = sorted((row, hash_of(part)) for row, word in enumerate(words) for part in grams_of(word))
    assert sorted(zip(found.rows.tolist(), found.hashes.tolist(), strict=True)) == expected


@given(WORD_LISTS)
def test_a_slip_leaves_the_word_or_all_but_one_of_its_letters(words: list[str]) -> None:
    found = slips(words)
    expected = [
        (row, hash_of(part))
        for row, word in enumerate(words)
        for part in [word, *(word[:place] + word[place + 1 :] for place in range(len(word)))]
    ]
    assert sorted(zip(found.rows.tolist(), found.hashes.tolist(), strict=True)) == sorted(expected)


def test_words_are_spelt_and_numbers_placeholders_and_single_letters_are_not() -> None:
    assert all(map(is_spelt, ["pneumonia", "x-ray", "s/p", "ménière", "it"]))
    assert not any(map(is_spelt, ["", "a", "b12", "<digit>", "<name>", "-x", "a--b", "snake_case"]))
