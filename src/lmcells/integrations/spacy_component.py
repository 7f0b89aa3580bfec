"""The spaCy component `lmcells`.

```python
nlp = spacy.blank("en")
nlp.add_pipe("lmcells", config={"threshold": 0.5})
doc = nlp("PMH: CVA in 2019, now in PT twice weekly.")
doc._.acronyms         # a tuple of dicts with the fields of an Expansion
doc.spans["acronyms"]  # the same as spans of tokens: span._.long_form, span._.acronym
```

The results are plain data in `doc.user_data`, so they survive `n_process`, pickling and DocBin.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import partial
from io import BytesIO
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any, NamedTuple, Self
from weakref import finalize
from zipfile import ZipFile

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import ensure_path, from_bytes, from_disk, raise_error, to_bytes, to_disk

from lmcells.expansion.expander import Expander
from lmcells.expansion.expansion import Expansion
from lmcells.expansion.settings import ExpanderSettings
from lmcells.files import read_json, write_json
from lmcells.pretrained.folder import DEFAULT

FACTORY = "lmcells"
LABEL = "ACRONYM"
KEY = "lmcells.acronyms"
"""The key of the results in `doc.user_data`."""
METADATA = "lmcells.metadata"
"""The key in `doc.user_data` under which a document may have metadata, such as {"category": "Cardiology"}."""

ErrorHandler = Callable[[str, Any, list[Doc], Exception], None]

_SETTINGS, _MODEL, _FILES = "settings.json", "model", "files"


class _NoteOf(NamedTuple):
    """A document as the expander reads it."""

    text: str
    sections: list[dict[str, Any]] | None
    metadata: dict[str, Any] | None


class AcronymComponent:
    """Expands the short forms of documents; made by `nlp.add_pipe("lmcells")`.

    The model is loaded with the first document. Saving the pipeline saves the model folder and the inventory file with
    it, unless they are the shipped ones.

    Args:
        name: The name of the component in its pipeline.
        settings: The model, inventory, sections and threshold.
        spans_key: The key in `doc.spans` for the spans; None for no spans.
        use_medspacy_sections: Use `doc._.sections` if medSpaCy's sectionizer ran before.
    """

    def __init__(
        self, name: str, settings: ExpanderSettings, *, spans_key: str | None, use_medspacy_sections: bool
    ) -> None:
        self.name = name
        self.settings = settings
        self.spans_key = spans_key
        self.use_medspacy_sections = use_medspacy_sections
        self._expander: Expander | None = None
        self._error_handler: ErrorHandler = raise_error

    @property
    def expander(self) -> Expander:
        """The expander, loaded on first use."""
        if self._expander is None:
            self._expander = self.settings.open()
        return self._expander

    def __call__(self, doc: Doc) -> Doc:
        """Expand the short forms of one document."""
        try:
            metadata = doc.user_data.get(METADATA)
            self._set(doc, self.expander(doc.text, sections=self._sections(doc), metadata=metadata))
        except Exception as error:
            self.get_error_handler()(self.name, self, [doc], error)
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Expand a stream of documents, ranking those of a batch together."""
        documents = iter(stream)
        while batch := list(islice(documents, batch_size)):
            try:
                self._expand_together(batch)
            except Exception as error:
                self.get_error_handler()(self.name, self, batch, error)
            else:
                yield from batch

    def _expand_together(self, batch: list[Doc]) -> None:
        notes = (_NoteOf(doc.text, self._sections(doc), doc.user_data.get(METADATA)) for doc in batch)
        for doc, expansions in zip(batch, self.expander.pipe(notes), strict=True):
            self._set(doc, expansions)

    def _sections(self, doc: Doc) -> list[dict[str, Any]] | None:
        return medspacy_sections(doc) if self.use_medspacy_sections else None

    def _set(self, doc: Doc, expansions: list[Expansion]) -> None:
        doc.user_data[KEY] = [expansion.to_dict() for expansion in expansions]
        if self.spans_key is not None:
            spans = (_span(doc, found) for found in doc.user_data[KEY])
            doc.spans[self.spans_key] = [span for span in spans if span is not None]

    def set_error_handler(self, error_handler: ErrorHandler) -> None:
        """Set what is done with documents that cannot be expanded."""
        self._error_handler = error_handler

    def get_error_handler(self) -> ErrorHandler:
        """Return what is done with documents that cannot be expanded."""
        return self._error_handler

    def to_disk(self, path: Path | str, *, exclude: Iterable[str] = ()) -> None:
        """Save the settings, and the inventory and model that they name."""
        ensure_path(path).mkdir(parents=True, exist_ok=True)
        saved = {
            **asdict(self.settings),
            "spans_key": self.spans_key,
            "use_medspacy_sections": self.use_medspacy_sections,
        }
        writers: dict[str, Callable[[Path], None]] = {_SETTINGS: lambda file: write_json(file, saved)}
        for file in self.settings.files:  # not their paths: they are saved beside the settings
            writers[f"{len(writers)}-{file.name}"] = partial(shutil.copyfile, file)
        names = iter([name for name in writers if name != _SETTINGS])
        saved["only_inventory"] = next(names) if self.settings.only_inventory else None
        saved["inventory"] = [next(names) for _ in self.settings.inventory]
        saved["header_rules"] = next(names) if self.settings.header_rules else None
        if self.settings.model in (None, DEFAULT):
            saved["model"] = None
        else:
            model = Path(str(self.settings.model))
            saved["model"] = _MODEL
            writers[_MODEL] = lambda folder: _copy(model, folder)
        to_disk(path, writers, exclude)

    def from_disk(self, path: Path | str, *, exclude: Iterable[str] = ()) -> Self:
        """Open what `to_disk` saved."""
        saved: dict[str, Any] = {}
        from_disk(path, {_SETTINGS: lambda file: saved.update(read_json(file))}, exclude)
        self.spans_key = saved.pop("spans_key", self.spans_key)
        self.use_medspacy_sections = saved.pop("use_medspacy_sections", self.use_medspacy_sections)
        if saved:
            for name in ("model", "only_inventory", "header_rules"):
                saved[name] = None if saved[name] is None else str(ensure_path(path) / saved[name])
            saved["inventory"] = [str(ensure_path(path) / name) for name in saved["inventory"]]
            self.settings = ExpanderSettings(**saved)
        self._expander = None
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return all that `to_disk` writes."""
        packed = BytesIO()
        with TemporaryDirectory() as temporary, ZipFile(packed, "w") as archive:
            self.to_disk(temporary, exclude=exclude)
            for file in sorted(Path(temporary).rglob("*")):
                archive.write(file, file.relative_to(temporary))
        return to_bytes({_FILES: packed.getvalue}, ())

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> Self:
        """Open what `to_bytes` returned; its files live in a temporary folder as long as the component does."""
        packed: list[bytes] = []
        from_bytes(bytes_data, {_FILES: packed.append}, ())
        folder = mkdtemp(prefix="lmcells-")
        finalize(self, shutil.rmtree, folder, ignore_errors=True)
        with ZipFile(BytesIO(packed[0])) as archive:
            archive.extractall(folder)  # never outside of it, whatever the names are
        return self.from_disk(folder, exclude=exclude)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle with all files: their folder may not exist where it is unpickled."""
        return _from_bytes, (self.name, self.to_bytes())


def _from_bytes(name: str, bytes_data: bytes) -> AcronymComponent:
    component = AcronymComponent(name, ExpanderSettings(), spans_key=None, use_medspacy_sections=True)
    return component.from_bytes(bytes_data)


def _copy(folder: Path, copy: Path) -> None:
    if folder.resolve() != copy.resolve():
        shutil.copytree(folder, copy, dirs_exist_ok=True)


def medspacy_sections(doc: Any) -> list[dict[str, Any]] | None:
    """Return the sections of `doc._.sections` for an expander; None if medSpaCy's sectionizer did not run.

    Its spans are pairs of token numbers. Text before the first header is a section without a title.
    """
    found = doc._.sections if doc.has_extension("sections") else None
    if not found or not all(hasattr(each, "section_span") and hasattr(each, "title_span") for each in found):
        return None
    sections = []
    for each in found:
        start, end = _characters(doc, *each.section_span)
        title_start, title_end = _characters(doc, *each.title_span)
        title = doc.text[title_start:title_end].strip().rstrip(":").strip()
        header = title or (str(each.category).replace("_", " ") if each.category else None)
        body_start = min(max(start, title_end), end) if title else start
        sections.append({"start": start, "end": end, "header": header, "body_start": body_start})
    return sorted(sections, key=lambda section: (section["start"], section["end"]))


def _characters(doc: Any, first: int, last: int) -> tuple[int, int]:
    """Turn token numbers into character offsets; an empty span lies where its first token would."""
    start = doc[first].idx if first < len(doc) else len(doc.text)
    return start, doc[last - 1].idx + len(doc[last - 1]) if last > first else start


def _span(doc: Doc, found: dict[str, Any]) -> Span | None:
    """Return all tokens that a short form touches, however the text was tokenised."""
    concept = found["candidates"][0]["concept_id"] if found["long_form"] and found["candidates"] else None
    return doc.char_span(
        found["start"], found["end"], label=LABEL, kb_id=concept or "", alignment_mode="expand"
    )


def _acronyms(doc: Doc) -> tuple[dict[str, Any], ...]:
    """Return plain copies; in a document that was stored and read, lists have become tuples."""
    return tuple(
        {**found, "candidates": [dict(candidate) for candidate in found["candidates"]]}
        for found in doc.user_data.get(KEY, ())
    )


def _acronym(span: Span) -> dict[str, Any] | None:
    """Return the first acronym whose tokens are exactly those of the span."""
    for found in _acronyms(span.doc):
        if span.start_char <= found["start"] and found["end"] <= span.end_char:
            tokens = _span(span.doc, found)
            if tokens is not None and (tokens.start, tokens.end) == (span.start, span.end):
                return found
    return None


def _long_form(span: Span) -> str | None:
    found = _acronym(span)
    return None if found is None else found["long_form"]


def _register(holder: type[Doc] | type[Span], name: str, getter: Callable[[Any], Any]) -> None:
    if not holder.has_extension(name):  # another package's "long_form" stays as it is
        holder.set_extension(name, getter=getter)


_register(Doc, "acronyms", _acronyms)
_register(Span, "acronym", _acronym)
_register(Span, "long_form", _long_form)


@Language.factory(
    FACTORY,
    assigns=["doc._.acronyms", "doc.spans", "span._.acronym", "span._.long_form"],
    default_config={
        "model": None,
        "inventory": None,
        "only_inventory": None,
        "header_rules": None,
        "sections": "rules",
        "threshold": None,
        "spans_key": "acronyms",
        "use_medspacy_sections": True,
    },
)
def create_component(
    nlp: Language,  # noqa: ARG001 - every factory is given it
    name: str,
    *,
    model: str | None,
    inventory: str | list[str] | None,
    only_inventory: str | None,
    header_rules: str | None,
    sections: str,
    threshold: float | None,
    spans_key: str | None,
    use_medspacy_sections: bool,
) -> AcronymComponent:
    """Make the component; without a model folder or an inventory file, it uses the shipped ones."""
    return AcronymComponent(
        name,
        ExpanderSettings(
            model,
            (inventory,) if isinstance(inventory, str) else tuple(inventory or ()),
            sections,
            threshold,
            only_inventory=only_inventory,
            header_rules=header_rules,
        ),
        spans_key=spans_key,
        use_medspacy_sections=use_medspacy_sections,
    )
