"""Steps: what is done, what a change concerns, what can stay on another machine; some as processes side by side."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from lmcells.errors import InputError
from lmcells.evaluation.reproduce import Step, Steps, Workspace, execute
from lmcells.evaluation.reproduce.protocol import MissingSource, Source
from lmcells.evaluation.reproduce.steps import Digests


class Work:
    """Steps that write a file each, and a list of those that ran."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ran: list[str] = []
        self.said: list[str] = []
        self.workspace = Workspace(folder / "out")

    def step(self, name: str, **given: Any) -> Step:
        path = self.workspace.folder / name.replace("/", "_")

        def run(_: Any) -> None:
            if given.get("settings", {}).get("fails"):
                raise InputError("it cannot be.")
            self.ran.append(name)
            path.write_text("made")

        return Step(name=name, outputs=(path,), run=run, **given)

    def steps(self, *, epochs: int = 1, score: str = "f1", fails: bool = False) -> Steps:
        settings = {"training": {"epochs": epochs}, "fails": fails}
        return Steps(
            [
                self.step("corpus/main"),
                self.step("train/a-0", needs=("corpus/main",), settings=settings),
                self.step("train/b-0", needs=("corpus/main",)),
                self.step("evaluate/d/a-0", needs=("train/a-0",), settings={"score": score}),
                self.step("evaluate/d/b-0", needs=("train/b-0",), settings={"score": score}),
                self.step("report", wants=("evaluate/d/a-0", "evaluate/d/b-0")),
            ],
            self.workspace,
        )

    def go(self, *patterns: str, **changes: Any) -> bool:
        self.ran.clear()
        self.said.clear()
        steps = self.steps(**changes)
        return execute(steps, steps.matching(patterns), say=self.said.append)


@pytest.fixture
def work(tmp_path: Path) -> Work:
    return Work(tmp_path)


def states(steps: Steps) -> dict[str, str]:
    return {step.name: steps.state(step.name)[0] for step in steps}


def test_all_steps_are_done_once(work: Work) -> None:
    assert work.go()
    assert work.ran == [step.name for step in work.steps()]
    assert [line.partition(" in ")[0] for line in work.said] == [f"{name}: done" for name in work.ran]
    work.go()
    assert work.ran == work.said == []
    assert set(states(work.steps()).values()) == {"done"}


def test_a_changed_setting_concerns_what_depends_on_it_and_nothing_else(work: Work) -> None:
    work.go()
    assert work.steps(epochs=2).state("train/a-0") == ("to do", "changed: training.epochs")
    work.go(epochs=2)
    assert work.ran == ["train/a-0", "evaluate/d/a-0", "report"]
    work.go(epochs=2, score="nll")
    assert work.ran == ["evaluate/d/a-0", "evaluate/d/b-0", "report"]
    work.go(score="nll")  # back again: it is not remembered
    assert work.ran == ["train/a-0", "evaluate/d/a-0", "report"]


def test_a_changed_source_concerns_what_reads_it(work: Work) -> None:
    file = work.folder / "notes"
    file.write_text("one")
    given = {"sources": {"notes": Source("notes", work.folder)}}

    def ran() -> list[str]:
        work.ran.clear()
        steps = Steps([work.step("a", **given), work.step("b")], work.workspace)
        execute(steps, list(steps))
        return list(work.ran)

    assert ran() == ["a", "b"]
    file.write_text("two!")
    assert ran() == ["a"]


def test_patterns_choose_steps_and_those_that_lack_something_wait(work: Work) -> None:
    work.go("train/a-*")
    assert work.ran == []
    assert work.said == ["train/a-0: waits: for corpus/main"]
    work.go("corpus", "train")
    assert work.ran == ["corpus/main", "train/a-0", "train/b-0"]
    with pytest.raises(InputError, match=r"'trian' matches no step; there are: corpus, train, .*Nearest"):
        work.go("trian")


def test_a_failure_stops_only_what_needs_it_and_the_report_is_of_the_rest(work: Work) -> None:
    work.go(fails=True)
    assert work.said[1] == "train/a-0: it cannot be."
    assert work.said[-1] == "evaluate/d/a-0: waits: for train/a-0"
    assert work.ran == ["corpus/main", "train/b-0", "evaluate/d/b-0", "report"]
    work.go()
    assert work.ran == ["train/a-0", "evaluate/d/a-0", "report"]


def test_what_stays_on_another_machine_is_done_when_all_that_needs_it_is_here(work: Work) -> None:
    work.go()
    out = work.workspace.folder
    (out / "train_a-0").unlink()
    assert states(work.steps())["train/a-0"] == "done elsewhere"
    work.go()
    assert work.ran == []
    (out / "evaluate_d_a-0").unlink()
    assert states(work.steps())["train/a-0"] == "to do"
    work.go()
    assert work.ran == ["train/a-0", "evaluate/d/a-0"]


def test_a_record_that_was_cut_off_counts_for_nothing(work: Work) -> None:
    work.go()
    work.workspace.record("train/b-0").write_text('{"step": "tr')
    work.go()
    assert work.ran == ["train/b-0"]


def test_what_a_stopped_step_goes_on_from_is_kept_until_its_settings_change(work: Work) -> None:
    kept = work.folder / "checkpoints"

    def begun(**settings: Any) -> bool:
        kept.mkdir(exist_ok=True)
        step = work.step("a", settings={**settings, "fails": True}, resumes=(kept,))
        steps = Steps([step], work.workspace)
        execute(steps, list(steps), say=work.said.append)
        return kept.exists()

    assert [begun(epochs=1), begun(epochs=1), begun(epochs=2)] == [False, True, False]
    assert [line for line in work.said if "again" in line] == ["a: begins again, changed: epochs"]
    steps = Steps([work.step("a", settings={"epochs": 2, "fails": True})], work.workspace)
    assert steps.state("a") == ("to do", "it was begun, and did not end")


def test_a_run_that_shared_the_machine_before_it_was_stopped_has_not_run_alone(work: Work) -> None:
    kept = work.folder / "checkpoints"

    def alone(*, stopped: bool = False, epochs: int = 1) -> bool:
        settings = {"epochs": epochs}
        steps = Steps([work.step("a", settings=settings, resumes=(kept,))], work.workspace)
        steps.begin(steps.by_name["a"], beside=["b"] if stopped else [])
        kept.mkdir(exist_ok=True)
        if not stopped:
            steps.finish("a", seconds=1.0)
        return bool(json.loads(work.workspace.record("a").read_text())["alone"])

    assert [alone(stopped=True), alone(), alone(epochs=2)] == [False, False, True]


def test_a_missing_file_stops_one_step_and_the_others_wait_for_that(work: Work) -> None:
    absent = {"notes": Source("absent", work.folder)}
    first, second = work.step("a", sources=absent), work.step("b", needs=("a",))
    steps = Steps([first, second], work.workspace)
    assert steps.state("a")[0] == "cannot run"
    assert steps.state("b") == ("waits", "for a")


def processes(folder: Path, **code: str) -> Steps:
    """Steps that run Python code, each of which makes the file of its name."""
    begin = "import pathlib, signal, sys, time; path = pathlib.Path({!r})\n"
    steps = [
        Step(name=name, outputs=(path,), command=[sys.executable, "-c", begin.format(str(path)) + each])
        for name, each in code.items()
        for path in [folder / name]
    ]
    return Steps(steps, Workspace(folder / "out"))


def test_jobs_run_side_by_side(tmp_path: Path) -> None:
    """Each waits for the other's file: one after the other they would never end."""
    meet = "path.touch()\nwhile not (path.parent / '{}').exists(): time.sleep(0.01)"
    steps = processes(tmp_path, a=meet.format("b"), b=meet.format("a"))
    assert execute(steps, list(steps), jobs=2)
    assert set(states(steps).values()) == {"done"}


def test_a_process_does_not_run_alone_beside_a_step_of_the_parent(tmp_path: Path) -> None:
    wait = "while not (path.parent / 'b').exists(): time.sleep(0.01)\npath.touch()"
    here = Step(name="b", outputs=(tmp_path / "b",), run=lambda _: (tmp_path / "b").touch())
    steps = Steps([*processes(tmp_path, a=wait), here], Workspace(tmp_path / "out"))
    execute(steps, list(steps), jobs=2)
    assert set(states(steps).values()) == {"done"}
    assert not json.loads(steps.workspace.record("a").read_text())["alone"]


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("print('lmcells train: corpus does not exist.'); sys.exit(2)", "corpus does not exist."),
        ("sys.exit(3)", "it ended with code 3."),
    ],
)
def test_a_process_that_fails_is_told_by_its_last_line_or_its_code(
    tmp_path: Path, code: str, why: str
) -> None:
    said: list[str] = []
    steps = processes(tmp_path, a=code)
    execute(steps, list(steps), say=said.append)
    assert said == [f"a: {why} (log: {tmp_path / 'out' / 'logs' / 'a.log'})"]


def test_termination_waits_until_the_children_have_ended(tmp_path: Path) -> None:
    code = (
        "def stop(*_): time.sleep(0.3); path.with_name('checkpoint').touch(); sys.exit(143)\n"
        "signal.signal(signal.SIGTERM, stop); path.with_name('ready').touch()\n"
        "while True: time.sleep(0.01)"
    )
    steps = processes(tmp_path, a=code)
    sent: list[bool] = []

    def terminate_when_ready(_: str) -> None:
        if (tmp_path / "ready").exists() and not sent:
            sent.append(True)
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        execute(steps, list(steps), show_progress=terminate_when_ready)
    assert (tmp_path / "checkpoint").exists()
    assert signal.getsignal(signal.SIGTERM) == before
    assert steps.state("a")[0] == "to do"


def test_a_path_is_relative_to_the_file_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    assert Source("notes.txt", tmp_path).path() == tmp_path / "notes.txt"
    assert Source(str(tmp_path / "notes.txt"), Path("elsewhere")).path() == tmp_path / "notes.txt"


def test_a_variable_that_is_not_set_says_how_to_get_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MIMIC_NOTES", raising=False)
    mimic = Source("${MIMIC_NOTES}", tmp_path, {"MIMIC_NOTES": "Get it from PhysioNet."})
    with pytest.raises(MissingSource, match=r"MIMIC_NOTES is not set.*PhysioNet.*export MIMIC_NOTES=PATH"):
        mimic.path()
    monkeypatch.setenv("MIMIC_NOTES", str(tmp_path / "absent"))
    with pytest.raises(MissingSource, match=r"does not exist.*Get it from PhysioNet"):
        mimic.path()
    monkeypatch.setenv("MIMIC_NOTES", str(tmp_path))
    assert mimic.path() == tmp_path


def test_training_text_that_is_missing_leads_to_its_description(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = Source("${LMCELLS_DATA}/train", tmp_path)
    monkeypatch.delenv("LMCELLS_DATA", raising=False)
    with pytest.raises(MissingSource, match=r"LMCELLS_DATA is not set.*docs/data\.md.*Give --data FOLDER"):
        text.path()
    monkeypatch.setenv("LMCELLS_DATA", str(tmp_path))
    with pytest.raises(MissingSource, match=r"does not exist \(looked for .*/train\).*docs/data\.md"):
        text.path()


def test_a_package_is_found_or_said_to_be_missing(tmp_path: Path) -> None:
    assert Source("package:lmcells/training/presets", tmp_path).path().joinpath("paper.toml").is_file()
    missing = Source("package:no_such_package/model", tmp_path, {"package:no_such_package/model": "Run: pip"})
    with pytest.raises(MissingSource, match=r"no_such_package is not installed. Run: pip"):
        missing.path()
    with pytest.raises(MissingSource, match="has no 'nothing'"):
        Source("package:lmcells/nothing", tmp_path).path()


def test_a_digest_follows_names_and_contents_and_outlives_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a").write_text("one")

    def digest(remembered: str = "d.json") -> str:
        return Digests(tmp_path / remembered).of(Source("notes", tmp_path))

    first = digest()
    os.utime(folder / "a", ns=(1, 1))
    assert digest() == first
    (folder / "a").write_text("two")
    second = digest()
    (folder / "a").rename(folder / "b")
    assert len({first, second, digest("other.json")}) == 3
    third = digest("third.json")
    (folder / "b").unlink()
    folder.rmdir()
    assert digest("third.json") == third
    with pytest.raises(MissingSource):
        digest("never.json")
    (tmp_path / "damaged.json").write_text('{"notes": ')
    (tmp_path / "notes").write_text("one")
    assert digest("damaged.json") == digest("fresh.json")
