"""`lmcells inspect`: look inside a trained model. The views of sections are here, those of words in `inspect_words`."""

import argparse
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from lmcells.analysis import Row, gate, sections
from lmcells.analysis.interpolation import STEPS, interpolate
from lmcells.analysis.statistics import with_interval
from lmcells.cli import inspect_view as views
from lmcells.cli.arguments import Options, at_least, command_group, note_files
from lmcells.cli.inspect_words import MIXTURES, NEIGHBORS, SENSES, UNCERTAINTY, VECTORS
from lmcells.cli.terminal import print_columns, print_rows
from lmcells.errors import InputError
from lmcells.evaluation.dataset import read_dataset
from lmcells.evaluation.rankers import calibration_of
from lmcells.expansion.inventory import SenseInventory
from lmcells.notes.note import Note
from lmcells.notes.readers import ReadReport
from lmcells.pretrained import PretrainedModel


def _add_sections(add: Options) -> None:
    add("section NAME", "a section that the model knows", nargs="?")
    add("--top N", "list N nearest sections, or sections of each cluster", number=10)
    add = add.group("all sections")
    add("--clusters N", f"how many clusters ({sections.N_CLUSTERS}, or fewer sections)", type=at_least(1))
    add("--sections N", "how many sections, those with the most words", number=200)
    networks = "variational: embeddings that gate and attention read; prior: those of the model network"
    add("--network", networks, one_of=sections.NETWORKS)


def _look_at_sections(options: argparse.Namespace, model: PretrainedModel) -> views.Seen:
    if options.section is not None:
        found = sections.nearest_sections(model, options.section, n=options.top)
        yield found, views.draw(options, "figures.draw_nearest_sections", found)
        _print_nearest_sections(found)
        return
    how = {"network": options.network, "n_clusters": options.clusters, "n_sections": options.sections}
    clusters = sections.cluster_sections(model, **how)
    shared = sections.shared_neighbors(model, n_sections=options.sections)
    data: dict[str, Any] = {"shared_neighbors": shared, "network": options.network, "clusters": clusters}
    figure = None
    if options.json or options.output:
        data["map"] = mapped = sections.map_sections(model, **how)
        figure = views.draw(options, "point_figures.draw_section_map", mapped)
    yield data, figure
    _print_clusters(data, options.top)
    if figure is not None:
        print(
            f"{options.output}: {len(figure.axes[0].texts)} of {len(mapped.sections)} sections named, the others did "
            f"not fit; trustworthiness {mapped.trustworthiness:.2f}."
        )


def _print_nearest_sections(found: Row) -> None:
    print(f"{found.section}, {found.count:,} words")
    rows = [{"one": one, "other": other} for one, other in zip(found.variational, found.prior, strict=True)]
    one, other = sections.NETWORK_NAMES.values()
    columns = f"{one} {{one[section]}} | cosine {{one[cosine]:.2f}} | "
    columns += f"{other} {{other[section]}} | cosine {{other[cosine]:.2f}}"
    print_rows(rows, columns, left=(0, 2))


def _print_clusters(data: Mapping[str, Any], n_shown: int) -> None:
    clusters = [[each.section for each in cluster.sections] for cluster in data["clusters"]]
    network = sections.NETWORK_NAMES[data["network"]]
    print(f"{sum(map(len, clusters))} sections of the {network} in {len(clusters)} clusters")
    lines = textwrap.TextWrapper(110, initial_indent="  ", subsequent_indent="      ", break_on_hyphens=False)
    for names in clusters:
        more = f", and {len(names) - n_shown} more" if len(names) > n_shown else ""
        print(lines.fill(f"{', '.join(names[:n_shown])}{more}"))
    shared = data["shared_neighbors"]
    print(f"The two networks have {shared:.1f} of a section's 10 nearest sections in common, on average.")


def _add_gate(add: Options) -> None:
    add("notes NOTES", "file or folder of notes", nargs="*", type=Path)
    add("--dataset DATASET", "JSON lines that `lmcells dataset` wrote, instead of notes", type=Path)
    add("--text TEXT", "one note, instead of files")
    add("--top N", "list N sections, those with the most weight", number=20)
    text = "show N short forms with the words around them, from the least weight to the most"
    add("--examples N", text, number=8, least=0)
    views.add_ranker(add)
    add.reading()


def _look_at_gate(options: argparse.Namespace, model: PretrainedModel) -> views.Seen:
    if [bool(options.notes), options.dataset is not None, options.text is not None].count(True) != 1:
        raise InputError("give one of: NOTES, --dataset DATASET, --text TEXT.")
    ranker = views.open_ranker(options, model)
    report = ReadReport()
    examples = list(gate.weigh(ranker, _occurrences(options, ranker.inventory, report)))
    for reason, n in report.skipped.items():
        where = report.first_seen[reason]
        print(f"lmcells inspect: {n:,} skipped: {reason} (first at {where})", file=sys.stderr)
    if not examples:
        nothing = "no short form of the inventory was found"
        raise InputError(f"{nothing}. Give other notes, or another --inventory.")
    summary, alone = gate.summarise_gate(ranker, examples), gate.weigh_alone(ranker)
    checks = gate.check_gate(examples, summary, alone)
    shown = gate.spread(examples, n=options.examples)
    data = {"summary": summary, "checks": checks, "examples": list(map(asdict, shown))}
    data["sections_alone"] = alone
    yield data, views.draw(options, "figures.draw_gate", summary, checks, alone)
    _print_summary(summary, n_shown=options.top)
    _print_checks(checks)
    _print_examples(shown)


def _occurrences(
    options: argparse.Namespace, inventory: SenseInventory, report: ReadReport
) -> Iterator[gate.Occurrence]:
    if options.dataset is not None:
        examples = read_dataset(options.dataset, report=report)
        is_any = options.inventory is None  # any short form has a gate
        return gate.occurrences_of(each for each in examples if is_any or each.short_form in inventory)
    notes = note_files(options).read(report) if options.text is None else [Note("text", options.text)]
    how = {"sections": options.sections, "header_rules": options.header_rules}
    return gate.occurrences_in(notes, inventory, **how)


def _print_summary(summary: Row, *, n_shown: int) -> None:
    """Print the sections with enough examples, those with the most weight first."""
    shown = [each for each in summary.sections if each.n >= gate.LEAST_EXAMPLES] or summary.sections
    n_found = f"{summary.n:,} short forms, {len(summary.sections):,} sections"
    print(f"weight of the section: mean {summary.mean:.3f}, deviation {summary.deviation:.3f}; {n_found}")
    has_lengths = any(section.n_section_tokens is not None for section in shown)
    columns = "section {section} | n {n:,} | mean {mean:.3f} | dev {deviation:.3f} | "
    columns += "10 % {quantiles[0]:.3f} | median {quantiles[2]:.3f} | 90 % {quantiles[4]:.3f} | words {n_words:.1f} | "
    columns += "length {n_section_tokens:.1f} | " if has_lengths else ""
    columns += "training tokens {n_training_tokens:,} | topicality {topicality:.2f}"
    print_rows([{**each, "section": _short(each.section)} for each in shown[:n_shown]], columns)
    n_left_out = len(summary.sections) - min(len(shown), n_shown)
    if n_left_out:
        fewer = f"fewer than {gate.LEAST_EXAMPLES} examples"
        print(f"  and {n_left_out:,} more with less weight or {fewer}: --json has all")


def _print_checks(checks: Sequence[Row]) -> None:
    asked = "do short, topical sections get more weight?"
    print(f"\n{asked} Spearman's correlation of the weight [95 %, bootstrap]")
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


def _add_interpolation(add: Options) -> None:
    add("short_form SHORT_FORM", "a short form of the inventory")
    add("--section NAME", "the section; may be given several times", required=True, action="append")
    add("--text TEXT", "a text that contains the short form (none: no words around it)")
    add("--steps N", "how many weights from 0 to 1", number=STEPS, least=2)
    text = "with --ranking divergence: long forms without a section, rather than under all of their own"
    add("--null-metadata", text)
    views.add_ranker(add)


def _look_at_interpolation(options: argparse.Namespace, model: PretrainedModel) -> views.Seen:
    ranker = views.open_ranker(options, model, null_metadata=options.null_metadata)
    calibration = calibration_of(model, ranking=options.ranking)
    how = {"text": options.text, "steps": options.steps, "calibration": calibration}
    paths = [interpolate(ranker, options.short_form, section=each, **how) for each in options.section]
    yield {"paths": paths}, views.draw(options, "figures.draw_interpolation", paths)
    for path in paths:
        words = f"{path.n_words or 'no'} words around it"
        weight = f"the gate gives the section {path.learnt_weight:.2f}"
        print(f"{path.short_form} in {path.section}, {words}; {weight}")
        shown = np.linspace(0, len(path.weights) - 1, min(6, len(path.weights))).round().astype(int).tolist()
        steps = [f"{path.weights[step]:.2f} {{probabilities[{step}]:.3f}}" for step in shown]
        ends = ("learnt {learnt:.3f}", "no section {without_section:.3f}")
        print_rows(path.long_forms, " | ".join(["weight of the section {long_form}", *steps, *ends]))


_SECTIONS = """\
which sections are alike: nearest ones, clusters and a map

With a section: the nearest sections by the cosine of their embeddings, in the variational network and in the model
network. Without: the sections in clusters (Ward's method), and with --output a map that keeps neighbours together
(t-SNE); names that do not fit are left out, starting with sections with little text. Clusters and the map need
pip install 'lmcells[report]'.

examples:
  lmcells inspect sections MEDICATIONS
  lmcells inspect sections --clusters 12 --network prior --output sections.svg"""
_GATE = """\
how much weight sections get against words

Show how much weight the gate gives to the section of each short form; the rest goes to the words around it. Short forms
come from a dataset, or are found in notes or in a text. The output has the weights by section, a check of whether short
and topical sections get more, as the paper observed, and a few examples with the words around them.

examples:
  lmcells inspect gate --text "MEDICATIONS: MS 2 mg IV prn."
  lmcells inspect gate notes/ --sections rules --examples 0
  lmcells inspect gate --dataset rs.jsonl --output gate.svg"""
_INTERPOLATE = """\
set the gate by hand between a short form's words and its section

Give the section of a short form more and more weight, from 0 (the words around it) to 1 (the section), and follow the
probability of every long form, as in the paper's figure of MG. Without --text there are no words around it: ranking by
masked span then starts from an empty masked span, ranking by divergence from the short form without context words.

examples:
  lmcells inspect interpolate MG --section "HOME MEDICATIONS" --output mg.svg
  lmcells inspect interpolate MG --section "DISCHARGE MEDICATIONS" --section IMAGING --section "PAST MEDICAL HISTORY"
  lmcells inspect interpolate RA --section "PAST MEDICAL HISTORY" --text "methotrexate for RA since 2012"
  lmcells inspect interpolate MG --section MEDICATIONS --ranking divergence --null-metadata
    (the paper's formula: long forms without a section)"""
VIEWS = {
    "neighbors": NEIGHBORS,
    "senses": SENSES,
    "sections": views.view(_SECTIONS, _add_sections, _look_at_sections),
    "gate": views.view(_GATE, _add_gate, _look_at_gate),
    "interpolate": views.view(_INTERPOLATE, _add_interpolation, _look_at_interpolation),
    "mixtures": MIXTURES,
    "vectors": VECTORS,
    "uncertainty": UNCERTAINTY,
}
_INSPECT = """\
look inside a trained model

Look inside a trained model: what words and sections mean to it, how much it relies on the section, and how sure it is.
Each view prints a table; --json gives the data, --output writes a figure.

examples:
  lmcells inspect neighbors history --section "FAMILY HISTORY"
  lmcells inspect interpolate MG --section "HOME MEDICATIONS" --output mg.svg"""
COMMANDS = {"inspect": command_group(_INSPECT, VIEWS, metavar="VIEW")}
