"""A rank correlation as a figure writes it."""

from lmcells.evaluation.intervals import Interval


def written(rho: Interval) -> str:
    """ρ with its interval, and a real minus sign; zero has none."""
    estimate, low, high = (f"{round(value, 2) + 0.0:.2f}" for value in (rho.estimate, rho.low, rho.high))
    return f"ρ = {estimate} [{low}, {high}]".replace("-", "−")
