"""Notes of many requests expanded together: read one by one, ranked at once."""

from collections import defaultdict

from lmcells.errors import InputError
from lmcells.expansion import expand_text
from lmcells.expansion.expander import Expander
from lmcells.expansion.note_reader import Occurrence
from lmcells.service.inventories import EditedInventories
from lmcells.service.job import AnsweredNote, Job
from lmcells.service.metrics import ServiceMetrics
from lmcells.service.note_queue import Batch
from lmcells.service.requests import InventoryEdits


class BatchExpander:
    """Answers the notes of a batch; a request with a mistake in it fails alone."""

    def __init__(self, expander: Expander, metrics: ServiceMetrics) -> None:
        self._expander = expander
        self._inventories = EditedInventories(expander.inventory)
        self._metrics = metrics

    def __call__(self, batch: Batch) -> None:
        """Answer all notes of a batch, or say of their jobs why they cannot be answered."""
        by_edits: dict[InventoryEdits | None, Batch] = defaultdict(list)
        for job, index in batch:
            by_edits[job.request.inventory].append((job, index))
        for edits, notes in by_edits.items():
            try:
                self._expand(edits, notes)
            except Exception as error:
                self._blame(edits, notes, error)

    def _blame(self, edits: InventoryEdits | None, notes: Batch, error: Exception) -> None:
        """Find the request that cannot be answered by trying each alone."""
        jobs = list(dict.fromkeys(job for job, _ in notes))
        if len(jobs) == 1:
            jobs[0].fail(error)
            return
        for each in jobs:
            own = [(job, index) for job, index in notes if job is each and job.answers[index] is None]
            try:
                self._expand(edits, own)
            except Exception as its_error:
                each.fail(its_error)

    def _expand(self, edits: InventoryEdits | None, notes: Batch) -> None:
        try:
            lexicon = self._expander.lexicon(self._inventories.of(edits))
        except InputError as error:
            for job, _ in notes:
                job.fail(error)
            return
        read: list[tuple[Job, int, list[Occurrence]]] = []
        for job, index in notes:
            if job.is_over:
                continue
            note = job.notes[index]
            try:
                read.append((job, index, lexicon.read(note.text, note.sections)))
            except InputError as error:
                job.fail(error)
        expanded = self._expander.expand_read([occurrences for *_, occurrences in read], lexicon)
        answers: list[AnsweredNote] = []
        for (job, index, occurrences), expansions in zip(read, expanded, strict=True):
            note, style = job.notes[index], job.request.expanded_text
            explanations = self._expander.explain_read(occurrences, lexicon) if job.request.explain else None
            written_out = expand_text(note.text, expansions, style=style) if style else None
            answers.append(AnsweredNote(note.id, expansions, explanations, written_out))
        self._metrics.count_notes([job.notes[index].text for job, index, _ in read], expanded)
        for (job, index, _), answer in zip(read, answers, strict=True):
            job.answer(index, answer)
