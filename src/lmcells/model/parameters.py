"""How large a model is."""

from torch import nn


def count_parameters(module: nn.Module, *, embeddings: bool = False) -> int:
    """Number of trained values; without `embeddings` only those outside the tables, as the paper counts."""
    total = sum(parameter.numel() for parameter in module.parameters())
    tables = sum(table.weight.numel() for table in module.modules() if isinstance(table, nn.Embedding))
    return total if embeddings else total - tables
