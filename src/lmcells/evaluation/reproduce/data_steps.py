"""The steps that read notes: datasets and corpora."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from lmcells.corpus import Corpus
from lmcells.corpus.build import build_corpus
from lmcells.corpus.packing import pack_corpus
from lmcells.corpus.settings import read_excluded_ids
from lmcells.errors import InputError
from lmcells.evaluation.casi import build_casi_dataset
from lmcells.evaluation.dataset import NoteSplit, load_section_map, map_section, read_dataset, write_dataset
from lmcells.evaluation.long_form_finder import LongFormFinder
from lmcells.evaluation.reproduce.protocol import DatasetPlan, Protocol, Source
from lmcells.evaluation.reproduce.steps import ACCOUNT, INVENTORY, LEAKY, NOTES, Step, Workspace, remove
from lmcells.evaluation.reverse import ReversePart, build_reverse_dataset, frequent_sections
from lmcells.expansion import SenseInventory, load_inventory, save_inventory
from lmcells.files import atomic_write, write_json
from lmcells.notes.note import Note
from lmcells.notes.readers import Columns, ReadReport, read_notes

_DRAWN = ("max_per_sense", "min_found", "window", "seed", "allow_candidates", "drop_repeated")
_SETTINGS_OF = {
    "file": (),
    "casi": ("match_short_forms", "skip"),
    "reverse": ("format", "sections", "min_header_count", "share", "spelled_forms", *_DRAWN),
}
_NO_SETTINGS = ("inputs", "header_rules", "exclude", "pack")  # files and steps; packing changes no word

# Examples, short forms and senses of the paper's test sets. Its text has 27,209 examples of CASI, its table of filters
# and its table of acronyms 18,233; MIMIC's and CUIMC's have the short forms and senses of CASI.
PUBLISHED_SIZES = {"MIMIC": (44_473, 41, 150), "CUIMC": (22_163, 41, 150), "CASI": (18_233, 41, 150)}


def dataset_step(plan: DatasetPlan, protocol: Protocol, workspace: Workspace) -> Step:
    """Copy, filter or sample a dataset, and write its senses and a summary of the filtering beside it."""
    other = protocol.dataset_of_inventory(plan)
    named = ["file", "raw", "canonical_forms", "section_map", *(() if other else ("inventory",))]
    sources: dict[str, Source] = {key: source for key in named if (source := getattr(plan, key)) is not None}
    sources |= {f"notes {number}": source for number, source in enumerate(plan.notes)}
    settings = {key: getattr(plan, key) for key in _SETTINGS_OF[plan.kind]}
    if "skip" in settings:
        settings["skip"] = list(plan.skip)  # as it reads back from JSON
    shares = [protocol.dataset(name).share for name in protocol.corpus.exclude]
    held_out = max((share for share in shares if share < 1), default=0.0)
    if plan.kind == "reverse" and held_out:
        settings["held_out"] = held_out
    outputs = tuple(workspace.dataset(plan.name, suffix) for suffix in (".jsonl", INVENTORY, ACCOUNT))

    def run(_: Any) -> str:
        paths = {key: source.path() for key, source in sources.items()}
        account: dict[str, Any] = {}
        report = ReadReport()
        remove(workspace.dataset(plan.name, NOTES))  # of an earlier share
        if plan.kind == "casi":
            built = build_casi_dataset(
                paths["raw"],
                canonical_forms=paths.get("canonical_forms"),
                section_map=paths.get("section_map"),
                match_short_forms=workspace.dataset(matched) if (matched := plan.match_short_forms) else None,
                skip=plan.skip,
            )
            examples, senses, account = built.examples, built.inventory, built.account
        else:
            senses = load_inventory(workspace.dataset(other, INVENTORY) if other else paths["inventory"])
            if plan.kind == "reverse":
                part = _reverse(plan, senses, report, held_out=held_out)
                examples, senses = part.examples, part.inventory
                account = {"n_notes": part.n_notes, "n_found": part.n_found, "dropped": dict(part.dropped)}
                account["too_rare"] = [[*target, n] for target, n in part.too_rare.items()]
                if plan.share < 1:
                    write_lines(workspace.dataset(plan.name, NOTES), part.note_ids)
            else:
                examples = list(read_dataset(paths["file"], report=report))
            account["report"] = report.to_dict()
            if "section_map" in paths:  # of CASI, it is applied to its rows
                targets = load_section_map(paths["section_map"])
                examples = [replace(each, section=map_section(each.section, targets)[0]) for each in examples]
        if not examples:
            causes = {step["title"]: step["removed"] for step in account.get("steps", ())}
            causes |= account.get("dropped", {})
            why = "; ".join(f"{cause}: {n:,}" for cause, n in causes.items() if n) or "none was found"
            raise InputError(f"dataset {plan.name!r}: no example is left ({why}). Check its sources.")
        account |= {"n_examples": len(examples), "n_short_forms": len(senses), "n_senses": senses.n_senses}
        outputs[0].parent.mkdir(parents=True, exist_ok=True)
        save_inventory(senses, outputs[1])
        write_json(outputs[2], account, indent=1)
        write_dataset(outputs[0], examples)
        return describe_sizes(account, plan)

    return Step(
        name=f"dataset/{plan.name}",
        needs=tuple(f"dataset/{name}" for name in (other, plan.match_short_forms) if name is not None),
        settings={"kind": plan.kind, **settings},
        sources=sources,
        outputs=outputs,
        run=run,
    )


def describe_sizes(account: Mapping[str, Any], plan: DatasetPlan) -> str:
    """Describe the size of a dataset, beside the paper's if it is one of the paper's, and what was not read."""
    sizes = "{:,} examples, {:,} short forms, {:,} senses"
    told = sizes.format(*(account[name] for name in ("n_examples", "n_short_forms", "n_senses")))
    if plan.published is not None:
        told += f" (the paper's {plan.published}: {sizes.format(*PUBLISHED_SIZES[plan.published])})"
    return told + _describe_rare(account) + describe_skipped(account.get("report", {}))


def _describe_rare(account: Mapping[str, Any]) -> str:
    """Say which short forms were left out, and their long forms that the notes hardly have."""
    rare: dict[str, list[str]] = {}
    for short_form, long_form, n in account.get("too_rare", ()):
        rare.setdefault(short_form, []).append(f"{long_form}: {n}")
    shown = "; ".join(f"{short_form} ({', '.join(forms)})" for short_form, forms in rare.items())
    return f". Left out, for long forms that are found too rarely: {shown}" if shown else ""


def describe_skipped(report: Mapping[str, Any]) -> str:
    """Say which rows could not be read, and where the first one is; nothing if all could."""
    skipped = report.get("skipped", {}).items()
    shown = [f"{reason}: {n:,} (first at {report['first_seen'][reason]})" for reason, n in skipped]
    return f". Rows skipped: {'; '.join(shown)}" if shown else ""


def _reverse(
    plan: DatasetPlan, inventory: SenseInventory, report: ReadReport, *, held_out: float
) -> ReversePart:
    """Draw examples; `held_out` is the share of the notes that the corpus leaves out, whose headers do not count."""
    split, left_out = (NoteSplit({"part": part}) if 0 < part < 1 else None for part in (plan.share, held_out))

    def notes(report: ReadReport) -> Iterator[Note]:
        for source in plan.notes:
            yield from read_notes(source.path(), format=plan.format, report=report)

    find_sections = frequent_sections(
        (note for note in notes(ReadReport()) if not (left_out and left_out.part_of(note.id))),
        style=plan.sections,
        min_count=plan.min_header_count,
    )
    finder = LongFormFinder(inventory, spelled_only=plan.spelled_forms)
    drawn: dict[str, Any] = {name: getattr(plan, name) for name in _DRAWN}
    parts = build_reverse_dataset(
        notes(report), inventory, finder=finder, find_sections=find_sections, split=split, **drawn
    )
    (part,) = parts.values()
    return part


def corpus_step(which: str, protocol: Protocol, workspace: Workspace, *, workers: int) -> Step:
    """Build a corpus, and its packed file for another machine."""
    plan, folder = protocol.corpus, workspace.corpus(which)
    inputs, excluded = plan.inputs, plan.exclude
    if which == LEAKY and protocol.leakage is not None:
        inputs, excluded = (*inputs, *protocol.leakage.inputs), ()
    sources = {f"inputs {number}": source for number, source in enumerate(inputs)}
    if plan.header_rules is not None:
        sources["header_rules"] = plan.header_rules

    def run(_: Any) -> str:
        ids: set[str] = set()
        for name in excluded:  # a held-out share of the notes, or those with examples
            of_share = workspace.dataset(name, NOTES)
            ids |= read_excluded_ids(of_share if of_share.is_file() else workspace.dataset(name))
        if excluded:
            write_lines(workspace.dataset("excluded", NOTES), sorted(ids))
        build_corpus(
            [source.path() for source in inputs],
            output=folder,
            settings=plan.settings(plan.header_rules.path() if plan.header_rules else None),
            format=plan.format,
            columns=Columns(text=plan.text_column, id=plan.id_column, category=plan.category_column),
            exclude_ids=workspace.dataset("excluded", NOTES) if excluded else None,
            workers=workers,
            overwrite=True,
        )
        packed, corpus = folder.with_name(f"{folder.name}.packed"), Corpus.open(folder)
        remove(packed)
        if plan.pack:
            pack_corpus(corpus, packed)
        sizes, n_sections = corpus.manifest.sizes, corpus.manifest.metadata["section"]
        told = "{n_documents:,} notes, {n_tokens:,} tokens, {n_words:,} words".format(**sizes)
        return f"{told}, {n_sections:,} sections{describe_skipped(corpus.manifest.report)}"

    return Step(
        name=f"corpus/{which}",
        needs=tuple(f"dataset/{name}" for name in excluded),
        settings={key.name: getattr(plan, key.name) for key in fields(plan) if key.name not in _NO_SETTINGS},
        sources=sources,
        outputs=(folder,),
        run=run,
    )


def write_lines(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary:
        temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
