import pytest
import torch

from lmcells.model.networks import Dropout


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.5])
def test_as_much_is_dropped_as_should_be_and_the_mean_stays(rate: float) -> None:
    torch.manual_seed(0)
    values = Dropout(rate)(torch.ones(1000, 1001))
    assert (values == 0).float().mean().item() == pytest.approx(rate, abs=2e-3)
    assert values.mean().item() == pytest.approx(1, abs=3e-3)
    assert values.max().item() == pytest.approx(1 / (1 - rate), rel=1e-4)


def test_neighbours_are_dropped_independently() -> None:
    torch.manual_seed(0)
    dropped = (Dropout(0.2)(torch.ones(1_000_000)) == 0).float()
    for distance in (1, 2, 3, 4, 8):
        both = (dropped[distance:] * dropped[:-distance]).mean().item()
        assert both == pytest.approx(0.04, abs=1e-3), distance


def test_gradients_pass_where_values_do() -> None:
    torch.manual_seed(0)
    values = torch.ones(7, 5, dtype=torch.float64, requires_grad=True)
    kept = Dropout(0.5)(values)
    kept.sum().backward()
    assert kept.dtype == torch.float64
    assert torch.equal(kept, values.grad)
    assert 0 < int((kept == 0).sum()) < 35


def test_it_follows_the_seed_and_rests_when_evaluating() -> None:
    dropout, values = Dropout(0.2), torch.randn(50, 3)
    torch.manual_seed(3)
    first = dropout(values)
    torch.manual_seed(3)
    assert torch.equal(first, dropout(values))
    assert torch.equal(dropout.eval()(values), values)
    assert torch.equal(Dropout(0.0)(values), values)
