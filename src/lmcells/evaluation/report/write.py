"""From results to a folder.

    report.html      everything, in one page
    tables/*.csv     the numbers, unrounded
    tables/*.tex     the paper's tables: main, seeds (worst, mean and best of runs), acronyms, cost, ablation, selection
    figures/*.svg    and *.pdf

Only `report.html` quotes notes.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from lmcells.errors import InputError, MissingExtra
from lmcells.evaluation.evaluate import Leakage, ModelResult
from lmcells.evaluation.metrics import Metrics
from lmcells.evaluation.report import latex
from lmcells.evaluation.report.findings import Curve, Findings, Study, find
from lmcells.evaluation.report.page import page
from lmcells.evaluation.report.tables import all_tables, write_csv
from lmcells.files import atomic_write

_NOT_ALWAYS = (
    *("tables/seeds.tex", "tables/ablation.tex", "tables/selection.tex"),
    *("figures/training_time.svg", "figures/training_time.pdf"),
)


def require_matplotlib() -> None:
    """Say what to install; for those who want to know before hours of evaluation."""
    try:
        import matplotlib.figure  # noqa: F401
    except ModuleNotFoundError:
        raise MissingExtra("matplotlib", extra="report", purpose="Writing a report") from None


def write_report(
    folder: Path,
    results: Sequence[ModelResult],
    *,
    dataset_name: str,
    seeds: Mapping[str, Sequence[Metrics]] | None = None,
    training_curves: Mapping[str, Curve] | None = None,
    leakage: Leakage | None = None,
    ablation: Mapping[str, tuple[Metrics, Metrics]] | None = None,
    study: Study = Study(),  # noqa: B008 - immutable
    n_rounds: int = 5_000,
    n_resamples: int = 2_000,
) -> None:
    """Write the report of all models on one dataset; a report that is there already is replaced.

    `seeds` are all pre-training runs of a model, `training_curves` its (hours, accuracy), `leakage` is for results
    none of which carries its own, and `ablation` has the metrics with and without the test notes in pre-training;
    `study` is what a protocol adds.
    `n_rounds` and `n_resamples` are of the paired tests, which take most of the time.
    """
    require_matplotlib()
    names = [result.model for result in results]
    if not names or len(set(names)) < len(names):
        found = ", ".join(names) or "none"
        raise InputError(f"A report needs models, each with a name of its own; found: {found}.")
    findings = find(
        results,
        dataset_name=dataset_name,
        seeds=seeds or {},
        training_curves=training_curves or {},
        leakage=leakage,
        ablation=ablation or {},
        study=study,
        n_rounds=n_rounds,
        n_resamples=n_resamples,
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
    for table in all_tables(findings):
        write_csv(folder / "tables", table)
    texts = {
        "main": latex.main_table(findings),
        "acronyms": latex.acronym_tables(findings),
        "cost": latex.cost_table(findings),
    }
    if findings.seeds:
        texts["seeds"] = latex.seed_table(findings)
    if findings.ablation:
        texts["ablation"] = latex.ablation_table(findings)
    if findings.study.selection is not None:
        texts["selection"] = latex.selection_table(findings, findings.study.selection)
    for name, text in texts.items():
        (folder / "tables" / f"{name}.tex").write_text(text, encoding="utf-8")
    drawn = {}
    for name, figure in draw_all(findings).items():
        save(figure, folder / "figures" / name)
        drawn[name] = (folder / "figures" / f"{name}.svg").read_text(encoding="utf-8")
    with atomic_write(folder / "report.html") as temporary:
        temporary.write_text(page(findings, drawn), encoding="utf-8", errors="replace")
