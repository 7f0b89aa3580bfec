"""The contrastive term: spans, the masked_spans they leave, and a loss that makes places and words find each other."""

import math
from pathlib import Path

import pytest
import torch

from lmcells.corpus import Corpus
from lmcells.model import CellModel
from lmcells.training import TrainingSettings, train
from lmcells.training.contrastive import MaskedSpans, contrastive_loss, masked_span_windows, phrase_loss
from lmcells.training.device_corpus import Chunk, DeviceTables
from lmcells.training.sampler import LoadedChunk, Sampler, ShardReader
from lmcells.training.spans import Spans
from training.small_runs import planted_corpus, tiny_config, tiny_settings

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return planted_corpus(tmp_path_factory.mktemp("corpus"))


def chunk_of(corpus: Corpus) -> Chunk:
    return Chunk.load(corpus, ((0, corpus.tokens.size),), settings=tiny_settings(), device=CPU)


def sampler_of(corpus: Corpus, **settings: bool) -> Sampler:
    config = tiny_config(corpus, **settings)
    tables = DeviceTables.of_corpus(corpus, config=config, settings=tiny_settings(), device=CPU)
    return Sampler(tables, config, torch.Generator().manual_seed(0))


def trained(corpus: Corpus, folder: Path, **settings: float) -> CellModel:
    config = tiny_config(corpus, phrase_dim=8)
    given: TrainingSettings = tiny_settings(epochs=3, learning_rate=0.01, contrastive_spans=16, **settings)
    return train(corpus, model_config=config, settings=given, output=folder).model


def drawn_gaps(corpus: Corpus, n_times: int = 40, **settings: bool) -> list[MaskedSpans]:
    chunk, sampler = chunk_of(corpus), sampler_of(corpus, **settings)
    spans = Spans.of_chunk(chunk, min_count=4, exponent=0.5)
    return [
        masked_span_windows(sampler, chunk, spans.draw(16, sampler.generator), max_words=1)
        for _ in range(n_times)
    ]


def test_agreement_makes_two_places_of_a_word_agree(corpus: Corpus, tmp_path: Path) -> None:
    def disagreement(model: CellModel) -> float:
        with torch.no_grad():
            losses = [
                contrastive_loss(model.posterior(masked_spans.windows).cell.mean, temperature=0.1)
                for masked_spans in drawn_gaps(corpus)
            ]
        return float(torch.stack(losses).mean())

    plain, agreeing = (
        trained(corpus, tmp_path / str(weight), contrastive_weight=weight) for weight in (0, 5)
    )
    assert disagreement(agreeing) < disagreement(plain) - 0.2


def test_the_phrase_term_makes_words_fit_the_gaps_they_leave(corpus: Corpus, tmp_path: Path) -> None:
    def misfit(model: CellModel) -> float:
        with torch.no_grad():
            losses = [
                phrase_loss(
                    model.posterior(masked_spans.windows).cell.mean,
                    model.phrase_means(masked_spans.words, masked_spans.words_mask),
                    temperature=0.1,
                )
                for masked_spans in drawn_gaps(corpus)
            ]
        return float(torch.stack(losses).mean())

    plain, fitting = (trained(corpus, tmp_path / str(weight), phrase_weight=weight) for weight in (0, 5))
    assert misfit(fitting) < misfit(plain) - 0.2


def test_units_are_hidden_from_the_windows_of_both_their_places(corpus: Corpus) -> None:
    chunk, sampler = chunk_of(corpus), sampler_of(corpus)
    spans = Spans.of_chunk(chunk, min_count=4, exponent=0.5, max_words=3)
    for _ in range(20):
        drawn = spans.draw(10, sampler.generator)
        assert (drawn.places[0] != drawn.places[1]).all()
        masked_spans = masked_span_windows(sampler, chunk, drawn, max_words=3)
        assert masked_spans.windows.center_mask is not None
        assert not masked_spans.windows.center_mask.any()
        for row in range(10):
            length = int(drawn.lengths[row])
            words = masked_spans.words[row][masked_spans.words_mask[row]]
            assert len(words) == length
            for turn in (0, 1):
                first = int(drawn.places[turn, row])
                assert torch.equal(chunk.tokens[first : first + length], words)
                at = turn * 10 + row
                seen = masked_spans.windows.context[at][masked_spans.windows.context_mask[at]]
                assert not torch.isin(seen, words).any()


def test_the_mark_of_a_gap_stands_between_the_words_before_and_after() -> None:
    tokens = torch.arange(8, dtype=torch.int32)
    chunk = Chunk(tokens, torch.zeros_like(tokens))
    context, mask, _ = chunk.windows_at(torch.tensor([3]), radius=2, lengths=torch.tensor([2]))
    assert context.tolist() == [[1, 2, 5, 6]]
    assert mask.all()


def test_marked_windows_hold_one_more_word_in_the_middle(corpus: Corpus) -> None:
    config = tiny_config(corpus, masks_span=True)
    for masked_spans in drawn_gaps(corpus, n_times=3, masks_span=True):
        assert masked_spans.windows.context.shape[1] == 2 * config.window + 1
        assert (masked_spans.windows.context[:, config.window] == config.mask_id).all()
        assert masked_spans.windows.context_mask[:, config.window].all()


def test_phrases_never_cross_a_boundary_and_come_up_often_enough() -> None:
    tokens = torch.tensor([1, 2, 3, 1, 2, 4, 1, 2, 1], dtype=torch.int32)
    segments = torch.tensor([0, 0, 0, 1, 1, 1, 2, 3, 3], dtype=torch.int32)  # the third "1 2" is torn apart
    spans = Spans.of_chunk(Chunk(tokens, segments), min_count=2, exponent=1.0, max_words=3)
    found = {
        tuple(tokens[place : place + length].tolist()): count
        for place, length, count in zip(
            spans.places[spans.offsets.long()].tolist(),
            spans.lengths.tolist(),
            spans.counts.tolist(),
            strict=True,
        )
    }
    assert found == {(1,): 4, (2,): 3, (1, 2): 2}


def test_what_begins_or_ends_with_a_stop_word_is_a_unit_but_never_drawn() -> None:
    tokens = torch.tensor([1, 0, 2, 0] * 4, dtype=torch.int32)  # "shortness of breath of", four times
    segments = torch.arange(4, dtype=torch.int32).repeat_interleave(4)
    chunk, stop_words = Chunk(tokens, segments), torch.tensor([0])
    spans = Spans.of_chunk(chunk, min_count=4, exponent=0.5, max_words=3, stop_words=stop_words)
    generator = torch.Generator().manual_seed(0)
    drawn = [spans.draw(10, generator) for _ in range(50)]
    found = {
        tuple(tokens[place : place + length].tolist())
        for each in drawn
        for place, length in zip(each.places[0].tolist(), each.lengths.tolist(), strict=True)
    }
    assert found == {(1,), (2,), (1, 0, 2)}
    assert len(spans) == len(Spans.of_chunk(chunk, min_count=4, exponent=0.5, max_words=3)) == 8


def test_around_a_gap_frequent_words_are_read_where_that_is_asked_for(corpus: Corpus) -> None:
    def loaded(*, reads_all: bool) -> LoadedChunk:
        settings = tiny_settings(contrastive_weight=1.0, subsampling=1e-3, contrastive_reads_all=reads_all)
        spans = ((0, corpus.tokens.size),)
        reader = ShardReader(corpus, (spans,), shard=0, batch_size=8, settings=settings, device=CPU)
        return next(reader.epoch(0)).source

    some, everything = loaded(reads_all=False), loaded(reads_all=True)
    assert some.text is some.chunk
    assert torch.equal(everything.chunk.tokens, some.chunk.tokens)
    assert everything.text.tokens.tolist() == corpus.tokens.tolist()
    assert len(some.text) < len(everything.text)


def test_units_are_drawn_by_the_root_of_their_counts() -> None:
    counts = torch.tensor([1, 4, 16, 64, 3])
    tokens = torch.arange(5, dtype=torch.int32).repeat_interleave(counts)
    spans = Spans.of_chunk(Chunk(tokens, tokens), min_count=4, exponent=0.5)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.stack([tokens[spans.draw(1, generator).places[0]] for _ in range(4000)]).flatten()
    shares = torch.bincount(drawn, minlength=5) / 4000
    torch.testing.assert_close(shares, torch.tensor([0.0, 2, 4, 8, 0]) / 14, atol=0.03, rtol=0.0)


def test_agreement_is_least_when_partners_are_alike_and_log_n_when_all_are() -> None:
    means = torch.randn(32, 20, generator=torch.Generator().manual_seed(0))
    same = contrastive_loss(torch.cat([means, means]), temperature=0.1)
    shuffled = contrastive_loss(torch.cat([means, means.roll(1, 0)]), temperature=0.1)
    assert same < 0.1 < shuffled
    assert float(contrastive_loss(torch.ones(64, 20), temperature=0.1)) == pytest.approx(math.log(32))
    assert float(phrase_loss(torch.cat([means, means]), means, temperature=0.1)) == pytest.approx(
        float(same), rel=1e-4
    )
