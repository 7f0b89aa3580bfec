"""How a model is trained. What the model is stands in `lmcells.model.ModelConfig`."""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from lmcells.errors import ConfigError, nearest

Precision = Literal["auto", "float32", "bf16"]
Compile = Literal["auto", "on", "off"]

# What may differ between a run and its continuation: nothing of it changes a step.
MAY_CHANGE = ("epochs", "checkpoint_minutes", "evaluate_minutes", "report_steps")


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Everything that decides how a model is trained on a corpus. The defaults are the preset `paper`."""

    epochs: int = 5
    batch_size: int = 1024  # center words a step, of all processes together
    learning_rate: float = 1e-3  # of Adam, at the start
    final_learning_rate: float = (
        1.0  # what is left of it at the end, falling along a straight line; 1 is constant
    )
    gradient_clip: float = 0.0  # largest norm of a step's gradient; 0 clips nothing
    seed: int = 0
    metadata: str = "section"  # the corpus' kind of metadata that the model conditions on

    negative_exponent: float = 0.75  # negatives are drawn from count^this
    subsampling: float = 1e-3  # threshold for frequent words; 0 keeps all
    smoothing: float = 1.0  # k of add-k in beta(m | w)

    contrastive_weight: float = 0.0  # between two places of one unit, a word or a phrase; 0 leaves it out
    phrase_weight: float = 0.0  # between those places and the unit's words; 0 leaves it out
    contrastive_spans: int = 0  # a step; 0 is a third of the batch, which keeps a step below twice its cost
    contrastive_max_words: int = 1  # of a unit
    contrastive_temperature: float = 0.1
    contrastive_exponent: float = 0.5  # units are drawn from count^this
    contrastive_min_count: int = 4  # of a unit that can be drawn
    contrastive_mask_rate: float = 0.0  # how often a word next to a gap is hidden too
    contrastive_null_rate: float = 0.0  # how often the section of a gap is withheld
    contrastive_reads_all: bool = (
        False  # around a gap no frequent word is dropped, as when notes are expanded
    )

    precision: Precision = "auto"  # of the networks; auto is bf16 on CUDA and float32 on the CPU
    compile: Compile = "auto"  # torch.compile; auto is on for CUDA
    shards: int = 0  # parts of the corpus that each give an equal part of the batch; 0 is one a process
    chunk_tokens: int = (
        1 << 29
    )  # tokens of a shard on the device at once, the text around gaps aside; longer shards are streamed
    checkpoint_minutes: float = 10.0  # 0 writes one at the end of each epoch only
    evaluate_minutes: float = 0.0  # between calls of the evaluation hook; 0 is at the end of each epoch only
    report_steps: int = 50  # between two lines of metrics.jsonl

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "report_steps", "chunk_tokens"):
            self._require_integer(name, at_least=1)
        for name in ("seed", "shards", "contrastive_spans"):
            self._require_integer(name, at_least=0)
        self._require_integer("contrastive_max_words", at_least=1)
        self._require_integer("contrastive_min_count", at_least=2)
        if self.seed >= 2**63:
            raise ConfigError(f"seed is {self.seed}; allowed: an integer from 0 to 2^63 - 1.")
        if not 0 <= self.final_learning_rate <= 1:
            raise ConfigError(
                f"final_learning_rate is {self.final_learning_rate!r}; allowed: a share from 0 to 1."
            )
        for name in ("learning_rate", "contrastive_temperature"):
            self._require_number(name, above=0.0)
        for name in ("gradient_clip", "negative_exponent", "subsampling", "smoothing", "contrastive_weight"):
            self._require_number(name)
        for name in ("phrase_weight", "contrastive_exponent", "checkpoint_minutes", "evaluate_minutes"):
            self._require_number(name)
        for name in ("contrastive_mask_rate", "contrastive_null_rate"):
            self._require_number(name)
            if getattr(self, name) >= 1:
                raise ConfigError(f"{name} is {getattr(self, name)!r}; allowed: a rate from 0 to below 1.")
        if not isinstance(self.contrastive_reads_all, bool):
            raise ConfigError(
                f"contrastive_reads_all is {self.contrastive_reads_all!r}; allowed: true, false."
            )
        self._require_choice("precision", get_args(Precision))
        self._require_choice("compile", get_args(Compile))
        if not isinstance(self.metadata, str) or not self.metadata:
            raise ConfigError(f"metadata is {self.metadata!r}; allowed: a kind of metadata of the corpus.")

    @property
    def n_contrastive_spans(self) -> int:
        """Units of the agreement term in a step of all processes together; 0 when it is off."""
        if self.contrastive_weight == 0 and self.phrase_weight == 0:
            return 0
        return self.contrastive_spans or max(2, self.batch_size // 3)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    def _require_integer(self, name: str, *, at_least: int) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
            raise ConfigError(f"{name} is {value!r}; allowed: an integer of at least {at_least}.")

    def _require_number(self, name: str, *, above: float | None = None) -> None:
        value = getattr(self, name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not is_number or value < 0 or (above is not None and value <= above):
            allowed = "of at least 0" if above is None else f"above {above:g}"
            raise ConfigError(f"{name} is {value!r}; allowed: a finite number {allowed}.")

    def _require_choice(self, name: str, choices: tuple[str, ...]) -> None:
        value = getattr(self, name)
        if value not in choices:
            raise ConfigError(
                f"{name} is {value!r}; allowed: {', '.join(choices)}.{nearest(str(value), choices)}"
            )
