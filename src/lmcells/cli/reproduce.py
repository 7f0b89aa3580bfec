"""`lmcells reproduce`: the paper's whole protocol, from notes to report."""

import argparse
import os
import sys
from pathlib import Path

from lmcells.cli.arguments import REPEATED, Command, Options, picked
from lmcells.cli.terminal import ProgressLine, print_json
from lmcells.errors import InputError


def _add_arguments(add: Options) -> None:
    add("--config FILE", "protocol, TOML", required=True, type=Path)
    add("--output REPORT_DIR", "folder for all results", required=True, type=Path)
    add("--data FOLDER", "folder of the training text (the environment variable LMCELLS_DATA)", type=Path)
    add("--steps", "list the steps and their states; run nothing")
    add("--only PATTERN", "only these steps; may be repeated", **REPEATED)
    add("--minutes N", "start no step after N minutes (no limit)", type=float)
    add("--jobs N", "train and evaluate N runs in parallel (1)", type=int, default=1)
    add("--device auto|cpu|cuda", "where to train (auto)", default="auto")
    add("--json", "print the states of the steps as JSON")
    add("--worker", argparse.SUPPRESS)  # one step, for a parent process


def _run(options: argparse.Namespace) -> None:
    # A large part of the package: the command line starts without it.
    from lmcells.evaluation.reproduce import Workspace, execute, load_protocol, plan_steps

    if options.jobs < 1:
        raise InputError(f"--jobs: found {options.jobs}, allowed: 1 or more.")
    if options.minutes is not None and not options.minutes > 0:
        raise InputError(f"--minutes: found {options.minutes:g}, allowed: above 0.")
    config, output = options.config.absolute(), options.output.absolute()
    if options.data is not None:
        os.environ["LMCELLS_DATA"] = str(options.data.absolute())  # for the processes of steps as well
    worker = [sys.executable, "-m", "lmcells", "reproduce", "--config", str(config), "--output", str(output)]
    steps = plan_steps(
        load_protocol(options.config),
        Workspace(output),
        device=options.device,
        worker=lambda step: [*worker, "--worker", "--only", step],
    )
    chosen = steps.matching(options.only)
    if options.worker:
        for step in chosen:
            if step.run is not None:
                step.run(steps.is_done)
        return
    had_time = True
    if not options.steps:
        with ProgressLine() as line:
            given = picked(options, execute, steps=steps, chosen=chosen)
            had_time = execute(**given, say=_say, show_progress=line.update)
    states = [(step.name, *steps.state(step.name)) for step in chosen]
    if options.json:
        print_json([dict(zip(("step", "state", "why"), each, strict=True)) for each in states])
    elif options.steps:
        width = max(len(name) for name, _, _ in states)
        for name, state, why in states:
            print(f"  {name:<{width}}  {state}{f': {why}' if why else ''}")
    n_left = sum(not steps.is_done(step.name) for step in chosen)
    if not had_time:
        print(f"lmcells reproduce: {n_left} steps are left; run it again to continue.", file=sys.stderr)
    elif n_left and not options.steps:
        raise InputError(f"{n_left} of {len(states)} steps are not done, for the reasons above.")


def _say(message: str) -> None:
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""  # over the progress line
    print(f"{clear}{message}", file=sys.stderr, flush=True)


_REPRODUCE = """\
run the paper's whole protocol: corpus, all models, all seeds, report

Run a whole protocol: build the corpus, train every model with every seed, score the models on every dataset, and write
the report. After an interruption, run the command again to continue. If you change a setting, only the steps that
depend on it are repeated.

PATTERN is a step or a group of steps: dataset, corpus, train, train/lmc-*, evaluate, evaluate/DATASET, select,
report.

examples:
  lmcells reproduce --config configs/open.toml --output build/open --data DATA
  lmcells reproduce --config configs/open.toml --output build/open --steps
  lmcells reproduce --config configs/open.toml --output build/open --only train --only evaluate --jobs 4"""
COMMANDS = {"reproduce": Command(_REPRODUCE, _add_arguments, _run)}
