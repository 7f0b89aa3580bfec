"""A folder with a small model, an inventory and files of invented notes, for all that works on whole files."""

import random
from pathlib import Path
from typing import Any

from expansion.clinic import INVENTORY, WORDS_OF, clinic_corpus, random_model
from lmcells.expansion import save_inventory
from lmcells.expansion.settings import ExpanderSettings

AWKWARD = (
    "PLAN: Frau Müller 🩺 in PT.\r\n\r\nPMH: multiple sclerosis (MS), MS 3×.\r\nLABS: PT 12 s\u2028PT\r\n"
)
"""Beyond ASCII, beyond 16 bits, lines that end in other ways."""


def build_ward(folder: Path) -> ExpanderSettings:
    """Write `model` and `inventory.csv` into a folder."""
    random_model(folder / "model", clinic_corpus(folder / "corpus"), "lmc")
    save_inventory(INVENTORY, folder / "inventory.csv")
    return ExpanderSettings(str(folder / "model"), only_inventory=str(folder / "inventory.csv"))


def ward_notes(n_notes: int, *, seed: int = 0) -> list[dict[str, Any]]:
    """Notes with PT and MS in sections, one in five awkward, one in seven without anything to expand."""
    draw = random.Random(seed)
    notes = []
    for index in range(n_notes):
        text = AWKWARD
        if index % 7 == 3:
            text = "Seen, nothing to add."
        elif index % 5:
            words = [draw.choice(words) for words in WORDS_OF.values() for _ in range(6)]
            text = f"PLAN: {' '.join(words[:6])} PT daily\n\nLABS: PT {' '.join(words[6:])}, MS"
        notes.append({"id": f"notes/{index}", "text": text})
    return notes
