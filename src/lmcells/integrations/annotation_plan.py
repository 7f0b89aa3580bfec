"""What a job is about: one that was stopped goes on, and one that is done is known to be, only if this is the same."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import lmcells
from lmcells.expansion.expander import shipped_inventory
from lmcells.files import sha256
from lmcells.integrations.annotation_shard import AnnotationTask
from lmcells.integrations.note_files import NoteFiles
from lmcells.pretrained.shipped import model_folder


def make_plan(source: NoteFiles, output: Path, *, task: AnnotationTask, shard_notes: int) -> dict[str, Any]:
    """Describe the notes and the model by the names, sizes and dates of their files, the senses by their content."""
    settings = task.expander
    folder = model_folder(settings.model or None)
    inventory = None if settings.inventory is None else Path(settings.inventory)
    return {
        "version": lmcells.__version__,
        "paths": [str(path) for path in source.paths],
        "inputs": digest(source.files()),
        "format": source.format,
        "columns": [source.columns.text, source.columns.id],
        "model": digest(file for file in folder.rglob("*") if file.is_file()) if folder.is_dir() else None,
        "inventory": _senses(inventory),
        "sections": settings.sections,
        "threshold": settings.threshold,
        "output": output.suffix.lower(),
        "rows": "annotations" if task.omop is None else f"omop, {task.omop.time or 'dated by the job'}",
        "shard_notes": shard_notes,
    }


def digest(files: Iterable[Path]) -> str:
    """Tell whether any of these files was changed, without reading them."""
    states = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in sorted(files)]
    return hashlib.sha256(repr(states).encode("utf-8", "surrogatepass")).hexdigest()


def _senses(inventory: Path | None) -> str | None:
    if inventory is None:
        return hashlib.sha256(repr(list(shipped_inventory())).encode()).hexdigest()
    return sha256(inventory) if inventory.is_file() else None
