"""`lmcells inspect sections`: which sections are alike to a model."""

import argparse
import textwrap
from typing import TYPE_CHECKING

from lmcells.analysis.sections import (
    N_CLUSTERS,
    NETWORK_NAMES,
    NETWORKS,
    NearestSections,
    SectionClusters,
    cluster_sections,
    map_sections,
    nearest_sections,
    shared_neighbors,
)
from lmcells.cli.arguments import at_least
from lmcells.cli.inspect_options import add_top, add_view_options, open_model, write_figure
from lmcells.cli.terminal import print_columns, print_json
from lmcells.pretrained import PretrainedModel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUMMARY = "which sections are alike: nearest ones, clusters and a map"
DESCRIPTION = """\
With a section: the nearest sections by the cosine of their embeddings, in the variational network and in the model
network. Without: the sections in clusters (Ward's method), and with --output a map of them, on which neighbours stay
together (t-SNE); names that have no room are left out, those of sections with little text first."""
EXAMPLE = """\
examples:
  lmcells inspect sections MEDICATIONS
  lmcells inspect sections --clusters 12 --network prior --output sections.svg"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the view."""
    parser.add_argument("section", nargs="?", metavar="NAME", help="a section that the model knows")
    add_top(parser, what="nearest sections, or sections of each cluster", default=10)
    of_all = parser.add_argument_group("all sections")
    of_all.add_argument(
        "--clusters",
        type=at_least(1),
        metavar="N",
        help=f"how many clusters ({N_CLUSTERS}, or fewer sections)",
    )
    of_all.add_argument(
        "--sections",
        type=at_least(1),
        default=200,
        metavar="N",
        help="how many sections, those with the most words (200)",
    )
    of_all.add_argument(
        "--network",
        choices=NETWORKS,
        default=NETWORKS[0],
        help="variational: embeddings that gate and attention read; prior: those of the model network (variational)",
    )
    add_view_options(parser)


def run(options: argparse.Namespace) -> None:
    """Look at one section, or at all."""
    model = open_model(options)
    if options.section is None:
        _show_all(options, model)
    else:
        _show_nearest(options, model)


def _show_nearest(options: argparse.Namespace, model: PretrainedModel) -> None:
    found = nearest_sections(model, options.section, n=options.top)

    def draw() -> "Figure":
        from lmcells.analysis.figures import draw_nearest_sections

        return draw_nearest_sections(found)

    write_figure(options, draw)
    if options.json:
        print_json({"model": str(model.folder), **found.to_dict()})
    else:
        print_nearest_sections(found)


def _show_all(options: argparse.Namespace, model: PretrainedModel) -> None:
    how = {"network": options.network, "n_clusters": options.clusters, "n_sections": options.sections}
    found = cluster_sections(model, **how)
    shared = shared_neighbors(model, n_sections=options.sections)
    mapped = map_sections(model, **how) if options.json or options.output else None
    n_named = None

    def draw() -> "Figure":
        from lmcells.analysis.figures import draw_section_map

        nonlocal n_named
        assert mapped is not None  # --output asked for it
        drawn = draw_section_map(mapped)
        n_named = drawn.n_labelled
        return drawn.figure

    write_figure(options, draw)
    if options.json:
        assert mapped is not None
        print_json(
            {
                "model": str(model.folder),
                "shared_neighbors": shared,
                **found.to_dict(),
                "map": mapped.to_dict(),
            }
        )
        return
    print_clusters(found, n_shown=options.top)
    print(f"The two networks have {shared:.1f} of a section's 10 nearest sections in common, on average.")
    if mapped is not None:
        print(
            f"{options.output}: {n_named} of {len(mapped.sections)} sections named, the others had no room; "
            f"trustworthiness {mapped.trustworthiness:.2f}."
        )


def print_nearest_sections(found: NearestSections) -> None:
    """Print the nearest sections of both networks side by side."""
    print(f"{found.section}, {found.count:,} words")
    rows = [(NETWORK_NAMES["variational"], "cosine", NETWORK_NAMES["prior"], "cosine")]
    rows += [
        (one.section, f"{one.cosine:.2f}", other.section, f"{other.cosine:.2f}")
        for one, other in zip(found.variational, found.prior, strict=True)
    ]
    print_columns(rows, left=(0, 2))


def print_clusters(found: SectionClusters, *, n_shown: int) -> None:
    """Print the clusters, the largest text first, each with its sections, those with the most words first."""
    n_sections = sum(len(cluster.sections) for cluster in found.clusters)
    print(f"{n_sections} sections of the {NETWORK_NAMES[found.network]} in {len(found.clusters)} clusters")
    for cluster in found.clusters:
        names = [each.section for each in cluster.sections]
        more = f", and {len(names) - n_shown} more" if len(names) > n_shown else ""
        listed = f"{', '.join(names[:n_shown])}{more}"
        print(
            textwrap.fill(
                listed, 110, initial_indent="  ", subsequent_indent="      ", break_on_hyphens=False
            )
        )
