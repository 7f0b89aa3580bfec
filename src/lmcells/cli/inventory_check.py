"""`lmcells inventory check`: what to look at in an inventory, and what a model knows of it."""

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lmcells.cli.arguments import add_json
from lmcells.cli.terminal import print_json, print_table
from lmcells.corpus import Corpus
from lmcells.expansion.inventory import SenseInventory, load_inventory
from lmcells.expansion.inventory_check import (
    Finding,
    SenseKnowledge,
    inventory_knowledge,
    review_inventory,
    suggest_spellings,
)
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.folder import DEFAULT, model_folder

SUMMARY = "find duplicates, and senses that a model cannot know"
DESCRIPTION = """\
Say which entries of an inventory may be the same thing twice, and what a model knows of each sense: frequent (by its
occurrences), words (by its words alone) or unknown (not at all: it will always be ranked last)."""
EXAMPLE = """\
examples:
  lmcells inventory check senses.csv
  lmcells inventory check senses.json --model model --corpus corpus --all"""

_N_SHOWN = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("inventory", type=Path, metavar="INVENTORY", help="senses, JSON or CSV")
    parser.add_argument(
        "--model", default=DEFAULT, metavar="MODEL", help="model folder, or default (shipped)"
    )
    parser.add_argument("--corpus", type=Path, metavar="CORPUS", help="also count the senses in this corpus")
    parser.add_argument(
        "--all", action="store_true", help=f"list everything, not only the {_N_SHOWN} worst of each"
    )
    add_json(parser)


def run(options: argparse.Namespace) -> None:
    """Check the inventory and print what was found."""
    inventory = load_inventory(options.inventory)
    corpus = Corpus.open(options.corpus) if options.corpus else None
    model = PretrainedModel.from_pretrained(model_folder(options.model))
    findings = review_inventory(inventory)
    known = inventory_knowledge(model, inventory, corpus=corpus)
    worst = sorted((each for each in known if each.how != "frequent"), key=lambda each: each.badness)
    shown = worst if options.all or options.json else worst[:_N_SHOWN]
    nearest = suggest_spellings((word for each in shown for word in each.unknown_words), model.words)
    summary = summarise(inventory, findings, known)
    if options.json:
        print_json(
            {
                "inventory": str(options.inventory),
                "model": str(model.folder),
                "summary": summary,
                "findings": [
                    {name: getattr(finding, name) for name in Finding.__slots__} for finding in findings
                ],
                "senses": [
                    each.to_dict()
                    | {"nearest": {word: nearest[word] for word in each.unknown_words if word in nearest}}
                    for each in known
                ],
            }
        )
        return
    print_table([(name.replace("_", " "), n) for name, n in summary.items()], title=str(options.inventory))
    n_findings = len(findings) if options.all else _N_SHOWN
    _print_list("may be the same twice", [_finding(each) for each in findings], n_shown=n_findings)
    _print_list(
        "not known by occurrences",
        [_sense(each, nearest) for each in shown],
        n_shown=len(shown),
        n=len(worst),
    )


def summarise(
    inventory: SenseInventory, findings: Sequence[Finding], known: Sequence[SenseKnowledge]
) -> dict[str, Any]:
    """How many senses there are, known how."""
    n_by = Counter(each.how for each in known)
    summary = {
        "senses": inventory.n_senses,
        "short_forms": len(inventory),
        "ambiguous_short_forms": sum(len(senses) > 1 for senses in inventory.by_short_form.values()),
        "known_by_occurrences": n_by["frequent"],
        "known_by_words": n_by["words"],
        "with_unknown_words": sum(each.how == "words" and bool(each.unknown_words) for each in known),
        "unknown": n_by["unknown"],
        "may_be_the_same_twice": len(findings),
    }
    if any(each.n_in_corpus is not None for each in known):
        summary["in_the_corpus"] = sum(bool(each.n_in_corpus) for each in known)
    return summary


def _finding(finding: Finding) -> str:
    return f"{finding.short_form}: {finding.first!r} and {finding.second!r}, {finding.rule}"


def _sense(known: SenseKnowledge, nearest: Mapping[str, str]) -> str:
    line = f"{known.sense.short_form}: {known.sense.long_form!r}, {known.how}"
    if known.unknown_words:
        words = (
            f"{word!r}" + (f" (near {nearest[word]!r})" if word in nearest else "")
            for word in known.unknown_words
        )
        line += f"; not in the vocabulary: {', '.join(words)}"
    return line if known.n_in_corpus is None else f"{line}; {known.n_in_corpus:,} in the corpus"


def _print_list(title: str, lines: Sequence[str], *, n_shown: int, n: int | None = None) -> None:
    if not lines:
        return
    print(f"\n{title}")
    for line in lines[:n_shown]:
        print(f"  {line}")
    n_more = (len(lines) if n is None else n) - min(n_shown, len(lines))
    if n_more:
        print(f"  and {n_more:,} more: --all")
