"""The examples of the schema: one note, and what might be answered."""

from typing import Any

NOTE = "PMH: Pt with CVA in 2019, now in PT twice weekly."
SENSE: dict[str, Any] = {
    "short_form": "PT",
    "long_form": "pars tensa",
    "forms": ["pars tensa"],
    "concept_id": None,
}
EDITS: dict[str, Any] = {"add": [SENSE], "remove": [{"short_form": "PT", "long_form": "prothrombin time"}]}
CANDIDATES: list[Any] = [
    {"long_form": "physical therapy", "probability": 0.93, "concept_id": None},
    {"long_form": "prothrombin time", "probability": 0.07, "concept_id": None},
]
EXPANSION: dict[str, Any] = {
    "start": 33,
    "end": 35,
    "short_form": "PT",
    "section": "PAST MEDICAL HISTORY",
    "long_form": "physical therapy",
    "probability": 0.93,
    "source": "model",
    "candidates": CANDIDATES,
    "abstained": None,
}
WORD: dict[str, Any] = {"start": 36, "end": 41, "word": "twice", "weight": 0.41, "effect": 1.3}
EXPLANATION: dict[str, Any] = {"section_weight": 0.38, "section_effect": 0.4, "words": [WORD]}
OFFSETS: dict[str, Any] = {"starts": [33], "ends": [35], "new_starts": [33], "new_ends": [49]}
EXPANDED: dict[str, Any] = {
    "text": "PMH: Pt with CVA in 2019, now in physical therapy twice weekly.",
    "offset_map": OFFSETS,
}
ANSWER: dict[str, Any] = {
    "id": None,
    "expansions": [EXPANSION],
    "explanations": [EXPLANATION],
    "expanded": EXPANDED,
}
ENTRY: dict[str, Any] = {
    "short_form": "PT",
    "senses": [{"long_form": "physical therapy", "forms": ["physiotherapy"]}],
}
