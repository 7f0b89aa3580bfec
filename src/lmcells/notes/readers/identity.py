"""A note's id is `source/id`: the same note has the same id wherever it is read."""

from pathlib import Path

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".txt": "text",
    ".text": "text",
}


def split_suffix(path: Path) -> tuple[str, str]:
    """Split a file's name into stem and known suffix: `notes.v2.csv.gz` -> ("notes.v2", ".csv")."""
    name = path.name[:-3] if path.name.lower().endswith(".gz") else path.name
    stem, dot, ending = name.rpartition(".")
    suffix = dot + ending.lower()
    return (stem, suffix) if stem and suffix in SUFFIXES else (name, "")


def row_id(source: str, found: str | None, n_row: int) -> str:
    """Id of a row: as found when it is `source/id` already; the row's number when it has none."""
    if found is None:
        return f"{source}/{n_row}"
    if not found:  # An empty cell of an id column must not take the number that is another row's id.
        return f"{source}/row-{n_row}"
    return found if "/" in found else f"{source}/{found}"


def text_file_id(path: Path, *, folder: Path | None) -> str:
    """Id of a text file: its path, from the name of the given folder on, or of its own when given alone."""
    root = path.parent if folder is None else folder
    source = root.name if root.name not in ("", "..") else root.resolve().name
    return "/".join((source or "notes", *path.relative_to(root).parent.parts, split_suffix(path)[0]))
