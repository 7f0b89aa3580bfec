"""Compiled inventories: a model that knows long forms by where they stand in somebody else's notes."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from corpora import corpus_of
from expansion.clinic import CLOTTING, INVENTORY, mention, random_model
from expansion.masked_span_clinic import (
    REHEARSAL,
    TITRATION,
    WARD_HEADERS,
    WARD_INVENTORY,
    masked_span_texts,
    stored_model,
    ward_corpus,
)
from lmcells.corpus import Corpus
from lmcells.errors import InputError, ModelError
from lmcells.expansion import Sense, SenseInventory
from lmcells.expansion.calibration import Calibration
from lmcells.expansion.inventory_compilation import Compilation, compile_inventory, metadata_ids
from lmcells.expansion.ranking import MaskedSpanRanker
from lmcells.expansion.windows import Mention, section_id_finder
from lmcells.pretrained import PretrainedModel

CPU = torch.device("cpu")


@pytest.fixture
def model(masked_span_model: PretrainedModel) -> PretrainedModel:
    return masked_span_model


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return ward_corpus(tmp_path_factory.mktemp("ward"))


def compiled(
    model: PretrainedModel,
    corpus: Corpus,
    output: Path,
    inventory: SenseInventory = WARD_INVENTORY,
    min_count: int = 4,
) -> tuple[PretrainedModel, Compilation]:
    result = compile_inventory(
        model, inventory, corpus, output=output, name="mine.csv", device=CPU, min_count=min_count
    )
    return PretrainedModel.from_pretrained(output, verify=True), result


def n_right(model: PretrainedModel) -> int:
    """Of 12 gaps, half of a kind, for how many the long form that belongs there is ranked first."""
    ranker = MaskedSpanRanker(model, WARD_INVENTORY)
    return sum(
        WARD_INVENTORY.senses("PT")[int(scores.argmax())] == sense
        for kind, sense in (("PLAN", REHEARSAL), ("LABS", TITRATION))
        for scores in ranker.scores(
            [mention(text, section=WARD_HEADERS[kind]) for text in masked_span_texts(kind)]
        )
    )


def test_what_could_not_be_ranked_is_ranked_right_after_compiling(
    model: PretrainedModel, ward: Corpus, tmp_path: Path
) -> None:
    assert ward.words != model.words
    assert n_right(model) == 6  # always the first: it cannot tell them apart
    after, result = compiled(model, ward, tmp_path / "new")
    assert n_right(after) == 12
    assert result == Compilation(n_senses=2, n_senses_found=2, n_added=2, n_replaced=0, n_kept=0)


def test_other_phrases_weights_and_averages_stay_as_they_were(
    model: PretrainedModel, ward: Corpus, tmp_path: Path
) -> None:
    after, _ = compiled(model, ward, tmp_path / "new")
    assert model.phrase_store is not None
    assert after.phrase_store is not None
    assert after.phrase_store.phrases[: len(model.phrase_store)] == model.phrase_store.phrases
    for phrase in model.phrase_store.phrases:
        old, new = (store.find(tuple(phrase.split())) for store in (model.phrase_store, after.phrase_store))
        assert old is not None
        assert new is not None
        np.testing.assert_array_equal(old.prototypes, new.prototypes)
        assert old.count == new.count
    for name in ("masked_span_center", "phrase_center"):
        np.testing.assert_array_equal(model.phrase_store.arrays[name], after.phrase_store.arrays[name])
    weights = "model.safetensors"
    assert (after.folder / weights).read_bytes() == (model.folder / weights).read_bytes()


def test_the_places_are_read_as_notes_are_read(model: PretrainedModel, tmp_path: Path) -> None:
    """Four places of a phrase that the model knows no word of, in a corpus with other words and headers."""
    phrase = "vestibular recalibration"
    bodies = {
        "TREATMENT PLAN": [
            f"gait aardvark walking {phrase} zinc stairs balance",
            f"{phrase} strength zinc exercise",
        ],
        "BLOOD WORK": [f"plasma zinc seconds warfarin {phrase}", f"bruise {phrase} gait"],
    }
    corpus = corpus_of(
        tmp_path / "other",
        [
            {"id": f"o/{header}{i}", "sections": [{"header": header, "text": text}]}
            for header, texts in bodies.items()
            for i, text in enumerate(texts)
        ],
    )
    inventory = SenseInventory.from_senses([Sense("VR", phrase)])
    after, _ = compiled(model, corpus, tmp_path / "new", inventory)
    store = after.phrase_store
    assert store is not None
    mentions = [
        Mention(text, text.index(phrase), text.index(phrase) + len(phrase), "VR", header)
        for header, texts in bodies.items()
        for text in texts
    ]
    windows = MaskedSpanRanker(model, inventory).read(mentions)
    sections = np.array([section_id_finder(model)(each.section) for each in mentions])
    cells = model.variational.posterior(windows, sections)
    each = cells.mean - store.masked_span_center
    expected = (each / np.linalg.norm(each, axis=1, keepdims=True)).mean(axis=0)
    found = store.find(tuple(phrase.split()))
    assert found is not None
    assert found.count == 4
    assert found.prototypes[0] @ expected / np.linalg.norm(expected) > 0.98  # four bits


def test_sections_go_by_name_then_alias_then_no_section(
    model: PretrainedModel, ward: Corpus, corpus: Corpus
) -> None:
    assert metadata_ids(model, corpus) == list(range(len(model.sections)))
    names = dict(zip(ward.metadata_names("section"), metadata_ids(model, ward), strict=True))
    assert names["TREATMENT PLAN"] == model.section_ids["PLAN"]
    assert names["BLOOD WORK"] == names["<no section>"] == model.section_ids["<no section>"]


def test_compiling_twice_is_compiling_once(model: PretrainedModel, ward: Corpus, tmp_path: Path) -> None:
    once, _ = compiled(model, ward, tmp_path / "once")
    twice, result = compiled(once, ward, tmp_path / "twice")
    assert (result.n_added, result.n_replaced, result.n_kept) == (0, 2, 0)
    for path in once.folder.iterdir():
        assert path.read_bytes() == (twice.folder / path.name).read_bytes(), path.name


def test_on_the_training_corpus_it_finds_what_training_found(
    model: PretrainedModel, corpus: Corpus, tmp_path: Path
) -> None:
    inventory = SenseInventory.from_senses([CLOTTING])  # too rare for a second direction
    after, result = compiled(model, corpus, tmp_path / "new", inventory)
    assert (result.n_added, result.n_replaced) == (0, 1)
    old, new = (
        each.phrase_store.find(("prothrombin", "time")) for each in (model, after) if each.phrase_store
    )
    assert old is not None
    assert new is not None
    assert old.count == new.count
    np.testing.assert_allclose(old.prototypes, new.prototypes, atol=0.01)


def test_what_the_model_has_seen_more_often_is_kept(model: PretrainedModel, tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path / "few", ["bruise physical therapy plasma"] * 5)
    after, result = compiled(model, corpus, tmp_path / "new", INVENTORY)
    assert result == Compilation(n_senses=4, n_senses_found=1, n_added=0, n_replaced=0, n_kept=1)
    assert model.phrase_store is not None
    assert after.phrase_store is not None
    assert after.phrase_store.arrays["counts"].tolist() == model.phrase_store.arrays["counts"].tolist()


def test_a_long_form_must_occur_often_enough(model: PretrainedModel, tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path / "few", ["gait multiple rehearsal stairs"] * 3)
    with pytest.raises(InputError, match="none of the long forms of 2 senses at least 4 times"):
        compiled(model, corpus, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    _, result = compiled(model, corpus, tmp_path / "new", min_count=3)
    assert result.n_added == 1


def test_calibration_and_card_travel_along(model: PretrainedModel, ward: Corpus, tmp_path: Path) -> None:
    first, _ = compiled(model, ward, tmp_path / "first")
    Calibration(temperature=2.5).save(first.folder)
    card = first.folder / "README.md"
    card.write_bytes(card.read_bytes() + b"\nA line of ours, \xff and no UTF-8.\n")
    corpus = corpus_of(tmp_path / "more", ["gait mitral stenosis stairs"] * 70)
    second, _ = compiled(first, corpus, tmp_path / "second", INVENTORY)
    assert Calibration.load(second.folder).temperature == 2.5
    text = (second.folder / "README.md").read_bytes()
    assert text.startswith(card.read_bytes())
    assert text.count(b"## Compiled inventories") == 1
    assert text.endswith(
        f"- 1 phrases of `mine.csv`, by their occurrences in corpus `{corpus.manifest.fingerprint}`\n".encode()
    )
    config = json.loads((second.folder / "config.json").read_text())
    assert [entry["corpus"] for entry in config["training"]["compiled"]] == [
        ward.manifest.fingerprint,
        corpus.manifest.fingerprint,
    ]


@pytest.mark.parametrize("kind", ["bsg", "mbsge"])
def test_models_of_other_kinds_are_compiled_too(
    kind: str, corpus: Corpus, ward: Corpus, tmp_path: Path
) -> None:
    after, result = compiled(stored_model(tmp_path / "model", corpus, kind), ward, tmp_path / "new")
    assert result.n_added == 2
    assert after.phrase_store is not None
    assert after.phrase_store.find(("multiple", "rehearsal")) is not None


def test_a_model_without_a_phrase_network_is_refused(corpus: Corpus, ward: Corpus, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no phrase network and store"):
        compiled(random_model(tmp_path / "plain", corpus, "lmc"), ward, tmp_path / "new")


def test_a_corpus_with_other_words_than_the_models_is_refused(model: PretrainedModel, tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path / "corpus", ["HPI: the gait of a patient"], stop_words=True)
    with pytest.raises(InputError, match=r"found stop words .* Prepare the corpus without --stop-words"):
        compiled(model, corpus, tmp_path / "out")


def test_an_existing_folder_is_left_alone(model: PretrainedModel, ward: Corpus, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine").touch()
    with pytest.raises(InputError, match="already exists"):
        compiled(model, ward, tmp_path / "there")
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["mine"]
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_finds_the_same_directions(model: PretrainedModel, ward: Corpus, tmp_path: Path) -> None:
    on_cpu, _ = compiled(model, ward, tmp_path / "cpu")
    compile_inventory(
        model, WARD_INVENTORY, ward, output=tmp_path / "gpu", name="mine.csv", device=torch.device("cuda")
    )
    on_gpu = PretrainedModel.from_pretrained(tmp_path / "gpu")
    assert on_cpu.phrase_store is not None
    assert on_gpu.phrase_store is not None
    for sense in WARD_INVENTORY:
        pair = [m.phrase_store.find(tuple(sense.long_form.split())) for m in (on_cpu, on_gpu)]  # type: ignore[union-attr]
        assert pair[0] is not None
        assert pair[1] is not None
        np.testing.assert_allclose(pair[0].prototypes, pair[1].prototypes, atol=0.02)
