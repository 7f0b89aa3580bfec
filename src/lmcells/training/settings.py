"""How a model is trained. What the model is stands in `lmcells.model.ModelConfig`."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from lmcells.errors import ConfigError, nearest

Precision = Literal["auto", "float32", "bf16"]
Compile = Literal["auto", "on", "off"]

# Settings that may change when a run is resumed: none of them changes a step.
MAY_CHANGE = ("epochs", "checkpoint_minutes", "evaluate_minutes", "report_steps")


def require_integers(settings: object, *names: str, at_least: int, below: int | None = None) -> None:
    """Refuse settings that are not integers in this range."""
    for name in names:
        value = getattr(settings, name)
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        if not is_integer or value < at_least or (below is not None and value >= below):
            limit = "" if below is None else f" and below {below}"
            raise ConfigError(f"{name} is {value!r}; allowed: an integer of at least {at_least}{limit}.")


def require_numbers(
    settings: object,
    *names: str,
    above: float | None = None,
    below: float = math.inf,
    at_most: float = math.inf,
) -> None:
    """Refuse settings that are not finite numbers of at least 0, or not in this range."""
    for name in names:
        value = getattr(settings, name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if (
            not is_number
            or value < 0
            or (above is not None and value <= above)
            or value >= below
            or value > at_most
        ):
            limits = ["of at least 0" if above is None else f"above {above:g}"]
            limits += [f"below {below:g}"] if below < math.inf else []
            limits += [f"at most {at_most:g}"] if at_most < math.inf else []
            raise ConfigError(f"{name} is {value!r}; allowed: a finite number {' and '.join(limits)}.")


def require_choice(settings: object, name: str, choices: Sequence[str]) -> None:
    """Refuse a setting that is none of the choices."""
    value = getattr(settings, name)
    if value not in choices:
        near = nearest(str(value), choices)
        raise ConfigError(f"{name} is {value!r}; allowed: {', '.join(choices)}.{near}")


@dataclass(frozen=True, kw_only=True)
class LoopSettings:
    """What every training run has, of cell models and of language models."""

    epochs: int
    batch_size: int
    learning_rate: float  # of Adam
    gradient_clip: float  # largest norm of a step's gradient; 0 clips nothing
    seed: int = 0  # random seed
    negative_exponent: float = 0.75  # negatives are drawn from count^this
    precision: Precision = "auto"  # of the networks; auto is bf16 on CUDA and float32 on the CPU
    checkpoint_minutes: float = (
        10.0  # between checkpoints; 0 writes one at the end of each epoch or check only
    )
    evaluate_minutes: float = 0.0  # between evaluations; 0 evaluates at the end of each epoch or check only
    report_steps: int = 50  # between two lines of metrics.jsonl

    def __post_init__(self) -> None:
        require_integers(self, "epochs", "batch_size", "report_steps", at_least=1)
        require_integers(self, "seed", at_least=0, below=2**63)
        require_numbers(self, "learning_rate", above=0.0)
        require_numbers(self, "gradient_clip", "negative_exponent", "checkpoint_minutes", "evaluate_minutes")
        require_choice(self, "precision", get_args(Precision))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(LoopSettings):
    """How a cell model is trained on a corpus. The defaults are the preset `paper`."""

    epochs: int = 5
    batch_size: int = 1024  # center words a step, of all processes together
    learning_rate: float = 1e-3  # of Adam, at the start
    final_learning_rate: float = (
        1.0  # share of it that is left at the end, after a linear decay; 1 is constant
    )
    gradient_clip: float = 0.0
    metadata: str = "section"  # the kind of metadata that the model conditions on

    subsampling: float = 1e-3  # threshold for frequent words; 0 keeps all
    smoothing: float = 1.0  # k of add-k in beta(m | w)

    contrastive_weight: float = 0.0  # between two occurrences of one span, a word or a phrase; 0 is off
    phrase_weight: float = 0.0  # between those occurrences and the span's words; 0 is off
    contrastive_spans: int = 0  # a step; 0 is a third of the batch, which keeps a step below twice its cost
    contrastive_max_words: int = 1  # of a span
    contrastive_temperature: float = 0.1
    contrastive_exponent: float = 0.5  # spans are drawn from count^this
    contrastive_min_count: int = 4  # of a span that can be drawn
    contrastive_mask_rate: float = 0.0  # how often a word around a masked span is masked too
    contrastive_null_rate: float = 0.0  # how often the section of a masked span is withheld
    contrastive_reads_all: bool = False  # no subsampling around a masked span, as when notes are expanded

    compile: Compile = "auto"  # auto: our kernels and CUDA graphs on a GPU; on: torch.compile; off: neither
    shards: int = 0  # parts of the corpus that each give an equal part of the batch; 0 is one a process
    chunk_tokens: int = 1 << 29  # tokens of a shard on the device at once; longer shards are streamed

    def __post_init__(self) -> None:
        super().__post_init__()
        require_integers(self, "chunk_tokens", "contrastive_max_words", at_least=1)
        require_integers(self, "shards", "contrastive_spans", at_least=0)
        require_integers(self, "contrastive_min_count", at_least=2)
        require_numbers(self, "final_learning_rate", at_most=1.0)
        require_numbers(self, "contrastive_temperature", above=0.0)
        require_numbers(
            self, "subsampling", "smoothing", "contrastive_weight", "phrase_weight", "contrastive_exponent"
        )
        require_numbers(self, "contrastive_mask_rate", "contrastive_null_rate", below=1.0)
        require_choice(self, "compile", get_args(Compile))
        if not isinstance(self.contrastive_reads_all, bool):
            raise ConfigError(
                f"contrastive_reads_all is {self.contrastive_reads_all!r}; allowed: true, false."
            )
        if not isinstance(self.metadata, str) or not self.metadata:
            raise ConfigError(f"metadata is {self.metadata!r}; allowed: a kind of metadata of the corpus.")

    @property
    def n_contrastive_spans(self) -> int:
        """Spans of the contrastive loss in a step of all processes together; 0 when it is off."""
        if self.contrastive_weight == 0 and self.phrase_weight == 0:
            return 0
        return self.contrastive_spans or max(2, self.batch_size // 3)
