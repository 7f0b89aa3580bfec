"""How a language model is trained. What it is stands in `LanguageModelConfig`."""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from lmcells.language_model.checks import require_choice, require_integer, require_number

Precision = Literal["auto", "float32", "bf16"]


@dataclass(frozen=True, kw_only=True)
class LanguageModelSettings:
    """Everything that decides how a language model is trained on a corpus."""

    epochs: int = 20  # at most: training ends when the held-out loss is flat
    batch_size: int = 8192  # words a step
    window: int = 64  # words that are read together, never across a segment's boundary
    learning_rate: float = (
        1e-3  # of Adam, reached after the warm-up; then it falls with the root of the steps
    )
    warmup_steps: int = 500
    gradient_clip: float = 1.0  # largest norm of a step's gradient; 0 clips nothing
    seed: int = 0

    full_softmax: int = 8192  # vocabularies up to this size are predicted exactly, larger ones by sampling
    negatives: int = 4096  # words a step that stand for the whole vocabulary
    negative_exponent: float = 0.75  # they are drawn from count^this

    held_out: float = 0.01  # part of the segments that is never trained on
    held_out_words: int = 65536  # at most that many of them are measured
    evaluate_steps: int = 0  # between two measurements; 0 is at the end of each epoch only
    patience: int = 2  # measurements in a row without improvement that end the training
    improvement: float = 0.01  # nats a word that count as one

    precision: Precision = "auto"  # auto is bf16 on CUDA and float32 on the CPU
    checkpoint_minutes: float = 10.0  # 0 writes one with each measurement only
    report_steps: int = 50  # between two lines of metrics.jsonl

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "window", "warmup_steps", "negatives", "held_out_words"):
            require_integer(self, name, at_least=1)
        for name in ("patience", "report_steps"):
            require_integer(self, name, at_least=1)
        for name in ("full_softmax", "evaluate_steps"):
            require_integer(self, name, at_least=0)
        require_integer(self, "seed", at_least=0, below=2**63)
        require_number(self, "learning_rate", above=0.0)
        require_number(self, "held_out", above=0.0, below=1.0)
        for name in ("gradient_clip", "negative_exponent", "improvement", "checkpoint_minutes"):
            require_number(self, name)
        require_choice(self, "precision", get_args(Precision))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    def learning_rate_at(self, step: int) -> float:
        """The rate of a step, from 1: a straight rise, then the inverse square root (Vaswani et al. 2017)."""
        return self.learning_rate * min(step / self.warmup_steps, math.sqrt(self.warmup_steps / step))
