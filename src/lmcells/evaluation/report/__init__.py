"""Reports: results as a folder to read and to cite.

    report.html      everything, in one page
    tables/*.csv     the numbers, unrounded
    tables/*.tex     the paper's tables: main, seeds (worst, mean and best of runs), acronyms, cost, ablation, selection
    figures/*.svg    and *.pdf

Only `report.html` quotes notes.
"""

import base64
from importlib import import_module
from pathlib import Path

from lmcells.errors import MissingExtra
from lmcells.evaluation.report.findings import Findings, Published, Setting
from lmcells.evaluation.report.latex import latex_tables
from lmcells.evaluation.report.page import report_page
from lmcells.evaluation.report.tables import write_csv_tables
from lmcells.files import atomic_write, explain_unwritable

__all__ = ["Findings", "Published", "Setting", "require_matplotlib", "write_report"]

_NOT_ALWAYS = (
    *("tables/seeds.tex", "tables/ablation.tex", "tables/selection.tex"),
    *("figures/training_time.svg", "figures/training_time.pdf"),
)


def require_matplotlib() -> None:
    """Refuse early, before hours of evaluation, if the extra `report` is not installed."""
    for module, package in {"matplotlib.figure": "matplotlib", "jinja2": "Jinja2"}.items():
        try:
            import_module(module)
        except ModuleNotFoundError:
            raise MissingExtra(package, extra="report", purpose="Writing a report") from None


def write_report(folder: Path, findings: Findings) -> None:
    """Write the report of all models on one dataset; an existing report is replaced."""
    require_matplotlib()
    from lmcells.evaluation.report.figures import draw_all
    from lmcells.figure_style import save

    with explain_unwritable(f"report {folder}"):
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
