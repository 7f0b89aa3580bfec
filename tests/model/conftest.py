import pytest
import torch


@pytest.fixture
def bf16_without_amx(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some virtual machines announce AMX and then refuse it: there oneDNN's bf16 products crash."""
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
