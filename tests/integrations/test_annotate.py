"""Files of notes to rows: every format, shards, resuming, and that nothing is ever lost or changed."""

import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest

from integrations.ward import AWKWARD, ward_notes
from lmcells import build_corpus
from lmcells.corpus import CorpusSettings
from lmcells.errors import ConfigError, InputError, MissingExtra
from lmcells.expansion import Expansion
from lmcells.expansion.expander import Expander
from lmcells.expansion.settings import ExpanderSettings
from lmcells.integrations.annotate import annotate
from lmcells.integrations.rows import COLUMNS, NoteFiles, read_annotations
from lmcells.integrations.shards import (
    SHARD_CHARACTERS,
    AnnotationTask,
    Shard,
    _blas_threads,
    expand_notes,
    find_engine,
    one_thread,
    parse_result,
    run_locally,
    shards_of,
    shared_expander,
)
from lmcells.notes.note import Note
from lmcells.notes.readers import ReadReport
from note_files import (
    write_csv,
    write_jsonl,
    write_mimic4,
    write_noteevents,
    write_parquet,
    write_text_folder,
)

EXAMPLES = Path(__file__).parents[2] / "examples" / "notes"
BROKEN = ['{"id": "b1", "text": "PT secret"', "[]", '{"id": "b2"}', '{"id": "b3", "text": " "}']


def run(settings: ExpanderSettings, paths: Sequence[Path], output: Path, **options: Any) -> dict[str, Any]:
    return annotate(NoteFiles(paths), output, expander=settings, **options)


def broken_file(path: Path, n_notes: int = 70) -> Path:
    """Notes with four broken lines in the middle."""
    write_jsonl(path, ward_notes(n_notes))
    lines = path.read_text().split("\n")  # a note may hold other line separators
    lines[10:10] = BROKEN
    path.write_text("\n".join(lines))
    return path


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_rows_are_the_expansions_with_the_id_of_their_note(
    settings: ExpanderSettings, tmp_path: Path
) -> None:
    notes = write_jsonl(tmp_path / "notes.jsonl", ward_notes(9))
    report = run(settings, [notes], tmp_path / "out.jsonl")
    read = [Note(note["id"], note["text"]) for note in ward_notes(9)]
    expected = [
        {"note_id": note.id, **expansion.to_dict()}
        for note, expansions in zip(read, expand_notes(settings.open(), read), strict=True)
        for expansion in expansions
        if isinstance(expansion, Expansion)
    ]
    assert rows_of(tmp_path / "out.jsonl") == expected
    assert [*expected[0]] == [*COLUMNS]
    assert report["n_expansions"] == len(expected) > 20
    written = {AWKWARD[row["start"] : row["end"]] for row in expected if row["note_id"] == "notes/0"}
    assert written == {"PT", "MS"}


def test_all_formats_hold_the_same(settings: ExpanderSettings, tmp_path: Path) -> None:
    notes = write_jsonl(tmp_path / "notes.jsonl", ward_notes(60))
    read = []
    for suffix in ("jsonl", "csv", "parquet"):
        run(settings, [notes], tmp_path / f"out.{suffix}", shard_notes=16)
        read.append(list(read_annotations(tmp_path / f"out.{suffix}")))
    assert read[0] == read[1] == read[2]
    assert len(read[0]) > 100
    with (tmp_path / "out.csv").open(newline="") as file:
        row = next(csv.DictReader(file))
    assert json.loads(row["candidates"])[0]["long_form"] == row["long_form"]
    candidates = pq.read_schema(tmp_path / "out.parquet").field("candidates").type
    assert str(candidates.value_type) == "struct<long_form: string, probability: double, concept_id: string>"


def test_workers_and_resuming_change_no_byte(settings: ExpanderSettings, tmp_path: Path) -> None:
    notes = broken_file(tmp_path / "notes.jsonl")
    outputs = []
    for workers in (1, 2):
        output = tmp_path / f"{workers}" / "out.jsonl"
        report = run(settings, [notes], output, workers=workers, shard_notes=8)
        files = [output, output.with_name("out.jsonl.rejected.jsonl")]
        outputs.append((report, *(file.read_bytes() for file in files)))
        assert not output.with_name("out.jsonl.parts").exists()
    assert outputs[0] == outputs[1]


def test_counts_are_exact_and_broken_rows_are_kept_without_their_text(
    settings: ExpanderSettings, tmp_path: Path
) -> None:
    notes = broken_file(tmp_path / "notes.jsonl")
    output = tmp_path / "out.jsonl"
    report = run(settings, [notes], output)
    assert report["n_read"] == report["n_annotated"] == 70
    assert report["skipped"] == {"not JSON": 1, "not a JSON object": 1, "no text": 1, "empty note": 1}
    rows = rows_of(output)
    assert report["n_expansions"] == len(rows) == sum(report["expanded"].values())
    assert report["expanded"]["definition"] == sum(row["source"] == "definition" for row in rows)
    rejected = rows_of(tmp_path / "out.jsonl.rejected.jsonl")
    assert [row["line"] for row in rejected] == [11, 12, 13, 14]
    assert {row["file"] for row in rejected} == {str(notes)}
    assert "secret" not in (tmp_path / "out.jsonl.rejected.jsonl").read_text()
    saved = json.loads((tmp_path / "out.jsonl.report.json").read_text())
    assert saved.pop("plan")["--shard-notes"] == 512
    assert saved == report


def test_abstaining_is_counted_by_reason(settings: ExpanderSettings, tmp_path: Path) -> None:
    notes = write_jsonl(tmp_path / "notes.jsonl", ward_notes(20))
    sure = replace(settings, threshold=1.0)
    report = run(sure, [notes], tmp_path / "out.csv")
    found = [expansion for _, expansion in read_annotations(tmp_path / "out.csv")]
    n_abstained = sum(each.abstained == "low_confidence" for each in found)
    assert report["abstained"] == {"low_confidence": n_abstained}
    assert n_abstained > 10
    assert all(each.long_form is None and each.candidates for each in found if each.abstained)


def test_every_format_of_notes_is_read(settings: ExpanderSettings, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    paths = [
        write_noteevents(folder / "NOTEEVENTS.csv.gz", gzip=True),
        write_mimic4(folder / "discharge.csv"),
        write_csv(folder / "a.tsv", [{"id": 1, "text": "in PT"}], delimiter="\t"),
        write_parquet(
            folder / "note.parquet", {"note_id": [7, 8], "note_text": ["PT", ""], "person_id": [1, 1]}
        ),
        write_jsonl(
            folder / "d.jsonl", [{"id": 9, "sections": [{"header": "Gait", "text": "in PT"}]}]
        ),  # given sections
        write_text_folder(folder / "texts", {"x/one.txt": "PLAN: PT", "two.txt": "MS"}),
    ]
    report = run(settings, paths, tmp_path / "out.jsonl")
    rows = rows_of(tmp_path / "out.jsonl")
    assert {row["note_id"] for row in rows} >= set("a/1 note/7 d/9 texts/x/one texts/two mimic3/901".split())
    assert report["skipped"] == {"marked as an error (ISERROR is 1)": 1, "empty note": 1}
    sections = {row["note_id"]: row["section"] for row in rows}
    assert (sections["d/9"], sections["texts/x/one"]) == ("GAIT", "PLAN")


def test_a_note_that_fails_costs_only_itself(
    settings: ExpanderSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = Expander.__call__

    def fail(self: Expander, note: str, *rest: Any, **named: Any) -> list[Expansion]:
        if "boom" in note:
            raise ValueError(f"secret {note}")
        return reading(self, note, *rest, **named)

    def fail_together(_: Expander, notes: list[str], **__: Any) -> Any:
        raise ValueError(notes)

    monkeypatch.setattr(Expander, "__call__", fail)
    monkeypatch.setattr(Expander, "pipe", fail_together)
    notes = write_jsonl(
        tmp_path / "notes.jsonl",
        [{"id": "1", "text": "PT"}, {"id": "2", "text": "boom PT"}, {"id": "3", "text": "MS"}],
    )
    report = run(settings, [notes], tmp_path / "out.jsonl")
    assert (report["n_read"], report["n_annotated"]) == (3, 2)
    assert report["failed"] == {"expansion failed (ValueError)": 1}
    assert [row["note_id"] for row in rows_of(tmp_path / "out.jsonl")] == ["notes/1", "notes/3"]
    (row,) = rows_of(tmp_path / "out.jsonl.rejected.jsonl")
    assert row == {
        "file": None,
        "line": None,
        "note_id": "notes/2",
        "reason": "expansion failed (ValueError)",
    }


def test_a_job_goes_on_with_the_parts_that_are_there(settings: ExpanderSettings, tmp_path: Path) -> None:
    notes = broken_file(tmp_path / "notes.jsonl")
    output = tmp_path / "out.jsonl"
    seen: list[int] = []

    def stop(n_notes: int, _: int, share: float | None) -> None:
        assert share is not None
        assert 0 < share <= 1
        seen.append(n_notes)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(settings, [notes], output, shard_notes=8, on_progress=stop)
    assert not output.exists()
    parts = tmp_path / "out.jsonl.parts"
    assert len(list(parts.glob("part-*"))) == 3
    first = parts / "part-000000.jsonl"
    first.write_bytes(first.read_bytes().replace(b'"PLAN"', b'"KEPT"'))  # shows that it is not made again
    with pytest.raises(InputError, match=r"this has changed: --shard-notes\."):
        run(settings, [notes], output, shard_notes=9, resume=True)
    seen.clear()
    report = run(
        settings, [notes], output, shard_notes=8, resume=True, on_progress=lambda n, *_: seen.append(n)
    )
    assert seen[-1] == report["n_read"] == 70
    assert "KEPT" in {row["section"] for row in rows_of(output)}
    run(settings, [notes], tmp_path / "other.jsonl", shard_notes=8)
    assert output.read_text().replace("KEPT", "PLAN") == (tmp_path / "other.jsonl").read_text()


def test_a_damaged_part_is_said_to_be(settings: ExpanderSettings, tmp_path: Path) -> None:
    result = AnnotationTask(settings).run(Shard(0, [Note("a/1", "PT and MS")]))
    counts, rows = parse_result(result)
    assert counts["n_rows"] == len(rows.splitlines()) == 2
    with pytest.raises(ValueError, match="rows are missing"):
        parse_result(result[:-1])
    notes = write_jsonl(tmp_path / "notes.jsonl", ward_notes(5))

    def damage(*_: int) -> None:
        (tmp_path / "out.jsonl.parts" / "part-000000.jsonl").write_bytes(b"")

    with pytest.raises(InputError, match=r"part-000000.jsonl is missing or damaged. Delete it"):
        run(settings, [notes], tmp_path / "out.jsonl", on_progress=damage)


def start(
    settings: ExpanderSettings, notes: Path, output: Path, *options: str, n_parts: int
) -> "tuple[list[str], subprocess.Popen[str]]":
    """Run the command until some parts are written; -> the command and its process."""
    command = [
        *(sys.executable, "-m", "lmcells", "annotate", str(notes), "--output", str(output)),
        *("--model", str(settings.model), "--only-inventory", str(settings.only_inventory), *options),
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while len(list(output.with_name(f"{output.name}.parts").glob("part-*.jsonl"))) < n_parts:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return command, process


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_killed_job_resumes_and_leaves_no_process(
    settings: ExpanderSettings, tmp_path: Path, workers: str
) -> None:
    notes = broken_file(tmp_path / "notes.jsonl", n_notes=800)
    output, parts = tmp_path / "out.csv", tmp_path / "out.csv.parts"
    options = ("--resume", "--workers", workers, "--shard-notes", "10")
    command, process = start(settings, notes, output, *options, n_parts=5)
    with process:
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
    assert not output.exists()
    assert 5 <= len(list(parts.glob("part-*.jsonl"))) < 80
    assert not psutil.wait_procs(children, timeout=20)[1]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "notes read" in done.stdout
    run(settings, [notes], tmp_path / "whole.csv", shard_notes=10)
    for ending in ("", ".rejected.jsonl"):
        resumed, whole = ((tmp_path / f"{name}.csv{ending}").read_bytes() for name in ("out", "whole"))
        assert resumed == whole
    assert not parts.exists()


def test_a_worker_that_is_killed_is_said_to_be(settings: ExpanderSettings, tmp_path: Path) -> None:
    notes = write_jsonl(tmp_path / "notes.jsonl", ward_notes(1000))
    output = tmp_path / "out.jsonl"
    _, process = start(settings, notes, output, "--workers", "2", "--shard-notes", "5", n_parts=1)
    children = psutil.Process(process.pid).children()
    workers = [each for each in children if any("spawn_main" in part for part in each.cmdline())]
    workers[-1].kill()
    _, error = process.communicate(timeout=60)
    assert process.returncode == 2
    assert error.endswith(
        "lmcells annotate: a worker was killed, perhaps for lack of memory. Continue with --resume "
        "and fewer --workers.\n"
    )
    assert "Traceback" not in error
    assert run(settings, [notes], output, shard_notes=5, resume=True)["n_annotated"] == 1000


def test_what_was_refused_before_it_began_leaves_nothing(settings: ExpanderSettings, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.csv does not exist"):
        run(settings, [tmp_path / "absent.csv"], tmp_path / "out.jsonl")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("engine", "package"), [("ray", "ray"), ("spark", "pyspark"), ("spark", "pandas")])
def test_an_engine_that_is_not_installed_says_what_to_install(
    engine: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"lmcells.integrations.{engine}_engine", raising=False)
    with pytest.raises(MissingExtra, match=rf"pip install 'lmcells\[{engine}\]'"):
        find_engine(engine, workers=1)


def test_running_again_does_nothing_and_says_the_same(settings: ExpanderSettings, tmp_path: Path) -> None:
    notes = broken_file(tmp_path / "notes.jsonl")
    output = tmp_path / "out.parquet"
    first = run(settings, [notes], output)
    before = output.stat().st_mtime_ns
    assert run(settings, [notes], output) == run(settings, [notes], output, resume=True) == first
    assert output.stat().st_mtime_ns == before
    content = output.read_bytes()
    assert run(settings, [notes], output, overwrite=True) == first
    assert output.read_bytes() == content
    assert output.stat().st_mtime_ns != before


def test_a_file_of_another_job_is_not_replaced_unasked(settings: ExpanderSettings, tmp_path: Path) -> None:
    notes = write_jsonl(tmp_path / "notes.jsonl", ward_notes(5))
    output = tmp_path / "out.jsonl"
    output.write_text("mine")
    for resume in (False, True):
        with pytest.raises(InputError, match="already exists"):
            run(settings, [notes], output, resume=resume)
    assert output.read_text() == "mine"
    run(settings, [notes], output, overwrite=True)
    write_jsonl(notes, ward_notes(6))
    with pytest.raises(InputError, match="made from other notes or settings"):
        run(settings, [notes], output)


def test_a_side_file_of_before_does_not_stay(settings: ExpanderSettings, tmp_path: Path) -> None:
    notes = broken_file(tmp_path / "notes.jsonl")
    run(settings, [notes], tmp_path / "out.jsonl")
    write_jsonl(notes, ward_notes(5))
    run(settings, [notes], tmp_path / "out.jsonl", overwrite=True)
    kept = ["notes.jsonl", "out.jsonl", "out.jsonl.report.json"]
    assert sorted(file.name for file in tmp_path.iterdir()) == kept


def test_when_no_note_is_left_that_is_an_error_and_the_side_file_tells(
    settings: ExpanderSettings, tmp_path: Path
) -> None:
    notes = tmp_path / "notes.jsonl"
    notes.write_text('{"id": 1, "text": ""}\n')
    with pytest.raises(InputError, match=r"no note could be expanded \(empty note: 1\)\. Check"):
        run(settings, [notes], tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()
    assert len(rows_of(tmp_path / "out.jsonl.rejected.jsonl")) == 1


@pytest.mark.parametrize(
    ("output", "options", "message"),
    [
        ("out.txt", {}, "must end in .jsonl, .csv, .parquet"),
        ("out.jsonl", {"workers": 0}, "--workers: found 0"),
        ("out.jsonl", {"shard_notes": 0}, "--shard-notes: found 0"),
        ("out.jsonl", {"engine": "magic"}, "engine: found 'magic', allowed: local, ray, spark"),
        ("in/out.jsonl", {}, "which is an input"),
        ("folder.csv", {"overwrite": True}, "is a folder"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    settings: ExpanderSettings, tmp_path: Path, output: str, options: dict[str, Any], message: str
) -> None:
    folder = write_text_folder(tmp_path / "in", {"a.txt": "PT"})
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(ConfigError, match=message):
        run(settings, [folder], tmp_path / output, **options)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_senses_from_a_pipe_are_refused_before_they_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "senses.csv")
    piped = ExpanderSettings(inventory=(str(tmp_path / "senses.csv"),))
    with pytest.raises(ConfigError, match="is a pipe, which can be read only once"):
        run(piped, [write_text_folder(tmp_path / "in", {"a.txt": "PT"})], tmp_path / "out.csv")


def test_a_place_that_cannot_be_written_is_said_to_be(settings: ExpanderSettings, tmp_path: Path) -> None:
    notes = write_jsonl(tmp_path / "notes.jsonl", ward_notes(5))
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"out\.jsonl cannot be written: Not a directory"):
        run(settings, [notes], tmp_path / "file" / "out.jsonl")


def test_shards_depend_on_the_notes_alone() -> None:
    notes = [Note(f"a/{i}", "x" * (i % 3)) for i in range(25)]
    shards = list(shards_of(notes, n_notes=10))
    assert [(shard.number, len(shard.notes)) for shard in shards] == [(0, 10), (1, 10), (2, 5)]
    long = [Note("a/1", "x" * SHARD_CHARACTERS)] * 3
    assert [len(shard.notes) for shard in shards_of(long)] == [1, 1, 1]


def test_reading_is_not_drained_ahead_of_the_work(settings: ExpanderSettings, tmp_path: Path) -> None:
    notes = write_jsonl(tmp_path / "notes.jsonl", ward_notes(400))
    report = ReadReport()
    shards = shards_of(NoteFiles([notes]).read(report), n_notes=10)
    next(run_locally(AnnotationTask(settings), shards, 1))
    assert report.n_read <= 11


def test_names_of_files_that_are_no_utf8_do_not_stop_a_job(
    settings: ExpanderSettings, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    file = folder / os.fsdecode(b"caf\xe9.txt")
    file.write_text("in PT")
    for suffix, given in (("jsonl", folder), ("csv", folder), ("parquet", file)):
        report = run(settings, [given], tmp_path / f"out.{suffix}")
        ((note_id, _),) = read_annotations(tmp_path / f"out.{suffix}")
        assert note_id == "in/caf\N{REPLACEMENT CHARACTER}"
        assert run(settings, [given], tmp_path / f"out.{suffix}", resume=True) == report
    build_corpus(file, output=tmp_path / "corpus", settings=CorpusSettings(min_count=0))


def test_shards_in_any_order_give_the_same_bytes() -> None:
    """What a process did before changes no digit."""
    notes = list(NoteFiles([EXAMPLES]).read(ReadReport()))
    shards = [Shard(number, notes[number * 4 : number * 4 + 4]) for number in range(4)]
    results = []
    for order in (shards, shards[::-1]):
        shared_expander.cache_clear()  # as in another process
        task = AnnotationTask(ExpanderSettings())
        results.append({shard.number: task.run(shard) for shard in order})
    assert results[0] == results[1]
    assert sum(map(len, results[0].values())) > 1000


def test_the_number_of_threads_changes_no_byte(tmp_path: Path) -> None:
    notes = Path(__file__).parents[2] / "benchmarks" / "data" / "whole_notes_dev.jsonl"
    written = []
    for n_threads in ("1", "2"):
        out = tmp_path / f"{n_threads}.jsonl"
        variables = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), n_threads)
        command = [sys.executable, "-m", "lmcells", "annotate", str(notes), "--output", str(out)]
        subprocess.run(command, env=variables, check=True, capture_output=True)
        written.append(out.read_bytes())
    assert written[0] == written[1]


def test_one_thread_is_used_only_inside() -> None:
    (get, set_), *_ = _blas_threads()
    before = get()
    set_(2)
    with one_thread():
        assert get() == 1
    assert get() == 2
    set_(before)
