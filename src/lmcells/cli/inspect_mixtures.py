"""`lmcells inspect mixtures`: words, phrases or sections as mixtures of cells, and how far they are from each other."""

import argparse
from typing import TYPE_CHECKING

from lmcells.analysis.mixtures import (
    MOST_WORDS,
    N_SAMPLES,
    Comparison,
    compare,
    phrase_mixture,
    section_mixture,
)
from lmcells.cli.arguments import at_least
from lmcells.cli.inspect_options import add_top, add_view_options, open_model, write_figure
from lmcells.cli.terminal import print_columns, print_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUMMARY = "words or sections as mixtures of Gaussians, and the divergences between them"
DESCRIPTION = f"""\
A word is a mixture of its cells under each section that it stands in; a section (--sections) of the cells of its words,
the {MOST_WORDS:,} likeliest. Each is described, and compared with each other by KL(one || other) in nats: sampled, with
its standard error; variational and matched, two approximations; and convex, an upper bound."""
EXAMPLE = """\
examples:
  lmcells inspect mixtures cold fever "heart failure" --output mixtures.svg
  lmcells inspect mixtures --sections "SOCIAL HISTORY" "FAMILY HISTORY" MEDICATIONS"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the view."""
    parser.add_argument(
        "names", nargs="+", metavar="NAME", help="a word or phrase; with --sections, a section"
    )
    parser.add_argument("--sections", action="store_true", help="the names are sections")
    add_top(parser, what="components of each mixture, the heaviest", default=5, least=0)
    parser.add_argument(
        "--samples",
        type=at_least(2),
        default=N_SAMPLES,
        metavar="N",
        help=f"draws from each mixture ({N_SAMPLES:,})",
    )
    parser.add_argument("--seed", type=at_least(0), default=0, metavar="N", help="seed of the draws (0)")
    add_view_options(parser)


def run(options: argparse.Namespace) -> None:
    """Compare the mixtures and print what was found."""
    model = open_model(options)
    mixture = section_mixture if options.sections else phrase_mixture
    by_name = {marginal.name: marginal for marginal in (mixture(model, name) for name in options.names)}
    comparison = compare(list(by_name.values()), n_samples=options.samples, seed=options.seed)
    part = "word" if options.sections else "section"

    def draw() -> "Figure":
        from lmcells.analysis.figures import draw_mixtures

        return draw_mixtures(comparison, part=part)

    write_figure(options, draw)
    if options.json:
        print_json({"model": str(model.folder), **comparison.to_dict()})
    else:
        print_comparison(comparison, part=part, n_shown=options.top)


def print_comparison(comparison: Comparison, *, part: str, n_shown: int) -> None:
    """Print a table of each mixture's components, then one of the divergences."""
    for marginal, information in zip(comparison.marginals, comparison.information, strict=True):
        mixture = marginal.mixture
        covered = "" if marginal.covered > 0.9995 else f" with {marginal.covered:.0%} of the weight"
        seen = "" if marginal.n_seen is None else f" of {marginal.n_seen:,}"
        print(
            f"{marginal.name}: {len(mixture):,} {part}s{covered}, counted on {marginal.n_counted:,}{seen} occurrences"
        )
        print(
            f"  variance {mixture.total_variance:.4f} = {mixture.within:.4f} within {part}s + {mixture.between:.4f} "
            f"between them; effectively {mixture.n_effective:.1f} {part}s"
        )
        print(
            f"  a meaning tells {with_error(information.value, information.standard_error)} nats about its {part}"
        )
        components = [
            (name, f"{weight:.3f}", f"{variance:.3f}")
            for name, weight, variance in zip(
                marginal.parts[:n_shown], mixture.weights, mixture.variances, strict=False
            )
        ]
        if components:
            print_columns([(part, "weight", "variance"), *components])
        print()
    if not comparison.divergences:
        return
    n_samples = max(each.sampled.n_samples for each in comparison.divergences.values())
    print(f"KL(one || other) in nats, {n_samples:,} draws")
    rows = [
        (
            f"{comparison.marginals[p].name} || {comparison.marginals[q].name}",
            with_error(each.sampled.value, each.sampled.standard_error),
            f"{each.variational:.2f}",
            f"{each.matched:.2f}",
            f"{each.convex:.2f}",
        )
        for (p, q), each in comparison.divergences.items()
    ]
    print_columns([("", "sampled", "variational", "matched", "convex"), *rows])


def with_error(value: float, error: float) -> str:
    """An estimate and its standard error."""
    return f"{value:.2f}" + (f" ± {error:.2f}" if error else "")
