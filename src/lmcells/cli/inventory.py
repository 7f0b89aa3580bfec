"""`lmcells inventory`: find a sense inventory in notes, check what a model knows about it, compile it into a model."""

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lmcells.cli import arguments
from lmcells.cli.arguments import REPEATED, Command, Options, at_least, picked
from lmcells.cli.terminal import ProgressLine, account_rows, print_result
from lmcells.corpus import Corpus
from lmcells.errors import InputError, InventoryError, MissingExtra
from lmcells.expansion import concept_linking, inventory_check
from lmcells.expansion.inventory import ACTIONS, ALL_SENSES, SenseInventory, SenseLookup
from lmcells.expansion.inventory_files import SUFFIXES, load_inventory, read_rules, save_inventory
from lmcells.expansion.inventory_mining import DefinitionCounts
from lmcells.expansion.layers import extend, shipped_inventory
from lmcells.files import atomic_write, explain_unwritable
from lmcells.notes.readers import ReadReport
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.folder import DEFAULT, model_folder

_N_SHOWN = 10


def _add_find(add: Options) -> None:
    add("notes NOTES", "file or folder of notes", nargs="+", type=Path)
    add.output("FILE", "senses to write: .csv, .tsv or .json", replaces="an inventory")
    add("--min-count N", "minimum number of notes that define a sense", number=2)
    text = 'known senses, for definitions such as "left eye (OS)" (the shipped ones)'
    add("--inventory FILE", text, type=Path)
    add.group("reading notes").columns()
    add.json()


def _find(options: argparse.Namespace) -> None:
    """Find the definitions, write the inventory and print the counts, but no long forms: they are note text."""
    _require_suffix(options.output)
    report = ReadReport()
    known = load_inventory(options.inventory) if options.inventory else shipped_inventory()
    definitions = DefinitionCounts(known)
    with ProgressLine() as line:
        for note in line.counting(arguments.note_files(options).read(report)):
            definitions.add(note)
        line.update(f"gathering {definitions.n_wordings:,} definitions")
        proposed = definitions.propose()
    found = [sense for sense, n_notes in proposed if n_notes >= options.min_count]
    n_rare = len(proposed) - len(found)
    if not found:
        found_in = f"at least {options.min_count:,} of {report.n_read:,} notes ({n_rare:,} in fewer)"
        raise InputError(f"no definition was found in {found_in}. Give more notes, or a smaller --min-count.")
    inventory = SenseInventory.from_senses(found)
    save_inventory(inventory, options.output)
    counts = {
        "definitions": ("n_definitions", definitions.n_definitions),
        "distinct definitions": ("n_wordings", definitions.n_wordings),
        f"skipped: senses in fewer than {options.min_count:,} notes": ("n_senses_too_rare", n_rare),
        "senses": ("n_senses", inventory.n_senses),
        "short forms": ("n_short_forms", len(inventory)),
        "ambiguous short forms": ("n_ambiguous_short_forms", _n_ambiguous(inventory)),
    }
    summary = {"inventory": str(options.output), "notes": report.to_dict(), "min_count": options.min_count}
    rows = [("notes read", report.n_read), *account_rows(report.to_dict())]
    rows += [(title, n) for title, (name, n) in counts.items() if n or name != "n_senses_too_rare"]
    print_result(options, summary | dict(counts.values()), [(str(options.output), rows)])


def _require_suffix(output: Path) -> None:
    if output.suffix.lower() not in SUFFIXES:
        raise InputError(f"--output {output}: the name must end in {', '.join(SUFFIXES)}.")


def _n_ambiguous(inventory: SenseInventory) -> int:
    return sum(len(senses) > 1 for senses in inventory.by_short_form.values())


def _add_check(add: Options) -> None:
    add("inventory INVENTORY", "senses, JSON or CSV", type=Path)
    add("--model MODEL", "model folder, or default (shipped)", default=DEFAULT)
    add("--corpus CORPUS", "also count the senses in this corpus", type=Path)
    add("--all", f"list everything, not only the {_N_SHOWN} worst of each kind")
    add.json()


def _check(options: argparse.Namespace) -> None:
    """Check the readable rows, and fail at the end if there are others."""
    placed, bad_rows = read_rules(options.inventory)
    rules = [rule for _, rule in placed]
    layer = extend(SenseInventory(), rules)
    inventory = SenseInventory({name: senses for name, senses in layer.by_short_form.items() if senses})
    if not placed and not bad_rows:
        raise InventoryError(f"{options.inventory}: the inventory is empty. Give at least one sense.")
    corpus = options.corpus and Corpus.open(options.corpus)
    below = SenseLookup(extend(shipped_inventory(), [rule for rule in rules if rule.action != "forbid"]))
    idle = [
        f"{place}: {sense.short_form!r} never meant {sense.long_form!r}"
        for place, rule in placed
        if rule.action == "forbid" and (sense := rule.sense).long_form != ALL_SENSES
        if below(sense.short_form, sense.long_form) is None
    ]
    n_rules = Counter(rule.action for rule in rules)
    model = PretrainedModel.from_pretrained(model_folder(options.model))
    findings = inventory_check.review_inventory(inventory)
    known = inventory_check.inventory_knowledge(model, inventory, corpus=corpus)
    worst = sorted((each for each in known if each.how != "frequent"), key=lambda each: each.badness)
    shown = worst if options.all or options.json else worst[:_N_SHOWN]
    unknown = (word for each in shown for word in each.unknown_words)
    nearest = inventory_check.suggest_spellings(unknown, model.words)
    n_by = Counter(each.how for each in known)
    summary: dict[str, Any] = {
        "senses": inventory.n_senses,
        "short_forms": len(inventory),
        "ambiguous_short_forms": _n_ambiguous(inventory),
        "known_by_occurrences": n_by["frequent"],
        "known_by_words": n_by["words"],
        "with_unknown_words": sum(each.how == "words" and bool(each.unknown_words) for each in known),
        "unknown": n_by["unknown"],
        "may_be_the_same_twice": len(findings),
    }
    if bad_rows:
        summary["rows_that_cannot_be_used"] = len(bad_rows)
    if len(n_rules) > 1 or layer.rules:
        summary |= {f"rows_that_{action}": n_rules[action] for action in ACTIONS}
        conditions = sorted({name for rule in rules for name, _ in rule.where})
        summary["conditions_on"] = ", ".join(conditions) or "none"
    if corpus is not None:
        summary["in_the_corpus"] = sum(bool(each.n_in_corpus) for each in known)
    data = {
        "inventory": str(options.inventory),
        "model": str(model.folder),
        "summary": summary,
        "bad_rows": bad_rows,
        "forbids_nothing": idle,
        "findings": [asdict(finding) for finding in findings],
        "senses": [
            each.to_dict()
            | {"nearest": {word: nearest[word] for word in each.unknown_words if word in nearest}}
            for each in known
        ],
    }
    rows = [(name.replace("_", " "), n) for name, n in summary.items()]
    print_result(options, data, [(str(options.inventory), rows)])
    if not options.json:
        _print_list("cannot be used", bad_rows, n=len(bad_rows))
        _print_list("forbids nothing", idle, n=len(idle))
        pairs = [f"{each.short_form}: {each.first!r} and {each.second!r}, {each.rule}" for each in findings]
        most = None if options.all else _N_SHOWN
        _print_list("may be the same twice", pairs[:most], n=len(findings))
        _print_list("not known by occurrences", [_sense_line(each, nearest) for each in shown], n=len(worst))
    if bad_rows:
        found = f"{options.inventory}: {len(bad_rows):,} rows cannot be used"
        raise InventoryError(f"{found}. Correct the rows listed above.")


def _sense_line(known: inventory_check.SenseKnowledge, nearest: Mapping[str, str]) -> str:
    line = f"{known.sense.short_form}: {known.sense.long_form!r}, {known.how}"
    if known.unknown_words:
        near = {word: f" (near {nearest[word]!r})" for word in known.unknown_words if word in nearest}
        words = ", ".join(f"{word!r}{near.get(word, '')}" for word in known.unknown_words)
        line += f"; not in the vocabulary: {words}"
    return line if known.n_in_corpus is None else f"{line}; {known.n_in_corpus:,} in the corpus"


def _print_list(title: str, lines: Sequence[str], *, n: int) -> None:
    if lines:
        print("\n  ".join([f"\n{title}", *lines]))
        if n > len(lines):
            print(f"  and {n - len(lines):,} more: --all")


def _add_compile(add: Options) -> None:
    add("inventory INVENTORY", "senses, JSON or CSV", type=Path)
    add("--corpus CORPUS", "corpus folder", required=True, type=Path)
    add("--model MODEL", "model folder, or default (shipped)", required=True)
    add.output("NEW_MODEL", "folder to write", replaces="a model")
    add("--min-count N", "how often a long form must occur in the corpus (4)", type=at_least(1))
    text = "maximum number of phrases in the phrase store; the rarest others are dropped (no limit)"
    add("--prototypes N", text, type=at_least(1), dest="max_prototypes")
    text = "senses whose long forms are also kept in the store; may be repeated"
    add("--long-forms INVENTORY", text, type=Path, **REPEATED)
    add("--device auto|cpu|cuda", "where to compute (auto)", default="auto")
    add.json()


def _compile(options: argparse.Namespace) -> None:
    if find_spec("torch") is None:
        raise MissingExtra("torch", extra="train", purpose="Compiling an inventory")
    from lmcells.expansion.inventory_compilation import compile_inventory
    from lmcells.training.distributed import choose_device
    from lmcells.training.prototypes import MIN_COUNT

    given = picked(
        options,
        compile_inventory,
        device=choose_device(options.device),
        inventory=load_inventory(options.inventory),
        corpus=Corpus.open(options.corpus),
        model=PretrainedModel.from_pretrained(model_folder(options.model), verify=True),
        min_count=options.min_count or MIN_COUNT,
        kept=[load_inventory(path) for path in options.long_forms],
    )
    with ProgressLine() as line, explain_unwritable(f"--output {options.output}"):
        line.update("reading the occurrences of long forms")
        result = compile_inventory(**given, name=options.inventory.name).to_dict()
    titles = {
        "n_senses": "senses",
        "n_senses_found": "senses found in the corpus",
        "n_added": "phrases added",
        "n_replaced": "phrases replaced",
        "n_kept": "phrases kept, known from more occurrences",
    }
    rows = [(titles[name], n) for name, n in result.items()]
    print_result(options, {"model": str(options.output), **result}, [(str(options.output), rows)])


def _add_link(add: Options) -> None:
    add("inventory INVENTORY", "senses, CSV, TSV or JSON; or shipped: those of the package")
    add_file = add.either()
    add_file("--concepts CONCEPT.csv", "OMOP's table of concepts", type=Path)
    add_file("--umls MRCONSO.RRF", "UMLS's table of names", type=Path)
    text = "only concepts of this vocabulary, such as SNOMED or SNOMEDCT_US; may be repeated"
    add("--vocabulary NAME", text, **REPEATED)
    written = "senses to write: .csv, .tsv or .json; FILE.report.csv says how each was linked"
    add.output("FILE", written, replaces="an inventory")
    add.json()


def _link(options: argparse.Namespace) -> None:
    if not (options.concepts or options.umls):
        raise InputError("no table of concepts was given. Give --concepts CONCEPT.csv or --umls MRCONSO.RRF.")
    _require_suffix(options.output)
    report = options.output.with_name(f"{options.output.name}.report.csv")
    arguments.refuse_existing(report, options)
    is_shipped = options.inventory == "shipped"
    inventory = shipped_inventory() if is_shipped else load_inventory(Path(options.inventory))
    path: Path = options.concepts or options.umls
    read = concept_linking.read_omop_concepts if options.concepts else concept_linking.read_umls_names
    with ProgressLine() as line:
        line.update("reading concepts")
        concepts = concept_linking.of_vocabularies(read(path), options.vocabulary, path=path)
        links = concept_linking.link_concepts(inventory, concepts)
    save_inventory(concept_linking.linked_inventory(links), options.output)
    with atomic_write(report) as temporary:
        concept_linking.write_report(links, temporary)
    n_by: Counter[str] = Counter(link.outcome for link in links)
    titles = {
        "exact": "linked by a name",
        "normalised": "linked by a name that differs in spelling",
        "ambiguous": "ambiguous: several concepts have the name",
        "missing": "no concept has the name",
        "kept": "already had a concept",
    }
    counts = {name: n_by.get(name, 0) for name in titles}
    summary = {"inventory": str(options.output), "report": str(report), **counts}
    rows = [("senses", len(links)), *((titles[name], n) for name, n in counts.items())]
    print_result(options, summary, [(str(options.output), rows)])


_FIND = """\
propose an inventory from the definitions in notes

Find the abbreviation definitions in notes, "atrial fibrillation (AF)" or "AF = atrial fibrillation", and write them as
an inventory. Spellings of one long form become forms of one sense, the most frequent first. Look through it before you
use it; `lmcells inventory check` shows where to look.

examples:
  lmcells inventory find NOTEEVENTS.csv.gz --output senses.csv --min-count 5
  lmcells inventory find notes/ letters.jsonl --output senses.json"""
_CHECK = """\
find duplicates, and senses that a model cannot know

List the rows of an inventory that cannot be used, with their lines; entries that may be the same thing twice; and what
a model knows about each sense: frequent (by its occurrences), words (by its words alone) or unknown (nothing: it will
always be ranked last).

examples:
  lmcells inventory check senses.csv
  lmcells inventory check senses.json --model model --corpus corpus --all"""
_LINK = """\
fill in concept ids from the names of OMOP or the UMLS

Look up the long forms of an inventory among the names of OMOP's CONCEPT table or the UMLS file MRCONSO.RRF (your own,
licensed copies), and write the inventory with their concept ids: exact names first, then names that differ in hyphens,
number or punctuation. If several concepts have a sense's name, it stays unlinked, and the report lists them.

examples:
  lmcells inventory link shipped --concepts CONCEPT.csv --vocabulary SNOMED --output linked.csv
  lmcells inventory link senses.csv --umls MRCONSO.RRF --output linked.csv
  lmcells annotate note.csv --inventory linked.csv --output note_nlp.csv --output-format omop"""
_COMPILE = """\
teach a copy of a model an inventory's long forms

Read the occurrences of an inventory's long forms in a corpus, and write a copy of a model that knows them from these
occurrences. Any corpus made by `lmcells prepare` will do, with its own words and section names.

example:
  lmcells inventory compile senses.csv --corpus corpus --model default --output model-with-senses"""
_ACTIONS = {
    "find": Command(_FIND, _add_find, _find),
    "check": Command(_CHECK, _add_check, _check),
    "link": Command(_LINK, _add_link, _link),
    "compile": Command(_COMPILE, _add_compile, _compile),
}
_INVENTORY = """\
find, check, link or compile a sense inventory

Find a sense inventory: the abbreviations that notes define. Check it: duplicate entries, and what a model knows about
each sense. Link it to the concepts of a terminology. Or compile it: write a copy of a model that also knows its long
forms from their occurrences in a corpus.

examples:
  lmcells inventory find notes/ --output senses.csv
  lmcells inventory check senses.csv
  lmcells inventory compile senses.csv --corpus corpus --model model --output model-with-senses"""
COMMANDS = {"inventory": arguments.command_group(_INVENTORY, _ACTIONS)}
