"""Zero-shot clinical acronym expansion by Latent Meaning Cells.

expander = lmcells.Expander.from_pretrained()   # the shipped model
expander("Pt with CVA in 2019, now in PT.")     # a list of Expansion, each with its Candidates

build_corpus(["notes/"], output="corpus")       # notes -> a corpus
train("corpus", output="model")                 # a corpus -> a model folder
evaluate(["model"], dataset="dev.jsonl", inventory="senses.csv")
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Imported on first use: `import lmcells` is instant, and expanding notes never loads torch.
_MODULE_OF = {
    "Candidate": "expansion.expansion",
    "Expander": "expansion.expander",
    "Expansion": "expansion.expansion",
    "SenseInventory": "expansion.inventory",
    "build_corpus": "corpus.build",
    "evaluate": "evaluation.evaluate",
    "train": "pretrain",
}

__all__ = ["Candidate", "Expander", "Expansion", "SenseInventory", "build_corpus", "evaluate", "train"]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
