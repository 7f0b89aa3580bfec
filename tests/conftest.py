"""Settings of all tests."""

import os

import pytest
from hypothesis import settings

# Small tensors on several threads are slower, and tests share the machine; set before torch or numpy is imported.
os.environ["OMP_NUM_THREADS"] = "1"

# A busy machine is no failure: how long an example takes is measured in benchmarks.
settings.register_profile("lmcells", deadline=None)
settings.load_profile("lmcells")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest test: at the end, all other workers would wait for it."""
    items.sort(key=lambda item: item.name != "test_all_kernels_by_tritons_interpreter")
