"""How a language model is trained. What it is stands in `LanguageModelConfig`."""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from lmcells.language_model.checks import require_choice, require_integer, require_number

Precision = Literal["auto", "float32", "bf16"]
Decay = Literal["flat", "root"]


@dataclass(frozen=True, kw_only=True)
class LanguageModelSettings:
    """Everything that decides how a language model is trained on a corpus."""

    epochs: int = 40  # at most: training ends when the held-out loss is flat
    batch_size: int = 24576  # words a step, padding included; a multiple of 2^k and 3 * 2^k fills every batch
    window: int = 64  # words that are read together, never across a segment's boundary
    learning_rate: float = 2e-3  # of Adam, reached after the warm-up
    warmup_steps: int = 200
    decay: Decay = (
        "flat"  # flat: halved at each check without improvement; root: falls with the root of the steps
    )
    gradient_clip: float = 1.0  # largest norm of a step's gradient; 0 clips nothing
    seed: int = 0

    full_softmax: int = 16384  # vocabularies up to this size are predicted exactly, larger ones by sampling
    negatives: int = 8192  # words a step that stand for the whole vocabulary
    negative_exponent: float = 0.75  # they are drawn from count^this

    held_out: float = 0.01  # part of the documents that is never trained on
    held_out_words: int = 65536  # at most that many of their words are measured
    check_steps: int = 0  # between two checks of the held-out loss; 0 is at the end of each epoch only
    flat_patience: int = 3  # checks in a row without improvement after which the loss is flat
    flat_tolerance: float = 0.002  # part of the loss by which it must fall to improve

    precision: Precision = "auto"  # auto is bf16 on CUDA and float32 on the CPU
    checkpoint_minutes: float = 10.0  # 0 writes one with each check
    evaluate_minutes: float = 0.0  # between calls of the evaluation hook; 0 is with each check
    report_steps: int = 50  # between two lines of metrics.jsonl

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "window", "warmup_steps", "negatives", "held_out_words"):
            require_integer(self, name, at_least=1)
        for name in ("flat_patience", "report_steps"):
            require_integer(self, name, at_least=1)
        for name in ("full_softmax", "check_steps"):
            require_integer(self, name, at_least=0)
        require_integer(self, "seed", at_least=0, below=2**63)
        require_number(self, "learning_rate", above=0.0)
        require_number(self, "held_out", above=0.0, below=1.0)
        require_number(self, "flat_tolerance", below=1.0)
        for name in ("gradient_clip", "negative_exponent", "checkpoint_minutes", "evaluate_minutes"):
            require_number(self, name)
        require_choice(self, "precision", get_args(Precision))
        require_choice(self, "decay", get_args(Decay))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    def learning_rate_at(self, step: int, *, n_unimproved: int = 0) -> float:
        """The rate of a step, from 1: a straight rise, then as `decay` says.

        `root` is the inverse square root of Vaswani et al. 2017; `flat` halves with every check so far that brought no
        improvement.
        """
        if self.decay == "root":
            return self.learning_rate * min(step / self.warmup_steps, math.sqrt(self.warmup_steps / step))
        return self.learning_rate * min(1.0, step / self.warmup_steps) * 0.5**n_unimproved
