"""Ray Data: shards go to actors, each of which loads the model once.

`run_on_ray` is what `lmcells annotate --engine ray` uses; `annotate_dataset` is for datasets of one's own.
"""

import logging
from collections.abc import Iterable, Iterator
from typing import Any

from lmcells.errors import InputError, LmcellsError, MissingExtra
from lmcells.integrations.annotation_shard import (
    AnnotationTask,
    ExpanderSettings,
    Shard,
    ShardResult,
    annotate_table,
    run_packed,
    waves_of,
)

try:
    import ray
    import ray.data
except ImportError:
    raise MissingExtra("ray", extra="ray", purpose="The engine 'ray'") from None


def run_on_ray(task: AnnotationTask, shards: Iterable[Shard], workers: int) -> Iterator[ShardResult]:
    """Expand shards on the cluster of RAY_ADDRESS, the one that runs here, or one started for it."""
    started = not ray.is_initialized()
    if started:
        ray.init(logging_level=logging.ERROR, include_dashboard=False, log_to_driver=False)
        _be_quiet()
    try:
        for wave in waves_of(shards):
            packed = ray.data.from_items([{"shard": shard} for shard in wave], override_num_blocks=len(wave))
            results = packed.map_batches(
                _ShardActor,
                fn_constructor_args=(task,),
                batch_size=1,
                compute=ray.data.ActorPoolStrategy(size=min(workers, len(wave))),
            )
            for row in results.iter_rows():
                yield ShardResult.from_bytes(row["result"])
    except ray.exceptions.RayError as error:
        raise InputError(f"Ray stopped: {_cause(error)}. See its logs, and go on with --resume.") from None
    finally:
        if started:
            ray.shutdown()


def _be_quiet() -> None:
    """The command has a progress line of its own."""
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)


def _cause(error: Exception) -> str:
    """Our own words where they are the cause; others may hold text of a note."""
    cause = getattr(error, "cause", None)
    return str(cause).rstrip(".") if isinstance(cause, LmcellsError) else type(error).__name__


class _ShardActor:
    def __init__(self, task: AnnotationTask) -> None:
        self._task = task
        task.expander.opened()

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"result": [run_packed(self._task, bytes(shard)) for shard in batch["shard"]]}


def annotate_dataset(
    dataset: Any,
    *,
    expander: ExpanderSettings | None = None,
    id_column: str = "note_id",
    text_column: str = "note_text",
    workers: int = 1,
    batch_size: int = 512,
) -> Any:
    """Return a Ray dataset with one row an expansion, for a dataset of notes; see `annotate_table`."""
    return dataset.select_columns([id_column, text_column]).map_batches(
        _NoteActor,
        fn_constructor_args=(expander or ExpanderSettings(), id_column, text_column),
        batch_size=batch_size,
        batch_format="pyarrow",
        compute=ray.data.ActorPoolStrategy(size=workers),
    )


class _NoteActor:
    def __init__(self, settings: ExpanderSettings, *columns: str) -> None:
        self._settings = settings
        self._columns = columns
        settings.opened()

    def __call__(self, batch: Any) -> Any:
        ids, texts = (batch.column(name).to_pylist() for name in self._columns)
        return annotate_table(self._settings, ids, texts)
