"""`lmcells info` on a language model's folder; no torch is needed."""

from typing import Any

from lmcells.cli.terminal import flat_rows, print_table
from lmcells.files import read_tensors
from lmcells.language_model.folder import EMBEDDINGS, LanguageModelFolder
from lmcells.pretrained.folder import TOKENIZER, WEIGHTS

_ENDINGS = {
    "flat": "its held-out loss was flat",
    "epochs": "all epochs were done; its held-out loss could still fall",
}


def summarize_language_model(saved: LanguageModelFolder) -> dict[str, Any]:
    """Plain data about a language model."""
    n_parameters, n_inner = _count_parameters(saved)
    return {
        "model": str(saved.folder),
        "kind": "elmo",
        "n_parameters": n_parameters,
        "n_parameters_without_embeddings": n_inner,
        "config": {
            "language_model": saved.config.to_dict(),
            "corpus": saved.corpus,
            "training": saved.training,
            "files": saved.files,
            "written_by": saved.written_by,
        },
    }


def describe_language_model(saved: LanguageModelFolder) -> None:
    """Print kind, sizes, settings, what the model was trained on and how, and why its training ended."""
    n_parameters, n_inner = _count_parameters(saved)
    training = saved.training
    print_table(
        [
            ("kind", f"elmo ({saved.config.kind})"),
            ("written by", f"lmcells {saved.written_by}"),
            ("words", saved.config.n_words),
            ("parameters", n_parameters),
            ("parameters without embeddings", n_inner),
            ("bytes", sum(file["bytes"] for file in saved.files.values())),
            ("tokenizer rules", TOKENIZER),
            ("seed", str(training.get("seed"))),
            ("training ended when", _ENDINGS.get(str(training.get("ended_by")), "not recorded")),
        ],
        title=str(saved.folder),
    )
    print_table(flat_rows(saved.config.to_dict()), title="settings")
    print_table(flat_rows(training), title="training")
    print_table(flat_rows(saved.corpus), title="corpus")


def _count_parameters(saved: LanguageModelFolder) -> tuple[int, int]:
    """All trained values, and those outside the tables."""
    arrays = read_tensors(saved.folder / WEIGHTS)
    in_tables = sum(array.size for name, array in arrays.items() if name in EMBEDDINGS)
    total = sum(array.size for array in arrays.values())
    return total, total - in_tables
