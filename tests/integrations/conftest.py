"""One model, one Ray cluster and one Spark session for all tests of this folder."""

from collections.abc import Iterator
from typing import Any

import pytest

from integrations.ward import build_ward
from lmcells.errors import InputError
from lmcells.expansion.settings import ExpanderSettings


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> ExpanderSettings:
    return build_ward(tmp_path_factory.mktemp("ward"))


@pytest.fixture(scope="session")
def ray() -> Iterator[Any]:
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'lmcells[ray]'")
    pytest.importorskip("ray.data", reason="Ray Data is not installed: pip install 'lmcells[ray]'")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield ray
    ray.shutdown()


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'lmcells[spark]'")
    pytest.importorskip("pandas", reason="pandas is not installed: pip install 'lmcells[spark]'")
    from lmcells.integrations.spark_engine import find_java, open_session

    try:
        find_java()
    except InputError as error:
        pytest.skip(str(error))
    session = open_session(2)
    yield session
    session.stop()
