"""Steps as processes: side by side, told when they fail, and given time to end."""

import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from lmcells.evaluation.reproduce import Step, Steps, Watcher, Workspace, execute


def process_step(name: str, folder: Path, code: str) -> Step:
    """A step that runs Python code, which makes the file of its name."""
    path = folder / name

    def command(_: str) -> Sequence[str]:
        return [
            sys.executable,
            "-c",
            f"import pathlib, sys, time; path = pathlib.Path({str(path)!r})\n{code}",
        ]

    return Step(name=name, is_there=path.exists, command=command, in_own_process=True)


def test_jobs_run_side_by_side(tmp_path: Path) -> None:
    """Each waits for the other's file: one after the other they would never end."""
    meet = "path.touch()\nwhile not (path.parent / '{}').exists(): time.sleep(0.01)"
    steps = Steps(
        [process_step("a", tmp_path, meet.format("b")), process_step("b", tmp_path, meet.format("a"))],
        Workspace(tmp_path / "out"),
    )
    assert sorted(execute(steps, list(steps), jobs=2).done) == ["a", "b"]


def test_the_last_line_of_a_process_that_fails_is_told_without_its_command(tmp_path: Path) -> None:
    told: list[tuple[str, str]] = []
    code = "print('lmcells train: corpus does not exist.'); sys.exit(2)"
    steps = Steps([process_step("a", tmp_path, code)], Workspace(tmp_path / "out"))
    watcher = Watcher(on_failure=lambda name, why: told.append((name, why)))
    outcome = execute(steps, list(steps), watcher=watcher)
    log = tmp_path / "out" / "logs" / "a.log"
    assert outcome.failed == {"a": f"corpus does not exist. (log: {log})"}
    assert told == list(outcome.failed.items())


def test_a_process_that_dies_without_a_word_is_told_by_its_code(tmp_path: Path) -> None:
    steps = Steps([process_step("a", tmp_path, "sys.exit(3)")], Workspace(tmp_path / "out"))
    assert execute(steps, list(steps)).failed["a"].startswith("it ended with code 3.")


def test_termination_waits_until_the_children_have_ended(tmp_path: Path) -> None:
    code = (
        "import signal\n"
        "def stop(*_): time.sleep(0.3); path.with_name('checkpoint').touch(); sys.exit(143)\n"
        "signal.signal(signal.SIGTERM, stop); path.with_name('ready').touch()\n"
        "while True: time.sleep(0.01)"
    )
    steps = Steps([process_step("a", tmp_path, code)], Workspace(tmp_path / "out"))

    def terminate_when_ready(_: str) -> None:
        if (tmp_path / "ready").exists() and not sent:
            sent.append(True)
            os.kill(os.getpid(), signal.SIGTERM)

    sent: list[bool] = []
    assert threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        execute(steps, list(steps), watcher=Watcher(on_progress=terminate_when_ready))
    assert (tmp_path / "checkpoint").exists()
    assert signal.getsignal(signal.SIGTERM) == before
    assert steps.state("a").state == "to do"
