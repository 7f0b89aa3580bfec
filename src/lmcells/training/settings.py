"""How a model is trained; `lmcells.model.ModelConfig` says what the model is."""

from dataclasses import dataclass
from typing import Annotated, Literal

from lmcells.errors import ConfigError
from lmcells.settings import Limits, Positive, Rate, Size, check_fields

# Settings that may change when a run is resumed: none of them changes a step.
MAY_CHANGE = ("epochs", "checkpoint_minutes", "evaluate_minutes", "evaluations", "report_steps")


@dataclass(frozen=True, kw_only=True)
class LoopSettings:
    """Settings of every training run, of cell models and of language models."""

    epochs: Size
    batch_size: Size
    learning_rate: Positive  # of Adam
    gradient_clip: float  # maximum gradient norm; 0 is no clipping
    seed: Annotated[int, Limits(below=2**63)] = 0  # random seed
    negative_exponent: float = 0.75  # negatives are drawn from count^this
    precision: Literal["auto", "float32", "bf16"] = "auto"  # auto is bf16 on CUDA and float32 on the CPU
    checkpoint_minutes: float = 10.0  # between checkpoints; 0: only at the end of each epoch or check
    evaluate_minutes: float = 0.0  # between evaluations; 0: only at the end of each epoch or check
    evaluations: Size = 1  # in each epoch, evenly spread; the last at its end
    report_steps: Size = 50  # between two lines of metrics.jsonl

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(LoopSettings):
    """How a cell model is trained on a corpus. The defaults are the preset `paper`."""

    epochs: Size = 5
    batch_size: Size = 1024  # center words per step, of all processes together
    learning_rate: Positive = 1e-3  # of Adam, at the start
    # the share of it left at the end of a linear decay; 1: constant
    final_learning_rate: Annotated[float, Limits(at_most=1)] = 1.0
    gradient_clip: float = 0.0
    initial_share: Rate = 0.0  # when adapting: of the initial weights in the average with the final ones
    metadata: str = "section"  # the kind of metadata that the model conditions on
    uncounted: str = ""  # a note type whose text is trained on but not counted in phrase frequencies

    subsampling: float = 1e-3  # threshold for frequent words; 0 keeps all
    smoothing: float = 1.0  # k of add-k in beta(m | w)

    contrastive_weight: float = 0.0  # between two occurrences of one span, a word or a phrase; 0 is off
    phrase_weight: float = 0.0  # between those occurrences and the span's words; 0 is off
    contrastive_spans: int = 0  # per step; 0: a third of the batch, which keeps a step below twice its cost
    contrastive_max_words: Size = 1  # of a span
    contrastive_temperature: Positive = 0.1
    contrastive_exponent: float = 0.5  # spans are drawn from count^this
    contrastive_min_count: Annotated[int, Limits(at_least=2)] = 4  # of a span that can be drawn
    contrastive_mask_rate: Rate = 0.0  # how often a word around a masked span is masked too
    contrastive_cut_rate: Rate = 0.0  # how often a window around a masked span is cut short
    contrastive_null_rate: Rate = 0.0  # how often the section of a masked span is dropped
    contrastive_reads_all: bool = False  # no subsampling around a masked span, as when notes are expanded

    # auto: our kernels and CUDA graphs on a GPU; on: torch.compile; off: neither
    compile: Literal["auto", "on", "off"] = "auto"
    shards: int = 0  # parts of the corpus that each give an equal part of the batch; 0: one per process
    chunk_tokens: Size = 1 << 29  # tokens of a shard on the device at once; longer shards are streamed

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.metadata, str) or not self.metadata:
            raise ConfigError(f"metadata is {self.metadata!r}; allowed: a kind of metadata of the corpus.")

    @property
    def n_contrastive_spans(self) -> int:
        """Spans of the contrastive loss per step, of all processes together; 0 when it is off."""
        if self.contrastive_weight == 0 and self.phrase_weight == 0:
            return 0
        return self.contrastive_spans or max(2, self.batch_size // 3)
