"""Settings of all tests."""

import os

from hypothesis import settings

# Small tensors on several threads are slower, and tests share the machine; set before torch or numpy is imported.
os.environ["OMP_NUM_THREADS"] = "1"

# A busy machine is no failure: how long an example takes is measured in benchmarks.
settings.register_profile("lmcells", deadline=None)
settings.load_profile("lmcells")
