"""A protocol -> its steps, in an order in which they can be done."""

import os
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from lmcells.errors import ConfigError
from lmcells.evaluation.reproduce.data_steps import corpus_step, dataset_step
from lmcells.evaluation.reproduce.protocol import DatasetPlan, Protocol
from lmcells.evaluation.reproduce.report_steps import overview_step, report_step
from lmcells.evaluation.reproduce.run_steps import evaluate_step, select_step, train_step
from lmcells.evaluation.reproduce.steps import Step, Steps
from lmcells.evaluation.reproduce.workspace import LEAKY, MAIN, Run, Workspace, leaky_runs, runs_of


def plan_steps(protocol: Protocol, workspace: Workspace, *, device: str = "auto") -> Steps:
    """Lay out the whole protocol; nothing is run."""
    return Steps(_steps(protocol, workspace, device=device), workspace)


def _steps(protocol: Protocol, workspace: Workspace, *, device: str) -> Iterator[Step]:
    for dataset in _in_order(protocol):
        yield dataset_step(dataset, protocol, workspace)
    for which in (MAIN, LEAKY) if protocol.leakage is not None else (MAIN,):
        yield corpus_step(which, protocol, workspace, workers=_cores())
    scored: dict[str, list[str]] = {dataset.name: [] for dataset in protocol.evaluated()}
    for run in _runs(protocol):
        if run.is_trained:
            yield train_step(run, protocol, workspace, device=device)
        for name in [protocol.leakage.dataset] if run.corpus == LEAKY and protocol.leakage else scored:
            step = evaluate_step(run, protocol.dataset(name), protocol, workspace)
            scored[name].append(step.name)
            yield step
    if protocol.selection is not None:
        yield select_step(protocol.selection, protocol, workspace)
    select = ("select",) if protocol.selection is not None else ()
    for name, wants in scored.items():
        yield report_step(protocol.dataset(name), protocol, workspace, wants=(*wants, *select))
    every = tuple(name for wants in scored.values() for name in wants)
    yield overview_step(protocol, workspace, wants=(*every, *select))


def _runs(protocol: Protocol) -> list[Run]:
    """All runs: the first seed of every model before the second of any, so that an early stop leaves a full table."""
    models = (*protocol.models, *protocol.compared()[1:])
    runs = [*(run for model in models for run in runs_of(model)), *leaky_runs(protocol)]
    return sorted(runs, key=lambda run: run.model.seeds.index(run.seed) if run.seed is not None else 0)


def _in_order(protocol: Protocol) -> list[DatasetPlan]:
    """Datasets after those whose senses or short forms they use."""
    uses = {
        each.name: {protocol.dataset_of_inventory(each), each.match_short_forms} for each in protocol.datasets
    }
    try:
        names = list(
            TopologicalSorter({name: others - {None} for name, others in uses.items()}).static_order()
        )
    except CycleError as error:
        raise ConfigError(f"datasets use each other: {' -> '.join(error.args[1])}.") from None
    return [protocol.dataset(name) for name in names if name is not None]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
