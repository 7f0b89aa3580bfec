"""The steps that read notes: datasets and corpora."""

from dataclasses import fields
from pathlib import Path
from typing import Any

from lmcells.corpus import Corpus
from lmcells.corpus.build import build_corpus
from lmcells.corpus.packing import pack_corpus
from lmcells.corpus.settings import read_excluded_ids
from lmcells.errors import InputError
from lmcells.evaluation.casi import build_casi_dataset, load_canonical_forms
from lmcells.evaluation.dataset import Example, NoteSplit, read_dataset, write_dataset
from lmcells.evaluation.long_form_finder import LongFormFinder
from lmcells.evaluation.reproduce.protocol import DatasetPlan, Protocol
from lmcells.evaluation.reproduce.sources import Source
from lmcells.evaluation.reproduce.steps import Step
from lmcells.evaluation.reproduce.workspace import LEAKY, Workspace, remove
from lmcells.evaluation.reverse import ReverseSettings, build_reverse_dataset, used_inventory
from lmcells.evaluation.section_mapping import load_section_map
from lmcells.expansion import SenseInventory, load_inventory, save_inventory
from lmcells.files import atomic_write
from lmcells.notes.readers import Columns, ReadReport, read_notes
from lmcells.notes.section_styles import section_finder

_SETTINGS_OF = {
    "file": (),
    "casi": ("match_short_forms", "skip"),
    "reverse": (
        *("format", "sections", "max_per_sense", "window", "seed", "share"),
        *("spelled_forms", "allow_candidates"),
    ),
}
_NO_SETTINGS = ("inputs", "header_rules", "exclude", "pack")  # files and steps; packing changes no word


def dataset_step(plan: DatasetPlan, protocol: Protocol, workspace: Workspace) -> Step:
    """Copy, filter or draw a dataset; its senses go with it."""
    other = protocol.dataset_of_inventory(plan)
    named = ("file", "raw", "canonical_forms", *(() if other else ("inventory",)))
    sources = {key: getattr(plan, key) for key in named if getattr(plan, key) is not None}
    sources |= {f"notes {number}": source for number, source in enumerate(plan.notes)}
    if plan.kind == "casi" and plan.section_map is not None:
        sources["section_map"] = plan.section_map
    settings = {key: getattr(plan, key) for key in _SETTINGS_OF[plan.kind]}
    if "skip" in settings:
        settings["skip"] = list(plan.skip)  # as it reads back from JSON
    dataset, inventory = workspace.dataset(plan.name), workspace.inventory(plan.name)

    def run(_: Any) -> None:
        if plan.kind == "casi":
            examples, senses = _casi(plan, workspace)
        else:
            senses = load_inventory(workspace.inventory(other) if other else _path(plan.inventory))
            if plan.kind == "reverse":
                examples, senses = _reverse(plan, senses)
            else:
                examples = list(read_dataset(_path(plan.file), report=ReadReport()))
        if not examples:
            raise InputError(f"dataset {plan.name!r}: no example is left. Check its sources.")
        dataset.parent.mkdir(parents=True, exist_ok=True)
        save_inventory(senses, inventory)
        write_dataset(dataset, examples)

    return Step(
        name=f"dataset/{plan.name}",
        needs=tuple(f"dataset/{name}" for name in (other, plan.match_short_forms) if name is not None),
        settings={"kind": plan.kind, **settings},
        sources=sources,
        outputs=(dataset, inventory),
        run=run,
    )


def _casi(plan: DatasetPlan, workspace: Workspace) -> tuple[list[Example], SenseInventory]:
    matched = None
    if plan.match_short_forms is not None:
        other = read_dataset(workspace.dataset(plan.match_short_forms), report=ReadReport())
        matched = frozenset(example.short_form for example in other)
    built = build_casi_dataset(
        _path(plan.raw),
        canonical_forms=load_canonical_forms(plan.canonical_forms.path()) if plan.canonical_forms else None,
        section_map=load_section_map(plan.section_map.path()) if plan.section_map else None,
        match_short_forms=matched,
        skip=plan.skip,
        report=ReadReport(),
    )
    return built.examples, built.inventory


def _reverse(plan: DatasetPlan, inventory: SenseInventory) -> tuple[list[Example], SenseInventory]:
    settings = ReverseSettings(
        max_per_sense=plan.max_per_sense,
        window=plan.window,
        seed=plan.seed,
        allow_candidates=plan.allow_candidates,
    )
    notes = (
        note
        for source in plan.notes
        for note in read_notes(source.path(), format=plan.format, report=ReadReport())
    )
    parts = build_reverse_dataset(
        notes,
        finder=LongFormFinder(inventory, spelled_only=plan.spelled_forms),
        find_sections=section_finder(plan.sections),
        settings=settings,
        split=NoteSplit({plan.name.replace(".", "-"): plan.share}) if plan.share < 1 else None,
    )
    (part,) = parts.values()
    return part.examples, used_inventory(inventory, part)


def corpus_step(which: str, protocol: Protocol, workspace: Workspace, *, workers: int) -> Step:
    """Build a corpus, and the file of it that travels."""
    plan = protocol.corpus
    inputs, excluded = plan.inputs, plan.exclude
    if which == LEAKY and protocol.leakage is not None:
        inputs, excluded = (*inputs, *protocol.leakage.inputs), ()
    sources = {f"inputs {number}": source for number, source in enumerate(inputs)}
    if plan.header_rules is not None:
        sources["header_rules"] = plan.header_rules
    folder = workspace.corpus(which)

    def run(_: Any) -> None:
        ids = _excluded_ids(workspace, excluded)
        build_corpus(
            [source.path() for source in inputs],
            output=folder,
            settings=plan.settings(plan.header_rules.path() if plan.header_rules else None),
            format=plan.format,
            columns=Columns(text=plan.text_column, id=plan.id_column, category=plan.category_column),
            exclude_ids=ids,
            workers=workers,
            overwrite=True,
        )
        packed = folder.with_name(f"{folder.name}.packed")
        remove(packed)
        if plan.pack:
            pack_corpus(Corpus.open(folder), packed)

    return Step(
        name=f"corpus/{which}",
        needs=tuple(f"dataset/{name}" for name in excluded),
        settings={
            each.name: getattr(plan, each.name) for each in fields(plan) if each.name not in _NO_SETTINGS
        },
        sources=sources,
        outputs=(folder,),
        run=run,
    )


def _excluded_ids(workspace: Workspace, datasets: tuple[str, ...]) -> Path | None:
    """Write the notes of all excluded datasets into one file."""
    if not datasets:
        return None
    ids = sorted(frozenset().union(*(read_excluded_ids(workspace.dataset(name)) for name in datasets)))
    path = workspace.dataset("excluded").with_suffix(".txt")
    with atomic_write(path) as temporary:
        temporary.write_text("".join(f"{id_}\n" for id_ in ids), encoding="utf-8")
    return path


def _path(source: Source | None) -> Path:
    assert source is not None  # the plan has checked that it is given
    return source.path()
