"""`lmcells prepare`: notes -> a corpus."""

import argparse
import os
from pathlib import Path
from typing import Any

from lmcells.cli.arguments import Command, Options, columns_of, picked
from lmcells.cli.terminal import ProgressLine, account_rows, print_result
from lmcells.corpus import Corpus, CorpusSettings
from lmcells.corpus.build import READING, build_corpus
from lmcells.files import CONTINUE, explain_unwritable


def _add_arguments(add: Options) -> None:
    defaults = CorpusSettings()
    add("inputs INPUT", "file or folder of notes", nargs="+", type=Path)
    add.output("CORPUS", "folder to write", replaces="a corpus")
    add.reading()
    add, least = add.group("what is kept"), defaults.min_header_count
    words = f"keep words seen more than N times ({defaults.min_count})"
    add("--min-count N", words, type=int, default=defaults.min_count)
    add("--min-header-count N", f"headers seen at least N times get an id ({least})", type=int, default=least)
    add("--exclude-ids FILE", "ids of notes to leave out, or a dataset with these ids", type=Path)
    add("--stop-words", 'also read words such as "of" and "the"')
    text = "share of sections in which a short form that the note defines is read as its long form (0)"
    add("--spell-out SHARE", text, type=float, default=defaults.spelled_out, dest="spelled_out")
    add = add.running(resumes="a build")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    add("--workers N", "processes (all cores)", type=int, default=cores)


def _run(options: argparse.Namespace) -> None:
    with ProgressLine() as line, explain_unwritable(options.output, advice=CONTINUE):
        corpus = build_corpus(
            **picked(options, build_corpus),
            settings=CorpusSettings(**picked(options, CorpusSettings)),
            columns=columns_of(options),
            on_progress=lambda step, *read: line.notes(*read) if step == READING else line.update(step),
        )
    data = {"corpus": str(options.output), **corpus.manifest.to_dict()}
    print_result(options, data, [(str(options.output), _summary(corpus))])


def _summary(corpus: Corpus) -> list[tuple[str, Any]]:
    manifest, report = corpus.manifest, corpus.manifest.report
    excluded = {"notes excluded": "n_excluded", "excluded ids not found": "n_excluded_ids_not_found"}
    return [
        ("notes read", report["n_read"]),
        *account_rows(report),
        *((title, report[name]) for title, name in excluded.items() if report[name]),
        ("notes in the corpus", manifest.sizes["n_documents"]),
        ("tokens", manifest.sizes["n_tokens"]),
        ("words", manifest.sizes["n_words"]),
        *((f"{kind} values", count) for kind, count in manifest.metadata.items() if kind != "document"),
        ("bytes on disk", sum(file["bytes"] for file in manifest.files.values())),
    ]


_PREPARE = """\
turn notes into a corpus for training

Read clinical notes, find their sections and words, and write a compact, memory-mapped corpus for training. Files may
be plain or gzipped; folders are read in sorted order.

examples:
  lmcells prepare NOTEEVENTS.csv.gz --output corpus --sections paper
  lmcells prepare notes.jsonl more/ --output corpus --exclude-ids test_ids.txt --workers 8
  lmcells prepare news.parquet --output corpus --text-column body --metadata-column topic"""
COMMANDS = {"prepare": Command(_PREPARE, _add_arguments, _run)}
