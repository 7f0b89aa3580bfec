"""Results as a folder to read and to cite.

    report.html      everything, in one page
    tables/*.csv     the numbers, unrounded
    tables/*.tex     the paper's tables: main, seeds (worst, mean and best of runs), acronyms, cost, ablation, selection
    figures/*.svg    and *.pdf

Only `report.html` quotes notes.
"""

import base64
from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from pathlib import Path

from lmcells.errors import InputError, MissingExtra
from lmcells.evaluation.evaluate import ModelResult
from lmcells.evaluation.intervals import Comparison, compare_all
from lmcells.evaluation.metrics import Metrics, summarise_seeds
from lmcells.evaluation.rankers import ORACLE
from lmcells.evaluation.report.findings import Curve, Findings, Means, ModelFindings, Published, Setting
from lmcells.evaluation.report.page import report_page
from lmcells.evaluation.report.tables import latex_tables, write_csv_tables
from lmcells.files import atomic_write

__all__ = ["Published", "Setting", "require_matplotlib", "write_report"]

_NOT_ALWAYS = (
    *("tables/seeds.tex", "tables/ablation.tex", "tables/selection.tex"),
    *("figures/training_time.svg", "figures/training_time.pdf"),
)


def require_matplotlib() -> None:
    """Say what to install where the extra `report` is missing, before hours of evaluation."""
    for module, package in {"matplotlib.figure": "matplotlib", "jinja2": "Jinja2"}.items():
        try:
            import_module(module)
        except ModuleNotFoundError:
            raise MissingExtra(package, extra="report", purpose="Writing a report") from None


def write_report(
    folder: Path,
    results: Sequence[ModelResult],
    *,
    dataset_name: str,
    seeds: Mapping[str, Sequence[Metrics]] = {},
    curves: Mapping[str, Curve] = {},
    ablation: Mapping[str, tuple[Means, Means]] = {},
    chosen_on: str = "",
    settings: Sequence[Setting] = (),
    published: Sequence[Published] = (),
    oracles: Collection[str] = (ORACLE,),
    remarks: Sequence[str] = (),
    n_rounds: int = 5_000,
    n_resamples: int = 2_000,
) -> None:
    """Write the report of all models on one dataset; an existing report is replaced.

    `seeds` are all pre-training runs of a model, `curves` its (hours, accuracy); `ablation` has the metrics with and
    without the test notes in pre-training; `settings` were compared on the dataset `chosen_on`. `n_rounds` and
    `n_resamples` are for the paired tests, which take most of the time. Models that cannot be compared are reported one
    by one all the same.
    """
    require_matplotlib()
    names = [result.model for result in results]
    if not names or len(set(names)) < len(names):
        found = ", ".join(names) or "none"
        raise InputError(f"A report needs models, each with a name of its own; found: {found}.")
    comparisons: list[Comparison] = []
    why_not = "" if len(results) > 1 else "There is only one model."
    if not why_not:
        try:
            everyone = [result.predictions for result in results]
            comparisons = compare_all(everyone, n_rounds=n_rounds, n_resamples=n_resamples)
        except InputError as error:
            why_not = str(error)
    findings = Findings(
        dataset_name=dataset_name,
        models=tuple(map(ModelFindings, results)),
        comparisons=comparisons,
        why_not_compared=why_not,
        seeds={model: summarise_seeds(runs) for model, runs in seeds.items() if runs},
        curves={model: curve for model, curve in curves.items() if curve},
        ablation=ablation,
        chosen_on=chosen_on,
        settings=settings,
        published=published,
        oracles=oracles,
        remarks=remarks,
    )
    try:
        _write(folder, findings)
    except OSError as error:
        raise InputError(f"report {folder} cannot be written: {error.strerror or error}.") from error


def _write(folder: Path, findings: Findings) -> None:
    from lmcells.evaluation.report.figures import draw_all
    from lmcells.figure_style import save

    for name in ("tables", "figures"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name in _NOT_ALWAYS:
        (folder / name).unlink(missing_ok=True)
    write_csv_tables(folder / "tables", findings)
    for name, text in latex_tables(findings).items():
        (folder / "tables" / f"{name}.tex").write_text(text, encoding="utf-8")
    figures = {}
    for name, figure in draw_all(findings).items():
        save(figure, folder / "figures" / name)
        drawn = (folder / "figures" / f"{name}.svg").read_bytes()
        figures[name] = base64.b64encode(drawn).decode()
    with atomic_write(folder / "report.html") as temporary:
        temporary.write_text(report_page(findings, figures), encoding="utf-8", errors="replace")
