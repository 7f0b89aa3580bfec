"""The networks in numpy against those in torch."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lmcells.model import CellModel, ModelConfig, Windows
from lmcells.pretrained.layers import matmul_on_one_core, rows_on_one_core
from lmcells.pretrained.network import (
    NumpyModelNetwork,
    NumpyPosterior,
    NumpyVariationalNetwork,
    NumpyWordPrior,
    ReadWindows,
)
from model.tiny import tiny_model

KINDS = pytest.mark.parametrize("kind", ["lmc", "bsg", "mbsge"])
PAPER_SIZES = {"cell_dim": 100, "embedding_dim": 100, "hidden_dim": 64, "window": 10, "n_words": 300}


def arrays_of(model: CellModel) -> dict[str, npt.NDArray[Any]]:
    return {name: tensor.float().numpy() for name, tensor in model.state_dict().items()}


def numpy_network(model: CellModel) -> NumpyVariationalNetwork:
    return NumpyVariationalNetwork(arrays_of(model), model.config)


def some_windows(config: ModelConfig, *, seed: int, n_rows: int) -> Windows:
    """Holes anywhere, rows without any word among them, null metadata and masked centers."""
    generator = torch.Generator().manual_seed(seed)
    shape = (n_rows, 2 * config.window)
    present = torch.rand((n_rows, 1), generator=generator)  # some rows full, some nearly empty
    mask = torch.rand(shape, generator=generator) < present * 1.3
    mask[: n_rows // 8] = False
    return Windows(
        center=torch.randint(config.n_words, (n_rows,), generator=generator),
        metadata=torch.randint(-2, max(config.n_metadata, 1), (n_rows,), generator=generator),
        context=torch.randint(config.n_words, shape, generator=generator),
        context_mask=mask,
        center_mask=torch.rand(n_rows, generator=generator) < 0.7,
    )


def in_numpy(
    network: NumpyVariationalNetwork, windows: Windows, *, gate: float | npt.NDArray[np.float32] | None = None
) -> NumpyPosterior:
    metadata = None if windows.metadata is None else windows.metadata.numpy()
    return network.posterior(as_read(windows), metadata, gate=gate)


def as_read(windows: Windows) -> ReadWindows:
    present = torch.ones_like(windows.center, dtype=torch.bool)
    center_mask = present if windows.center_mask is None else windows.center_mask
    each = (windows.center, center_mask, windows.context, windows.context_mask)
    return ReadWindows(*(tensor.numpy() for tensor in each))


def assert_as_in_torch(
    model: CellModel,
    windows: Windows,
    *,
    network: NumpyVariationalNetwork | None = None,
    gate: Any = None,
    atol: float = 1e-4,
) -> None:
    found = in_numpy(network or numpy_network(model), windows, gate=gate)
    with torch.no_grad():
        given_gate = torch.from_numpy(gate) if isinstance(gate, np.ndarray) else gate
        expected = model.posterior(windows, gate=given_gate)
    for ours, torchs in (
        (found.mean, expected.cell.mean),
        (found.log_variance, expected.cell.log_variance),
        (found.gate, expected.gate),
        (found.attention, expected.attention),
    ):
        assert ours.dtype == np.float32
        np.testing.assert_allclose(ours, torchs.detach().numpy(), rtol=0, atol=atol)


def with_masked_spans(windows: Windows, config: ModelConfig) -> Windows:
    """A masked span somewhere in most rows; where that position is a hole, the row has none."""
    generator = torch.Generator().manual_seed(7)
    n_rows, width = windows.context.shape
    context = windows.context.clone()
    rows = torch.arange(n_rows)
    context[rows, torch.randint(width, (n_rows,), generator=generator)] = config.mask_id
    return replace(windows, context=context)


@settings(max_examples=25)
@given(seed=st.integers(0, 2**16), n_rows=st.sampled_from([0, 1, 2, 9, 40]), reach=st.sampled_from([1, 2, 4]))
def test_a_masked_span_reader_reads_the_same_as_in_torch(seed: int, n_rows: int, reach: int) -> None:
    model = tiny_model(
        seed=seed, dtype=torch.float32, masks_span=True, masked_span_dim=6, masked_span_reach=reach
    ).eval()
    config = model.config
    windows = with_masked_spans(some_windows(config, seed=seed, n_rows=n_rows), config)
    assert_as_in_torch(model, windows)


@pytest.mark.parametrize("reach", [1, 2, 4])
def test_a_masked_span_reader_of_the_defaults_sizes_reads_the_same_as_in_torch(reach: int) -> None:
    sizes = {**PAPER_SIZES, "masks_span": True, "masked_span_dim": 512, "masked_span_reach": reach}
    model = tiny_model(dtype=torch.float32, embedding_std=0.1, **sizes).eval()
    windows = with_masked_spans(some_windows(model.config, seed=1, n_rows=300), model.config)
    assert_as_in_torch(model, windows)


def test_a_masked_span_reader_changes_windows_with_a_masked_span_and_no_others() -> None:
    model = tiny_model(seed=1, dtype=torch.float32, masks_span=True, masked_span_dim=6).eval()
    config = model.config
    arrays = arrays_of(model)
    arrays["variational.masked_span_reader.out.weight"] = np.zeros_like(
        arrays["variational.masked_span_reader.out.weight"]
    )
    network = numpy_network(model)
    without = NumpyVariationalNetwork(arrays, config)
    windows = some_windows(config, seed=1, n_rows=40)
    masked = with_masked_spans(windows, config)
    np.testing.assert_array_equal(in_numpy(network, windows).mean, in_numpy(without, windows).mean)
    has_span = ((masked.context == config.mask_id) & masked.context_mask).any(dim=1).numpy()
    differs = (in_numpy(network, masked).mean != in_numpy(without, masked).mean).any(axis=1)
    assert 5 < has_span.sum() < 40
    np.testing.assert_array_equal(differs, has_span)


@KINDS
@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**16),
    n_rows=st.sampled_from([0, 1, 2, 9, 40]),
    given_mask=st.booleans(),
    data=st.data(),
)
def test_posteriors_equal_those_of_torch(
    kind: str, seed: int, n_rows: int, given_mask: bool, data: st.DataObject
) -> None:
    model = tiny_model(kind, seed=seed, dtype=torch.float32).eval()
    windows = some_windows(model.config, seed=seed, n_rows=n_rows)
    if not given_mask:
        windows = replace(windows, center_mask=None, metadata=None)
    gate = data.draw(st.one_of(st.none(), st.floats(0, 1, width=32)))
    assert_as_in_torch(model, windows, gate=gate)


@KINDS
@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_posteriors_of_the_papers_sizes_equal_those_of_torch(kind: str, scale: float) -> None:
    """More rows than a block, embeddings of torch's default size or four times that: saturated gates."""
    model = tiny_model(kind, dtype=torch.float32, embedding_std=scale, **PAPER_SIZES).eval()
    windows = some_windows(model.config, seed=1, n_rows=300)
    assert_as_in_torch(model, windows)


@KINDS
def test_windows_without_any_context_have_the_posterior_of_torch(kind: str) -> None:
    model = tiny_model(kind, dtype=torch.float32).eval()
    windows = some_windows(model.config, seed=3, n_rows=5)
    windows = replace(windows, context_mask=torch.zeros_like(windows.context_mask))
    assert_as_in_torch(model, windows)


def test_a_gate_can_be_given_for_each_row() -> None:
    model = tiny_model("lmc", dtype=torch.float32).eval()
    windows = some_windows(model.config, seed=5, n_rows=7)
    gate = np.linspace(0, 1, 7, dtype=np.float32)
    assert_as_in_torch(model, windows, gate=gate)


@KINDS
def test_the_company_and_order_of_rows_and_what_was_asked_before_change_nothing(kind: str) -> None:
    model = tiny_model(kind, dtype=torch.float32).eval()
    network, windows = numpy_network(model), some_windows(model.config, seed=2, n_rows=12)
    together = in_numpy(network, windows)
    for row in reversed(range(12)):
        alone = in_numpy(
            numpy_network(model) if row % 2 else network,
            Windows(**{name: getattr(windows, name)[row : row + 1] for name in Windows.__slots__}),
        )
        np.testing.assert_allclose(alone.mean[0], together.mean[row], atol=1e-6)
        np.testing.assert_allclose(alone.attention[0], together.attention[row], atol=1e-6)


@KINDS
def test_what_stands_in_an_absent_position_is_never_looked_at(kind: str) -> None:
    model = tiny_model(kind, dtype=torch.float32).eval()
    network, windows = numpy_network(model), some_windows(model.config, seed=4, n_rows=6)
    nonsense = replace(windows, context=torch.where(windows.context_mask, windows.context, -99))
    np.testing.assert_array_equal(in_numpy(network, nonsense).mean, in_numpy(network, windows).mean)


def test_half_precision_weights_give_nearly_the_same_cells() -> None:
    model = tiny_model("lmc", dtype=torch.float32, **PAPER_SIZES).eval()
    windows = some_windows(model.config, seed=1, n_rows=50)
    half = {name: array.astype(np.float16) for name, array in arrays_of(model).items()}
    network = NumpyVariationalNetwork(half, model.config)
    assert_as_in_torch(model, windows, network=network, atol=5e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"center": np.array([13, 0])}, "center holds ids from 0 to 13; allowed: 0 to 12"),
        ({"context": np.array([[-1, 0], [1, 2]])}, "context holds ids from -1"),
        ({"metadata": np.array([6, 0])}, "metadata holds id 6; allowed: below 6"),
        ({"metadata": np.array([0])}, r"metadata has shape \(1,\)"),
        ({"center": np.array([0])}, r"shape"),
        ({"context_mask": np.ones((2, 3), np.bool_)}, "context_mask has shape"),
        ({"context_mask": np.ones((2, 2))}, "a mask needs bool"),
        ({"gate": 1.5}, "gate is 1.5; allowed"),
        ({"gate": np.array([0.5, np.nan])}, "allowed: weights from 0"),
    ],
)
def test_what_cannot_be_meant_is_refused(change: dict[str, Any], message: str) -> None:
    network = numpy_network(tiny_model("lmc", dtype=torch.float32))
    arguments = {
        "center": np.array([0, 1]),
        "center_mask": np.ones(2, np.bool_),
        "context": np.array([[1, 2], [3, 4]]),
        "context_mask": np.ones((2, 2), np.bool_),
    } | change
    metadata, gate = arguments.pop("metadata", np.array([0, -1])), arguments.pop("gate", None)
    with pytest.raises(ValueError, match=message):
        network.posterior(ReadWindows(**arguments), metadata, gate=gate)


def test_the_prior_of_the_lmc_equals_that_of_torch_for_ids_and_phrases() -> None:
    model = tiny_model("lmc", dtype=torch.float32).eval()
    prior = NumpyModelNetwork(arrays_of(model))
    words = torch.randint(13, (4, 5), generator=torch.Generator().manual_seed(0))
    metadata = torch.randint(-1, 6, (4, 5), generator=torch.Generator().manual_seed(1))
    for under in (metadata, None):
        found = prior(words.numpy(), None if under is None else under.numpy())
        with torch.no_grad():
            expected = model.prior(words, under)
        np.testing.assert_allclose(found.mean, expected.mean.numpy(), atol=1e-5)
        np.testing.assert_allclose(found.log_variance, expected.log_variance.numpy(), atol=1e-5)
    phrase = torch.tensor([3, 5, 5])
    sections = torch.arange(6)
    with torch.no_grad():
        vectors = model.prior.words(phrase).mean(dim=0).expand(6, -1)
        expected = model.prior.of_vectors(vectors, sections)
    found = prior.of_vectors(prior.phrase(phrase.numpy()), sections.numpy())
    np.testing.assert_allclose(found.mean, expected.mean.numpy(), atol=1e-5)


@pytest.mark.parametrize("kind", ["bsg", "mbsge"])
def test_the_prior_without_metadata_equals_that_of_torch(kind: str) -> None:
    model = tiny_model(kind, dtype=torch.float32).eval()
    prior = NumpyWordPrior(arrays_of(model))
    words = torch.arange(model.config.n_centers)
    with torch.no_grad():
        expected = model.prior(words)
    found = prior(words.numpy())
    np.testing.assert_array_equal(found.mean, expected.mean.numpy())
    np.testing.assert_array_equal(found.log_variance, expected.log_variance.numpy())
    phrase = prior.phrase(np.array([1, 2]))
    np.testing.assert_allclose(phrase.mean, expected.mean[1:3].mean(dim=0).numpy(), atol=1e-6)


@pytest.mark.parametrize("kind", ["lmc", "bsg"])
def test_a_phrase_without_a_known_word_is_refused(kind: str) -> None:
    arrays = arrays_of(tiny_model(kind))
    prior = NumpyModelNetwork(arrays) if kind == "lmc" else NumpyWordPrior(arrays)
    with pytest.raises(ValueError, match="at least one word"):
        prior.phrase(np.array([], np.int64))


@KINDS
@settings(max_examples=15)
@given(seed=st.integers(0, 2**16), n_unknown=st.integers(0, 4))
def test_unknown_words_are_read_as_if_the_table_had_them(kind: str, seed: int, n_unknown: int) -> None:
    model = tiny_model(kind, seed=seed, dtype=torch.float32).eval()
    windows = some_windows(model.config, seed=seed, n_rows=9)
    arrays, name = arrays_of(model), "variational.context.words.weight"
    n_read = len(arrays[name])
    draw = np.random.default_rng(seed)
    unknown = draw.normal(size=(n_unknown, arrays[name].shape[1])).astype(np.float32)
    context = draw.integers(0, n_read + n_unknown, windows.context.shape)
    metadata = None if windows.metadata is None else windows.metadata.numpy()
    read = replace(as_read(windows), context=context)
    found = numpy_network(model).posterior(replace(read, unknown=unknown), metadata)
    longer = NumpyVariationalNetwork(arrays | {name: np.concatenate([arrays[name], unknown])}, model.config)
    expected = longer.posterior(read, metadata)
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-6)
    np.testing.assert_allclose(found.attention, expected.attention, atol=1e-6)


def test_an_unknown_word_without_a_vector_is_refused() -> None:
    model = tiny_model("lmc", seed=0, dtype=torch.float32).eval()
    n_read = len(arrays_of(model)["variational.context.words.weight"])
    context, mask = np.array([[n_read + 1]]), np.ones((1, 1), np.bool_)
    unknown = np.zeros((1, model.config.embedding_dim), np.float32)
    windows = ReadWindows(np.zeros(1, np.int64), np.ones(1, np.bool_), context, mask, unknown)
    with pytest.raises(ValueError, match=f"allowed: 0 to {n_read}"):
        numpy_network(model).posterior(windows, None)


@pytest.mark.parametrize("n_rows", [0, 1, 9, 10, 11, 64])
def test_a_product_in_pieces_is_the_product(n_rows: int) -> None:
    random = np.random.default_rng(n_rows)
    left = random.normal(size=(n_rows, 100)).astype(np.float32)
    right = random.normal(size=(2, 100, 256)).astype(np.float32)
    np.testing.assert_allclose(matmul_on_one_core(left, right), left @ right, rtol=1e-4, atol=1e-4)


def test_even_the_widest_product_has_a_row() -> None:
    assert rows_on_one_core(64, 64) == 64
    assert rows_on_one_core(10_000, 10_000) == 1
