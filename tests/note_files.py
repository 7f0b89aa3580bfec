"""Writers of tiny note files with the quirks of real ones. All in them is invented, ids and dates as well."""

import csv
import gzip as gzip_module
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

NOTEEVENTS_COLUMNS = (
    *("ROW_ID", "SUBJECT_ID", "HADM_ID", "CHARTDATE", "CHARTTIME", "STORETIME"),
    *("CATEGORY", "DESCRIPTION", "CGID", "ISERROR", "TEXT"),
)
MIMIC4_COLUMNS = (
    *("note_id", "subject_id", "hadm_id", "note_type", "note_seq", "charttime", "storetime", "text"),
)
Row = Mapping[str, Any]

DISCHARGE_SUMMARY = """Admission Date:  [**2190-1-2**]       Discharge Date:  [**2190-1-9**]

Service: MEDICINE

Chief Complaint:
"I can't breathe"

History of Present Illness:
Mr. [**Known lastname 1234**] is a 71 y.o. man with DM, RA and s/p CVA who came in with SOB, r/o PE.
CTA showed a PE in the RLL; he said "no pain", and was given heparin.

Medications on Admission:
1. Metformin 500 mg p.o. b.i.d.
2. Methotrexate 15 mg weekly, for RA.

Discharge Disposition:
Home With Service, PT twice weekly
"""

# Quoted line breaks, commas and quotes; a trailing space in CATEGORY; a withdrawn row; one without HADM_ID.
NOTEEVENTS_ROWS: tuple[Row, ...] = (
    {
        "ROW_ID": 901,
        "SUBJECT_ID": 9900001,
        "HADM_ID": 9800001,
        "CHARTDATE": "2190-01-09",
        "CATEGORY": "Discharge summary",
        "DESCRIPTION": "Report",
        "TEXT": DISCHARGE_SUMMARY,
    },
    {
        "ROW_ID": 902,
        "SUBJECT_ID": 9900002,
        "HADM_ID": 9800002,
        "CHARTDATE": "2187-11-03",
        "CHARTTIME": "2187-11-03 04:10:00",
        "STORETIME": "2187-11-03 04:22:00",
        "CATEGORY": "Nursing ",
        "DESCRIPTION": "Nursing Progress Note",
        "CGID": 97001,
        "TEXT": "NEURO: Alert, MS unchanged.\nGI: BM x1, tolerating p.o.\n",
    },
    {
        "ROW_ID": 903,
        "SUBJECT_ID": 9900002,
        "HADM_ID": 9800002,
        "CHARTDATE": "2187-11-03",
        "CATEGORY": "Nursing ",
        "DESCRIPTION": "Nursing Progress Note",
        "CGID": 97001,
        "ISERROR": 1,
        "TEXT": "This one was charted on the wrong patient.",
    },
    {
        "ROW_ID": 904,
        "SUBJECT_ID": 9900003,
        "CHARTDATE": "2193-05-20",
        "CATEGORY": "Radiology",
        "DESCRIPTION": "CHEST (PA & LAT)",
        "TEXT": "[**2193-5-20**] 9:14 AM\n CHEST (PA & LAT)   Clip # [**Clip Number (Radiology) 4321**]\n"
        "______\n FINAL REPORT\n INDICATION:  Fever, r/o PNA.\n\n IMPRESSION:  No PNA, no CHF.\n",
    },
)

MIMIC4_ROWS: tuple[Row, ...] = (
    {
        "note_id": "99000001-DS-7",
        "subject_id": 99000001,
        "hadm_id": 98000001,
        "note_type": "DS",
        "note_seq": 7,
        "charttime": "2195-02-11 00:00:00",
        "storetime": "2195-02-12 08:01:00",
        "text": " \nName:  ___                     Unit No:   ___\n \nHistory of Present Illness:\n"
        'Pt with COPD on home O2, said "worse, much worse", with BM x3 daily.\n',
    },
    {
        "note_id": "99000001-RR-8",
        "subject_id": 99000001,
        "note_type": "RR",
        "note_seq": 8,
        "charttime": "2195-02-10 19:44:00",
        "text": "EXAMINATION:  US of the RUQ\n\nFINDINGS:\nNo CA seen.\n",
    },
)

DOCUMENTS: tuple[Row, ...] = (
    {"id": "n1", "category": "Clinic", "text": "HPI: Pt with MS, in PT twice weekly."},
    {"id": "other/n2", "text": "He is s/p MI.\r\nMeds p.o. b.i.d.\r\n"},
    {
        "id": 3,
        "category": "Path",
        "sections": [
            {"header": "", "text": "Received fresh."},
            {"header": None, "text": "Labelled A."},
            {"header": "Gross Description:", "text": "A 2 cm mass.\nCA suspected."},
            {"header": "final  diagnosis", "text": "Ductal CA."},
        ],
    },
)


def write_noteevents(path: Path, rows: Iterable[Row] | None = None, *, gzip: bool = False) -> Path:
    """Write MIMIC-III's NOTEEVENTS.csv: header and texts quoted, numbers and absent values bare."""

    def field(value: Any) -> str:
        if isinstance(value, str):
            return '"' + value.replace('"', '""') + '"'
        return "" if value is None else str(value)

    written = NOTEEVENTS_ROWS if rows is None else rows
    table = [NOTEEVENTS_COLUMNS, *([row.get(column) for column in NOTEEVENTS_COLUMNS] for row in written)]
    lines = "".join(",".join(map(field, row)) + "\n" for row in table)
    return write_bytes(path, lines.encode(), gzip=gzip)


def write_mimic4(path: Path, rows: Iterable[Row] | None = None, *, gzip: bool = False) -> Path:
    """Write MIMIC-IV-Note's discharge.csv or radiology.csv: only what needs quotes has them."""
    written = MIMIC4_ROWS if rows is None else rows
    return write_csv(path, written, columns=MIMIC4_COLUMNS, quoting=csv.QUOTE_MINIMAL, gzip=gzip)


def write_csv(
    path: Path,
    rows: Iterable[Row],
    *,
    columns: Sequence[str] = ("id", "text"),
    delimiter: str = ",",
    newline: str = "\n",
    quoting: Literal[0, 1] = csv.QUOTE_ALL,
    gzip: bool = False,
) -> Path:
    """Write rows under a header. A value that is None or not there becomes an empty field."""
    table = io.StringIO(newline="")
    writer = csv.writer(table, delimiter=delimiter, lineterminator=newline, quoting=quoting)
    writer.writerow(columns)
    writer.writerows([row.get(column) for column in columns] for row in rows)
    return write_bytes(path, table.getvalue().encode(), gzip=gzip)


def write_jsonl(path: Path, documents: Iterable[Any] | None = None, *, gzip: bool = False) -> Path:
    """Write a document a line; both shapes, with text and with sections, when none are given."""
    written = DOCUMENTS if documents is None else documents
    lines = "".join(json.dumps(document, ensure_ascii=False) + "\n" for document in written)
    return write_bytes(path, lines.encode(), gzip=gzip)


def write_parquet(path: Path, columns: Mapping[str, Any], *, row_group_size: int | None = None) -> Path:
    """Write columns, given as lists or Arrow arrays; needs pyarrow."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(dict(columns)), path, row_group_size=row_group_size)
    return path


def write_text_folder(folder: Path, texts: Mapping[str, str]) -> Path:
    """Write text files, named by their path inside the folder."""
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, text.encode(), gzip=name.endswith(".gz"))
    return folder


def write_bytes(path: Path, content: bytes, *, gzip: bool = False) -> Path:
    """Write bytes as they are, or compressed."""
    path.write_bytes(gzip_module.compress(content) if gzip else content)
    return path
