"""The examples of the schema for what the Explore view asks."""

from typing import Any

FIRST_LOOK: dict[str, Any] = {
    "n_words": 28939,
    "n_sections": 593,
    "n_short_forms": 2014,
    "short_form": "MG",
    "section": "DISCHARGE MEDICATIONS",
    "word": "history",
    "sections": ["SOCIAL HISTORY", "FAMILY HISTORY"],
}
NAME: dict[str, Any] = {"name": "history", "count": 21034}
NAMES: dict[str, Any] = {"known": None, "names": [NAME]}
NEIGHBOR: dict[str, Any] = {"word": "smoker", "count": 812, "divergence": 1.94, "cosine": 0.71}
NEIGHBORS: dict[str, Any] = {
    "word": "history",
    "section": "SOCIAL HISTORY",
    "against": "section",
    "measure": "divergence",
    "count": 21034,
    "count_in_section": 69,
    "variance": 0.42,
    "moved": 0.24,
    "n_candidates": 10000,
    "neighbors": [NEIGHBOR],
}
LIKENESS: dict[str, Any] = {"word": "smoker", "divergence": 1.94, "probability": 0.21, "ratio": 1.7}
SENSE: dict[str, Any] = {
    "section": "SOCIAL HISTORY",
    "count": 69,
    "variance": 0.42,
    "moved": 0.24,
    "likenesses": [LIKENESS],
    "neighbors": [NEIGHBOR],
}
SENSES: dict[str, Any] = {
    "word": "history",
    "count": 21034,
    "words": ["smoker"],
    "sections": [SENSE],
    "average": SENSE | {"section": None, "count": None, "moved": 0.0},
}
PATH: dict[str, Any] = {
    "long_form": "milligram",
    "probabilities": [0.01, 0.4, 0.98],
    "learnt": 0.9,
    "without_section": 0.02,
}
INTERPOLATION: dict[str, Any] = {
    "short_form": "MG",
    "section": "DISCHARGE MEDICATIONS",
    "n_words": 0,
    "weights": [0.0, 0.5, 1.0],
    "learnt_weight": 0.82,
    "long_forms": [PATH],
}
MAPPED: dict[str, Any] = {"section": "SOCIAL HISTORY", "count": 51230, "cluster": 0, "x": 0.31, "y": -1.2}
MAP: dict[str, Any] = {
    "network": "variational",
    "trustworthiness": 0.94,
    "clusters": ["SOCIAL HISTORY"],
    "sections": [MAPPED],
}
NEAR_SECTION: dict[str, Any] = {"section": "FAMILY HISTORY", "count": 40211, "cosine": 0.64}
NEAR_SECTIONS: dict[str, Any] = {
    "section": "SOCIAL HISTORY",
    "count": 51230,
    "variational": [NEAR_SECTION],
    "prior": [NEAR_SECTION],
}
PLACE: dict[str, Any] = {"x": 0.1, "y": -0.4}
COMPONENT: dict[str, Any] = {"section": "SOCIAL HISTORY", "weight": 0.12, "variance": 0.42, **PLACE}
MIXTURE: dict[str, Any] = {
    "word": "history",
    "n_seen": 21034,
    "n_counted": 19980,
    "covered": 0.93,
    "share": 0.46,
    "expected": PLACE,
    "components": [COMPONENT],
}
