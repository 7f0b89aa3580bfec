"""Steps: what is done, what a change concerns, and what can be left on another machine."""

from pathlib import Path
from typing import Any

import pytest

from lmcells.errors import InputError
from lmcells.evaluation.reproduce import Outcome, Step, Steps, Watcher, Workspace, execute
from lmcells.evaluation.reproduce.protocol import Source


class Work:
    """Steps that write a file each, and a list of those that ran."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.ran = folder, []  # type: ignore[var-annotated]
        self.workspace = Workspace(folder / "out")

    def step(self, name: str, **given: Any) -> Step:
        path = self.workspace.folder / name.replace("/", "_")

        def run(_: Steps) -> None:
            if given.get("settings", {}).get("fails"):
                raise InputError("it cannot be.")
            self.ran.append(name)
            path.write_text("made")

        return Step(name=name, is_there=path.exists, run=run, **given)

    def steps(self, *, epochs: int = 1, score: str = "f1", fails: bool = False) -> Steps:
        return Steps(
            [
                self.step("corpus/main"),
                self.step(
                    "train/a-0",
                    needs=("corpus/main",),
                    settings={"training": {"epochs": epochs}, "fails": fails},
                ),
                self.step("train/b-0", needs=("corpus/main",)),
                self.step("evaluate/d/a-0", needs=("train/a-0",), settings={"score": score}),
                self.step("evaluate/d/b-0", needs=("train/b-0",), settings={"score": score}),
                self.step("report", wants=("evaluate/d/a-0", "evaluate/d/b-0")),
            ],
            self.workspace,
        )

    def go(self, *patterns: str, minutes: float | None = None, **changes: Any) -> Outcome:
        self.ran.clear()
        steps = self.steps(**changes)
        return execute(steps, steps.matching(patterns), minutes=minutes)


@pytest.fixture
def work(tmp_path: Path) -> Work:
    return Work(tmp_path)


def states(steps: Steps) -> dict[str, str]:
    return {step.name: steps.state(step.name).state for step in steps}


def test_all_steps_are_done_once(work: Work) -> None:
    assert work.go().failed == {}
    assert work.ran == [step.name for step in work.steps()]
    work.go()
    assert work.ran == []
    assert set(states(work.steps()).values()) == {"done"}


def test_a_changed_setting_concerns_what_depends_on_it_and_nothing_else(work: Work) -> None:
    work.go()
    assert work.steps(epochs=2).state("train/a-0").why == "changed: training.epochs"
    work.go(epochs=2)
    assert work.ran == ["train/a-0", "evaluate/d/a-0", "report"]
    work.go(epochs=2, score="nll")
    assert work.ran == ["evaluate/d/a-0", "evaluate/d/b-0", "report"]
    work.go(score="nll")  # back again: it is not remembered
    assert work.ran == ["train/a-0", "evaluate/d/a-0", "report"]


def test_a_changed_source_concerns_what_reads_it(work: Work) -> None:
    file = work.folder / "notes"
    file.write_text("one")
    given = {"sources": {"notes": Source("notes", work.folder, {})}}

    def ran() -> list[str]:
        work.ran.clear()
        steps = Steps([work.step("a", **given), work.step("b")], work.workspace)
        execute(steps, list(steps))
        return list(work.ran)

    assert ran() == ["a", "b"]
    file.write_text("two!")
    assert ran() == ["a"]


def test_patterns_choose_steps_and_those_that_lack_something_wait(work: Work) -> None:
    outcome = work.go("train/a-*")
    assert work.ran == []
    assert outcome.waiting == {"train/a-0": "for corpus/main"}
    work.go("corpus", "train")
    assert work.ran == ["corpus/main", "train/a-0", "train/b-0"]
    with pytest.raises(
        InputError, match=r"'trian' matches no step; there are: corpus, train, evaluate, report. Nearest"
    ):
        work.go("trian")


def test_a_failure_stops_only_what_needs_it_and_the_report_is_of_the_rest(work: Work) -> None:
    told: dict[str, str] = {}
    steps = work.steps(fails=True)
    outcome = execute(
        steps, list(steps), watcher=Watcher(on_failure=lambda name, why: told.update({name: why}))
    )
    assert outcome.failed == {"train/a-0": "it cannot be."}
    assert outcome.waiting == {"evaluate/d/a-0": "for train/a-0"}
    assert told["evaluate/d/a-0"] == "waits: for train/a-0"
    assert work.ran == ["corpus/main", "train/b-0", "evaluate/d/b-0", "report"]
    work.go()
    assert work.ran == ["train/a-0", "evaluate/d/a-0", "report"]


def test_no_step_is_begun_when_time_is_up(work: Work) -> None:
    outcome = work.go(minutes=1e-9)
    assert outcome.out_of_time
    assert work.ran == []


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
