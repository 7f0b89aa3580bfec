"""The steps that report: a folder for each dataset, then `results.md` and `index.html`, all datasets at a glance."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from lmcells.errors import FormatError
from lmcells.evaluation.dataset import read_dataset
from lmcells.evaluation.evaluate import ModelResult
from lmcells.evaluation.intervals import bootstrap_intervals
from lmcells.evaluation.metrics import Metrics, summarise_seeds
from lmcells.evaluation.predictions import load_predictions
from lmcells.evaluation.report import Findings, Published, Setting, require_matplotlib, write_report
from lmcells.evaluation.report.findings import Means, best_of, templates
from lmcells.evaluation.report.page import published_figures, render
from lmcells.evaluation.reproduce.data_steps import describe_sizes
from lmcells.evaluation.reproduce.protocol import DatasetPlan, Protocol
from lmcells.evaluation.reproduce.steps import ACCOUNT, IsDone, Run, Step, Workspace, leaky_runs, runs_of
from lmcells.files import atomic_write, read_json
from lmcells.notes.readers import ReadReport

RESULT = ".result.json"  # metrics and costs of a run on a dataset, beside its predictions
_METRICS = {"accuracy": "accuracy", "mean_weighted_f1": "weighted F1", "macro_f1": "macro F1", "nll": "NLL"}
_SHOWN_TEST_SETS = ("MIMIC", "CASI")  # of the paper's three; CUIMC is private
_SHARED = ("ablation", "chosen_on", "settings", "published", "oracles")  # by a report and the overview

# Adams et al. 2020, means over five pre-training runs on the paper's own three test sets: NLL, accuracy, weighted F1,
# macro F1. The main table, and for the last three systems what the text says about them; None where it says nothing.
_TEST_SETS = ("MIMIC", "CUIMC", "CASI")
_SYSTEMS: dict[str, tuple[str, tuple[tuple[float | None, ...], ...]]] = {
    "bert": ("BERT", ((1.36, 0.40, 0.40, 0.33), (1.41, 0.37, 0.33, 0.28), (1.23, 0.42, 0.38, 0.23))),
    "elmo": ("ELMo", ((1.33, 0.58, 0.61, 0.53), (1.38, 0.58, 0.60, 0.49), (1.21, 0.55, 0.56, 0.38))),
    "bsg": ("BSG", ((1.28, 0.57, 0.59, 0.52), (9.04, 0.58, 0.58, 0.46), (0.99, 0.64, 0.64, 0.41))),
    "mbsge": ("MBSGE", ((1.07, 0.65, 0.67, 0.59), (6.16, 0.64, 0.64, 0.52), (0.88, 0.70, 0.70, 0.46))),
    "lmc": ("LMC", ((0.81, 0.74, 0.78, 0.69), (0.90, 0.69, 0.68, 0.57), (0.79, 0.71, 0.73, 0.51))),
    "section-mle": (
        "Section Header MLE",
        ((None, 0.85, None, None), (None, 0.46, None, 0.33), (None, 0.48, None, 0.35)),
    ),
    "random": ("random", ((None, 0.27, None, None), (None, 0.26, None, None), (None, 0.31, None, None))),
    "dominant": ("dominant", ((None, 0.42, None, None), (None, 0.47, None, None), (None, 0.78, None, None))),
}

Result = dict[str, Any]  # a run on a dataset, as its RESULT file has it; its metrics are Metrics


def load_result(workspace: Workspace, dataset: str, run: str) -> Result:
    """Read the results that an evaluation stored beside the predictions of a run, and name the run."""
    path = workspace.evaluation(dataset, run, RESULT)
    try:
        saved = read_json(path)
        at_k = {int(k): value for k, value in saved["metrics"]["accuracy_at_k"].items()}
        metrics = Metrics(**{**saved["metrics"], "accuracy_at_k": at_k})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{path} is damaged ({error}). Remove it to evaluate again.") from None

    trained = workspace.record(f"train/{run}")
    # Hours of runs that share the machine mean nothing.
    if trained.is_file() and not read_json(trained).get("alone", True):
        saved |= {"hours_to_peak": None, "curve": []}
    return {**saved, "run": run, "metrics": metrics}


class Evaluated:
    """The runs that were evaluated on a dataset, those that are missing, and further contents of a report."""

    def __init__(
        self, dataset: DatasetPlan, protocol: Protocol, workspace: Workspace, is_done: IsDone
    ) -> None:
        def results(runs: Iterable[Run]) -> list[Result]:
            done = [run.name for run in runs if is_done(f"evaluate/{dataset.name}/{run.name}")]
            return [load_result(workspace, dataset.name, name) for name in done]

        self.dataset, models = dataset, list(protocol.models)
        self.settings: list[Setting] = []  # that were compared, where a selection was made
        self.chosen_on = ""
        if (plan := protocol.selection) is not None and is_done("select"):
            found = read_json(workspace.selection)[dataset.name]
            self.chosen_on = ", ".join(found["chosen_on"])
            compared = {model.name: model for model in protocol.compared()}
            is_elsewhere = dataset.name != plan.dataset
            for name, scores in found["macro_f1"].items():
                here = results(Run(compared[name], seed) for seed in plan.seeds) if is_elsewhere else []
                mean, is_chosen = float(np.mean(scores)), name == found["chosen"]
                self.settings.append(Setting(name, is_chosen, len(scores), mean, means_of(here)))
            chosen = compared[found["chosen"]]
            models += [chosen] if is_elsewhere and chosen not in models else []
        runs = {model.name: results(runs_of(model)) for model in models}
        present = {run["run"] for of_model in runs.values() for run in of_model}
        self.runs = {name: of_model for name, of_model in runs.items() if of_model}
        self.missing = [run.name for model in models for run in runs_of(model) if run.name not in present]
        self.ablation: dict[str, tuple[Means, Means]] = {}
        if (leakage := protocol.leakage) is not None and leakage.dataset == dataset.name:
            clean = {run["seed"]: run for run in runs[leakage.model]}
            leaky = [run for run in results(leaky_runs(protocol)) if run["seed"] in clean]
            if leaky:
                without = means_of([clean[run["seed"]] for run in leaky])
                self.ablation[leakage.model] = (means_of(leaky), without)
        self.chosen_weights = ""  # which of a run's, where not the last
        if protocol.chooses:
            others = " and ".join(each.title or each.name for each in protocol.scored() if each != dataset)
            self.chosen_weights = (
                f"Each trained run is scored with the weights that had the best macro F1 on {others}."
            )
        # The models that have seen the answers: never the best.
        self.oracles = frozenset(model.name for model in protocol.models if model.kind == "dominant")
        # The paper's figures for the kinds of our models, where the protocol wants them: on this test set, or on all.
        self.published = [
            Published(model.name, _SYSTEMS[model.kind][0], test_set, *figures)
            for model in protocol.models
            if protocol.report.published and model.kind in _SYSTEMS
            for test_set, figures in zip(_TEST_SETS, _SYSTEMS[model.kind][1], strict=True)
            if test_set == dataset.published or (dataset.published is None and test_set in _SHOWN_TEST_SETS)
        ]


def best_run(runs: Sequence[Result]) -> Result:
    """Return the run with the highest macro F1, as in the paper's appendix; on a tie the first."""
    return max(runs, key=lambda run: float(run["metrics"].macro_f1))


def mean_hours(runs: Sequence[Result]) -> float | None:
    hours = [run["hours_to_peak"] for run in runs if run["hours_to_peak"] is not None]
    return float(np.mean(hours)) if hours else None


def curve_of(runs: Sequence[Result], dataset: str) -> list[tuple[float, float]]:
    """Return mean hours and accuracy over runs, at each time that all of them were scored."""
    curves = [
        [(float(point["hours"]), float(point["evaluation"][dataset]["accuracy"])) for point in run["curve"]]
        for run in runs
        if run["curve"] and all(dataset in point["evaluation"] for point in run["curve"])
    ]
    points = zip(*curves, strict=False)  # the shortest curve ends it
    return [tuple(np.mean(at_once, axis=0).tolist()) for at_once in points]


def means_of(runs: Sequence[Result]) -> Means:
    """Return each metric averaged over runs on the same examples; empty if there is no run."""
    return {metric: summary["mean"] for metric, summary in _summary_of(runs).items()}


def _summary_of(runs: Sequence[Result]) -> dict[str, dict[str, Any]]:
    return summarise_seeds([run["metrics"] for run in runs])


def report_step(
    dataset: DatasetPlan, protocol: Protocol, workspace: Workspace, *, wants: tuple[str, ...]
) -> Step:
    """Write the report of one dataset from all runs evaluated on it."""
    folder, report = workspace.folder / "report" / dataset.name, protocol.report

    def run(is_done: IsDone) -> None:
        require_matplotlib()
        found = Evaluated(dataset, protocol, workspace, is_done)
        sizes = describe_sizes(read_json(workspace.dataset(dataset.name, ACCOUNT)), dataset)
        curves = {name: curve_of(runs, dataset.name) for name, runs in found.runs.items()}
        findings = Findings(
            _model_results(found, workspace),
            dataset_name=dataset.title or dataset.name,
            runs={name: [each["metrics"] for each in runs] for name, runs in found.runs.items()},
            curves={name: curve for name, curve in curves.items() if curve and dataset in protocol.scored()},
            **{name: getattr(found, name) for name in _SHARED},
            remarks=[f"The test set: {sizes}.", *_remarks(found)],
            n_rounds=report.rounds,
            n_resamples=report.resamples,
        )
        write_report(folder, findings)

    return Step(
        name=f"report/{dataset.name}",
        needs=(f"dataset/{dataset.name}",),
        wants=wants,
        settings={
            "title": dataset.title,
            "rounds": report.rounds,
            "resamples": report.resamples,
            "published": [report.published, dataset.published],
            "models": [model.name for model in protocol.models],
        },
        outputs=(folder / "report.html",),
        run=run,
    )


def _model_results(evaluated: Evaluated, workspace: Workspace) -> list[ModelResult]:
    """Each model by its best run in macro F1; cost is the mean over runs."""
    dataset = evaluated.dataset.name
    examples = {each.id: each for each in read_dataset(workspace.dataset(dataset), report=ReadReport())}
    found = []
    for name, runs in evaluated.runs.items():
        run = best_run(runs)
        predictions = replace(load_predictions(workspace.evaluation(dataset, run["run"])), model=name)
        result = ModelResult(
            model=name,
            predictions=predictions,
            intervals=bootstrap_intervals(predictions),
            hours_to_peak=mean_hours(runs),
            seconds=float(np.mean([run["seconds"] for run in runs])),
            contexts=examples,
            **{key: run[key] for key in ("metrics", "n_parameters", "leakage", "section_mapping")},
        )
        found.append(result)
    return found


def _remarks(evaluated: Evaluated) -> list[str]:
    remarks = [evaluated.chosen_weights] if evaluated.chosen_weights else []
    several = {name: runs for name, runs in evaluated.runs.items() if len(runs) > 1}
    if seeds := ", ".join(f"{name} {best_run(runs)['seed']}" for name, runs in several.items()):
        remarks.append(
            "Of a model that was trained several times, tables and figures show the best run in macro F1, as in the "
            f"paper's appendix (seeds: {seeds}), except where they say that they are means over runs."
        )
    if evaluated.missing:
        remarks.append(f"Not evaluated yet, and not on this page: {', '.join(evaluated.missing)}.")
    return remarks


def overview_step(protocol: Protocol, workspace: Workspace, *, wants: tuple[str, ...]) -> Step:
    """Write results.md, for a README, and index.html, which leads to the reports."""
    datasets, folder = protocol.evaluated(), workspace.folder / "report"

    def run(is_done: IsDone) -> None:
        require_matplotlib()
        environment = templates(autoescape=False)
        environment.filters["short"] = _short
        about, shown = environment.get_template("about.txt"), []
        for dataset in datasets:
            found = Evaluated(dataset, protocol, workspace, is_done)
            if found.runs:
                account = read_json(workspace.dataset(dataset.name, ACCOUNT))
                account = {"steps": (), "sections": {}, **account}
                told = about.render(found=found, account=account, sizes=describe_sizes(account, dataset))
                paper = list(dict.fromkeys(each.dataset for each in found.published))
                names = {"name": dataset.name, "title": dataset.title or dataset.name}
                shown.append({**names, "about": told, "paper": paper, "rows": _rows(found)})
        folder.mkdir(parents=True, exist_ok=True)
        texts = {
            "results.md": environment.get_template("results.md").render(datasets=shown, metrics=_METRICS),
            "index.html": render("index.html", datasets=shown),
        }
        for name, text in texts.items():
            with atomic_write(folder / name) as temporary:
                temporary.write_text(text, encoding="utf-8")

    return Step(
        name="report/overview",
        wants=wants,
        settings={
            "published": protocol.report.published,
            "models": [model.name for model in protocol.models],
            "titles": {dataset.name: [dataset.title, dataset.published] for dataset in datasets},
        },
        outputs=(folder / "results.md", folder / "index.html"),
        run=run,
    )


def _rows(evaluated: Evaluated) -> list[dict[str, Any]]:
    """One row per model; oracles are never the best."""
    summaries = {name: _summary_of(runs) for name, runs in evaluated.runs.items()}
    rivals = [summary for name, summary in summaries.items() if name not in evaluated.oracles]
    best = {metric: best_of(metric, (each[metric]["mean"] for each in rivals)) for metric in _METRICS}
    return [
        {
            "model": f"{name} (oracle)" if name in evaluated.oracles else name,
            "n_runs": len(runs),
            "summaries": (found := summaries[name]),
            "best": {m for m in _METRICS if name not in evaluated.oracles and found[m]["mean"] == best[m]},
            "n_parameters": runs[0]["n_parameters"],
            "hours": mean_hours(runs),
            "paper": published_figures(evaluated.published, name, partial(_short, decimals=2)),
        }
        for name, runs in evaluated.runs.items()
    ]


def _short(value: float, decimals: int = 3) -> str:
    """A share without its leading zero, as in the README."""
    return f"{value:.{decimals}f}".removeprefix("0") if 0 <= value < 1 else f"{value:.{decimals}f}"
