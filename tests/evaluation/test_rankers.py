"""What MODEL stands for."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from corpora import corpus_of
from expansion.clinic import CLOTTING, INVENTORY, THERAPY, clinic_corpus, mention, random_model
from lmcells.corpus import Corpus
from lmcells.errors import InputError
from lmcells.evaluation import rankers
from lmcells.evaluation.dataset import Example, write_dataset
from lmcells.evaluation.evaluate import evaluate, predict
from lmcells.evaluation.metrics import measure
from lmcells.evaluation.rankers import make_ranker, window_words
from lmcells.expansion.calibration import Calibration
from lmcells.expansion.long_form_moments import LongFormOccurrences
from lmcells.expansion.ranking import CellRanker, Ranker
from lmcells.model import count_parameters
from lmcells.pretrained import PretrainedModel

EXAMPLE = Example("e", "gait PT stairs", 5, 7, "PT", "PLAN", THERAPY.long_form, "clinic/0")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return clinic_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def models(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> dict[str, PretrainedModel]:
    folder = tmp_path_factory.mktemp("models")
    return {kind: random_model(folder / kind, corpus, kind) for kind in ("lmc", "bsg", "mbsge")}


@pytest.mark.parametrize("name", ["random", "dominant", "section-mle"])
def test_a_baseline_is_found_by_its_name(corpus: Corpus, name: str) -> None:
    named = make_ranker(name, INVENTORY, examples=[EXAMPLE], corpus=corpus)
    assert named.n_parameters is None
    assert named.scores([mention("gait PT", section="PLAN")])[0].shape == (2,)


@pytest.mark.parametrize("kind", ["lmc", "bsg", "mbsge"])
def test_a_folder_is_a_model_and_its_parameters_are_counted_without_embeddings(
    models: dict[str, PretrainedModel], corpus: Corpus, kind: str
) -> None:
    named = make_ranker(str(models[kind].folder), INVENTORY, examples=[EXAMPLE])
    assert named.n_parameters == count_parameters(models[kind].to_torch())
    assert named.corpus_fingerprint == corpus.manifest.fingerprint
    assert np.isfinite(named.scores([mention("gait PT", section="PLAN")])[0]).all()
    assert (named.knows is None) == (kind == "bsg")


def test_the_corpus_supplies_the_counts_of_long_forms(
    models: dict[str, PretrainedModel], corpus: Corpus
) -> None:
    mentions = [mention("valve MS", "MS", section="PLAN")]
    name = str(models["lmc"].folder)
    with_corpus, without = (
        make_ranker(name, INVENTORY, examples=[EXAMPLE], corpus=each).scores(mentions)[0]
        for each in (corpus, None)
    )
    assert not np.allclose(with_corpus, without)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("randon", "Nearest: 'random'"),
        ("bert:", "bert:FOLDER"),
        ("no/such/folder", "a model folder, default, random, dominant, section-mle"),
        ("section-mle", "--corpus CORPUS"),
        ("bert:/no/such/folder", "is not a folder"),
    ],
)
def test_a_name_that_stands_for_nothing_is_refused_with_the_choices(name: str, message: str) -> None:
    if name.startswith("bert:/"):
        pytest.importorskip("transformers")
    with pytest.raises(InputError) as error:
        make_ranker(name, INVENTORY, examples=[EXAMPLE])
    assert message in str(error.value)


def test_section_mle_can_be_counted_on_a_dataset(tmp_path: Path) -> None:
    write_dataset(tmp_path / "train.jsonl", [EXAMPLE])
    named = make_ranker(f"section-mle:{tmp_path / 'train.jsonl'}", INVENTORY, examples=[])
    scores = named.scores([mention("PT", section="Plan:"), mention("PT", section="far from all")])
    assert scores[0].argmax() == 0
    assert np.ptp(scores[1]) < 1e-6
    assert named.knows is not None
    assert [named.knows(section) for section in ("Plan:", "far from all")] == [True, False]


def test_all_models_share_the_words_of_a_window(models: dict[str, PretrainedModel], corpus: Corpus) -> None:
    folder = str(models["lmc"].folder)
    assert window_words(["random", "bert:x"]) is None
    assert window_words(["random", "bert:x", folder]) == frozenset(corpus.words)
    assert window_words(["random"], corpus=corpus) == frozenset(corpus.words)


def test_a_calibration_belongs_to_the_models_best_ranking(corpus: Corpus, tmp_path: Path) -> None:
    model = random_model(tmp_path / "lmc", corpus, "lmc")
    mentions = [mention("gait PT", section="PLAN")]
    Calibration(temperature=2.0).save(model.folder)
    named = make_ranker(str(model.folder), INVENTORY, examples=[])
    np.testing.assert_allclose(
        named.scores(mentions)[0], CellRanker(model, INVENTORY).scores(mentions)[0] / 2
    )
    assert make_ranker("default", INVENTORY, examples=[]).temperature != 1.0
    assert make_ranker("default", INVENTORY, examples=[], ranking="divergence").temperature == 1.0


def test_rankers_are_imported_without_torch() -> None:
    code = "import sys, lmcells.evaluation.evaluate; print('torch' in sys.modules, 'transformers' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.split() == ["False", "False"]


def example(number: int, long_form: str, section: str | None = None, short_form: str = "PT") -> Example:
    return Example(
        f"e{number}", short_form, 0, len(short_form), short_form, section, long_form, f"n/{number // 2}"
    )


def probabilities(ranker: Ranker, section: str | None) -> list[float]:
    scores = ranker.scores([mention("PT", section=section)])[0]
    weights = np.exp(scores)
    return (weights / weights.sum()).tolist()


THERAPY_AND_CLOTTING = [
    *(example(number, THERAPY.long_form, "PLAN") for number in range(3)),
    example(3, THERAPY.long_form, "LABS"),
    example(4, CLOTTING.long_form, "LABS"),
    example(5, CLOTTING.long_form),
]


def test_a_section_map_gives_foreign_headers_known_names(tmp_path: Path) -> None:
    write_dataset(tmp_path / "train.jsonl", THERAPY_AND_CLOTTING)
    headers = ("PLAN", "Bloods:", "LABS", "Nonsense", "zzzz", None)
    tested = [example(number, THERAPY.long_form, header) for number, header in enumerate(headers)]
    section_map = {"bloods": "LABS", "nonsense": None}
    model = f"section-mle:{tmp_path / 'train.jsonl'}"
    (result,) = evaluate(model, dataset=tested, inventory=INVENTORY, section_map=section_map)
    found = {"as written": 2, "mapped": 1, "mapped to none": 1, "unknown": 1, "no section": 1}
    assert result.section_mapping == found
    plan, bloods, labs, *_ = result.predictions.log_probabilities
    np.testing.assert_allclose(bloods, labs, atol=1e-6)
    assert not np.allclose(plan, labs)
    assert result.contexts["e1"].section == "Bloods:"


def test_chance_is_right_as_often_as_there_are_candidates() -> None:
    examples = [example(number, THERAPY.long_form) for number in range(4_000)]
    metrics = measure(
        predict("random", rankers.make_ranker("random", INVENTORY, examples=(), seed=1), examples, INVENTORY)
    )
    assert metrics.accuracy == pytest.approx(0.5, abs=0.04)
    assert metrics.nll == pytest.approx(np.log(2), abs=1e-6)


def test_chance_is_the_same_for_one_seed_and_another_for_another() -> None:
    mentions = [mention("PT")] * 50
    first, again, other = (
        rankers.make_ranker("random", INVENTORY, examples=(), seed=seed).scores(mentions)
        for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(first, again)
    assert (np.argmax(first, axis=1) != np.argmax(other, axis=1)).any()


def test_the_commonest_sense_scores_its_share() -> None:
    ranker = rankers.dominant_ranker(INVENTORY, THERAPY_AND_CLOTTING)
    metrics = measure(predict("dominant", ranker, THERAPY_AND_CLOTTING, INVENTORY))
    assert metrics.accuracy == pytest.approx(4 / 6)
    assert probabilities(ranker, None) == pytest.approx([4 / 6, 2 / 6])


def test_the_commonest_sense_of_a_short_form_without_examples_is_any() -> None:
    ranker = rankers.dominant_ranker(INVENTORY, [])
    assert probabilities(ranker, "PLAN") == pytest.approx([0.5, 0.5])


def test_section_mle_is_the_share_of_a_long_forms_places_in_the_section() -> None:
    ranker = rankers.section_ranker(INVENTORY, rankers.count_sections_of_examples(THERAPY_AND_CLOTTING))
    # p(LABS | therapy) = 1/4 and p(LABS | clotting) = 1/2: the rarer sense wins, there is no prior.
    assert probabilities(ranker, "LABS") == pytest.approx([1 / 3, 2 / 3])
    assert probabilities(ranker, "PLAN")[0] == pytest.approx(1, abs=1e-5)


def test_no_section_is_a_section_of_its_own() -> None:
    counts = rankers.count_sections_of_examples(THERAPY_AND_CLOTTING)
    assert probabilities(rankers.section_ranker(INVENTORY, counts), None)[1] == pytest.approx(1, abs=1e-5)


def test_a_section_that_was_never_seen_is_left_to_chance() -> None:
    ranker = rankers.section_ranker(INVENTORY, rankers.count_sections_of_examples(THERAPY_AND_CLOTTING))
    scores = ranker.scores([mention("PT", section="NEW")] * 200)
    np.testing.assert_allclose(scores, np.log(rankers.FLOOR), atol=1e-6)
    assert 60 < sum(int(row.argmax()) for row in scores) < 140


def test_a_long_form_that_was_never_seen_has_the_floor_and_not_an_error() -> None:
    ranker = rankers.section_ranker(INVENTORY, rankers.count_sections_of_examples(THERAPY_AND_CLOTTING[:3]))
    scores = ranker.scores([mention("PT", section="PLAN")])[0]
    assert np.isfinite(scores).all()
    assert scores[1] == pytest.approx(np.log(rankers.FLOOR))


def test_sections_are_counted_where_a_corpus_writes_long_forms_out(tmp_path: Path) -> None:
    corpus = corpus_of(
        tmp_path,
        ["PLAN: physical therapy\n\nLABS: prothrombin time", "PLAN: physiotherapy, prothrombin time"],
    )
    counts = rankers.count_sections_in_corpus(INVENTORY, LongFormOccurrences(corpus))
    assert counts["PT", "physical therapy"] == {"PLAN": 2}
    assert counts["PT", "prothrombin time"] == {"LABS": 1, "PLAN": 1}
    assert counts["MS", "multiple sclerosis"] == {}
