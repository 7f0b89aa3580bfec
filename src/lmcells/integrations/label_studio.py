"""Label Studio: tasks with predictions, and the labeling configuration that shows them.

A short form is a region with the label `Acronym` or `Abstained`; its long form is a text that can be edited, its
probability the score of the region.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import lmcells
from lmcells.expansion.expansion import Expansion
from lmcells.files import atomic_write
from lmcells.integrations.annotated_notes import AnnotatedNote

CONFIGURATION = """\
<View>
  <Style>.htx-text{ white-space: pre-wrap; }</Style>
  <Labels name="label" toName="text">
    <Label value="Acronym" background="#2a7f62"/>
    <Label value="Abstained" background="#b8860b"/>
  </Labels>
  <Text name="text" value="$text"/>
  <TextArea name="long_form" toName="text" perRegion="true" editable="true" maxSubmissions="1"
            placeholder="what it stands for"/>
</View>
"""


def export_label_studio(notes: Iterable[AnnotatedNote], path: Path) -> int:
    """Write a JSON list of tasks, and beside it the configuration as `.xml`; -> how many tasks there are."""
    n_tasks = 0
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.write("[")
        for each in notes:
            file.write(("," if n_tasks else "") + "\n" + json.dumps(task(each), ensure_ascii=False))
            n_tasks += 1
        file.write("\n]\n")
    with atomic_write(path.with_suffix(".xml")) as temporary:
        temporary.write_text(CONFIGURATION, encoding="utf-8", newline="\n")
    return n_tasks


def task(annotated: AnnotatedNote) -> dict[str, Any]:
    """Return a note as a task with one prediction."""
    scores = [_score(each) for each in annotated.expansions]
    prediction: dict[str, Any] = {
        "model_version": f"lmcells {lmcells.__version__}",
        "result": [
            result
            for number, each in enumerate(annotated.expansions)
            for result in _results(f"expansion-{number}", each, annotated.text)
        ],
    }
    if scores:
        prediction["score"] = min(scores)  # the least sure first, when tasks are sorted by it
    return {"data": {"text": annotated.text, "note_id": annotated.id}, "predictions": [prediction]}


def _results(region: str, expansion: Expansion, text: str) -> Iterator[dict[str, Any]]:
    place = {"start": expansion.start, "end": expansion.end}
    common = {"id": region, "to_name": "text", "score": _score(expansion)}
    yield common | {
        "from_name": "label",
        "type": "labels",
        "value": place
        | {
            "text": text[expansion.start : expansion.end],
            "labels": ["Abstained" if expansion.abstained else "Acronym"],
        },
    }
    if expansion.long_form is not None:
        value = place | {"text": [expansion.long_form]}
        yield common | {"from_name": "long_form", "type": "textarea", "value": value}


def _score(expansion: Expansion) -> float:
    """How likely the best candidate is, answered or not."""
    return max((candidate.probability for candidate in expansion.candidates), default=0.0)
