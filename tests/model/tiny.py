"""Models and batches small enough for loops, drawn from a seed."""

import torch
from torch import Tensor

from lmcells.model import Batch, CellModel, ModelConfig, SectionDraws, create_model

SIZES = {"n_words": 13, "cell_dim": 5, "embedding_dim": 4, "hidden_dim": 3, "window": 3, "n_section_draws": 4}


def tiny_config(kind: str = "lmc", **settings: object) -> ModelConfig:
    metadata = {"lmc": {"n_metadata": 6}, "bsg": {}, "mbsge": {"n_metadata": 6, "n_categories": 2}}[kind]
    return ModelConfig(**{"kind": kind, "dropout": 0.0, **SIZES, **metadata, **settings})


def tiny_model(
    kind: str = "lmc", *, seed: int = 0, dtype: torch.dtype = torch.float64, **settings: object
) -> CellModel:
    torch.manual_seed(seed)
    return create_model(tiny_config(kind, **settings)).to(dtype)


def tiny_batch(config: ModelConfig, *, seed: int = 0, n_rows: int = 6) -> Batch:
    """Rows with absent positions anywhere; the first has no context at all, the second all of it."""
    generator = torch.Generator().manual_seed(seed)
    shape = (n_rows, 2 * config.window)

    def ids(below: int, *size: int) -> Tensor:
        return torch.randint(below, size, generator=generator)

    context_mask = torch.rand(shape, generator=generator) < 0.6
    context_mask[0], context_mask[1] = False, True
    return Batch(
        center=ids(config.n_centers, n_rows),
        metadata=ids(config.n_metadata, n_rows) if config.n_metadata else None,
        context=ids(config.n_words, *shape),
        context_mask=context_mask,
        center_mask=torch.rand(n_rows, generator=generator) < 0.7,
        negatives=ids(config.n_words, *shape),
    )


def tiny_draws(config: ModelConfig, *, seed: int = 0) -> SectionDraws:
    """Sections for the whole vocabulary."""
    if config.kind != "lmc":
        return SectionDraws()
    generator = torch.Generator().manual_seed(seed)
    size = (config.n_words, config.n_section_draws)
    return SectionDraws(sections=torch.randint(config.n_metadata, size, generator=generator))


def gradients_of(model: CellModel, value: Tensor) -> dict[str, Tensor]:
    """The gradient of a scalar for every parameter by name; zero where it plays no part."""
    named = dict(model.named_parameters())
    found = torch.autograd.grad(value, list(named.values()), allow_unused=True)
    return {
        name: torch.zeros_like(named[name]) if gradient is None else gradient
        for name, gradient in zip(named, found, strict=True)
    }
