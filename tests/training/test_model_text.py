"""A corpus under the ids of a model that was trained on another."""

from pathlib import Path

import pytest
import torch

from corpora import corpus_of
from lmcells.corpus import Corpus
from lmcells.model import Windows
from lmcells.training.prototypes import ModelIds, ModelText
from training.small_runs import tiny_config, tiny_settings

CPU = torch.device("cpu")
NOTES = [
    {"id": "t/0", "sections": [{"header": "A", "text": "gait zinc stairs gait"}]},
    {"id": "t/1", "sections": [{"header": "B", "text": "zinc copper"}, {"header": "A", "text": "stairs"}]},
]


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return corpus_of(tmp_path, NOTES)


def words_of(text: ModelText) -> list[str]:
    return [text.words[word] for word in text.chunk.tokens.tolist()]


def test_the_training_corpus_has_the_ids_of_the_model(corpus: Corpus) -> None:
    text = ModelText.of_corpus(
        corpus, config=tiny_config(corpus), settings=tiny_settings(subsampling=1e-6), device=CPU
    )
    assert text.chunk.tokens.tolist() == corpus.tokens.tolist()  # nothing is subsampled
    assert text.chunk.segments.tolist() == corpus.token_segment.tolist()
    assert text.segment_metadata is not None
    assert text.segment_metadata.tolist() == corpus.segment_metadata("section").tolist()


def test_words_go_by_their_spelling_and_unknown_ones_are_left_out(corpus: Corpus) -> None:
    config = tiny_config(corpus, n_words=3, n_metadata=8)
    names = corpus.metadata_names("section")
    ids = ModelIds(["stairs", "pain", "gait"], [{"A": 7}.get(name, -1) for name in names])
    text = ModelText.of_corpus(corpus, config=config, settings=tiny_settings(), device=CPU, ids=ids)
    assert words_of(text) == ["gait", "stairs", "gait", "stairs"]
    assert text.chunk.tokens.tolist() == [2, 0, 2, 0]
    assert text.segment_metadata is not None
    of_tokens = text.segment_metadata[text.chunk.segments]
    assert of_tokens.tolist() == [7, 7, 7, 7]
    assert sorted(text.segment_metadata.tolist()) == [-1, 7, 7]


def test_a_kept_word_can_be_found_and_is_never_read(corpus: Corpus) -> None:
    config = tiny_config(corpus, n_words=2, n_metadata=8, masks_span=True)
    ids = ModelIds(["stairs", "gait"], [0] * corpus.n_metadata("section"), kept={"zinc", "gait", "absent"})
    text = ModelText.of_corpus(corpus, config=config, settings=tiny_settings(), device=CPU, ids=ids)
    assert words_of(text) == ["gait", "zinc", "stairs", "gait", "zinc", "stairs"]
    zinc = text.words.index("zinc")
    assert zinc > config.mask_id
    given = Windows(
        center=torch.tensor([zinc]),
        context=torch.tensor([[0, zinc, config.mask_id]]),
        context_mask=torch.tensor([[True, True, True]]),
    )
    windows = text.readable(given)
    assert windows.context_mask.tolist() == [[True, False, True]]
    assert int(windows.context.max()) < config.n_read
    assert int(windows.center.max()) < config.n_read


def test_without_metadata_there_is_none(corpus: Corpus) -> None:
    text = ModelText.of_corpus(
        corpus, config=tiny_config(corpus, "bsg"), settings=tiny_settings(), device=CPU
    )
    assert text.segment_metadata is None
