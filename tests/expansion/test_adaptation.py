"""Adapting a model: it starts as what it was, learns new words, and keeps what only it knew."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from corpora import corpus_of
from lmcells import Expander
from lmcells.corpus import Corpus
from lmcells.errors import ConfigError, InputError, ModelError
from lmcells.expansion.adaptation import Adaptation, _joined, _linear_map, _points
from lmcells.expansion.long_forms import unit_length
from lmcells.model import Windows, create_model
from lmcells.pretrain import train
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.phrase_store import from_four_bits, to_four_bits

SMALL = {
    "model.cell_dim": 8,
    "model.embedding_dim": 8,
    "model.hidden_dim": 6,
    "model.window": 4,
    "model.masked_span_dim": 8,
    "model.phrase_dim": 8,
    "training.epochs": 2,
    "training.contrastive_spans": 16,
    "training.batch_size": 256,
}
QUICK = {name: value for name, value in SMALL.items() if name.startswith("training")}
OLD = [
    "PLAN: physical therapy for gait of the knee and the hip",
    "LABS: prothrombin time of ten seconds in blood",
]
NEW = ["PLAN: telehealth physical therapy for gait", "VACCINES: booster dose of vaccine in the left deltoid"]


def corpus(folder: Path, notes: list[str], **settings: Any) -> Corpus:
    return corpus_of(folder, notes * 30, **{"stop_words": True, **settings})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adaptation")
    train(corpus(folder / "old", OLD), output=folder / "base", overrides=SMALL)
    corpus(folder / "new", NEW)
    (folder / "base" / "calibration.json").write_text('{"temperature": 2.0, "least_probability": 0.0}')
    train(folder / "new" / "corpus", output=folder / "adapted", from_model=folder / "base", overrides=QUICK)
    return folder


def adaptation(folder: Path) -> Adaptation:
    base = PretrainedModel.from_pretrained(folder / "base")
    return Adaptation(base, Corpus.open(folder / "new" / "corpus"))


def test_before_the_first_step_it_reads_as_the_model_does(folder: Path) -> None:
    adapting = adaptation(folder)
    base = adapting.base
    config = adapting.model_config({})
    model = create_model(config)
    model.load_state_dict(adapting.initial_weights(seed=0))
    words = ["physical", "for", "gait"]  # which both know
    section = "PLAN"
    own_ids = {word: at for at, word in enumerate(adapting.corpus.words)}

    def windows(ids: dict[str, int], section_id: int, mask: int) -> Windows:
        context = torch.tensor([[ids[words[0]], mask, ids[words[1]], ids[words[2]]]])
        return Windows(
            center=torch.tensor([ids[words[0]]]),
            metadata=torch.tensor([section_id]),
            context=context,
            context_mask=torch.ones_like(context, dtype=torch.bool),
            center_mask=torch.zeros(1, dtype=torch.bool),
        )

    names = adapting.corpus.metadata_names("section")
    with torch.no_grad():
        before = base.to_torch().posterior(
            windows(base.word_ids, base.section_ids[section], base.sizes.mask_id)
        )
        after = model.eval().posterior(windows(own_ids, names.index(section), config.mask_id))
    assert torch.allclose(before.cell.mean, after.cell.mean, atol=1e-6)


def test_the_adapted_model_knows_the_words_sections_and_phrases_of_both(folder: Path) -> None:
    base, adapted = (PretrainedModel.from_pretrained(folder / name) for name in ("base", "adapted"))
    assert set(base.words) < set(adapted.words) >= {"booster", "telehealth"}
    assert {"PLAN", "LABS", "VACCINES"} <= set(adapted.sections)
    kept = "prothrombin"  # which the new notes do not have
    table = "variational.context.words.weight"
    before, after = (model.arrays[table][model.word_ids[kept]] for model in (base, adapted))
    assert np.allclose(before, after)
    trained = (model.arrays[table][model.word_ids["gait"]] for model in (base, adapted))
    assert not np.allclose(*trained)
    assert base.phrase_store is not None
    assert adapted.phrase_store is not None
    for phrase in (("prothrombin", "time"), ("physical", "therapy"), ("booster", "dose")):
        assert adapted.phrase_store.find(phrase) is not None
    assert base.phrase_store.find(("booster", "dose")) is None
    for word in ("prothrombin", "gait", "booster"):
        count = sum(model.word_counts[model.word_ids[word]] for model in (base,) if word in model.word_ids)
        own = 30 if word in ("gait", "booster") else 0
        assert adapted.word_counts[adapted.word_ids[word]] == count + own
    plan = adapted.section_ids["PLAN"]
    gait = adapted.statistics.metadata_given_word(adapted.word_ids["gait"], add=0)
    assert gait[plan] == 1.0


def test_it_expands_and_keeps_the_calibration(folder: Path) -> None:
    senses = [
        {"short_form": "PT", "long_form": "physical therapy"},
        {"short_form": "PT", "long_form": "prothrombin time"},
    ]
    expander = Expander.from_pretrained(folder / "adapted", only_inventory=senses)
    assert expander.calibration.temperature == 2.0
    assert [each.short_form for each in expander("PLAN: telehealth PT for gait")] == ["PT"]


def test_adapting_resumes_bit_for_bit(folder: Path, tmp_path: Path) -> None:
    given: dict[str, Any] = {"from_model": folder / "base", "overrides": QUICK}
    train(folder / "new" / "corpus", output=tmp_path / "again", **given)
    train(folder / "new" / "corpus", output=tmp_path / "again", resume=True, **given)
    for name in ("model.safetensors", "phrases.safetensors", "statistics.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / "adapted" / name).read_bytes()
    other = train(
        corpus(tmp_path / "old", OLD), output=tmp_path / "base", overrides=SMALL | {"training.seed": 5}
    )
    given["from_model"] = other.folder
    with pytest.raises(ConfigError, match=r"was trained with start\.sum"):
        train(folder / "new" / "corpus", output=tmp_path / "again", resume=True, **given)


def test_prototypes_move_with_the_network() -> None:
    rng = np.random.default_rng(0)
    before = rng.normal(size=(500, 6)).astype(np.float32)
    turn, _ = np.linalg.qr(rng.normal(size=(6, 6)))
    shift = rng.normal(size=6)
    after = (before @ turn + shift).astype(np.float32)
    points = before[:20]
    center = before.mean(axis=0)
    directions = (points - center) / np.linalg.norm(points - center, axis=1, keepdims=True)
    for new, expected in ((before, directions), (after, directions @ turn)):
        to_new = _linear_map(before, new)
        moved = unit_length(to_new(_points(directions, center, before)) - to_new(center))
        assert np.allclose(moved, expected, atol=1e-2)


def test_counts_are_rates_in_both_texts(folder: Path) -> None:
    adapting = adaptation(folder)
    store = adapting.base.phrase_store
    assert store is not None
    moved = from_four_bits(store.arrays["prototypes"], dim=8)
    from lmcells.training.prototypes import Prototypes

    own = Prototypes(
        phrases=["physical therapy", "booster dose"],
        counts=np.array([10, 5]),
        offsets=np.array([0, 1, 2]),
        prototypes=np.eye(8, dtype=np.float32)[:2],
        shares=np.ones(2, np.float32),
        masked_span_center=np.zeros(8, np.float32),
        phrase_center=np.zeros(8, np.float32),
    )
    joined = _joined(store, moved, own, rates=(0.5, 3.0))
    both, new, old = (joined.find(tuple(name.split())) for name in (*own.phrases, "prothrombin time"))
    known = store.find(("physical", "therapy"))
    assert known is not None
    assert both is not None
    assert both.count == round(known.count * 0.5 + 30)
    assert len(both.prototypes) == len(known.prototypes) + 1
    assert both.shares.sum() == pytest.approx(1)
    assert both.shares[-1] == pytest.approx(30 / both.count, abs=0.02)
    assert new is not None
    assert new.count == 15
    assert old is not None
    assert old.count == 15
    assert np.array_equal(to_four_bits(moved), store.arrays["prototypes"])


def test_text_that_is_not_counted_leaves_the_counts_as_they_are(folder: Path, tmp_path: Path) -> None:
    notes = [{"id": f"t/{at}", "category": "written", "text": note} for at, note in enumerate(NEW * 30)]
    written = corpus_of(tmp_path / "written", notes, stop_words=True)
    overrides = {**QUICK, "training.uncounted": "written"}
    train(written.folder, output=tmp_path / "adapted", from_model=folder / "base", overrides=overrides)
    base, adapted = (
        PretrainedModel.from_pretrained(each / name)
        for each, name in ((folder, "base"), (tmp_path, "adapted"))
    )
    for phrase in (("prothrombin", "time"), ("knee",)):  # that only the base has read
        before, after = (model.phrase_store.find(phrase) for model in (base, adapted) if model.phrase_store)
        assert before is not None
        assert after is not None
        assert after.count == before.count == 30


def test_what_cannot_be_adapted_is_refused(folder: Path, tmp_path: Path) -> None:
    adapting = adaptation(folder)
    with pytest.raises(ConfigError, match=r"model\.cell_dim is 9; .* has 8, which adapting keeps"):
        adapting.model_config({"cell_dim": 9})
    assert adapting.model_config({"dropout": 0.3}).dropout == 0.3
    with pytest.raises(InputError, match=r"found no stop words .* Prepare the corpus with --stop-words"):
        Adaptation(adapting.base, corpus(tmp_path / "plain", NEW, stop_words=False))
    bsg = replace(
        adapting.base,
        config=replace(adapting.base.config, model={**adapting.base.config.model, "kind": "bsg"}),
    )
    with pytest.raises(ModelError, match="cannot be adapted"):
        Adaptation(bsg, adapting.corpus)
    with pytest.raises(ConfigError, match="--from is for models of the kind lmc"):
        train(adapting.corpus, output=tmp_path / "x", kind="elmo", from_model=folder / "base")
    (tmp_path / "tuned.toml").write_text('preset = "tuned"\n')
    for given, message in (
        (
            {"preset": "paper"},
            r"has .*, which adapting keeps\. Leave it out, and any preset but adapt or default",
        ),
        ({"config": tmp_path / "tuned.toml"}, "which adapting keeps"),
        (
            {"overrides": {"training.contrastive_weight": 0, "training.phrase_weight": 0}},
            "adapting needs one",
        ),
    ):
        with pytest.raises(ConfigError, match=message):
            train(adapting.corpus, output=tmp_path / "x", from_model=folder / "base", **given)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"initial_share is 0\.5, but no model is adapted\. Add --from"):
        train(adapting.corpus, output=tmp_path / "x", overrides={"training.initial_share": 0.5})
    assert not (tmp_path / "x").exists()


def test_text_that_is_not_counted_moves_the_average_of_masked_spans_by_a_third(folder: Path) -> None:
    still = {**QUICK, "training.learning_rate": 1e-9}
    new, base = folder / "new" / "corpus", folder / "base"
    train(new, output=folder / "counted", from_model=base, overrides=still)
    train(
        new,
        output=folder / "uncounted",
        from_model=base,
        overrides={**still, "training.uncounted": "<none>"},
    )
    stores = [
        PretrainedModel.from_pretrained(folder / name).phrase_store
        for name in ("base", "counted", "uncounted")
    ]
    before, counted, after = (store for store in stores if store is not None)
    expected = before.masked_span_center + 0.35 * (counted.masked_span_center - before.masked_span_center)
    np.testing.assert_allclose(after.masked_span_center, expected, atol=1e-3)


def test_weights_can_stay_between_those_before_and_after(folder: Path) -> None:
    half = {**QUICK, "training.initial_share": 0.5}
    train(folder / "new" / "corpus", output=folder / "between", from_model=folder / "base", overrides=half)
    start = adaptation(folder).initial_weights(seed=0)
    end, between = (PretrainedModel.from_pretrained(folder / name) for name in ("adapted", "between"))
    for name in ("variational.heads.mean.weight", "variational.masked_span_reader.hidden.weight"):
        middle = (start[name].numpy() + end.arrays[name]) / 2
        np.testing.assert_allclose(between.arrays[name], middle, atol=1e-6)
        assert not np.allclose(between.arrays[name], end.arrays[name], atol=1e-4)
