"""`lmcells inspect`: look inside a trained model. The views of sections are here, those of words in `inspect_words`."""

import argparse
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lmcells.analysis import gate, sections
from lmcells.analysis.interpolation import STEPS, Interpolation, calibration_of, interpolate
from lmcells.cli.arguments import Command, add_reading, command_group
from lmcells.cli.inspect_options import (
    add_number,
    add_ranking_options,
    add_view_options,
    figures,
    open_model,
    open_ranker,
    show,
    with_interval,
)
from lmcells.cli.inspect_words import MIXTURES, NEIGHBORS, SENSES, UNCERTAINTY, VECTORS
from lmcells.cli.terminal import print_columns
from lmcells.errors import InputError
from lmcells.evaluation.dataset import read_dataset
from lmcells.expansion.inventory import SenseInventory
from lmcells.notes.note import Note
from lmcells.notes.readers import Columns, ReadReport, read_notes
from lmcells.pretrained import PretrainedModel


def _add_sections(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("section", nargs="?", metavar="NAME", help="a section that the model knows")
    add_number(parser, "--top", "list N nearest sections, or sections of each cluster", default=10)
    of_all = parser.add_argument_group("all sections")
    otherwise = f"{sections.N_CLUSTERS}, or fewer sections"
    add_number(of_all, "--clusters", "how many clusters", default=None, otherwise=otherwise)
    add_number(of_all, "--sections", "how many sections, those with the most words", default=200)
    of_all.add_argument(
        "--network",
        choices=sections.NETWORKS,
        default=sections.NETWORKS[0],
        help="variational: embeddings that gate and attention read; prior: those of the model network (variational)",
    )
    add_view_options(parser)


def _run_sections(options: argparse.Namespace) -> None:
    model = open_model(options)
    if options.section is None:
        _show_all_sections(options, model)
        return
    found = sections.nearest_sections(model, options.section, n=options.top)
    show(
        options,
        model,
        found.to_dict(),
        lambda: figures().draw_nearest_sections(found),
        lambda: _print_nearest_sections(found),
    )


def _show_all_sections(options: argparse.Namespace, model: PretrainedModel) -> None:
    how = {"network": options.network, "n_clusters": options.clusters, "n_sections": options.sections}
    found = sections.cluster_sections(model, **how)
    shared = sections.shared_neighbors(model, n_sections=options.sections)
    data: dict[str, Any] = {"shared_neighbors": shared, **found.to_dict()}
    mapped = sections.map_sections(model, **how) if options.json or options.output else None
    if mapped is not None:
        data["map"] = mapped.to_dict()
    n_named: list[int] = []

    def draw() -> Any:
        figure, n = figures("point_figures").draw_section_map(mapped)
        n_named.append(n)
        return figure

    def print_view() -> None:
        _print_clusters(found, n_shown=options.top)
        print(f"The two networks have {shared:.1f} of a section's 10 nearest sections in common, on average.")
        if mapped is not None:
            print(
                f"{options.output}: {n_named[0]} of {len(mapped.sections)} sections named, the others had no room; "
                f"trustworthiness {mapped.trustworthiness:.2f}."
            )

    show(options, model, data, draw, print_view)


def _print_nearest_sections(found: sections.NearestSections) -> None:
    print(f"{found.section}, {found.count:,} words")
    rows = [
        (one.section, f"{one.cosine:.2f}", other.section, f"{other.cosine:.2f}")
        for one, other in zip(found.variational, found.prior, strict=True)
    ]
    header = (sections.NETWORK_NAMES["variational"], "cosine", sections.NETWORK_NAMES["prior"], "cosine")
    print_columns([header, *rows], left=(0, 2))


def _print_clusters(found: sections.SectionClusters, *, n_shown: int) -> None:
    n_sections = sum(len(cluster.sections) for cluster in found.clusters)
    print(
        f"{n_sections} sections of the {sections.NETWORK_NAMES[found.network]} in {len(found.clusters)} clusters"
    )
    lines = textwrap.TextWrapper(110, initial_indent="  ", subsequent_indent="      ", break_on_hyphens=False)
    for cluster in found.clusters:
        names = [each.section for each in cluster.sections]
        more = f", and {len(names) - n_shown} more" if len(names) > n_shown else ""
        print(lines.fill(f"{', '.join(names[:n_shown])}{more}"))


def _add_gate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("notes", nargs="*", type=Path, metavar="NOTES", help="file or folder of notes")
    parser.add_argument(
        "--dataset",
        type=Path,
        metavar="DATASET",
        help="JSON lines that `lmcells dataset` wrote, instead of notes",
    )
    parser.add_argument("--text", metavar="TEXT", help="one note, instead of files")
    add_number(parser, "--top", "list N sections, those with the most weight", default=20)
    examples = "show N short forms with the words around them, from the least weight to the most"
    add_number(parser, "--examples", examples, default=8, least=0)
    add_ranking_options(parser)
    add_reading(parser)
    add_view_options(parser)


def _run_gate(options: argparse.Namespace) -> None:
    if [bool(options.notes), options.dataset is not None, options.text is not None].count(True) != 1:
        raise InputError("give one of: NOTES, --dataset DATASET, --text TEXT.")
    model = open_model(options)
    ranker = open_ranker(options, model)
    report = ReadReport()
    examples = list(gate.weigh(ranker, _occurrences(options, ranker.inventory, report)))
    for reason, n in report.skipped.items():
        where = report.first_seen[reason]
        print(f"lmcells inspect: {n:,} skipped: {reason} (first at {where})", file=sys.stderr)
    if not examples:
        raise InputError(
            "no short form of the inventory was found. Give other notes, or another --inventory."
        )
    summary, alone = gate.summarise_gate(ranker, examples), gate.weigh_alone(ranker)
    checks = gate.check_gate(examples, summary, alone)
    shown = gate.spread(examples, n=options.examples)

    def print_view() -> None:
        _print_summary(summary, n_shown=options.top)
        _print_checks(checks)
        _print_examples(shown)

    data = {
        "summary": summary.to_dict(),
        "checks": [check.to_dict() for check in checks],
        "examples": [example.to_dict() for example in shown],
        "sections_alone": [section.to_dict() for section in alone],
    }
    show(options, model, data, lambda: figures().draw_gate(summary, checks, alone), print_view)


def _occurrences(
    options: argparse.Namespace, inventory: SenseInventory, report: ReadReport
) -> Iterator[gate.Occurrence]:
    if options.dataset is not None:
        examples = read_dataset(options.dataset, report=report)
        # Any short form has a gate; a given inventory says which of them are meant.
        return gate.occurrences_of(
            each for each in examples if options.inventory is None or each.short_form in inventory
        )
    reading = {"sections": options.sections, "header_rules": options.header_rules}
    return gate.occurrences_in(_notes(options, report), inventory, **reading)


def _notes(options: argparse.Namespace, report: ReadReport) -> Iterator[Note]:
    if options.text is not None:
        yield Note("text", options.text)
    columns = Columns(text=options.text_column, id=options.id_column)
    for path in options.notes:
        yield from read_notes(path, format=options.format, columns=columns, report=report)


def _print_summary(summary: gate.GateSummary, *, n_shown: int) -> None:
    """Print the sections with enough examples, those with the most weight first."""
    shown = [each for each in summary.sections if each.n >= gate.LEAST_EXAMPLES] or summary.sections
    print(
        f"weight of the section: mean {summary.mean:.3f}, deviation {summary.deviation:.3f}; {summary.n:,} short "
        f"forms, {len(summary.sections):,} sections"
    )
    has_lengths = any(section.n_section_tokens is not None for section in shown)
    header = ["section", "n", "mean", "dev", "10 %", "median", "90 %", "words"]
    header += [*(["length"] if has_lengths else []), "training tokens", "topicality"]
    print_columns([header, *(_section_row(each, has_lengths) for each in shown[:n_shown])])
    n_left_out = len(summary.sections) - min(len(shown), n_shown)
    if n_left_out:
        print(
            f"  and {n_left_out:,} more with less weight or fewer than {gate.LEAST_EXAMPLES} examples: --json has all"
        )


def _section_row(section: gate.SectionGate, has_lengths: bool) -> tuple[str, ...]:
    low, _, median, _, high = section.quantiles
    length = "-" if section.n_section_tokens is None else f"{section.n_section_tokens:.1f}"
    return (
        _short(section.section),
        f"{section.n:,}",
        *(f"{value:.3f}" for value in (section.mean, section.deviation, low, median, high)),
        f"{section.n_words:.1f}",
        *((length,) if has_lengths else ()),
        f"{section.n_training_tokens:,}",
        "-" if section.topicality is None else f"{section.topicality:.2f}",
    )


def _print_checks(checks: Sequence[gate.Check]) -> None:
    print(
        "\ndo short, topical sections get more weight? Spearman's correlation of the weight [95 %, bootstrap]"
    )
    rows = [("", "n", "rho", "holds")]
    among = ""
    for check in checks:
        if check.among != among:
            among = check.among
            rows.append((among, "", "", ""))
        against = check.against if check.given is None else f"{check.against}, {check.given} fixed"
        low, high = sorted(check.expected * bound for bound in (check.rho.low, check.rho.high))
        holds = "yes" if low > 0 else "no" if high < 0 else "unclear"
        rows.append((f"  {against}", f"{check.n:,}", with_interval(check.rho), holds))
    print_columns(rows)


def _print_examples(examples: Sequence[gate.WeighedExample]) -> None:
    """Print the paper's table: the weight, the section, a few words, and what was meant."""
    if examples:
        print("\nexamples, from the least weight to the most")
    for each in examples:
        space = "" if each.after.startswith(tuple(",.;:)/")) else " "
        words = f"{each.before} [{each.short_form}]{space}{each.after}".strip()
        meant = "" if each.long_form is None else f"  ({each.long_form})"
        section = _short(each.section or "no section")
        print(f"  {each.weight:.2f}  {section}: {_printable(words)}{_printable(meant)}")


def _short(name: str, *, most: int = 30) -> str:
    name = _printable(name)
    return name if len(name) <= most else name[: most - 1] + "…"


def _printable(text: str) -> str:
    """Replace control characters, which would steer the terminal."""
    return "".join(character if character.isprintable() else " " for character in text)


def _add_interpolate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("short_form", metavar="SHORT_FORM", help="a short form of the inventory")
    parser.add_argument(
        "--section",
        required=True,
        action="append",
        metavar="NAME",
        help="the section; may be given several times",
    )
    parser.add_argument(
        "--text", metavar="TEXT", help="a text that contains the short form (none: no words around it)"
    )
    add_number(parser, "--steps", "how many weights from 0 to 1", default=STEPS, least=2)
    parser.add_argument(
        "--null-metadata",
        action="store_true",
        help="with --ranking divergence: long forms without a section, rather than under all of their own",
    )
    add_ranking_options(parser)
    add_view_options(parser)


def _run_interpolate(options: argparse.Namespace) -> None:
    model = open_model(options)
    ranker = open_ranker(options, model, null_metadata=options.null_metadata)
    calibration = calibration_of(model, ranking=options.ranking)
    how = {"text": options.text, "steps": options.steps, "calibration": calibration}
    paths = [interpolate(ranker, options.short_form, section=each, **how) for each in options.section]

    def print_view() -> None:
        for path in paths:
            _print_path(path)

    data = {"paths": [path.to_dict() for path in paths]}
    show(options, model, data, lambda: figures().draw_interpolation(paths), print_view)


def _print_path(path: Interpolation, *, n_columns: int = 6) -> None:
    """Print the probabilities at a few of the steps, at the learnt weight, and without a section."""
    n_columns = min(n_columns, len(path.weights))
    shown = np.linspace(0, len(path.weights) - 1, n_columns).round().astype(int).tolist()
    words = f"{path.n_words} words around it" if path.n_words else "no words around it"
    print(
        f"{path.short_form} in {path.section}, {words}; the gate gives the section {path.learnt_weight:.2f}"
    )
    weights = [f"{path.weights[step]:.2f}" for step in shown]
    rows = [
        (
            each.long_form,
            *(f"{each.probabilities[step]:.3f}" for step in shown),
            f"{each.learnt:.3f}",
            f"{each.without_section:.3f}",
        )
        for each in path.long_forms
    ]
    print_columns([("weight of the section", *weights, "learnt", "no section"), *rows])


SECTIONS = Command(
    summary="which sections are alike: nearest ones, clusters and a map",
    description="""\
With a section: the nearest sections by the cosine of their embeddings, in the variational network and in the model
network. Without: the sections in clusters (Ward's method), and with --output a map of them that keeps neighbours
together (t-SNE); names without room are left out, those of sections with little text first. Clusters and the map need
pip install 'lmcells[report]'.""",
    example="""\
examples:
  lmcells inspect sections MEDICATIONS
  lmcells inspect sections --clusters 12 --network prior --output sections.svg""",
    add_arguments=_add_sections,
    run=_run_sections,
)
GATE = Command(
    summary="how much weight sections get against words",
    description="""\
Show how much weight the gate gives to the section of each short form; the rest goes to the words around it. Short forms
are those of a dataset, or those found in notes or in a text. Printed are the weights by section, whether short and
topical sections get more, as the paper saw, and a few examples with the words right around them.""",
    example="""\
examples:
  lmcells inspect gate --text "MEDICATIONS: MS 2 mg IV prn."
  lmcells inspect gate notes/ --sections rules --examples 0
  lmcells inspect gate --dataset rs.jsonl --output gate.svg""",
    add_arguments=_add_gate,
    run=_run_gate,
)
INTERPOLATE = Command(
    summary="set the gate by hand between a short form's words and its section",
    description="""\
Give the section of a short form more and more weight, from 0 (the words around it) to 1 (the section), and follow the
probability of every long form: the paper's figure of MG. Without --text there are no words around it: a ranking by
masked span then starts from an empty masked span, one by divergence from the short form itself beside no word.""",
    example="""\
examples:
  lmcells inspect interpolate MG --section "HOME MEDICATIONS" --output mg.svg
  lmcells inspect interpolate MG --section "DISCHARGE MEDICATIONS" --section IMAGING --section "PAST MEDICAL HISTORY"
  lmcells inspect interpolate RA --section "PAST MEDICAL HISTORY" --text "methotrexate for RA since 2012"
  lmcells inspect interpolate MG --section MEDICATIONS --ranking divergence --null-metadata
    (the paper's formula: long forms without a section)""",
    add_arguments=_add_interpolate,
    run=_run_interpolate,
)
VIEWS = {
    "neighbors": NEIGHBORS,
    "senses": SENSES,
    "sections": SECTIONS,
    "gate": GATE,
    "interpolate": INTERPOLATE,
    "mixtures": MIXTURES,
    "vectors": VECTORS,
    "uncertainty": UNCERTAINTY,
}
COMMANDS = {
    "inspect": command_group(
        VIEWS,
        summary="look inside a trained model",
        description="""\
Look inside a trained model: what words and sections mean to it, how much it relies on the section, and how sure it is.
Each view prints a table; --json gives the data, --output writes a figure.""",
        example="""\
examples:
  lmcells inspect neighbors history --section "FAMILY HISTORY"
  lmcells inspect interpolate MG --section "HOME MEDICATIONS" --output mg.svg""",
        metavar="VIEW",
    )
}
