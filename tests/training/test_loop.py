"""Training end to end: it learns planted senses, clips, reports, and guards against NaN."""

import json
import re
import resource
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
import torch

from lmcells.corpus import Corpus
from lmcells.errors import ConfigError, CorpusError, ModelError
from lmcells.model import CellModel, Gaussian, Windows, kl_divergence
from lmcells.training import Progress, TrainingDiverged, TrainingSettings
from lmcells.training.cells import train
from lmcells.training.checkpoint import load_newest, newest_step
from lmcells.training.loop import TrainingResult
from lmcells.training.metrics import TrainingFailed, read_metrics
from lmcells.training.task import Adam, Clock, descend
from training.small_runs import planted_corpus, tiny_config, tiny_settings


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return planted_corpus(tmp_path_factory.mktemp("corpus"))


def run(
    corpus: Corpus,
    output: Path,
    settings: TrainingSettings,
    *,
    kind: str = "lmc",
    embedding_std: float | None = 0.1,
    **options: Any,
) -> TrainingResult[CellModel]:
    config = tiny_config(corpus, kind, dropout=0.0, embedding_std=embedding_std)
    return train(corpus, model_config=config, settings=settings, output=output, device="cpu", **options)


def window_of(corpus: Corpus, words: list[str], *, section: str | None) -> Windows:
    ids = torch.tensor([[corpus.words.index(word) for word in words]])
    metadata = None if section is None else torch.tensor([corpus.metadata_names("section").index(section)])
    return Windows(
        center=torch.tensor([corpus.words.index("pt")]),
        context=ids,
        context_mask=torch.ones_like(ids, dtype=torch.bool),
        metadata=metadata,
    )


@pytest.mark.parametrize("kind", ["lmc", "bsg", "mbsge"])
def test_training_lowers_both_losses(corpus: Corpus, tmp_path: Path, kind: str) -> None:
    reports: list[Progress] = []
    settings = tiny_settings(epochs=4, learning_rate=0.01)
    run(corpus, tmp_path, settings, kind=kind, embedding_std=None, on_progress=reports.append)
    first, last = reports[0].losses, reports[-1].losses
    for name in ("reconstruction", "prior_divergence"):
        assert last[name] < 0.85 * first[name]
    losses = r"reconstruction \d+\.\d{3}, prior divergence \d+\.\d{3}"
    line = rf"epoch 1/4, step 5/\d+, [\d,]+ centers/s, {losses}, 0:\d\d:\d\d left, \d+\.\d GB"
    assert re.fullmatch(line, str(reports[0]))


def test_planted_senses_separate(corpus: Corpus, tmp_path: Path) -> None:
    """The posterior of "pt" is nearer to the words of its own sense, by its context and by its section."""
    model = run(corpus, tmp_path, tiny_settings(epochs=12, learning_rate=0.01, smoothing=0.0)).model
    senses = {
        "THERAPY": ["gait", "walking", "strength", "stairs"],
        "LABS": ["warfarin", "plasma", "bleeding", "bruise"],
    }

    def divergence(posterior: Gaussian, sense: str) -> float:
        words = torch.tensor([corpus.words.index(word) for word in senses[sense]])
        sections = torch.full_like(words, corpus.metadata_names("section").index(sense))
        with torch.no_grad():
            return float(kl_divergence(posterior, model.prior(words, sections)).mean())  # type: ignore[operator]

    for sense, other in (("THERAPY", "LABS"), ("LABS", "THERAPY")):
        with torch.no_grad():
            posterior = model.posterior(window_of(corpus, senses[sense], section=sense)).cell
            by_context = model.posterior(window_of(corpus, senses[sense], section=None)).cell
        assert divergence(posterior, sense) + 1 < divergence(posterior, other)
        assert divergence(by_context, sense) < divergence(by_context, other)


@pytest.mark.parametrize("kind", ["bsg", "mbsge"])
def test_the_contrastive_loss_falls_for_the_baselines_too(corpus: Corpus, tmp_path: Path, kind: str) -> None:
    reports: list[Progress] = []
    settings = tiny_settings(epochs=4, learning_rate=0.01, contrastive_weight=5.0, contrastive_spans=16)
    run(corpus, tmp_path, settings, kind=kind, on_progress=reports.append)
    losses = [report.losses["contrastive"] for report in reports]
    early, late = losses[: len(losses) // 3], losses[-len(losses) // 3 :]
    assert mean(late) < mean(early)


def test_the_same_seed_gives_the_same_model_and_leaves_the_global_one_alone(
    corpus: Corpus, tmp_path: Path
) -> None:
    state = torch.get_rng_state()
    first, again, other = (
        run(corpus, tmp_path / str(turn), tiny_settings(seed=seed)).model.state_dict()
        for turn, seed in enumerate((1, 1, 2))
    )
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)
    assert torch.equal(torch.get_rng_state(), state)


def test_what_evaluating_takes_is_no_time_of_training(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    clock = Clock()
    clock.seconds_before = 7.0
    now += 2
    with clock.paused():
        now += 50
    now += 1
    assert clock.seconds == 7 + 3


def adam_of(layer: torch.nn.Module) -> Adam:
    return Adam(layer, learning_rate=0.1, device=torch.device("cpu"))


def test_clipping_clips() -> None:
    layer = torch.nn.Linear(4, 3)
    (100 * layer(torch.ones(2, 4))).sum().backward()
    before = torch.cat([parameter.grad.flatten() for parameter in layer.parameters()])  # type: ignore[union-attr]
    norm = descend(layer, adam_of(layer), max_norm=0.5)
    after = torch.cat([parameter.grad.flatten() for parameter in layer.parameters()])  # type: ignore[union-attr]
    assert float(norm) == pytest.approx(float(before.norm()))
    assert float(after.norm()) == pytest.approx(0.5, rel=1e-4)
    torch.testing.assert_close(after / after.norm(), before / before.norm())


def test_clipping_of_zero_and_of_small_gradients_changes_nothing() -> None:
    layer = torch.nn.Linear(4, 3)
    layer(torch.ones(2, 4)).sum().backward()
    before = [parameter.grad.clone() for parameter in layer.parameters()]  # type: ignore[union-attr]
    for max_norm in (0.0, 1e6):
        descend(layer, adam_of(layer), max_norm=max_norm)
        for parameter, gradient in zip(layer.parameters(), before, strict=True):
            assert torch.equal(parameter.grad, gradient)  # type: ignore[arg-type]


def test_clipping_reaches_the_step_that_is_taken(corpus: Corpus, tmp_path: Path) -> None:
    """Adam's first moment after one step is 0.1 times the gradient it was given."""
    settings = tiny_settings(batch_size=8192, gradient_clip=0.01)
    reports: list[Progress] = []
    assert run(corpus, tmp_path, settings, on_progress=reports.append).record["steps"] == 1
    found = load_newest(tmp_path)
    assert found is not None
    moments = [
        torch.from_numpy(value).flatten()
        for name, value in found[1].items()
        if name.startswith("optimizer.exp_avg.")
    ]
    assert float(torch.cat(moments).norm()) == pytest.approx(0.1 * 0.01, rel=1e-3)
    assert reports[-1].metrics["gradient_norm"] > 0.01


def test_steps_are_those_of_torch() -> None:
    layers = torch.nn.ModuleList(torch.nn.Linear(5, 4) for _ in range(3))
    of_torch = deepcopy(layers)
    device = torch.device("cpu")
    ours = Adam(layers, learning_rate=0.1, device=device)
    theirs = torch.optim.Adam(of_torch.parameters(), lr=0.1, fused=True)
    values = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))
    for used in ([0, 1], [0, 2], [1, 2], [0, 1, 2]):  # a layer without a gradient stays as it is
        for each in (layers, of_torch):
            each.zero_grad()
            sum(each[index](values).square().sum() for index in used).backward()
        ours.step()
        theirs.step()
        for parameter, expected in zip(layers.parameters(), of_torch.parameters(), strict=True):
            assert torch.equal(parameter, expected)


SMALL = {f"model.{name}": 8 for name in ("cell_dim", "embedding_dim", "hidden_dim", "window")}


def test_training_starts_without_importing_torch_compile(corpus: Corpus, tmp_path: Path) -> None:
    """Importing it takes as long as importing torch."""
    code = (
        "import sys; from lmcells.pretrain import train; "
        f"train({str(corpus.folder)!r}, output={str(tmp_path / 'model')!r}, preset='paper', device='cpu', "
        f"overrides={{'training.epochs': 1, 'training.batch_size': 8192, **{SMALL}}}); "
        "print('torch' in sys.modules, 'torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]


def test_metrics_have_both_losses_under_their_names_and_the_evaluations(
    corpus: Corpus, tmp_path: Path
) -> None:
    hours_seen: list[float] = []

    def evaluate(model: CellModel, hours: float) -> dict[str, float]:
        assert not model.training
        torch.rand(3)  # must not disturb the run
        hours_seen.append(hours)
        return {"accuracy": 0.5}

    settings = tiny_settings(epochs=2)
    with_hook = run(corpus, tmp_path / "a", settings, evaluate=evaluate)
    without = run(corpus, tmp_path / "b", settings)
    lines = [json.loads(line) for line in (tmp_path / "a" / "metrics.jsonl").read_text().splitlines()]
    evaluations = [line for line in lines if "evaluation" in line]
    assert [line["evaluation"] for line in evaluations] == [{"accuracy": 0.5}] * 2
    assert [line["hours"] for line in evaluations] == hours_seen
    reports = [line for line in lines if "evaluation" not in line]
    expected = {"step", "epoch", "centers", "centers_per_second", "reconstruction", "prior_divergence"}
    assert expected | {"contrastive", "seconds", "peak_memory", "gradient_norm", "learning_rate"} == set(
        reports[0]
    )
    assert reports[-1]["centers"] == 2 * corpus.tokens.size == with_hook.record["centers"]
    assert reports[-1]["epoch"] == 2
    # An untrained posterior is near its prior, and its hinge is near the margin times the context words.
    assert reports[0]["reconstruction"] > reports[0]["prior_divergence"]
    assert all(
        torch.equal(value, without.model.state_dict()[name])
        for name, value in with_hook.model.state_dict().items()
    )


def test_a_loss_that_is_no_number_ends_the_run_with_a_clear_error(corpus: Corpus, tmp_path: Path) -> None:
    settings = tiny_settings(learning_rate=1e30, epochs=3)
    with pytest.raises(
        TrainingDiverged, match=r"finite.*Lower training.learning_rate.* no checkpoint yet\.$"
    ):
        run(corpus, tmp_path, settings)


def test_a_run_that_diverges_leaves_the_last_checkpoint(corpus: Corpus, tmp_path: Path) -> None:
    def spoil(*_: Any) -> dict[str, Any]:
        if newest_step(tmp_path) is not None:  # at the end of the second epoch
            raise ModelError("a score is NaN. Train it again.")
        return {}

    settings = tiny_settings(epochs=3, batch_size=1024)
    message = (
        r"^evaluation after step (\d+): a score is NaN\. Lower .*; the checkpoint of step (\d+) is intact\.$"
    )
    with pytest.raises(TrainingDiverged, match=message) as failed:
        run(corpus, tmp_path, settings, evaluate=spoil)
    after, kept = map(int, re.findall(r"step (\d+)", str(failed.value)))
    assert after == 2 * kept == 2 * newest_step(tmp_path)  # type: ignore[operator]
    assert run(corpus, tmp_path, settings, resume=True).record["steps"] == 3 * kept


def test_a_full_disk_is_told_in_one_line_and_leaves_the_last_checkpoint(
    corpus: Corpus, tmp_path: Path
) -> None:
    settings = tiny_settings(epochs=3, batch_size=1024)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(
        _: Any, hours: float
    ) -> dict[str, Any]:  # from the end of the second epoch on, no file may be large
        if hours and newest_step(tmp_path) is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
        return {}

    try:
        with pytest.raises(TrainingFailed) as failed:
            run(corpus, tmp_path, settings, evaluate=fill)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    step = newest_step(tmp_path)
    assert str(failed.value).endswith(f"continue with --resume; the checkpoint of step {step} is intact.")
    assert "cannot be written" in str(failed.value)
    assert not list(tmp_path.rglob("*.partial"))
    resumed = run(corpus, tmp_path, settings, resume=True)
    unbroken = run(corpus, tmp_path / "again", settings)
    assert resumed.record["steps"] == unbroken.record["steps"] == 3 * step
    for name, value in unbroken.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[name])


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has ...\nSee docs"),
            "CUDA out of memory",
        ),
        (
            RuntimeError(
                "[fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: 4 bytes. Code 12"
            ),
            "DefaultCPUAllocator: can't allocate memory: 4 bytes",
        ),
        (RuntimeError("CUDA error: out of memory\nCompile with ..."), "CUDA error: out of memory"),
        (MemoryError(), "out of memory"),
    ],
)
def test_too_little_memory_is_told_in_one_line(
    corpus: Corpus, tmp_path: Path, error: Exception, reason: str
) -> None:
    def fill(*_: Any) -> dict[str, Any]:
        raise error

    with pytest.raises(TrainingFailed) as failed:
        run(corpus, tmp_path, tiny_settings(), evaluate=fill)
    message = str(failed.value)
    assert "\n" not in message
    assert f"{reason}. Lower training.batch_size" in message
    assert message.endswith("there is no checkpoint yet.")


def test_another_error_of_torch_is_not_taken_for_too_little_memory(corpus: Corpus, tmp_path: Path) -> None:
    def fail(*_: Any) -> dict[str, Any]:
        raise RuntimeError("shapes differ")

    with pytest.raises(RuntimeError, match="shapes differ"):
        run(corpus, tmp_path, tiny_settings(), evaluate=fail)


def test_weights_that_an_evaluation_may_keep_are_in_a_checkpoint(corpus: Corpus, tmp_path: Path) -> None:
    """So a run that is killed later does not train and score them anew."""
    hours: list[float] = []

    def evaluate(_model: object, at: float) -> dict[str, Any]:
        hours.append(at)
        if len(hours) == 3:
            raise KeyboardInterrupt
        return {"x": {"macro_f1": 0.5}}

    settings = tiny_settings(epochs=1, evaluations=4)
    with pytest.raises(KeyboardInterrupt):
        run(corpus, tmp_path, settings, evaluate=evaluate)
    evaluated = [line["step"] for line in read_metrics(tmp_path) if "evaluation" in line]
    assert len(evaluated) == 2
    assert newest_step(tmp_path) == evaluated[-1]


def test_evaluations_are_spread_over_an_epoch(corpus: Corpus, tmp_path: Path) -> None:
    settings = tiny_settings(epochs=2, batch_size=200, evaluations=3)
    steps = run(corpus, tmp_path, settings, evaluate=lambda *_: {"x": {"macro_f1": 0.5}}).record["steps"]
    found = [line["step"] for line in read_metrics(tmp_path) if "evaluation" in line]
    assert len(found) == 6
    assert found[2::3] == [steps // 2, steps]
    assert all(abs(at - (number + 1) * steps / 6) <= 1 for number, at in enumerate(found))


def test_a_corpus_in_chunks_trains_on_every_token(corpus: Corpus, tmp_path: Path) -> None:
    settings = tiny_settings(chunk_tokens=1500, batch_size=200, contrastive_weight=1.0)
    assert run(corpus, tmp_path, settings).record["centers"] == corpus.tokens.size


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"shards": 3}, "batch_size is 256"),
        ({"precision": "bf16"}, "precision is 'bf16'"),
        ({"shards": 256, "chunk_tokens": 1}, "too few segments"),
    ],
)
def test_settings_that_do_not_fit_are_refused(
    corpus: Corpus, tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        run(corpus, tmp_path, tiny_settings(**settings))


def test_an_unknown_kind_of_metadata_is_refused(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no metadata 'sectoin'"):
        run(corpus, tmp_path, tiny_settings(metadata="sectoin"))
