"""Files of notes -> a stream of `Note`: MIMIC, CSV, TSV, JSON lines, Parquet and text, plain or gzip.

    report = ReadReport()
    for note in read_notes(Path("NOTEEVENTS.csv.gz"), report=report):
        ...
    report.n_read, report.skipped, report.warnings

Memory is bounded by the longest note. Rows that cannot be read are counted by reason.
"""

from lmcells.notes.readers.read import FORMATS, ListedFile, cut_notes, detect_format, read_listed, read_notes
from lmcells.notes.readers.records import Columns
from lmcells.notes.readers.report import ReadReport

__all__ = [
    "FORMATS", "Columns", "ListedFile", "ReadReport", "cut_notes", "detect_format", "read_listed",
    "read_notes",
]  # fmt: skip
