"""Ranking by divergence as in the paper, by the masked span, and with the other mentions of a note."""

import math
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from expansion.clinic import (
    CLOTTING,
    INVENTORY,
    THERAPY,
    UNHEARD,
    WORDS_OF,
    clinic_corpus,
    mention,
    random_model,
    random_network,
)
from expansion.masked_span_clinic import masked_span_texts
from lmcells.corpus import Corpus
from lmcells.corpus.sections import NO_SECTION
from lmcells.errors import ModelError, UnknownShortForm
from lmcells.expansion import Sense
from lmcells.expansion.explain import explain
from lmcells.expansion.long_form_moments import long_form_words, words_section_weights
from lmcells.expansion.long_forms import SensePrototypes, SensesOfShortForm
from lmcells.expansion.ranking import (
    MOST_AGAINST,
    WEIGHT_OF_OTHERS,
    CellRanker,
    MaskedSpanRanker,
    comparable,
    share,
    share_within_notes,
)
from lmcells.expansion.reader import NoteReader
from lmcells.expansion.windows import Mention, WindowReader, missing_words, section_id_finder
from lmcells.model import Windows
from lmcells.model.networks import ModelNetwork
from lmcells.pretrained import PretrainedModel, save_pretrained
from lmcells.pretrained import folder as layout
from lmcells.pretrained.subwords import SubwordSettings
from lmcells.training import TrainingSettings
from lmcells.training.cells import train

KINDS = pytest.mark.parametrize("kind", ["lmc", "bsg", "mbsge"])
TEXTS = ("gait with PT on stairs", "warfarin, bleeding: PT in seconds", "PT", "nothing known around PT here")
MENTIONS = [mention(text, section=section) for text in TEXTS for section in ("PLAN", "labs", "new", None)]


@pytest.fixture(scope="module")
def models(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> dict[str, PretrainedModel]:
    folder = tmp_path_factory.mktemp("models")
    return {kind: random_model(folder / kind, corpus, kind) for kind in ("lmc", "bsg", "mbsge")}


def slow_divergence(model: PretrainedModel, one: Mention, words: list[int]) -> float:
    """KL(q || p) from the formula; for the LMC summed over beta(section | long form)."""
    network = model.to_torch()
    windows = WindowReader(model.word_ids, radius=model.sizes.window)([one])
    with torch.no_grad():
        q = network.posterior(
            Windows(
                center=torch.from_numpy(windows.center),
                context=torch.from_numpy(windows.context),
                context_mask=torch.from_numpy(windows.context_mask),
                metadata=torch.tensor([section_id_finder(model)(one.section)]),
                center_mask=torch.from_numpy(windows.center_mask),
            )
        ).cell
        mean_q, variance_q = q.mean[0].tolist(), float(q.log_variance[0].exp())
        prior = network.prior
        if isinstance(prior, ModelNetwork):
            vector = torch.stack([prior.words.weight[word] for word in words]).mean(dim=0)
            each = [
                prior.of_vectors(vector, torch.tensor(section))
                for section in range(network.config.n_metadata)
            ]
            beta = words_section_weights(model)(THERAPY, words).tolist()
        else:
            each = [prior(torch.tensor(words))]
            each[0] = type(each[0])(each[0].mean.mean(dim=0), each[0].log_variance.exp().mean(dim=0).log())
            beta = [1.0]
    total = 0.0
    for weight, p in zip(beta, each, strict=True):
        variance_p = float(p.log_variance.exp())
        for mu_q, mu_p in zip(mean_q, p.mean.tolist(), strict=True):
            ratio = variance_q / variance_p
            total += weight * 0.5 * (ratio + (mu_q - mu_p) ** 2 / variance_p - 1 - math.log(ratio))
    return total


@KINDS
def test_scores_are_the_papers_divergences(models: dict[str, PretrainedModel], kind: str) -> None:
    model = models[kind]
    ranker = CellRanker(model, INVENTORY)
    for one, scores in zip(MENTIONS, ranker.scores(MENTIONS), strict=True):
        expected = [
            -slow_divergence(model, one, long_form_words(sense, model)) for sense in INVENTORY.senses("PT")
        ]
        np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)


@KINDS
@settings(max_examples=10)
@given(order=st.permutations(range(len(MENTIONS))))
def test_a_score_does_not_depend_on_the_other_mentions(
    models: dict[str, PretrainedModel], kind: str, order: list[int]
) -> None:
    ranker = CellRanker(models[kind], INVENTORY)
    expected = ranker.scores(MENTIONS)
    for index, scores in zip(order, ranker.scores([MENTIONS[index] for index in order]), strict=True):
        np.testing.assert_allclose(scores, expected[index], rtol=1e-4, atol=1e-4)


def test_mentions_of_several_short_forms_keep_their_places(models: dict[str, PretrainedModel]) -> None:
    ranker = CellRanker(models["lmc"], INVENTORY)
    mixed = [MENTIONS[0], mention("valve MS gait", "MS"), MENTIONS[1]]
    alone = [ranker.scores([one])[0] for one in mixed]
    for found, expected in zip(ranker.scores(mixed), alone, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_more_mentions_than_a_batch_are_all_scored(
    models: dict[str, PretrainedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    ranker = CellRanker(models["lmc"], INVENTORY)
    expected = ranker.scores(MENTIONS)
    monkeypatch.setattr("lmcells.expansion.ranking._BATCH", 3)
    np.testing.assert_allclose(ranker.scores(MENTIONS), expected, rtol=1e-4)


def test_a_long_form_without_a_known_word_has_the_score_minus_infinity(
    models: dict[str, PretrainedModel],
) -> None:
    scores = CellRanker(models["lmc"], INVENTORY.add(UNHEARD)).scores(MENTIONS[:1])[0]
    assert np.isfinite(scores).tolist() == [True, True, False]
    assert scores[2] == -np.inf


def test_sections_are_found_by_name_and_alias_and_fall_back_to_none(
    models: dict[str, PretrainedModel],
) -> None:
    model = models["lmc"]
    section_id = section_id_finder(model)
    assert section_id("plan") == model.section_ids["PLAN"]
    assert section_id("never heard of") == section_id(None) == model.section_ids[NO_SECTION]


def test_no_mentions_have_no_scores(models: dict[str, PretrainedModel]) -> None:
    assert CellRanker(models["lmc"], INVENTORY).scores([]) == []


def test_a_short_form_that_is_not_in_the_inventory_is_an_error(models: dict[str, PretrainedModel]) -> None:
    with pytest.raises(UnknownShortForm, match="'XY' is not in the inventory"):
        CellRanker(models["lmc"], INVENTORY).scores([mention("an XY here", "XY")])


@KINDS
def test_planted_senses_are_told_apart(tmp_path: Path, kind: str) -> None:
    corpus = clinic_corpus(tmp_path, n_notes=150)
    config = random_network(
        corpus, kind, window=6, cell_dim=10, embedding_dim=10, hidden_dim=8, dropout=0.0
    ).config
    result = train(
        corpus,
        model_config=config,
        settings=TrainingSettings(
            epochs=6, batch_size=256, learning_rate=5e-3, subsampling=0.0, smoothing=0.1
        ),
        output=tmp_path / "run",
        device="cpu",
    )
    save_pretrained(result.model, tmp_path / "model", corpus=corpus)
    ranker = CellRanker(PretrainedModel.from_pretrained(tmp_path / "model"), INVENTORY)
    right = 0
    draw = np.random.default_rng(0)
    expected = {"PLAN": THERAPY, "LABS": CLOTTING}
    for header, words in WORDS_OF.items():
        texts = [" ".join([*draw.choice(words, 5), "PT", *draw.choice(words, 5)]) for _ in range(20)]
        for scores in ranker.scores([mention(text, section=header) for text in texts]):
            right += INVENTORY.senses("PT")[int(scores.argmax())] == expected[header]
    assert right >= 36


@pytest.fixture(scope="module")
def model(masked_span_model: PretrainedModel) -> PretrainedModel:
    return masked_span_model


@pytest.fixture(scope="module")
def reader_of_all(model: PretrainedModel, tmp_path_factory: pytest.TempPathFactory) -> PretrainedModel:
    """The same model, with sub-words."""
    folder = tmp_path_factory.mktemp("subwords") / "model"
    shutil.copytree(model.folder, folder)
    SubwordSettings(sharpness=2.0, caution=1.0, explained=0.1).save(folder)
    described = layout.FORMAT.describe_files(folder)
    files = {name: described[name] for name in [*model.config.files, layout.SUBWORDS]}
    replace(model.config, files=files).save(folder)
    return PretrainedModel.from_pretrained(folder, verify=True)


def prototypes(ranker: MaskedSpanRanker, short_form: str) -> Sequence[SensePrototypes]:
    known: SensesOfShortForm = ranker.known([short_form])[short_form]
    return known.senses


def test_the_long_form_that_fits_the_masked_span_comes_first(model: PretrainedModel) -> None:
    ranker = MaskedSpanRanker(model, INVENTORY)
    n_right = 0
    for header, sense in (("PLAN", THERAPY), ("LABS", CLOTTING)):
        for scores in ranker.scores([mention(text, section=header) for text in masked_span_texts(header)]):
            n_right += INVENTORY.senses("PT")[int(scores.argmax())] == sense
    assert n_right >= 11  # of 12


def test_senses_looked_up_together_are_as_each_alone_is(reader_of_all: PretrainedModel) -> None:
    others = (Sense("GT", "walkings", ("walkings",)), Sense("GT", "!!", ("!!",)))
    inventory = INVENTORY.add(UNHEARD).add(others[0]).add(others[1])
    together = MaskedSpanRanker(reader_of_all, inventory)
    together.scores([mention("gait with PT on stairs"), mention("gait with GT", "GT")])
    for short_form in ("PT", "GT"):
        alone = prototypes(MaskedSpanRanker(reader_of_all, inventory), short_form)
        for one, other in zip(prototypes(together, short_form), alone, strict=True):
            assert one.is_known == other.is_known
            assert one.count == other.count
            np.testing.assert_array_equal(one.by_occurrences, other.by_occurrences)
            np.testing.assert_array_equal(one.shares, other.shares)
            if other.by_words is not None:
                assert one.by_words is not None
                np.testing.assert_array_equal(one.by_words, other.by_words)
    assert not prototypes(together, "GT")[1].is_known


def test_the_short_form_itself_is_not_read(model: PretrainedModel) -> None:
    ranker = MaskedSpanRanker(model, INVENTORY)
    one = mention("gait with PT on stairs")
    other = replace(one, text=one.text.replace("PT", "XX"))
    np.testing.assert_allclose(ranker.scores([one])[0], ranker.scores([other])[0])


def test_in_a_short_window_a_sense_fits_sooner_and_less_surely() -> None:
    read = np.ones((2, 33), bool)
    read[1, 4:] = False
    scores = np.tile([9.0, 5.0, -np.inf], (2, 1))
    whole, short = comparable(scores, missing_words(read))
    np.testing.assert_array_equal(whole, scores[0])
    assert short[1] > whole[1]
    assert short[0] > short[1]
    assert short[0] - short[1] < whole[0] - whole[1]
    assert short[2] == -np.inf


def test_a_long_form_that_never_occurred_is_known_by_its_words(model: PretrainedModel) -> None:
    never = Sense("PT", "gait balance", ("gait balance",))
    known, unknown = prototypes(MaskedSpanRanker(model, INVENTORY.add(never).add(UNHEARD)), "PT")[2:]
    assert known.by_words is not None
    assert known.count == 0
    assert unknown.by_words is None
    scores = MaskedSpanRanker(model, INVENTORY.add(never).add(UNHEARD)).scores([mention("gait PT stairs")])[0]
    assert np.isfinite(scores).tolist() == [True, True, True, False]


def test_a_mention_scores_the_same_alone_and_among_others(model: PretrainedModel) -> None:
    ranker = MaskedSpanRanker(model, INVENTORY)
    mentions = [mention(text) for text in ("gait PT stairs", "PT", "warfarin PT seconds plasma")]
    for one, scores in zip(mentions, ranker.scores(mentions), strict=True):
        np.testing.assert_allclose(scores, ranker.scores([one])[0], rtol=1e-5)
    assert ranker.scores([]) == []


def test_a_model_without_a_phrase_store_is_refused(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no phrase network"):
        MaskedSpanRanker(random_model(tmp_path / "plain", corpus, "lmc"), INVENTORY)


def test_a_misspelt_word_is_read_as_the_word_that_was_meant(reader_of_all: PretrainedModel) -> None:
    ranker = MaskedSpanRanker(reader_of_all, INVENTORY)
    right, wrong = (
        mention("walking strength PT exercise balance"),
        mention("wallking strenght PT exercse balnace"),
    )
    np.testing.assert_allclose(ranker.scores([right])[0], ranker.scores([wrong])[0], rtol=1e-5)


def test_without_subwords_an_unknown_word_is_left_out(
    model: PretrainedModel, reader_of_all: PretrainedModel
) -> None:
    assert model.subwords is None
    given, without = mention("gait qwertyish PT stairs"), mention("gait PT stairs")
    ranker = MaskedSpanRanker(model, INVENTORY)
    np.testing.assert_array_equal(ranker.scores([given])[0], ranker.scores([without])[0])
    assert ranker.read([given]).unknown is None
    window = MaskedSpanRanker(reader_of_all, INVENTORY).read([given])
    assert window.context_mask.sum() == 4  # three words and the mask
    clotting = INVENTORY.senses("PT").index(CLOTTING)  # where all is known nothing changes
    scores = MaskedSpanRanker(reader_of_all, INVENTORY).scores([without])[0]
    assert scores[clotting] == ranker.scores([without])[0][clotting]


def test_a_long_form_of_unknown_words_is_known_by_its_subwords(reader_of_all: PretrainedModel) -> None:
    walker = Sense("PT", "walkings", ("walkings",))
    ranker = MaskedSpanRanker(reader_of_all, INVENTORY.add(UNHEARD).add(walker))
    unheard, walking = prototypes(ranker, "PT")[2:]
    assert unheard.by_words is not None
    ranker = MaskedSpanRanker(reader_of_all, INVENTORY.add(Sense("GT", "walking", ("walking",))))
    (known,) = prototypes(ranker, "GT")
    assert walking.by_words is not None
    assert known.by_words is not None
    np.testing.assert_allclose(walking.by_words, known.by_words)


def test_an_explanation_names_unknown_words_too(reader_of_all: PretrainedModel) -> None:
    note = "PLAN: gait and wallking before PT, qwertyish ct on stairs."
    (occurrence,) = NoteReader(INVENTORY)(note)
    assert occurrence.mention is not None
    (explanation,) = explain(MaskedSpanRanker(reader_of_all, INVENTORY), [occurrence.mention])
    assert [word.word for word in explanation.words] == ["gait", "wallking", "PT", "qwertyish", "stairs"]
    assert sum(word.weight for word in explanation.words) == pytest.approx(1, abs=1e-5)


SCORES = arrays(
    np.float64,
    array_shapes(min_dims=2, max_dims=2, max_side=5),
    elements=st.one_of(st.floats(-30, 30), st.just(-np.inf)),
)


def test_a_doubtful_mention_follows_a_clear_one() -> None:
    doubtful, clear = share([np.array([1.0, 1.2]), np.array([9.0, 1.0])])
    assert doubtful.argmax() == 0
    assert clear.argmax() == 0
    assert clear.max() == 9.0 - WEIGHT_OF_OTHERS * 0.2  # the other had it second


def test_a_mention_that_is_sure_of_another_meaning_keeps_it() -> None:
    adjusted = share([np.array([9.0, 0.0]), np.array([0.0, 9.0])])
    assert adjusted.argmax(axis=1).tolist() == [0, 1]


@given(SCORES)
def test_no_more_than_its_share_is_taken_and_nothing_is_given(scores: np.ndarray) -> None:
    adjusted = share(list(scores))
    known = np.isfinite(scores)
    assert (np.isfinite(adjusted) == known).all()
    taken = scores[known] - adjusted[known]
    assert (taken >= 0).all()
    assert (taken <= WEIGHT_OF_OTHERS * MOST_AGAINST + 1e-9).all()
    if len(scores) == 1:
        np.testing.assert_array_equal(adjusted, scores)


def test_only_mentions_of_one_short_form_in_one_note_share() -> None:
    notes = [
        [Mention("x", 0, 1, short_form, None) for short_form in names]
        for names in (("PT", "MS", "PT"), ("PT",), (), ("PT",))
    ]
    scores = [np.array(each) for each in ([1.0, 0.0], [0.0, 1.0], [0.0, 6.0], [3.0, 0.0], [0.0, 3.0])]
    adjusted = share_within_notes(notes, scores)
    expected = share([scores[0], scores[2]])
    np.testing.assert_array_equal(adjusted[0], expected[0])
    np.testing.assert_array_equal(adjusted[2], expected[1])
    for alone in (1, 3, 4):
        assert adjusted[alone] is scores[alone]


def test_what_another_thread_forgets_is_looked_up_again(
    reader_of_all: PretrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is remembered of candidates is bounded: a thread may clear it while another looks some up."""
    ranker = MaskedSpanRanker(reader_of_all, INVENTORY)
    prototypes(ranker, "PT")
    read_candidates = ranker.read_candidates

    def forgotten_meanwhile(candidates: list[tuple[Sense, ...]]) -> Iterable[Any]:
        ranker._shared_cache.clear()
        return read_candidates(candidates)

    monkeypatch.setattr(ranker, "read_candidates", forgotten_meanwhile)
    known = ranker.known(["PT", "MS"])
    assert {each: len(known[each].senses) for each in known} == {
        each: len(INVENTORY.senses(each)) for each in ("PT", "MS")
    }


def test_inventories_share_what_is_known_about_equal_candidates(model: PretrainedModel) -> None:
    ranker = MaskedSpanRanker(model, INVENTORY)
    other = ranker.over(INVENTORY.add(Sense("MS", "gait")))
    assert prototypes(other, "PT") is prototypes(ranker, "PT")
    assert len(prototypes(other, "MS")) == len(prototypes(ranker, "MS")) + 1
    n_known = len(ranker._shared_cache)
    for number in range(3):  # nothing is kept of inventories that nobody uses any more
        prototypes(ranker.over(INVENTORY.add(Sense("MS", f"gait {number}"))), "MS")
    assert len(ranker._shared_cache) == n_known
