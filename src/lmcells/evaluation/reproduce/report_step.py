"""The steps that report: a folder a dataset, then the overview of all of them."""

from lmcells.evaluation.report import Study, require_matplotlib, write_report
from lmcells.evaluation.reproduce.gathering import Gathered, curve_of, gather, middle, model_results
from lmcells.evaluation.reproduce.overview import DatasetOverview, write_overview
from lmcells.evaluation.reproduce.protocol import DatasetPlan, Protocol
from lmcells.evaluation.reproduce.published import published_figures
from lmcells.evaluation.reproduce.steps import Step, Steps, all_exist
from lmcells.evaluation.reproduce.workspace import Workspace


def report_step(
    dataset: DatasetPlan, protocol: Protocol, workspace: Workspace, *, wants: tuple[str, ...]
) -> Step:
    """Write the report of one dataset from whatever was evaluated on it."""
    folder = workspace.report / dataset.name

    def run(steps: Steps) -> None:
        require_matplotlib()
        gathered = gather(dataset.name, protocol, workspace, is_done=lambda name: steps.state(name).is_done)
        curves = {name: curve_of(runs, protocol.curve or "") for name, runs in gathered.runs.items()}
        write_report(
            folder,
            model_results(gathered, dataset=dataset.name, workspace=workspace),
            dataset_name=dataset.title or dataset.name,
            seeds={name: [each.metrics for each in runs] for name, runs in gathered.runs.items()},
            training_curves=curves if dataset.name == protocol.curve else {},
            ablation=gathered.ablation,
            study=Study(
                selection=gathered.selection,
                published=published_figures(protocol.models) if protocol.report.published else (),
                remarks=_remarks(gathered),
            ),
            n_rounds=protocol.report.rounds,
            n_resamples=protocol.report.resamples,
        )

    return Step(
        name=f"report/{dataset.name}",
        needs=(f"dataset/{dataset.name}",),
        wants=wants,
        settings={
            "title": dataset.title,
            "rounds": protocol.report.rounds,
            "resamples": protocol.report.resamples,
            "published": protocol.report.published,
            "models": [model.name for model in protocol.models],
        },
        is_there=all_exist(folder / "report.html"),
        run=run,
    )


def _remarks(gathered: Gathered) -> tuple[str, ...]:
    """What one must know to read the page."""
    several = {name: middle(runs).seed for name, runs in gathered.runs.items() if len(runs) > 1}
    remarks = []
    if several:
        shown = ", ".join(f"{name} {seed}" for name, seed in several.items())
        remarks.append(
            "Of a model that was trained several times, “Pre-training runs” has all runs; everything else is about the "
            f"run with the median macro F1 (seeds: {shown})."
        )
    if gathered.missing:
        remarks.append(f"Not evaluated yet, and not on this page: {', '.join(gathered.missing)}.")
    return tuple(remarks)


def overview_step(protocol: Protocol, workspace: Workspace, *, wants: tuple[str, ...]) -> Step:
    """Write results.md, for a README, and a page that leads to the reports."""
    datasets = [dataset for dataset in protocol.datasets if dataset.evaluated]

    def run(steps: Steps) -> None:
        def is_done(name: str) -> bool:
            return steps.state(name).is_done

        found = [
            DatasetOverview(
                each.name, each.title or each.name, gather(each.name, protocol, workspace, is_done=is_done)
            )
            for each in datasets
        ]
        published = published_figures(protocol.models) if protocol.report.published else ()
        write_overview(
            workspace.report,
            [each for each in found if each.gathered.runs],
            published=published,
            oracles=[model.name for model in protocol.models if model.kind == "dominant"],
        )

    return Step(
        name="report/overview",
        wants=wants,
        settings={
            "published": protocol.report.published,
            "models": [model.name for model in protocol.models],
            "titles": {dataset.name: dataset.title for dataset in datasets},
        },
        is_there=all_exist(workspace.report / "results.md", workspace.report / "index.html"),
        run=run,
    )
