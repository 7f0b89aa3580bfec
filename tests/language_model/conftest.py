import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Small tensors on several threads are slower, and tests share the machine."""
    torch.set_num_threads(1)
