"""Windows cover each segment exactly once, and batches cover the windows."""

from pathlib import Path

import numpy as np
import pytest
import torch

from corpora import corpus_of
from language_model.small_models import planted_corpus
from lmcells.corpus import Corpus
from lmcells.language_model.windows import TextWindows, WindowReader, cut_windows


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return planted_corpus(tmp_path_factory.mktemp("corpus"), n_notes=40)


def places(windows: TextWindows) -> list[int]:
    pairs = zip(windows.starts.tolist(), windows.lengths.tolist(), strict=True)
    return [place for start, length in pairs for place in range(start, start + length)]


@pytest.mark.parametrize("window", [1, 7, 64])
def test_windows_cover_every_token_once_and_cross_no_boundary(corpus: Corpus, window: int) -> None:
    training, held_out = cut_windows(corpus, window=window, held_out=0.2, seed=3)
    assert sorted(places(training) + places(held_out)) == list(range(corpus.tokens.size))
    for windows in (training, held_out):
        assert windows.lengths.min() >= 1
        assert windows.lengths.max() <= window
        last = windows.starts + windows.lengths - 1
        assert (corpus.token_segment[windows.starts] == corpus.token_segment[last]).all()


def test_whole_segments_are_held_out_and_the_seed_says_which(corpus: Corpus) -> None:
    training, held_out = cut_windows(corpus, window=5, held_out=0.2, seed=3)
    segments = [set(corpus.token_segment[places(windows)].tolist()) for windows in (training, held_out)]
    assert not segments[0] & segments[1]
    assert len(segments[1]) == round(0.2 * len(segments[0] | segments[1]))
    again = cut_windows(corpus, window=5, held_out=0.2, seed=3)[1]
    other = cut_windows(corpus, window=5, held_out=0.2, seed=4)[1]
    assert places(again) == places(held_out)
    assert places(other) != places(held_out)


def test_a_corpus_of_one_segment_is_both(tmp_path: Path) -> None:
    training, held_out = cut_windows(corpus_of(tmp_path, ["pain fever"]), window=5, held_out=0.2, seed=3)
    assert places(training) == places(held_out) == [0, 1]


def test_the_first_words_are_at_most_so_many() -> None:
    windows = TextWindows(np.arange(4) * 10, np.array([5, 5, 5, 5]))
    assert windows.first_words(12).n_words == 10
    assert windows.first_words(1).n_words == 5


@pytest.mark.parametrize("seed", [None, 0])
def test_batches_cover_the_windows_once_with_little_padding(seed: int | None) -> None:
    lengths = np.random.default_rng(0).integers(1, 65, 500)
    windows = TextWindows(np.arange(500), lengths)
    order = None if seed is None else np.random.default_rng(seed)
    batches = windows.batches(256, order=order)
    assert sorted(np.concatenate(batches).tolist()) == list(range(500))
    padded = sum(batch.size * int(lengths[batch].max()) for batch in batches)
    assert all(batch.size * lengths[batch].max() <= 256 for batch in batches)
    assert padded < 1.05 * lengths.sum()


def test_the_order_of_an_epoch_comes_from_its_generator() -> None:
    windows = TextWindows(np.arange(100), np.full(100, 4))
    first, again, other = (windows.batches(20, order=np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert np.array_equal(np.stack(first), np.stack(again))
    assert not np.array_equal(np.stack(first), np.stack(other))


def test_what_is_read_is_what_stands_in_the_corpus(corpus: Corpus) -> None:
    windows, _ = cut_windows(corpus, window=10, held_out=0.1, seed=0)
    reader = WindowReader(corpus, max_characters=24, device=torch.device("cpu"))
    rows = np.array([0, 2, 1])
    texts, words = reader.read(windows, rows)
    for number, row in enumerate(rows):
        start, length = windows.starts[row], windows.lengths[row]
        assert int(texts.lengths[number]) == length
        assert words[number, :length].tolist() == corpus.tokens[start : start + length].tolist()
        spelt = texts.characters[texts.index[number]]  # (T, 24)
        first = corpus.words[int(words[number, 0])]
        assert bytes((spelt[0, 1 : 1 + len(first)] - 1).tolist()).decode() == first
