"""Ray Data: shards go to actors, each of which loads the model once.

`run_on_ray` is the engine of `lmcells annotate --engine ray`; `annotate_dataset` is for your own datasets.
"""

import logging
from collections.abc import Iterable, Iterator
from typing import Any

from lmcells.errors import InputError, LmcellsError, MissingExtra
from lmcells.expansion.settings import ExpanderSettings
from lmcells.integrations.shards import Shard, Task, annotate_table, run_pickled, shared_expander, waves_of

try:
    import ray
    import ray.data
except ImportError:
    raise MissingExtra("ray", extra="ray", purpose="The engine 'ray'") from None


def run_on_ray(task: Task, shards: Iterable[Shard], workers: int) -> Iterator[bytes]:
    """Expand shards on the cluster of RAY_ADDRESS, on one already running here, or on one started for the job."""
    started = not ray.is_initialized()
    if started:
        ray.init(logging_level=logging.ERROR, include_dashboard=False, log_to_driver=False)
        ray.data.DataContext.get_current().enable_progress_bars = False  # the command shows its own
        logging.getLogger("ray.data").setLevel(logging.ERROR)
    try:
        for wave in waves_of(shards):
            pickled = ray.data.from_items([{"shard": shard} for shard in wave], override_num_blocks=len(wave))
            results = pickled.map_batches(
                _ShardActor,
                fn_constructor_args=(task,),
                batch_size=1,
                compute=ray.data.ActorPoolStrategy(size=min(workers, len(wave))),
            )
            for row in results.iter_rows():
                yield row["result"]
    except ray.exceptions.RayError as error:
        # Only our own messages are shown: others may quote a note.
        cause = getattr(error, "cause", None)
        said = str(cause).rstrip(".") if isinstance(cause, LmcellsError) else type(error).__name__
        raise InputError(f"Ray stopped: {said}. See its logs, and continue with --resume.") from None
    finally:
        if started:
            ray.shutdown()


class _ShardActor:
    def __init__(self, task: Task) -> None:
        self._task = task
        shared_expander(task.expander)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"result": [run_pickled(self._task, bytes(shard)) for shard in batch["shard"]]}


def annotate_dataset(
    dataset: Any,
    *,
    expander: ExpanderSettings | None = None,
    id_column: str = "note_id",
    text_column: str = "note_text",
    workers: int = 1,
    batch_size: int = 512,
) -> Any:
    """Return a Ray dataset with one row per expansion for a dataset of notes, as `annotate_table` does per batch."""
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
        shared_expander(settings)

    def __call__(self, batch: Any) -> Any:
        ids, texts = (batch.column(name).to_pylist() for name in self._columns)
        return annotate_table(self._settings, ids, texts)
