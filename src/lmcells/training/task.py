"""`Task`: what `lmcells.training.loop` trains (model, batches, loss), and how far the run has got."""

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
from torch.optim.adam import adam

from lmcells.corpus import Corpus
from lmcells.errors import ConfigError
from lmcells.training.distributed import World
from lmcells.training.kernels import TABLE, WEIGHTS, beside, join
from lmcells.training.metrics import Progress, peak_memory, require_finite
from lmcells.training.settings import MAY_CHANGE, LoopSettings

if TYPE_CHECKING:
    from lmcells.training.kernels.adam import TableAdam

BETAS, EPSILON = (0.9, 0.999), 1e-8  # of Adam

M = TypeVar("M", bound=nn.Module)
B = TypeVar("B")


class Clock:
    """Seconds of training, over all resumptions, without pauses."""

    def __init__(self) -> None:
        self.seconds_before = 0.0  # before the run was resumed
        self.start()

    def start(self) -> None:
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        return self.seconds_before + time.monotonic() - self._started

    @contextmanager
    def paused(self) -> Iterator[None]:
        began = time.monotonic()
        yield
        self._started += time.monotonic() - began


class Adam:
    """Adam (Kingma and Ba 2015), one fused pass over all parameters, in a form that a CUDA graph can hold.

    `torch.optim.Adam` takes the same steps, but imports torch.compile, which takes as long as importing torch.
    """

    def __init__(self, module: nn.Module, *, learning_rate: float, device: torch.device) -> None:
        self.learning_rate = torch.tensor(learning_rate, device=device)
        self.state: dict[nn.Parameter, dict[str, Tensor]] = {}  # of each parameter that had a gradient
        self._parameters = list(module.parameters())

    def state_of(self, parameter: nn.Parameter) -> dict[str, Tensor]:
        """A parameter's state, zero before its first step."""
        if parameter not in self.state:
            step = torch.zeros((), device=parameter.device)
            averages = {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
            self.state[parameter] = {"step": step, **averages}
        return self.state[parameter]

    @torch.no_grad()
    def step(self, *, but: Collection[nn.Parameter] = ()) -> None:
        """Descend along the gradients of all parameters `but` some."""
        gradients = {
            each: each.grad for each in self._parameters if each.grad is not None and each not in but
        }
        states = [self.state_of(each) for each in gradients]
        adam(
            [*gradients],
            [*gradients.values()],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            fused=True,
            capturable=self.learning_rate.is_cuda,
            amsgrad=False,
            beta1=BETAS[0],
            beta2=BETAS[1],
            lr=self.learning_rate,
            weight_decay=0.0,
            eps=EPSILON,
            maximize=False,
        )


def descend(
    module: nn.Module, optimizer: Adam, *, tables: "TableAdam | None" = None, max_norm: float = 0.0
) -> Tensor:
    """Take a step of Adam, without waiting for the device; `tables` ends the step it has begun.

    Gradients are scaled down to a joint norm of at most `max_norm` (0: no limit). Returns the norm before that.
    """
    apart = set(tables.parameters) if tables else set()
    rate = optimizer.learning_rate
    # Without a limit, nothing but a report reads the norm, and `tables` computes that of its own gradients.
    normed = [each for each in module.parameters() if max_norm > 0 or each not in apart]
    with nullcontext() if max_norm > 0 else beside(WEIGHTS, rate):
        norm = get_total_norm([each.grad for each in normed if each.grad is not None])
    if max_norm > 0:
        clip_grads_with_norm_(normed, max_norm, norm)
    with beside(TABLE, rate) if tables else nullcontext():
        optimizer.step(but=apart)
    norms = tables.end() if tables else []
    if tables:
        join(TABLE, rate)
    if max_norm == 0:
        join(WEIGHTS, norm)
        if norms:
            norm = torch.linalg.vector_norm(torch.cat([*norms, norm.view(1)]))
    return norm


class Task(ABC, Generic[M, B]):
    """A model with its optimizer, the batches of an epoch, and a training step.

    `epoch` and `step_in_epoch`, from 0, are those of the next step; `step` and `n_examples` count what has been done.
    """

    unit: ClassVar[str]  # what the metrics count: centers or words
    loss_names: ClassVar[tuple[str, ...]]
    saves_at_checks: ClassVar[bool]  # and evaluates; otherwise only at the end and every so many minutes
    steps_per_epoch: int
    examples_per_epoch: int | None = None  # None where the end is not known

    def __init__(
        self, corpus: Corpus, model: M, *, settings: LoopSettings, world: World, identity: Mapping[str, Any]
    ) -> None:
        """`identity` must be the same when the run is resumed, as must the settings, the corpus and the device."""
        self.model, self.settings, self.world = model, settings, world
        device = world.device
        training = {name: value for name, value in asdict(settings).items() if name not in MAY_CHANGE}
        self.identity = {
            **identity,
            "training": training | identity.get("training", {}),
            "corpus": {"fingerprint": corpus.manifest.fingerprint},
            "device": {"type": device.type},
        }
        if settings.precision == "bf16" and device.type == "cpu":
            raise ConfigError("precision is 'bf16'; allowed on the CPU: auto, float32.")
        self.uses_bf16 = settings.precision != "float32" and device.type == "cuda"
        self.optimizer = Adam(model, learning_rate=settings.learning_rate, device=device)
        self.step, self.epoch, self.step_in_epoch, self.n_examples = 0, 0, 0, 0
        self.clock = Clock()
        # Sums since the last report, the gradient norm last, stay on the device: reading them would wait for it.
        self.sums = torch.zeros(len(self.loss_names) + 1, dtype=torch.float64, device=device)
        self._reported = (0, 0, 0.0)  # step, examples and seconds of the last report

    @abstractmethod
    def batches(self) -> Iterator[B]:
        """The batches of this epoch from `step_in_epoch` on."""

    @abstractmethod
    def train_on(self, batch: B) -> int:
        """Take one step and add its losses to `sums`; return its number of examples."""

    @property
    @abstractmethod
    def learning_rate(self) -> float:
        """Learning rate of the next step."""

    @abstractmethod
    def mean_losses(self, sums: list[float], *, n_steps: int, n_examples: int) -> dict[str, float | None]:
        """The losses of a report by name, from their sums over all processes."""

    @abstractmethod
    def finish(self, last: Progress | None) -> dict[str, Any]:
        """Choose the weights of the trained model; return what this kind of task adds to the record of the run."""

    @abstractmethod
    def own_state(self) -> dict[str, Tensor]:
        """What a checkpoint keeps besides model, optimizer and dropout; called by every process."""

    @abstractmethod
    def restore_own_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what `own_state` returned."""

    def check(self) -> bool:
        """Called after each step; return whether to report, and perhaps to evaluate and to save a checkpoint."""
        return self.step_in_epoch == 0

    @property
    def held_out_losses(self) -> dict[str, float]:
        """Losses of the last check, for the report."""
        return {}

    @property
    def is_over(self) -> bool:
        """Whether no step is left."""
        return self.epoch >= self.settings.epochs

    @property
    def is_evaluation_point(self) -> bool:
        """Whether the last step completed one of the `evaluations` parts of its epoch."""
        n, done, size = self.settings.evaluations, self.step_in_epoch, self.steps_per_epoch
        return n > 1 and done > 0 and done * n // size > (done - 1) * n // size

    def start(self) -> None:
        """Begin to train, or continue from a restored checkpoint."""
        self.model.train()
        self.clock.start()
        self._reported = (self.step, self.n_examples, self.clock.seconds)

    def steps(self) -> Iterator[bool]:
        """Train to the end, one step at a time; yield what `check` returns after each."""
        rate = None
        while not self.is_over:
            for batch in self.batches():
                if rate != self.learning_rate:  # a constant rate needs no launch
                    rate = self.learning_rate
                    self.optimizer.learning_rate.fill_(rate)
                self.n_examples += self.train_on(batch)
                self.step += 1
                self.step_in_epoch += 1
                if self.step_in_epoch == self.steps_per_epoch:
                    self.epoch, self.step_in_epoch = self.epoch + 1, 0
                yield self.check()
                if self.is_over:
                    return

    def apply_gradients(self, tables: "TableAdam | None" = None) -> None:
        """Clip the gradients and take a step of Adam; `tables` has begun its part."""
        self.sums[-1] += descend(
            self.model, self.optimizer, tables=tables, max_norm=self.settings.gradient_clip
        )

    def autocast(self) -> torch.autocast:
        """Run in bf16, where the settings and the device allow it, as a context manager."""
        return torch.autocast(self.world.device.type, torch.bfloat16, enabled=self.uses_bf16)

    def report(self) -> Progress:
        """Read the losses from the device and check that they are finite."""
        *sums, norm = self.world.sum(self.sums).tolist()
        self.sums.zero_()
        now, n_epochs, per_epoch = self.clock.seconds, self.settings.epochs, self.examples_per_epoch
        step, n_examples, seconds = self._reported
        self._reported = (self.step, self.n_examples, now)
        n_steps, n_examples = self.step - step, self.n_examples - n_examples
        per_second = n_examples / max(now - seconds, 1e-9)
        losses = self.mean_losses(sums, n_steps=max(n_steps, 1), n_examples=max(n_examples, 1))
        gradient_norm = norm / (max(n_steps, 1) * self.world.size)  # before clipping
        require_finite({**losses, "gradient norm": gradient_norm}, step=self.step)
        losses |= self.held_out_losses
        metrics = {
            "step": self.step,
            "epoch": self.epoch + 1 if self.step_in_epoch else self.epoch,
            self.unit: self.n_examples,
            f"{self.unit}_per_second": per_second,
            **losses,
            "gradient_norm": gradient_norm,
            "learning_rate": self.learning_rate,  # of the next step
            "seconds": now,
            "peak_memory": peak_memory(self.world.device),
        }
        there = {name: loss for name, loss in losses.items() if loss is not None}
        of_steps = "" if per_epoch is None else f"/{n_epochs * self.steps_per_epoch:,}"
        parts = [f"epoch {metrics['epoch']}/{n_epochs}", f"step {self.step:,}{of_steps}"]
        parts.append(f"{per_second:,.0f} {self.unit}/s")
        parts += [f"{name.replace('_', ' ')} {loss:.3f}" for name, loss in there.items()]
        seconds_left = None
        if per_epoch is not None:
            seconds_left = (n_epochs * per_epoch - self.n_examples) / per_second
            left = round(seconds_left)
            parts.append(f"{left // 3600}:{left // 60 % 60:02d}:{left % 60:02d} left")
        parts.append(f"{metrics['peak_memory'] / 1e9:.1f} GB")
        return Progress(metrics, there, ", ".join(parts), seconds_left)

    def announcement(self) -> str:
        """What is about to run, to be shown before the first step, which may take long on a CPU."""
        device, n_threads = self.world.device.type, torch.get_num_threads()
        where = "a GPU" if device == "cuda" else f"the CPU with {n_threads} thread{'s' * (n_threads > 1)}"
        of_steps = "" if self.examples_per_epoch is None else f" of {self.steps_per_epoch:,} steps"
        size = f"{self.settings.batch_size:,} {self.unit} each"
        return f"training on {where}: {self.settings.epochs} epochs{of_steps}, {size}"
