"""Invented notes with two senses each of PT and MS, and a protocol over them that takes seconds."""

import random
from pathlib import Path
from typing import Any

import pytest

from expansion.clinic import INVENTORY
from lmcells import figure_style
from lmcells.expansion import save_inventory
from note_files import write_jsonl

WORDS_OF = {
    "physical therapy": ("PLAN", ("exercise", "gait", "walking", "strength", "stairs", "balance")),
    "prothrombin time": ("LABS", ("bleeding", "clotting", "warfarin", "seconds", "plasma", "bruise")),
    "mitral stenosis": ("ECHO", ("valve", "murmur", "gradient", "atrium", "doppler", "leaflet")),
    "multiple sclerosis": ("NEURO", ("lesion", "numbness", "relapse", "optic", "spasm", "myelin")),
}
TINY = """\
model.cell_dim = 4
model.embedding_dim = 4
model.hidden_dim = 4
model.window = 4
training.batch_size = 256
"""
TINY_ELMO = """\
language_model.layers = 1
language_model.heads = 2
language_model.width = 8
language_model.feed_forward = 8
language_model.filters = [4, 4]
training.batch_size = 512
"""


def write_notes(path: Path, *, source: str, n_notes: int, first: int = 0, seed: int = 0) -> Path:
    """Each section writes its long form out among words of its own."""
    draw = random.Random(seed)
    notes: list[dict[str, Any]] = []
    for index in range(n_notes):
        sections = []
        for long_form, (header, words) in WORDS_OF.items():
            body = [draw.choice(words) for _ in range(14)]
            body[6] = long_form
            sections.append({"header": header, "text": " ".join(body)})
        notes.append(
            {
                "id": f"{source}/{first + index}",
                "category": ("ward", "office")[index % 2],
                "sections": sections,
            }
        )
    return write_jsonl(path, notes)


def write_protocol(
    folder: Path, *, epochs: int = 1, models: str = "", n_notes: int = 40, **more: str
) -> Path:
    """Notes, senses and `protocol.toml`; `models` are further [[model]] tables, `more` is appended as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    write_notes(folder / "train.jsonl", source="clinic", n_notes=n_notes)
    write_notes(folder / "dev.jsonl", source="clinic", n_notes=12, first=1000, seed=1)
    save_inventory(INVENTORY, folder / "senses.json")
    text = f"""
seeds = [0, 1]

[corpus]
inputs = ["train.jsonl", "dev.jsonl"]
min_count = 0
min_header_count = 1
exclude = ["reverse"]

[[dataset]]
name = "reverse"
kind = "reverse"
notes = ["dev.jsonl"]
inventory = "senses.json"

[[model]]
name = "lmc"
kind = "lmc"
preset = "paper"
training.epochs = {epochs}
{TINY}
{models}
[report]
rounds = 20
resamples = 20
{"".join(more.values())}
"""
    (folder / "protocol.toml").write_text(text, encoding="utf-8")
    return folder / "protocol.toml"


def draw_nothing(patch: pytest.MonkeyPatch) -> None:
    """Leave a report's figures empty: they take most of its time, and `test_report` looks at them."""
    patch.setattr(figure_style, "save", lambda _, stem: stem.with_suffix(".svg").write_text("<svg/>"))


def changed(path: Path, before: str, after: str) -> Path:
    """Put one text in the place of another in a file."""
    text = path.read_text(encoding="utf-8")
    assert before in text
    path.write_text(text.replace(before, after), encoding="utf-8")
    return path
