"""What the CPU computes in blocks, against the same written plainly: values and gradients."""

import pytest
import torch
from torch import Tensor

import lmcells.model.moments
from lmcells.model.layers import GaussianHeads
from lmcells.model.moments import blocked_moments, linear_mixture_moments, row_products


def random_values(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("block", [1, 4, 9, 100])
@pytest.mark.parametrize("floor", [0.0, 1e-3])
def test_moments_in_blocks_are_those_of_all_words_at_once(
    block: int, floor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lmcells.model.moments, "_WORD_BLOCK", block)
    torch.manual_seed(0)
    from_words, from_metadata, heads = random_values(9, 3), random_values(5, 3), GaussianHeads(3, cell_dim=6)
    heads.double()
    sections = torch.randint(5, (9, 4), dtype=torch.int32)
    found = blocked_moments(from_words, from_metadata, sections, heads=heads, variance_floor=floor)
    hidden = (from_words.unsqueeze(1) + from_metadata[sections]).relu()
    expected = linear_mixture_moments(hidden, heads=heads, variance_floor=floor)
    leaves = [from_words, from_metadata, *heads.parameters()]
    for name in ("a0", "a1", "a2", "a3"):
        one, other = getattr(found, name), getattr(expected, name)
        torch.testing.assert_close(one, other)
        weight = torch.randn_like(one)
        of_one, of_other = (
            torch.autograd.grad((value * weight).sum(), leaves, retain_graph=True, materialize_grads=True)
            for value in (one, other)
        )
        for gradient, wanted in zip(of_one, of_other, strict=True):
            torch.testing.assert_close(gradient, wanted)


@pytest.mark.parametrize("block", [1, 3, 100])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_row_products_are_those_of_rows_written_out(
    block: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lmcells.model.moments, "_QUERY_BLOCK", block)
    torch.manual_seed(0)
    query, table = random_values(7, 3), random_values(11, 3)
    index = torch.randint(8, (7, 5), dtype=dtype)  # three rows of the table are never asked for
    found, expected = row_products(query, table, index), torch.einsum("bd,bkd->bk", query, table[index])
    torch.testing.assert_close(found, expected)
    weight = torch.randn_like(found)
    of_found, of_expected = (
        torch.autograd.grad((value * weight).sum(), (query, table)) for value in (found, expected)
    )
    for gradient, wanted in zip(of_found, of_expected, strict=True):
        torch.testing.assert_close(gradient, wanted)
