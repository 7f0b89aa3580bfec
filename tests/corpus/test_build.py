"""Notes become a corpus: what becomes of headers, what is left out, and that workers change nothing."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corpora import corpus_of, segments
from lmcells.corpus import CorpusSettings, build
from lmcells.corpus.build import build_corpus
from lmcells.corpus.shard import batch_notes, build_shard, distinct
from lmcells.corpus.statistics import stable_order
from lmcells.errors import FormatError, InputError
from lmcells.notes import spelled_out
from lmcells.notes.readers import opening
from lmcells.notes.tokens import iterate_tokens
from note_files import write_csv, write_jsonl, write_parquet, write_text_folder

FOLDER_IS_REUSED = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
FAT_MASS = [
    "HPI: The patient's fat mass (FM) was low; FM of 3 kg.\n\nPLAN: recheck FM and the BMI, OR if needed.",
    "seen by me. FM = frequency modulation; FM radio\n\nPLAN: rest",
]
PIECES = ["HPI:", "PLAN:", "\n", "\n\n", " ", "pain ", "MS ", "s/p ", "12 ", "the ", "chest pain. ", "é "]
note_texts = st.lists(st.lists(st.sampled_from(PIECES)).map("".join), min_size=1, max_size=6)


def test_words_stand_under_their_section(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, ["HPI: chest pain\n\nPLAN: start ASA", "PLAN: discharge"])
    assert segments(corpus) == [
        ("HPI", ["chest", "pain"]),
        ("PLAN", ["start", "asa"]),
        ("PLAN", ["discharge"]),
    ]


@pytest.mark.parametrize("style", ["paper", "rules"])
def test_text_before_the_first_header_never_belongs_to_the_previous_note(tmp_path: Path, style: str) -> None:
    corpus = corpus_of(tmp_path, ["HISTORY: first note", "second note begins\nHISTORY: rest"], sections=style)
    assert segments(corpus) == [
        ("HISTORY", ["first", "note"]),
        ("<no section>", ["second", "note", "begins"]),
        ("HISTORY", ["rest"]),
    ]


def test_paper_keeps_rare_headers_in_the_body(tmp_path: Path) -> None:
    notes = ["HISTORY: pain\nODD HEADER: fever", "HISTORY: cough", "STRANGE ONE: rash"]
    corpus = corpus_of(tmp_path, notes, sections="paper", min_header_count=2)
    assert segments(corpus) == [
        ("HISTORY", ["pain", "odd", "header", "fever"]),
        ("HISTORY", ["cough"]),
        ("<no section>", ["strange", "one", "rash"]),
    ]


def test_rules_fall_back_to_the_canonical_name_and_then_to_other(tmp_path: Path) -> None:
    notes = ["PMH: asthma", "PAST MEDICAL HISTORY: gout", "ZYGOTIC FEATURES: none", "PLAN: rest", "PLAN: ice"]
    corpus = corpus_of(tmp_path, notes, sections="rules", min_header_count=2)
    expected = [*["PAST MEDICAL HISTORY"] * 2, "<other>", *["PLAN"] * 2]
    assert [name for name, _ in segments(corpus)] == expected


def test_sections_are_numbered_by_how_often_their_own_spelling_was_seen(tmp_path: Path) -> None:
    """Rare aliases fall back to a canonical name, but do not count for it where it is frequent by itself."""
    headers = [*["PLAN"] * 3, *["PAST MEDICAL HISTORY"] * 2, "PMH", "PAST MEDICAL HX", "PMHX"]
    corpus = corpus_of(tmp_path, [f"{header}: pain" for header in headers], min_header_count=2)
    assert corpus.metadata_names("section") == ["<no section>", "PLAN", "PAST MEDICAL HISTORY"]


@pytest.mark.parametrize("style", ["paper", "rules"])
def test_a_header_is_counted_in_all_its_cases(tmp_path: Path, style: str) -> None:
    notes = ["PLAN: pain", "Plan: fever", "Plan: cough", "HPI: rash", "HPI: gout"]
    corpus = corpus_of(tmp_path, notes, sections=style, min_header_count=3)
    assert corpus.metadata_names("section")[-1] == "PLAN"
    assert [name for name, _ in segments(corpus)][:3] == ["PLAN"] * 3


def test_given_sections_are_taken_as_they_are(tmp_path: Path) -> None:
    sections = [{"header": "Weird: Name", "text": "pain HPI: fever"}, {"header": "", "text": "rest"}]
    corpus = corpus_of(tmp_path, [{"id": "a", "sections": sections}], sections="given")
    assert segments(corpus) == [("WEIRD: NAME", ["pain", "hpi", "fever"]), ("<no section>", ["rest"])]


def test_given_sections_are_asked_of_a_note_that_has_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="note t/0"):
        corpus_of(tmp_path, ["PLAN: rest"], sections="given")


def test_a_note_is_not_cut_where_no_sections_are_wanted(tmp_path: Path) -> None:
    notes = ["PLAN: rest\nHPI: pain", {"id": "a", "sections": [{"header": "Plan", "text": "walk"}]}]
    corpus = corpus_of(tmp_path, notes, sections="none")
    assert segments(corpus) == [
        ("<no section>", ["plan", "rest", "hpi", "pain"]),
        ("<no section>", ["plan", "walk"]),
    ]


def test_a_word_is_kept_when_seen_more_often_than_the_minimum(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, ["pain fever", "pain fever", "pain cough"], min_count=2)
    assert corpus.words == ["pain"]
    assert corpus.word_counts.tolist() == [3]


def test_words_are_numbered_by_frequency_then_spelling(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, ["zeta alpha pain", "pain zeta", "pain"])
    assert corpus.words == ["pain", "zeta", "alpha"]


def test_a_word_right_after_itself_is_dropped_within_a_section(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, ["HPI: 1 2 3 pain pain fever\n\nPLAN: fever"])
    assert segments(corpus) == [("HPI", ["<digit>", "pain", "fever"]), ("PLAN", ["fever"])]


@pytest.mark.parametrize("column", ["ward", "tokens", "counts"])
def test_metadata_of_several_kinds_stand_side_by_side(tmp_path: Path, column: str) -> None:
    notes = [
        {"id": "a", "text": "HPI: pain", "category": "Nursing", column: "B2"},
        {"id": "b", "text": "fever", "category": "Radiology", column: "C1"},
        {"id": "c", "text": "cough", column: "C1"},
    ]
    corpus = corpus_of(tmp_path, notes, metadata_columns=(column,))
    assert corpus.metadata_kinds == ("section", "category", column, "document")
    assert [name for name, _ in segments(corpus, "section")] == ["HPI", "<no section>", "<no section>"]
    assert [name for name, _ in segments(corpus, "category")] == ["Nursing", "Radiology", "<none>"]
    assert [name for name, _ in segments(corpus, column)] == ["B2", "C1", "C1"]
    assert [name for name, _ in segments(corpus, "document")] == ["t/a", "t/b", "t/c"]


def test_excluded_notes_stay_out(tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("t/1\nt/99\n")
    corpus = corpus_of(tmp_path, ["pain", "secret", "fever"], exclude_ids=tmp_path / "ids.txt")
    assert sorted(corpus.words) == ["fever", "pain"]
    report = corpus.manifest.report
    assert (report["n_read"], report["n_excluded"], report["n_excluded_ids_not_found"]) == (3, 1, 1)


def test_a_dataset_is_an_exclude_list(tmp_path: Path) -> None:
    (tmp_path / "test.jsonl").write_text('{"id": "x", "note_id": "t/0"}\n')
    assert corpus_of(tmp_path, ["secret", "pain"], exclude_ids=tmp_path / "test.jsonl").words == ["pain"]


@pytest.mark.parametrize(
    ("content", "message"), [("wrong/id\n", "none of the 1 ids"), ("", "has no ids"), ("{}", "line 1")]
)
def test_an_exclude_list_that_cannot_work_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "ids.txt").write_text(content)
    with pytest.raises(InputError, match=message):
        corpus_of(tmp_path, ["pain"], exclude_ids=tmp_path / "ids.txt")
    assert not (tmp_path / "corpus").exists()


def test_notes_that_repeat_an_id_are_kept_and_counted(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, [{"id": "same", "text": "pain"}, {"id": "same", "text": "fever"}])
    assert corpus.manifest.sizes["n_documents"] == 2
    assert corpus.manifest.report["warnings"] == {"id of an earlier note": 1}


def test_a_corpus_without_a_frequent_word_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--min-count"):
        corpus_of(tmp_path, ["pain"], min_count=10)


@given(note_texts, st.booleans())
@FOLDER_IS_REUSED
def test_every_token_is_in_the_corpus_in_order(tmp_path: Path, texts: list[str], stop_words: bool) -> None:
    """With no header frequent enough, a corpus is the notes' tokens, repeats dropped."""
    texts = [*texts, "anchor"]
    corpus = corpus_of(tmp_path, texts, sections="paper", min_header_count=1000, stop_words=stop_words)
    expected = []
    for text in filter(str.strip, texts):
        words = [token.word for token in iterate_tokens(text, stop_words=stop_words)]
        expected += [word for i, word in enumerate(words) if i == 0 or word != words[i - 1]]
    assert [corpus.words[token] for token in corpus.tokens] == expected


def folder_of_all_formats(folder: Path) -> Path:
    """Write files that are cut, files that are not, and rows that give no note; some notes have no id."""
    texts = [
        f'HPI: word{i % 7} word{i % 31} of fat mass (FM)\n\nPLAN: rest {i}, "less FM"\n' for i in range(60)
    ]
    rows = [{"id": i, "text": text, "category": f"ward {i % 3}"} for i, text in enumerate(texts)]
    folder.mkdir(parents=True)
    columns = ("id", "text", "category")
    write_csv(folder / "a.csv", [*rows, {"id": 3, "text": ""}, *rows[:9]], columns=columns, newline="\r\n")
    (folder / "b.csv").write_text("text,x\n" + 'stray 5\' 3" tall,1\n"HPI: closed\nlater",2\nshort\n' * 30)
    write_csv(folder / "c.csv.gz", rows, columns=columns, gzip=True)
    write_jsonl(folder / "d.jsonl", [{"text": text} for text in texts])
    write_parquet(folder / "e.parquet", {"id": [f"{i}" for i in range(60)], "text": texts}, row_group_size=7)
    write_text_folder(folder / "f", {f"{i}.txt": text for i, text in enumerate(texts[:20])})
    return folder


@pytest.mark.parametrize("part_bytes", [300, 3000])
def test_the_number_of_workers_and_the_size_of_parts_do_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part_bytes: int
) -> None:
    notes = folder_of_all_formats(tmp_path / "notes")
    (tmp_path / "ids.txt").write_text("a/5\nc/7\nnone/1\n")
    settings = CorpusSettings(min_count=0, min_header_count=1, stop_words=True, spelled_out=0.5)
    build_it = partial(build_corpus, notes, settings=settings, exclude_ids=tmp_path / "ids.txt")
    whole = build_it(output=tmp_path / "whole", workers=1)
    monkeypatch.setattr(opening, "PART_BYTES", part_bytes)
    for workers in (1, 2, 3):
        built = build_it(output=tmp_path / f"by {workers}", workers=workers)
        assert built.manifest == whole.manifest
        for name in (*whole.manifest.files, "manifest.json"):
            assert (built.folder / name).read_bytes() == (whole.folder / name).read_bytes(), name


def test_a_build_that_was_stopped_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = folder_of_all_formats(tmp_path / "notes")
    settings = CorpusSettings(min_count=0, min_header_count=1)
    whole = build_corpus(notes, output=tmp_path / "whole", settings=settings)
    monkeypatch.setattr(opening, "PART_BYTES", 1000)
    monkeypatch.setattr(build, "batch_notes", partial(batch_notes, max_notes=10))
    begun: list[Path] = []

    def stop_at_fifteen(shard: tuple[Path, Any], **named: Any) -> None:
        begun.append(shard[0])
        if len(begun) == 15:
            raise KeyboardInterrupt
        build_shard(shard, **named)

    monkeypatch.setattr(build, "build_shard", stop_at_fifteen)
    with pytest.raises(KeyboardInterrupt):
        build_corpus(notes, output=tmp_path / "corpus", settings=settings)
    resumed = build_corpus(notes, output=tmp_path / "corpus", settings=settings, resume=True)
    assert resumed.manifest == whole.manifest
    assert len(begun) - len(set(begun)) == 1
    assert len(begun) > 20


@pytest.mark.parametrize("workers", [1, 2])
def test_what_cannot_be_read_is_said_by_the_first_file_that_has_it(tmp_path: Path, workers: int) -> None:
    for number, name in enumerate(("a.csv", "b.csv", "c.parquet")):
        (tmp_path / name).write_text("id,text\n1,pain\n" if number == 0 else "no,such\n1,2\n" * 3)
    paths = [tmp_path / name for name in ("a.csv", "b.csv", "c.parquet")]
    with pytest.raises(FormatError, match=r"b\.csv has no column 'text'"):
        build_corpus(paths, output=tmp_path / "corpus", workers=workers)


def test_stop_words_are_read_where_they_are_asked_for(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, ["AT THE ICU:\nof the heart", "PLAN: The OR"], stop_words=True)
    assert corpus.reads_stop_words
    assert segments(corpus) == [("AT THE ICU", ["of", "the", "heart"]), ("PLAN", ["the", "or"])]


def test_stop_words_of_a_header_that_stays_in_the_body_are_read_too(tmp_path: Path) -> None:
    notes = ["HISTORY: pain\nSTATE OF Heart: fine", "HISTORY: cough"]
    corpus = corpus_of(tmp_path, notes, sections="paper", min_header_count=2, stop_words=True)
    assert segments(corpus)[0] == ("HISTORY", ["pain", "state", "of", "heart", "fine"])


def test_short_forms_are_spelled_out_under_the_sections_they_stand_in(tmp_path: Path) -> None:
    assert segments(corpus_of(tmp_path, FAT_MASS, spelled_out=1)) == [
        ("HPI", ["patient", "fat", "mass", "fm", "low", "fat", "mass", "<digit>", "kg"]),
        ("PLAN", ["recheck", "fat", "mass", "bmi", "or", "needed"]),
        ("<no section>", ["seen", "fm", "frequency", "modulation", "frequency", "modulation", "radio"]),
        ("PLAN", ["rest"]),
    ]


def test_a_part_of_the_sections_spells_out_and_the_others_do_not(tmp_path: Path) -> None:
    notes = ["HPI: fat mass (FM)\n\nPLAN: recheck FM"] * 400
    found = segments(corpus_of(tmp_path, notes, spelled_out=0.25))
    plans = [words for name, words in found if name == "PLAN"]
    assert len(plans) == len(notes)
    spelled = plans.count(["recheck", "fat", "mass"])
    assert spelled + plans.count(["recheck", "fm"]) == len(plans)
    assert spelled == pytest.approx(0.25 * len(plans), rel=0.35)


def test_without_a_choice_the_paper_is_followed(tmp_path: Path) -> None:
    """The fingerprint is that of a time when there was no choice."""
    corpus = corpus_of(tmp_path / "unsaid", FAT_MASS)
    assert corpus.manifest.fingerprint == "cb3ec7bc7d8d-80dbbe3002d1"
    assert corpus.manifest == corpus_of(tmp_path / "said", FAT_MASS, stop_words=False, spelled_out=0).manifest


def test_definitions_are_not_looked_for_when_nothing_is_spelled_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: str) -> None:
        raise AssertionError

    monkeypatch.setattr(spelled_out, "find_definitions", refuse)
    corpus_of(tmp_path, FAT_MASS)
    with pytest.raises(AssertionError):
        corpus_of(tmp_path, FAT_MASS, spelled_out=0.5)


@given(st.lists(st.one_of(st.integers(0, 20), st.integers(0, 2**64 - 1))))
def test_distinct_agrees_with_unique(values: list[int]) -> None:
    hashes = np.array(values, np.uint64)
    first, inverse = distinct(hashes)
    _, expected = np.unique(hashes, return_index=True)
    assert first.tolist() == sorted(expected.tolist())
    assert hashes[first][inverse].tolist() == values


def test_distinct_agrees_with_unique_on_many_words() -> None:
    generator = np.random.default_rng(0)
    words = generator.integers(0, 2**64, 60_000, np.uint64)
    hashes = words[np.minimum(generator.zipf(1.2, 300_000) - 1, words.size - 1)]
    first, inverse = distinct(hashes)
    _, expected = np.unique(hashes, return_index=True)
    assert np.array_equal(first, np.sort(expected))
    assert np.array_equal(hashes[first][inverse], hashes)


@given(st.lists(st.one_of(st.integers(0, 5), st.integers(0, 2**31 - 1))))
def test_stable_order_agrees_with_argsort(values: list[int]) -> None:
    ids = np.array(values, np.int32)
    assert stable_order(ids).tolist() == np.argsort(ids, kind="stable").tolist()


def test_a_finished_build_resumes_to_itself(tmp_path: Path) -> None:
    built = corpus_of(tmp_path, ["pain and fever", "pain"])
    notes = next(tmp_path.glob("*.jsonl"))
    before = {path.name: path.stat().st_mtime_ns for path in built.folder.iterdir()}
    settings = CorpusSettings(min_count=0, min_header_count=1)
    again = build_corpus([notes], output=built.folder, settings=settings, resume=True)
    assert again.manifest == built.manifest
    assert {path.name: path.stat().st_mtime_ns for path in built.folder.iterdir()} == before
    with pytest.raises(InputError, match=r"--resume: .* other notes or settings"):
        build_corpus([notes], output=built.folder, settings=CorpusSettings(min_count=7), resume=True)
    with pytest.raises(InputError, match="already exists"):
        build_corpus([notes], output=built.folder, settings=settings)
