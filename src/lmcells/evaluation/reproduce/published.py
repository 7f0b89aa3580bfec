"""The figures of Adams et al. 2020, means over five pre-training runs, on the paper's own three test sets.

Its main table, and for the last three systems what its text says about them; None is what it does not say.
"""

from collections.abc import Iterable

from lmcells.evaluation.report import Published
from lmcells.evaluation.reproduce.protocol import ModelPlan

DATASETS = ("MIMIC", "CUIMC", "CASI")
_Figures = tuple[
    float | None, float | None, float | None, float | None
]  # NLL, accuracy, weighted F1, macro F1
_SYSTEMS: dict[str, tuple[str, tuple[_Figures, _Figures, _Figures]]] = {
    "bert": ("BERT", ((1.36, 0.40, 0.40, 0.33), (1.41, 0.37, 0.33, 0.28), (1.23, 0.42, 0.38, 0.23))),
    "elmo": ("ELMo", ((1.33, 0.58, 0.61, 0.53), (1.38, 0.58, 0.60, 0.49), (1.21, 0.55, 0.56, 0.38))),
    "bsg": ("BSG", ((1.28, 0.57, 0.59, 0.52), (9.04, 0.58, 0.58, 0.46), (0.99, 0.64, 0.64, 0.41))),
    "mbsge": ("MBSGE", ((1.07, 0.65, 0.67, 0.59), (6.16, 0.64, 0.64, 0.52), (0.88, 0.70, 0.70, 0.46))),
    "lmc": ("LMC", ((0.81, 0.74, 0.78, 0.69), (0.90, 0.69, 0.68, 0.57), (0.79, 0.71, 0.73, 0.51))),
    "section-mle": (
        "Section Header MLE",
        ((None, 0.85, None, None), (None, 0.46, None, 0.33), (None, 0.48, None, 0.35)),
    ),
    "random": ("random", ((None, 0.27, None, None), (None, 0.26, None, None), (None, 0.31, None, None))),
    "dominant": ("dominant", ((None, 0.42, None, None), (None, 0.47, None, None), (None, 0.78, None, None))),
}


def published_figures(models: Iterable[ModelPlan]) -> tuple[Published, ...]:
    """The paper's figures for the kinds of our models."""
    return tuple(
        Published(model.name, _SYSTEMS[model.kind][0], dataset, *figures)
        for model in models
        if model.kind in _SYSTEMS
        for dataset, figures in zip(DATASETS, _SYSTEMS[model.kind][1], strict=True)
    )
