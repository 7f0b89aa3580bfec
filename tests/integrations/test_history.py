"""The history of a process changes no digit: what is asked first, and in which company."""

from pathlib import Path

import pytest

from lmcells.errors import ModelError
from lmcells.integrations.annotation_shard import AnnotationTask, ExpanderSettings, Shard, _opened
from lmcells.integrations.rows import NoteFiles
from lmcells.notes.readers import ReadReport
from lmcells.pretrained.folder import shipped_model

EXAMPLES = Path(__file__).parents[2] / "examples" / "notes"


def test_shards_in_any_order_give_the_same_bytes() -> None:
    try:
        shipped_model()
    except ModelError as error:
        pytest.skip(str(error))
    notes = list(NoteFiles([EXAMPLES]).read(ReadReport()))
    shards = [Shard(number, notes[number * 4 : number * 4 + 4]) for number in range(4)]
    results = []
    for order in (shards, shards[::-1], shards[2:] + shards[:2]):
        _opened.cache_clear()  # as in another process
        task = AnnotationTask(ExpanderSettings())
        results.append({shard.number: task.run(shard).rows for shard in order})
    assert results[0] == results[1] == results[2]
    assert sum(map(len, results[0].values())) > 1000
