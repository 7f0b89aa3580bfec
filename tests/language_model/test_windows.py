"""Windows cover each segment exactly once, and batches cover the windows."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from corpora import corpus_of
from language_model.small_models import planted_corpus, small_model
from lmcells.corpus import Corpus
from lmcells.language_model.config import LanguageModelSettings
from lmcells.language_model.train import TextWindows, WindowReader, cut_windows, widths_up_to


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


def documents(corpus: Corpus, windows: TextWindows) -> set[int]:
    return set(corpus.segment_metadata("document")[corpus.token_segment[places(windows)]].tolist())


def test_whole_documents_are_held_out_and_the_seed_says_which(tmp_path: Path) -> None:
    notes = [f"HPI: pain {i}\n\nPLAN: rest and fluids\n\nMEDICATIONS: aspirin" for i in range(30)]
    corpus = corpus_of(tmp_path, notes)
    training, held_out = cut_windows(corpus, window=2, held_out=0.2, seed=3)
    assert not documents(corpus, training) & documents(corpus, held_out)
    assert len(documents(corpus, held_out)) == 6
    assert len(set(corpus.token_segment[places(held_out)].tolist())) == 18
    again = cut_windows(corpus, window=2, held_out=0.2, seed=3)[1]
    other = cut_windows(corpus, window=2, held_out=0.2, seed=4)[1]
    assert places(again) == places(held_out)
    assert documents(corpus, other) != documents(corpus, held_out)


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
    batches = windows.batches(384, order=order)
    assert sorted(np.concatenate([rows for rows, _ in batches]).tolist()) == list(range(500))
    for rows, width in batches:
        assert lengths[rows].max() <= width
        assert rows.size * width <= 384
    assert sum(rows.size * width for rows, width in batches) < 1.25 * lengths.sum()
    assert {width for _, width in batches} <= {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}


@given(st.integers(1, 5000))
def test_a_width_is_at_most_half_as_wide_again(length: int) -> None:
    widths = widths_up_to(length)
    width = widths[np.searchsorted(widths, length)]
    assert length <= width <= max(1.5 * length - 0.5, 1)


def test_the_default_batch_is_filled_by_windows_of_every_width() -> None:
    settings = LanguageModelSettings()
    assert not any(settings.batch_size % widths_up_to(settings.window))


def test_the_order_of_an_epoch_comes_from_its_generator() -> None:
    windows = TextWindows(np.arange(100), np.full(100, 4))
    first, again, other = (
        np.stack([rows for rows, _ in windows.batches(20, order=np.random.default_rng(seed))])
        for seed in (0, 0, 1)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_what_is_read_is_what_stands_in_the_corpus(corpus: Corpus) -> None:
    windows, _ = cut_windows(corpus, window=10, held_out=0.1, seed=0)
    reader = WindowReader(corpus, max_characters=24, device=torch.device("cpu"))
    rows = windows.batches(64)
    batches = list(reader.batches(windows, 64))
    assert sum(batch.n_words for batch in batches) == windows.n_words
    for batch, (of_batch, width) in zip(batches, rows, strict=True):
        assert batch.words.shape == (of_batch.size, width)
        for number, row in enumerate(of_batch):
            start, length = windows.starts[row], windows.lengths[row]
            assert int(batch.texts.lengths[number]) == length
            assert batch.words[number, :length].tolist() == corpus.tokens[start : start + length].tolist()
            spelt = batch.texts.characters[batch.texts.index[number]]  # (T, 24)
            first = corpus.words[int(batch.words[number, 0])]
            assert bytes((spelt[0, 1 : 1 + len(first)] - 1).tolist()).decode() == first


def test_an_epoch_can_be_entered_at_any_batch(corpus: Corpus) -> None:
    windows, _ = cut_windows(corpus, window=10, held_out=0.1, seed=0)
    reader = WindowReader(corpus, max_characters=24, device=torch.device("cpu"))
    whole = list(reader.batches(windows, 64, order=np.random.default_rng(0)))
    for first in (0, 3, len(whole)):
        rest = list(reader.batches(windows, 64, order=np.random.default_rng(0), first=first))
        assert len(rest) == len(whole) - first
        for one, other in zip(rest, whole[first:], strict=True):
            assert torch.equal(one.words, other.words)


def test_rows_that_fill_up_a_batch_as_on_a_gpu_have_no_words_and_no_part_in_the_loss(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows, _ = cut_windows(corpus, window=10, held_out=0.1, seed=0)
    reader = WindowReader(corpus, max_characters=24, device=torch.device("cpu"))
    plain = list(reader.batches(windows, 96))
    monkeypatch.setattr(WindowReader, "_n_rows", lambda _self, _n, width, batch_size: batch_size // width)
    filled = list(reader.batches(windows, 96))
    assert {batch.words.numel() for batch in filled} == {96}
    model = small_model(len(corpus.words))
    for one, other in zip(plain, filled, strict=True):
        assert one.n_words == other.n_words == int(other.texts.mask.sum())
        n = one.words.shape[0]
        assert torch.equal(one.words, other.words[:n])
        few, few_words, few_present = model.predictions(one.texts, one.words)
        many, many_words, many_present = model.predictions(other.texts, other.words)
        assert torch.equal(few_words[few_present], many_words[many_present])
        torch.testing.assert_close(few[few_present], many[many_present])


@pytest.mark.parametrize("batch_size", [16, 4096], ids=["each position", "the vocabulary"])
def test_what_is_spelt_out_on_a_gpu_changes_nothing(
    corpus: Corpus, batch_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows, _ = cut_windows(corpus, window=10, held_out=0.1, seed=0)
    reader = WindowReader(corpus, max_characters=24, device=torch.device("cpu"))
    model = small_model(len(corpus.words))
    plain = next(reader.batches(windows, batch_size))
    monkeypatch.setattr(reader, "_finds_distinct", False)
    fixed = next(reader.batches(windows, batch_size))
    assert fixed.texts.characters.shape[0] == min(fixed.words.numel(), len(corpus.words))
    expected, *_ = model.predictions(plain.texts, plain.words)
    found, *_ = model.predictions(fixed.texts, fixed.words)
    torch.testing.assert_close(found, expected)
