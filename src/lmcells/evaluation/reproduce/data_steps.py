"""The steps that read notes: datasets and corpora."""

from dataclasses import fields
from pathlib import Path
from typing import Any

from lmcells.corpus import Corpus
from lmcells.corpus.build import build_corpus
from lmcells.corpus.packing import pack_corpus
from lmcells.corpus.settings import read_excluded_ids
from lmcells.errors import InputError
from lmcells.evaluation.casi import build_casi_dataset
from lmcells.evaluation.dataset import Example, NoteSplit, read_dataset, write_dataset
from lmcells.evaluation.long_form_finder import LongFormFinder
from lmcells.evaluation.reproduce.protocol import DatasetPlan, Protocol
from lmcells.evaluation.reproduce.sources import Source
from lmcells.evaluation.reproduce.steps import Step
from lmcells.evaluation.reproduce.workspace import LEAKY, Workspace, remove
from lmcells.evaluation.reverse import build_reverse_dataset, used_inventory
from lmcells.expansion import SenseInventory, load_inventory, save_inventory
from lmcells.files import atomic_write
from lmcells.notes.readers import Columns, ReadReport, read_notes
from lmcells.notes.section_styles import section_finder

_SETTINGS_OF = {
    "file": "",
    "casi": "match_short_forms skip",
    "reverse": "format sections max_per_sense window seed share spelled_forms allow_candidates",
}
_NO_SETTINGS = ("inputs", "header_rules", "exclude", "pack")  # files and steps; packing changes no word


def dataset_step(plan: DatasetPlan, protocol: Protocol, workspace: Workspace) -> Step:
    """Copy, filter or draw a dataset; its senses go with it."""
    other = protocol.dataset_of_inventory(plan)
    named = ["file", "raw", "canonical_forms", *(() if other else ("inventory",))]
    named += ["section_map"] if plan.kind == "casi" else []  # of other datasets, it is for the models
    sources: dict[str, Source] = {key: source for key in named if (source := getattr(plan, key)) is not None}
    sources |= {f"notes {number}": source for number, source in enumerate(plan.notes)}
    settings = {key: getattr(plan, key) for key in _SETTINGS_OF[plan.kind].split()}
    if "skip" in settings:
        settings["skip"] = list(plan.skip)  # as it reads back from JSON
    dataset, inventory = workspace.dataset(plan.name), workspace.inventory(plan.name)

    def run(_: Any) -> None:
        paths = {key: source.path() for key, source in sources.items()}
        if plan.kind == "casi":
            other_dataset = plan.match_short_forms and workspace.dataset(plan.match_short_forms)
            built = build_casi_dataset(
                paths["raw"],
                canonical_forms=paths.get("canonical_forms"),
                section_map=paths.get("section_map"),
                match_short_forms=other_dataset or None,
                skip=plan.skip,
            )
            examples, senses = built.examples, built.inventory
        else:
            senses = load_inventory(workspace.inventory(other) if other else paths["inventory"])
            if plan.kind == "reverse":
                examples, senses = _reverse(plan, senses)
            else:
                examples = _read(paths["file"])
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


def _read(path: Path) -> list[Example]:
    return list(read_dataset(path, report=ReadReport()))


def _reverse(plan: DatasetPlan, inventory: SenseInventory) -> tuple[list[Example], SenseInventory]:
    parts = build_reverse_dataset(
        (
            note
            for source in plan.notes
            for note in read_notes(source.path(), format=plan.format, report=ReadReport())
        ),
        finder=LongFormFinder(inventory, spelled_only=plan.spelled_forms),
        find_sections=section_finder(plan.sections),
        max_per_sense=plan.max_per_sense,
        window=plan.window,
        seed=plan.seed,
        allow_candidates=plan.allow_candidates,
        split=NoteSplit({plan.name.replace(".", "-"): plan.share}) if plan.share < 1 else None,
    )
    (part,) = parts.values()
    return part.examples, used_inventory(inventory, part)


def corpus_step(which: str, protocol: Protocol, workspace: Workspace, *, workers: int) -> Step:
    """Build a corpus, and the file of it that travels."""
    plan, folder = protocol.corpus, workspace.corpus(which)
    inputs, excluded = plan.inputs, plan.exclude
    if which == LEAKY and protocol.leakage is not None:
        inputs, excluded = (*inputs, *protocol.leakage.inputs), ()
    sources = {f"inputs {number}": source for number, source in enumerate(inputs)}
    if plan.header_rules is not None:
        sources["header_rules"] = plan.header_rules

    def run(_: Any) -> None:
        build_corpus(
            [source.path() for source in inputs],
            output=folder,
            settings=plan.settings(plan.header_rules.path() if plan.header_rules else None),
            format=plan.format,
            columns=Columns(text=plan.text_column, id=plan.id_column, category=plan.category_column),
            exclude_ids=_excluded_ids(workspace, excluded) if excluded else None,
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
        settings={key.name: getattr(plan, key.name) for key in fields(plan) if key.name not in _NO_SETTINGS},
        sources=sources,
        outputs=(folder,),
        run=run,
    )


def _excluded_ids(workspace: Workspace, datasets: tuple[str, ...]) -> Path:
    """Write the notes of all excluded datasets into one file."""
    ids = sorted(frozenset().union(*(read_excluded_ids(workspace.dataset(name)) for name in datasets)))
    path = workspace.dataset("excluded").with_suffix(".txt")
    with atomic_write(path) as temporary:
        temporary.write_text("".join(f"{id_}\n" for id_ in ids), encoding="utf-8")
    return path
