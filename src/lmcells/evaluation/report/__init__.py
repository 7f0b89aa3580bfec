"""Results as a folder to read and to cite: one HTML page, tables in CSV and LaTeX, figures as vectors."""

from lmcells.evaluation.report.findings import Published, Setting
from lmcells.evaluation.report.write import require_matplotlib, write_report

__all__ = ["Published", "Setting", "require_matplotlib", "write_report"]
