"""One model for all tests of this folder."""

import pytest

from integrations.ward import build_ward
from lmcells.integrations.annotation_shard import ExpanderSettings


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> ExpanderSettings:
    return build_ward(tmp_path_factory.mktemp("ward"))
