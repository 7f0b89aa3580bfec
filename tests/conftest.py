"""Settings of all tests."""

from hypothesis import settings

# A busy machine is no failure: how long an example takes is measured in benchmarks.
settings.register_profile("lmcells", deadline=None)
settings.load_profile("lmcells")
