"""Predictions on disk: `NAME.json` with the names, `NAME.npz` with the numbers, no pickle."""

import zipfile
from dataclasses import asdict
from pathlib import Path

import numpy as np

from lmcells.errors import FormatError
from lmcells.evaluation.predictions import Exclusion, Predictions
from lmcells.files import atomic_write, read_json, write_json

_VERSION = 1


def save_predictions(path: Path, predictions: Predictions) -> None:
    """Write `path`.npz and then `path`.json."""
    with atomic_write(_beside(path, ".npz")) as temporary, temporary.open("wb") as file:
        np.savez_compressed(
            file,
            short_form_index=predictions.short_form_index,
            truth=predictions.truth,
            log_probabilities=predictions.log_probabilities[predictions.is_candidate],  # without the padding
        )
    names = {
        "version": _VERSION,
        "model": predictions.model,
        "ids": predictions.ids,
        "note_ids": predictions.note_ids,
        "short_forms": predictions.short_forms,
        "candidates": predictions.candidates,
        "excluded": [asdict(exclusion) for exclusion in predictions.excluded],
    }
    write_json(_beside(path, ".json"), names)


def load_predictions(path: Path) -> Predictions:
    """Read what `save_predictions` wrote."""
    json_path, npz_path = _beside(path, ".json"), _beside(path, ".npz")
    try:
        names = read_json(json_path)
        version = names["version"]
        if version != _VERSION:
            raise FormatError(
                f"{json_path} has version {version}, this program reads {_VERSION}. Evaluate again."
            )
        with npz_path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            short_form_index = arrays["short_form_index"].astype(np.int64)
            truth = arrays["truth"].astype(np.int64)
            flat = arrays["log_probabilities"].astype(np.float64)
        candidates = tuple(map(tuple, names["candidates"]))
        widths = np.array([len(of_one) for of_one in candidates], dtype=np.int64)
        is_candidate = np.arange(widths.max(initial=0)) < widths[short_form_index, None]
        log_probabilities = np.full(is_candidate.shape, -np.inf)
        log_probabilities[is_candidate] = flat
        return Predictions(
            model=names["model"],
            ids=tuple(names["ids"]),
            note_ids=tuple(names["note_ids"]),
            short_forms=tuple(names["short_forms"]),
            candidates=candidates,
            short_form_index=short_form_index,
            truth=truth,
            log_probabilities=log_probabilities,
            excluded=tuple(Exclusion(**exclusion) for exclusion in names["excluded"]),
        )
    except FileNotFoundError as error:
        raise FormatError(
            f"{error.filename} does not exist; predictions are a .json and a .npz file."
        ) from None
    except (KeyError, TypeError, ValueError, IndexError, EOFError, zipfile.BadZipFile) as error:
        raise FormatError(f"{json_path} and {npz_path.name} are not a pair of predictions: {error}") from None


def _beside(path: Path, suffix: str) -> Path:
    """A model's name may hold dots, so the suffix is added and never replaced."""
    return path.with_name(path.name + suffix)
