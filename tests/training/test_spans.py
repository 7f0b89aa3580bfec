"""The contrastive loss: spans, the windows in which they are masked, and InfoNCE against cross-entropy."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from lmcells.corpus import Corpus
from lmcells.model import CellModel
from lmcells.training.cells import train
from lmcells.training.device_corpus import Chunk
from lmcells.training.sampler import LoadedChunk, ShardReader
from lmcells.training.spans import (
    MaskedSpans,
    Occurrences,
    Spans,
    add_noise,
    contrastive_loss,
    info_nce,
    phrase_loss,
)
from training.small_runs import planted_corpus, tiny_config, tiny_settings, whole_chunk

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return planted_corpus(tmp_path_factory.mktemp("corpus"))


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def masked(corpus: Corpus, spans: Spans, drawn: Occurrences, **settings: Any) -> MaskedSpans:
    return spans.masked(
        drawn,
        config=tiny_config(corpus, **settings),
        segment_metadata=torch.from_numpy(corpus.segment_metadata("section").astype("int32")),
    )


def mean_loss(model: CellModel, corpus: Corpus, *, by_words: bool) -> float:
    """Over 40 draws of 16 masked spans each."""
    spans, draws, losses = Spans.of_chunk(whole_chunk(corpus), min_count=4, exponent=0.5), generator(), []
    with torch.no_grad():
        for _ in range(40):
            drawn = masked(corpus, spans, spans.draw(16, draws))
            means = model.posterior(drawn.windows).cell.mean
            words = model.phrase_means(drawn.words, drawn.words_mask)
            losses.append(
                phrase_loss(means, words, temperature=0.1)
                if by_words
                else contrastive_loss(means, temperature=0.1)
            )
    return float(torch.stack(losses).mean())


@pytest.fixture(scope="module")
def plain(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> CellModel:
    return trained(corpus, tmp_path_factory.mktemp("plain"))


def trained(corpus: Corpus, folder: Path, **weight: float) -> CellModel:
    settings = tiny_settings(epochs=3, learning_rate=0.01, contrastive_spans=16, **weight)
    return train(
        corpus, model_config=tiny_config(corpus, phrase_dim=8), settings=settings, output=folder
    ).model


@pytest.mark.parametrize("weight", ["contrastive_weight", "phrase_weight"])
def test_training_makes_occurrences_and_words_find_each_other(
    corpus: Corpus, tmp_path: Path, plain: CellModel, weight: str
) -> None:
    by_words = weight == "phrase_weight"
    model = trained(corpus, tmp_path, **{weight: 5.0})
    assert mean_loss(model, corpus, by_words=by_words) < mean_loss(plain, corpus, by_words=by_words) - 0.2


def test_spans_are_masked_in_the_windows_of_both_their_occurrences(corpus: Corpus) -> None:
    chunk, draws = whole_chunk(corpus), generator()
    spans = Spans.of_chunk(chunk, min_count=4, exponent=0.5, max_words=3)
    for _ in range(20):
        positions, lengths = spans.draw(10, draws)
        assert (positions[0] != positions[1]).all()
        found = masked(corpus, spans, (positions, lengths))
        assert found.windows.center_mask is not None
        assert not found.windows.center_mask.any()
        for row in range(10):
            length = int(lengths[row])
            words = found.words[row][found.words_mask[row]]
            assert len(words) == length
            for turn in (0, 1):
                first = int(positions[turn, row])
                assert torch.equal(chunk.tokens[first : first + length], words)
                at = turn * 10 + row
                seen = found.windows.context[at][found.windows.context_mask[at]]
                assert not torch.isin(seen, words).any()


def test_the_context_of_a_span_begins_after_its_last_word() -> None:
    tokens = torch.arange(8, dtype=torch.int32)
    chunk = Chunk(tokens, torch.zeros_like(tokens))
    context, mask, _ = chunk.windows_at(torch.tensor([3]), radius=2, lengths=torch.tensor([2]))
    assert context.tolist() == [[1, 2, 5, 6]]
    assert mask.all()


def test_a_mask_token_stands_in_the_middle_of_the_window(corpus: Corpus) -> None:
    config, spans = (
        tiny_config(corpus, masks_span=True),
        Spans.of_chunk(whole_chunk(corpus), min_count=4, exponent=0.5),
    )
    windows = masked(corpus, spans, spans.draw(16, generator()), masks_span=True).windows
    assert windows.context.shape[1] == 2 * config.window + 1
    assert (windows.context[:, config.window] == config.mask_id).all()
    assert windows.context_mask[:, config.window].all()


@pytest.mark.parametrize("masks_span", [True, False])
def test_windows_are_cut_short_around_the_masked_span(corpus: Corpus, masks_span: bool) -> None:
    config = tiny_config(corpus, masks_span=masks_span)
    spans = Spans.of_chunk(whole_chunk(corpus), min_count=4, exponent=0.5)
    whole = masked(corpus, spans, spans.draw(16, generator()), masks_span=masks_span)
    noisy = [
        add_noise(
            whole,
            mask_id=config.mask_id,
            settings=tiny_settings(contrastive_cut_rate=rate),
            generator=generator(),
        ).windows.context_mask
        for rate in (0.0, 0.4, 0.9)
    ]
    was = whole.windows.context_mask
    assert torch.equal(noisy[0], was)
    assert was.sum() > noisy[1].sum() > noisy[2].sum()
    (before, after), (were_before, were_after) = (
        (mask[:, : config.window], mask[:, -config.window :]) for mask in (noisy[2], was)
    )
    if masks_span:
        assert noisy[2][:, config.window].all()
    # What is left is what stood nearest: nothing present lies beyond something that was cut.
    for side, full in ((before.flip(1), were_before.flip(1)), (after, were_after)):
        cut = (full & ~side).cummax(dim=1).values
        assert not (side & cut).any()
        assert set(side.sum(dim=1).tolist()) >= {0, 1}


def test_phrases_never_cross_a_boundary_and_come_up_often_enough() -> None:
    tokens = torch.tensor([1, 2, 3, 1, 2, 4, 1, 2, 1], dtype=torch.int32)
    segments = torch.tensor([0, 0, 0, 1, 1, 1, 2, 3, 3], dtype=torch.int32)  # the third "1 2" is torn apart
    spans = Spans.of_chunk(Chunk(tokens, segments), min_count=2, exponent=1.0, max_words=3)
    found = {
        tuple(tokens[first : first + length].tolist()): count
        for first, length, count in zip(
            spans.positions[spans.offsets.long()].tolist(),
            spans.lengths.tolist(),
            spans.counts.tolist(),
            strict=True,
        )
    }
    assert found == {(1,): 4, (2,): 3, (1, 2): 2}


def test_what_begins_or_ends_with_a_stop_word_is_a_span_but_never_drawn() -> None:
    tokens = torch.tensor([1, 0, 2, 0] * 4, dtype=torch.int32)  # "shortness of breath of", four times
    segments = torch.arange(4, dtype=torch.int32).repeat_interleave(4)
    chunk, stop_words = Chunk(tokens, segments), torch.tensor([0])
    spans = Spans.of_chunk(chunk, min_count=4, exponent=0.5, max_words=3, stop_words=stop_words)
    draws = generator()
    drawn = [spans.draw(10, draws) for _ in range(50)]
    found = {
        tuple(tokens[first : first + length].tolist())
        for each in drawn
        for first, length in zip(each[0][0].tolist(), each[1].tolist(), strict=True)
    }
    assert found == {(1,), (2,), (1, 0, 2)}
    assert len(spans) == len(Spans.of_chunk(chunk, min_count=4, exponent=0.5, max_words=3)) == 8


def test_around_a_masked_span_frequent_words_are_read_where_that_is_asked_for(corpus: Corpus) -> None:
    def loaded(*, reads_all: bool) -> LoadedChunk:
        settings = tiny_settings(contrastive_weight=1.0, subsampling=1e-3, contrastive_reads_all=reads_all)
        whole = ((0, corpus.tokens.size),)
        reader = ShardReader(corpus, (whole,), shard=0, batch_size=8, settings=settings, device=CPU)
        return next(reader.epoch(0)).source

    some, everything = loaded(reads_all=False), loaded(reads_all=True)
    assert some.spans is not None
    assert everything.spans is not None
    assert some.spans.chunk is some.chunk
    assert torch.equal(everything.chunk.tokens, some.chunk.tokens)
    assert everything.spans.chunk.tokens.tolist() == corpus.tokens.tolist()
    assert len(some.chunk) < corpus.tokens.size


def test_spans_are_drawn_by_the_root_of_their_counts() -> None:
    counts = torch.tensor([1, 4, 16, 64, 3])
    tokens = torch.arange(5, dtype=torch.int32).repeat_interleave(counts)
    spans = Spans.of_chunk(Chunk(tokens, tokens), min_count=4, exponent=0.5)
    draws = generator()
    drawn = torch.stack([tokens[spans.draw(1, draws)[0][0]] for _ in range(4000)]).flatten()
    shares = torch.bincount(drawn, minlength=5) / 4000
    torch.testing.assert_close(shares, torch.tensor([0.0, 2, 4, 8, 0]) / 14, atol=0.03, rtol=0.0)


def test_the_loss_is_least_when_partners_are_alike_and_log_n_when_all_are() -> None:
    means = torch.randn(32, 20, generator=generator())
    same = contrastive_loss(torch.cat([means, means]), temperature=0.1)
    shuffled = contrastive_loss(torch.cat([means, means.roll(1, 0)]), temperature=0.1)
    assert same < 0.1 < shuffled
    assert float(contrastive_loss(torch.ones(64, 20), temperature=0.1)) == pytest.approx(math.log(32))
    assert float(phrase_loss(torch.cat([means, means]), means, temperature=0.1)) == pytest.approx(
        float(same), rel=1e-4
    )


def unit_rows(n: int, seed: int) -> Tensor:
    drawn = torch.randn(n, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return functional.normalize(drawn, dim=-1)


def by_cross_entropy(one: Tensor, other: Tensor, *, temperature: float) -> Tensor:
    similarity = one @ other.T / temperature
    partner = torch.arange(one.shape[0])
    return (
        functional.cross_entropy(similarity, partner) + functional.cross_entropy(similarity.T, partner)
    ) / 2


@pytest.mark.parametrize("temperature", [0.05, 0.1, 1.0])
@pytest.mark.parametrize("n", [2, 33])
def test_value_and_gradients_are_those_of_cross_entropy(n: int, temperature: float) -> None:
    results = []
    for loss in (info_nce, by_cross_entropy):
        one, other = (unit_rows(n, seed).requires_grad_() for seed in (0, 1))
        value = loss(one, other, temperature=temperature)
        results.append((value, *torch.autograd.grad(3 * value, (one, other))))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)


def test_nothing_overflows_at_the_lowest_temperatures() -> None:
    one, other = (unit_rows(64, seed).float().requires_grad_() for seed in (0, 1))
    value = info_nce(one, other, temperature=0.02)
    value.backward()
    assert torch.isfinite(value)
    for rows in (one, other):
        assert rows.grad is not None
        assert torch.isfinite(rows.grad).all()


def test_the_precision_of_products_elsewhere_is_left_as_it_was() -> None:
    before = torch.get_float32_matmul_precision()
    info_nce(unit_rows(4, 0), unit_rows(4, 1), temperature=0.1)
    assert torch.get_float32_matmul_precision() == before
