"""What is drawn on the device follows the distributions it should."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from corpora import windows_around
from lmcells.corpus import Corpus, count_words_by_metadata, statistics
from lmcells.training import device_corpus
from lmcells.training.device_corpus import AliasTable, Chunk, OccurrenceSections, divide
from lmcells.training.sampler import Sampler, ShardReader
from training.small_runs import planted_corpus, tiny_config, tiny_settings, whole_chunk

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return planted_corpus(tmp_path_factory.mktemp("corpus"), n_notes=40)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def sampler_of(corpus: Corpus, kind: str = "lmc", **settings: Any) -> Sampler:
    config = tiny_config(corpus, kind, **settings)
    return Sampler.of_corpus(corpus, config=config, settings=tiny_settings(), generator=generator())


def all_present(n: int) -> torch.Tensor:
    return torch.ones(n, dtype=torch.bool)


@pytest.mark.parametrize("radius", [1, 4, 10])
def test_windows_equal_those_of_the_corpus(corpus: Corpus, radius: int) -> None:
    chunk = whole_chunk(corpus)
    positions = torch.arange(len(chunk), dtype=torch.int32)
    context, mask, _ = chunk.windows_at(positions, radius=radius)
    expected = windows_around(
        positions.numpy(), tokens=corpus.tokens, token_segment=corpus.token_segment, radius=radius
    )
    np.testing.assert_array_equal(mask, expected.mask)
    np.testing.assert_array_equal(context.masked_fill(~mask, 0), expected.context)


def test_windows_do_not_cross_from_one_block_of_a_chunk_to_the_next(corpus: Corpus) -> None:
    shards = divide(corpus, n_shards=2, chunk_tokens=10_000, block_tokens=100)
    chunk = Chunk.load(corpus, shards[0][0], settings=tiny_settings(), device=CPU)
    _, mask, segment = chunk.windows_at(torch.arange(len(chunk), dtype=torch.int32), radius=5)
    tokens_of_segment = np.bincount(corpus.token_segment)
    assert torch.bincount(segment)[segment.unique()].tolist() == tokens_of_segment[segment.unique()].tolist()
    assert int(mask.sum()) == sum(
        min(5, at) + min(5, n - 1 - at) for n in tokens_of_segment[segment.unique()] for at in range(n)
    )


def test_negatives_follow_the_power_of_the_counts(corpus: Corpus) -> None:
    sampler = sampler_of(corpus)
    n_draws = 200_000
    drawn = sampler.negatives.draw((n_draws,), generator(1))
    weights = np.asarray(corpus.word_counts, np.float64) ** 0.75
    expected = n_draws * weights / weights.sum()
    found = torch.bincount(drawn, minlength=len(corpus.words)).numpy()
    chi_square = ((found - expected) ** 2 / expected).sum()
    freedom = len(corpus.words) - 1
    assert chi_square < freedom + 5 * np.sqrt(2 * freedom)


def test_an_alias_table_holds_its_distribution_exactly() -> None:
    weights = np.array([0.0, 1.0, 5.0, 0.25, 100.0])
    table = AliasTable.of_weights(weights, device=CPU)
    shares = table.threshold.double().numpy().copy()
    np.add.at(shares, table.alias.numpy(), 1 - table.threshold.double().numpy())
    np.testing.assert_allclose(shares / weights.size, weights / weights.sum(), atol=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 1.0, 20.0])
@pytest.mark.parametrize("max_per_word", [1 << 16, 50])
def test_sections_follow_smoothed_counts(
    tmp_path: Path, smoothing: float, max_per_word: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (statistics, device_corpus):
        monkeypatch.setattr(module, "MAX_PER_WORD", max_per_word)
    corpus = planted_corpus(tmp_path, n_notes=40)
    sections = OccurrenceSections.of_corpus(corpus, kind="section", smoothing=smoothing, device=CPU)
    counts = count_words_by_metadata(corpus)
    drawn = sections.draw(None, n_draws=20_000, generator=generator(2))
    for word in range(len(corpus.words)):
        expected = counts.metadata_given_word(word, add=smoothing)
        found = torch.bincount(drawn[word], minlength=expected.size).numpy() / drawn.shape[1]
        # With a cap the occurrences are themselves a sample, of 50.
        np.testing.assert_allclose(found, expected, atol=0.02 if max_per_word > 1000 else 0.2)


def test_each_token_is_a_center_once_an_epoch_in_another_order_each_time(corpus: Corpus) -> None:
    shards = divide(corpus, n_shards=2, chunk_tokens=300, block_tokens=40)
    settings = tiny_settings()
    visited: dict[int, list[tuple[int, int]]] = {0: [], 1: []}
    for epoch, seen in visited.items():
        for shard, chunks in enumerate(shards):
            reader = ShardReader(corpus, chunks, shard=shard, batch_size=32, settings=settings, device=CPU)
            assert len(reader.lengths) > 1
            steps = reader.epoch(epoch)
            for n_rows in reader.rows_of(epoch):
                centers = next(steps)
                assert int(centers.present.sum()) == n_rows
                chunk, at = centers.source.chunk, centers.positions[centers.present]
                seen.extend(zip(chunk.segments[at].tolist(), chunk.tokens[at].tolist(), strict=True))
            assert not next(steps).present.any()
    everything = sorted(zip(corpus.token_segment.tolist(), corpus.tokens.tolist(), strict=True))
    assert sorted(visited[0]) == sorted(visited[1]) == everything
    assert visited[0] != visited[1]


def test_an_epoch_can_be_entered_at_any_step(corpus: Corpus) -> None:
    chunks = divide(corpus, n_shards=1, chunk_tokens=300, block_tokens=40)[0]
    reader = ShardReader(corpus, chunks, shard=0, batch_size=32, settings=tiny_settings(), device=CPU)
    steps = reader.epoch(1)
    positions = [next(steps).positions for _ in reader.rows_of(1)]
    for first_step in (1, len(positions) // 2, len(positions) - 1):
        assert torch.equal(next(reader.epoch(1, first_step=first_step)).positions, positions[first_step])


def test_masks_come_at_their_rates(corpus: Corpus) -> None:
    sampler, chunk = sampler_of(corpus), whole_chunk(corpus)
    positions = torch.arange(len(chunk), dtype=torch.int32)
    _, unmasked, _ = chunk.windows_at(positions, radius=4)
    batch = sampler.batch(chunk, positions, present=all_present(len(chunk)))
    assert not (batch.context_mask & ~unmasked).any()
    assert batch.context_mask.sum() / unmasked.sum() == pytest.approx(0.8, abs=0.02)
    assert batch.center_mask is not None
    assert batch.center_mask.float().mean() == pytest.approx(0.8, abs=0.04)


def test_rows_that_fill_up_a_batch_have_no_context(corpus: Corpus) -> None:
    present = torch.tensor([True, False, True])
    batch = sampler_of(corpus).batch(
        whole_chunk(corpus), torch.tensor([9, 10, 11], dtype=torch.int32), present=present
    )
    assert batch.context_mask.any(dim=1).tolist() == present.tolist()


def test_the_table_of_a_batch_has_all_of_its_words(corpus: Corpus) -> None:
    sampler, chunk = sampler_of(corpus), whole_chunk(corpus)
    batch = sampler.batch(chunk, torch.arange(3, dtype=torch.int32), present=all_present(3))
    draws = sampler.section_draws(batch)
    assert draws.words is not None
    assert draws.sections is not None
    needed = torch.cat([batch.context[batch.context_mask], batch.negatives[batch.context_mask]])
    assert set(needed.tolist()) <= set(draws.words.tolist())
    assert draws.sections.shape == (draws.words.shape[0], sampler.config.n_section_draws)


def test_mbsge_repositions_centers_at_its_rates_by_their_own_metadata(corpus: Corpus) -> None:
    sampler, chunk = sampler_of(corpus, "mbsge"), whole_chunk(corpus)
    config = sampler.config
    positions = torch.arange(len(chunk), dtype=torch.int32)
    center = sampler.batch(chunk, positions, present=all_present(len(chunk))).center
    is_section = center >= config.section_offset
    is_category = (center >= config.category_offset) & ~is_section
    assert is_category.float().mean() == pytest.approx(0.1, abs=0.03)
    assert is_section.float().mean() == pytest.approx(0.2, abs=0.03)
    sections = torch.from_numpy(corpus.segment_metadata("section")[np.asarray(corpus.token_segment)])
    categories = torch.from_numpy(corpus.segment_metadata("category")[np.asarray(corpus.token_segment)])
    assert torch.equal(center[is_section] - config.section_offset, sections[is_section])
    assert torch.equal(center[is_category] - config.category_offset, categories[is_category])
    is_word = ~is_section & ~is_category
    assert torch.equal(center[is_word], chunk.tokens[is_word])


def test_the_same_seed_draws_the_same_and_another_does_not(corpus: Corpus) -> None:
    chunk, positions = whole_chunk(corpus), torch.arange(50, dtype=torch.int32)
    first, again = (sampler_of(corpus).batch(chunk, positions, present=all_present(50)) for _ in range(2))
    assert torch.equal(first.negatives, again.negatives)
    assert torch.equal(first.context_mask, again.context_mask)
    other = sampler_of(corpus)
    other.generator.manual_seed(5)
    assert not torch.equal(first.negatives, other.batch(chunk, positions, present=all_present(50)).negatives)
