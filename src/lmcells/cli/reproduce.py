"""`lmcells reproduce`: the whole protocol of the paper, from notes to report."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lmcells.cli.terminal import ProgressLine, print_json
from lmcells.errors import InputError

if TYPE_CHECKING:  # a large part of the package; the command line starts without it
    from lmcells.evaluation.reproduce import State, Watcher

SUMMARY = "run the paper's whole protocol: corpus, all models, all seeds, report"
DESCRIPTION = """\
Do everything that a protocol asks for: build the corpus, train every model with every seed, score them on every
dataset, and write the report. Each step is done once: run the command again after a stop of any kind, and it goes on;
change a setting, and what depends on it is done again.

PATTERN is a step or a group of them: dataset, corpus, train, train/lmc-*, evaluate, evaluate/DATASET, select,
report."""
EXAMPLE = """\
examples:
  lmcells reproduce --config configs/open.toml --output build/open
  lmcells reproduce --config configs/open.toml --output build/open --steps
  lmcells reproduce --config configs/open.toml --output build/open --only train --only evaluate --jobs 4 --minutes 9"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("--config", required=True, type=Path, metavar="FILE", help="protocol, TOML")
    parser.add_argument(
        "--output", required=True, type=Path, metavar="REPORT_DIR", help="folder for all of it"
    )
    parser.add_argument(
        "--steps", action="store_true", help="list the steps and where each stands; run nothing"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="PATTERN", help="only these steps; may be repeated"
    )
    parser.add_argument(
        "--minutes", type=float, metavar="N", help="begin no step after N minutes (as long as it takes)"
    )
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="train and evaluate N runs side by side (1)"
    )
    parser.add_argument("--device", default="auto", metavar="auto|cpu|cuda", help="where to train (auto)")
    parser.add_argument("--json", action="store_true", help="print where each step stands as JSON")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)  # one step, for a parent


def run(options: argparse.Namespace) -> None:
    """Do the steps that are not done, one line each, and say what is left."""
    from lmcells.evaluation.reproduce import (
        Outcome,
        Workspace,
        execute,
        load_protocol,
        plan_steps,
        worker_command,
    )

    if options.jobs < 1:
        raise InputError(f"--jobs: found {options.jobs}, allowed: 1 or more.")
    if options.minutes is not None and not options.minutes > 0:
        raise InputError(f"--minutes: found {options.minutes:g}, allowed: above 0.")
    protocol = load_protocol(options.config, checks_models=not options.worker)
    steps = plan_steps(protocol, Workspace(options.output.absolute()), device=options.device)
    chosen = steps.matching(options.only)
    if options.worker:
        for step in chosen:
            assert step.run is not None
            step.run(steps)
        return
    outcome = Outcome()
    if not options.steps:
        with ProgressLine() as line:
            outcome = execute(
                steps,
                chosen,
                jobs=options.jobs,
                minutes=options.minutes,
                worker=lambda step: worker_command(
                    options.config.absolute(), options.output.absolute(), step
                ),
                watcher=_watcher(line),
            )
    states = [steps.state(step.name) for step in chosen]
    if options.json:
        print_json([{"step": each.name, "state": each.state, "why": each.why} for each in states])
    elif options.steps:
        _print_states(states)
    n_left = sum(not state.is_done for state in states)
    if outcome.out_of_time:
        print(f"lmcells reproduce: {n_left} steps are left; run the command again to go on.", file=sys.stderr)
    elif n_left and not options.steps:
        raise InputError(f"{n_left} of {len(states)} steps are not done, for the reasons above.")


def _watcher(line: ProgressLine) -> "Watcher":
    from lmcells.evaluation.reproduce import Watcher

    def say(message: str) -> None:
        clear = "\r\x1b[K" if sys.stderr.isatty() else ""  # over the live line
        print(f"{clear}{message}", file=sys.stderr, flush=True)

    return Watcher(
        on_start=line.update,
        on_done=lambda name, seconds: say(f"{name}: done in {seconds:,.1f} s"),
        on_failure=lambda name, why: say(f"{name}: {why}"),
        on_progress=line.update,
    )


def _print_states(states: "Sequence[State]") -> None:
    width = max(len(state.name) for state in states)
    for state in states:
        print(f"  {state.name:<{width}}  {state.state}{f': {state.why}' if state.why else ''}")
