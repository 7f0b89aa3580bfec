"""ELMo_avg: the cosine of two means of final states, the window's and the long form's."""

import numpy as np
import pytest
import torch

from language_model.small_models import small_model, texts_of
from lmcells.evaluation.encoder_baselines import elmo_ranker
from lmcells.expansion.inventory import Sense, SenseInventory
from lmcells.expansion.windows import Mention
from lmcells.language_model.folder import PretrainedLanguageModel

WORDS = ["patient", "went", "walking", "bleeding", "time", "physical", "therapy", "prothrombin"]
INVENTORY = SenseInventory.from_senses(
    [
        Sense("PT", "physical therapy"),
        Sense("PT", "prothrombin time", ("prothrombin time", "protime")),
        Sense("PT", "unknown", ("zzyzx",)),
        Sense("PT", "nothing", ("!?", "...")),
    ]
)


@pytest.fixture
def pretrained() -> PretrainedLanguageModel:
    return PretrainedLanguageModel(small_model(len(WORDS)), WORDS, {"settings": {"stop_words": False}}, {})


def mention(text: str, short_form: str = "PT") -> Mention:
    start = text.index(short_form)
    return Mention(text, start, start + len(short_form), short_form, None)


def mean_state(pretrained: PretrainedLanguageModel, *words: str) -> np.ndarray:
    with torch.no_grad():
        return pretrained.model.mean_states(texts_of([words]))[0].double().numpy()


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def test_scores_are_the_papers_cosines(pretrained: PretrainedLanguageModel) -> None:
    # "unheard" is no word of the model: it is no part of the window, as it was no part of the corpus.
    (scores,) = elmo_ranker(pretrained, INVENTORY).scores([mention("Patient went unheard PT, walking.")])
    window = mean_state(pretrained, "patient", "went", "pt", "walking")
    both = (
        mean_state(pretrained, "prothrombin", "time") + mean_state(pretrained, "protime")
    ) / 2  # alternatives are averaged
    assert scores[0] == pytest.approx(cosine(window, mean_state(pretrained, "physical", "therapy")), abs=1e-5)
    assert scores[1] == pytest.approx(cosine(window, both), abs=1e-5)
    assert scores[2] == pytest.approx(cosine(window, mean_state(pretrained, "zzyzx")), abs=1e-5)


def test_only_a_long_form_without_any_token_cannot_be_told(pretrained: PretrainedLanguageModel) -> None:
    (scores,) = elmo_ranker(pretrained, INVENTORY).scores([mention("PT")])  # no context at all
    assert np.isfinite(scores[:3]).all()
    assert scores[3] == -np.inf


def test_the_order_and_number_of_mentions_change_nothing(pretrained: PretrainedLanguageModel) -> None:
    mentions = [
        mention("patient " + "walking bleeding " * n + "PT went" + " time therapy" * (7 - n))
        for n in range(7)
    ]
    together = elmo_ranker(pretrained, INVENTORY).scores(mentions)
    ranker = elmo_ranker(pretrained, INVENTORY)
    for each, expected in zip(reversed(mentions), reversed(together), strict=True):
        np.testing.assert_allclose(ranker.scores([each])[0], expected, atol=1e-6)
    assert ranker.scores([]) == []


def test_long_forms_are_encoded_once(
    pretrained: PretrainedLanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranker = elmo_ranker(pretrained, INVENTORY)
    ranker.scores([mention("PT went")])
    encoded: list[int] = []
    encode = ranker.encode
    monkeypatch.setattr(ranker, "encode", lambda texts: encoded.append(len(texts)) or encode(texts))
    ranker.scores([mention("PT went"), mention("walking PT")])
    assert encoded == [2]


def test_another_short_form_in_the_same_place_is_another_window(pretrained: PretrainedLanguageModel) -> None:
    inventory = INVENTORY.add(Sense("PTT", "physical therapy"))
    one, other = elmo_ranker(pretrained, inventory).scores(
        [mention("went PT walking"), mention("went PTT walking", "PTT")]
    )
    assert one[0] != other[0]  # neither is a word of the model: their characters differ
