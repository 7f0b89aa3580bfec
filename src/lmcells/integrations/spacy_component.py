"""The spaCy component `lmcells`.

nlp = spacy.blank("en")
nlp.add_pipe("lmcells", config={"threshold": 0.5})
doc = nlp("PMH: CVA in 2019, now in PT twice weekly.")
doc._.acronyms               # a tuple of dicts, the fields of an Expansion
doc.spans["acronyms"]        # the same as spans of tokens: span._.long_form, span._.acronym

What was found is plain data in `doc.user_data`, so it survives `n_process`, pickling and DocBin.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from weakref import finalize
from zipfile import ZipFile

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import ensure_path, from_bytes, from_disk, raise_error, to_bytes, to_disk

from lmcells.expansion.expander import Expander
from lmcells.expansion.expansion import Expansion
from lmcells.expansion.inventory import load_inventory, save_inventory
from lmcells.files import read_json, write_json
from lmcells.integrations.annotation_shard import ExpanderSettings
from lmcells.pretrained.folder import DEFAULT

# The sections that medSpaCy found in a document, as an expander takes them.


def medspacy_sections(doc: Any) -> list[dict[str, Any]] | None:
    """Return the sections of `doc._.sections`; None where no sectionizer ran, or another one than medSpaCy's.

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
        sections.append(
            {
                "start": start,
                "end": end,
                "header": header,
                "body_start": min(max(start, title_end), end) if title else start,
            }
        )
    return sorted(sections, key=lambda section: (section["start"], section["end"]))


def _characters(doc: Any, first: int, last: int) -> tuple[int, int]:
    """Token numbers -> offsets; an empty span lies where its first token would."""
    start = doc[first].idx if first < len(doc) else len(doc.text)
    return start, doc[last - 1].idx + len(doc[last - 1]) if last > first else start


# The spaCy component `lmcells`.
#
# nlp = spacy.blank("en")
# nlp.add_pipe("lmcells", config={"threshold": 0.5})
# doc = nlp("PMH: CVA in 2019, now in PT twice weekly.")
# doc._.acronyms               # a tuple of dicts, the fields of an Expansion
# doc.spans["acronyms"]        # the same as spans of tokens: span._.long_form, span._.acronym
#
# What was found is plain data in `doc.user_data`, so it survives `n_process`, pickling and DocBin.


FACTORY = "lmcells"
LABEL = "ACRONYM"
KEY = "lmcells.acronyms"
"""Where `doc.user_data` holds what was found."""

ErrorHandler = Callable[[str, Any, list[Doc], Exception], None]

_SETTINGS, _INVENTORY, _MODEL, _FILES = "settings.json", "inventory.json", "model", "files"


class AcronymComponent:
    """Expands the short forms of documents; the model is loaded when the first one comes."""

    def __init__(
        self, name: str, settings: ExpanderSettings, *, spans_key: str | None, use_medspacy_sections: bool
    ) -> None:
        self.name = name
        self.settings = settings
        self.spans_key = spans_key
        self.use_medspacy_sections = use_medspacy_sections
        self._expander: Expander | None = None
        self._folder: _Unpacked | None = None
        self._error_handler: ErrorHandler = raise_error

    @property
    def expander(self) -> Expander:
        """What finds and ranks the short forms."""
        if self._expander is None:
            self._expander = self.settings.open()
        return self._expander

    def __call__(self, doc: Doc) -> Doc:
        """Expand the short forms of one document."""
        try:
            self._set(doc, self.expander(doc.text, sections=self._sections(doc)))
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
        given = [self._sections(doc) for doc in batch]
        plain = [doc for doc, sections in zip(batch, given, strict=True) if sections is None]
        for doc, expansions in zip(plain, self.expander.pipe([doc.text for doc in plain]), strict=True):
            self._set(doc, expansions)
        for doc, sections in zip(batch, given, strict=True):
            if sections is not None:
                self._set(doc, self.expander(doc.text, sections=sections))

    def _sections(self, doc: Doc) -> list[dict[str, Any]] | None:
        return medspacy_sections(doc) if self.use_medspacy_sections else None

    def _set(self, doc: Doc, expansions: list[Expansion]) -> None:
        doc.user_data[KEY] = [expansion.to_dict() for expansion in expansions]
        if self.spans_key is not None:
            doc.spans[self.spans_key] = [
                span for found in doc.user_data[KEY] if (span := _span(doc, found)) is not None
            ]

    def set_error_handler(self, error_handler: ErrorHandler) -> None:
        """Set what is done with documents that cannot be expanded."""
        self._error_handler = error_handler

    def get_error_handler(self) -> ErrorHandler:
        """Return what is done with documents that cannot be expanded."""
        return self._error_handler

    def to_disk(self, path: Path | str, *, exclude: Iterable[str] = ()) -> None:
        """Save the settings, the inventory and the model, unless it is the shipped one."""
        ensure_path(path).mkdir(parents=True, exist_ok=True)
        writers: dict[str, Callable[[Path], None]] = {_SETTINGS: lambda file: write_json(file, self._saved())}
        if self.settings.inventory is not None:
            inventory = Path(self.settings.inventory)
            writers[_INVENTORY] = lambda file: save_inventory(load_inventory(inventory), file)
        if self._own_model is not None:
            folder = self._own_model
            writers[_MODEL] = lambda copy: _copy(folder, copy)
        to_disk(path, writers, exclude)

    def from_disk(self, path: Path | str, *, exclude: Iterable[str] = ()) -> "AcronymComponent":
        """Open what `to_disk` saved."""
        folder = ensure_path(path)
        saved: dict[str, Any] = {}
        from_disk(path, {_SETTINGS: lambda file: saved.update(read_json(file))}, exclude)
        self._restore(saved, folder)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return all that `to_disk` writes."""
        with TemporaryDirectory() as temporary:
            self.to_disk(temporary, exclude=exclude)
            packed = _pack(Path(temporary))
        return to_bytes({_FILES: lambda: packed}, ())

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "AcronymComponent":
        """Open what `to_bytes` returned; its files live in a temporary folder as long as the component does."""
        packed: list[bytes] = []
        from_bytes(bytes_data, {_FILES: packed.append}, ())
        unpacked = _Unpacked(packed[0])
        self.from_disk(unpacked.folder, exclude=exclude)
        self._folder = unpacked
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to another process with all it needs: a folder may not be there."""
        return _from_bytes, (self.name, self.to_bytes())

    @property
    def _own_model(self) -> Path | None:
        model = self.settings.model
        return None if model is None or model == DEFAULT else Path(model)

    def _saved(self) -> dict[str, Any]:
        """Settings without paths: what they named is saved beside them."""
        return {
            **self.settings.to_dict(),
            "model": None if self._own_model is None else _MODEL,
            "inventory": None if self.settings.inventory is None else _INVENTORY,
            "spans_key": self.spans_key,
            "use_medspacy_sections": self.use_medspacy_sections,
        }

    def _restore(self, saved: dict[str, Any], folder: Path) -> None:
        self.spans_key = saved.pop("spans_key", self.spans_key)
        self.use_medspacy_sections = saved.pop("use_medspacy_sections", self.use_medspacy_sections)
        if saved:
            for name in ("model", "inventory"):
                saved[name] = None if saved[name] is None else str(folder / saved[name])
            self.settings = ExpanderSettings(**saved)
        self._expander = None


class _Unpacked:
    """Files of a component that came as bytes, in a temporary folder that goes when nobody needs it."""

    def __init__(self, packed: bytes) -> None:
        self._temporary = TemporaryDirectory(prefix="lmcells-", ignore_cleanup_errors=True)
        self._finalize = finalize(self, self._temporary.cleanup)
        self.folder = Path(self._temporary.name)
        with ZipFile(BytesIO(packed)) as archive:
            archive.extractall(self.folder)  # never outside of it, whatever the names are


def _pack(folder: Path) -> bytes:
    packed = BytesIO()
    with ZipFile(packed, "w") as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, file.relative_to(folder))
    return packed.getvalue()


def _from_bytes(name: str, bytes_data: bytes) -> AcronymComponent:
    component = AcronymComponent(name, ExpanderSettings(), spans_key=None, use_medspacy_sections=True)
    return component.from_bytes(bytes_data)


def _copy(folder: Path, copy: Path) -> None:
    if folder.resolve() != copy.resolve():
        shutil.copytree(folder, copy, dirs_exist_ok=True)


def _span(doc: Doc, found: dict[str, Any]) -> Span | None:
    """The tokens that hold a short form: all that it touches, however the text was cut."""
    concept = found["candidates"][0]["concept_id"] if found["long_form"] and found["candidates"] else None
    return doc.char_span(
        found["start"], found["end"], label=LABEL, kb_id=concept or "", alignment_mode="expand"
    )


def _acronyms(doc: Doc) -> tuple[dict[str, Any], ...]:
    """Plain copies; where a document was stored and read, lists have become tuples."""
    return tuple(
        {**found, "candidates": [dict(candidate) for candidate in found["candidates"]]}
        for found in doc.user_data.get(KEY, ())
    )


def _acronym(span: Span) -> dict[str, Any] | None:
    """The first acronym that the tokens of a span are needed for, no token more or less."""
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
    if not holder.has_extension(name):  # another package's "long_form" stays what it is
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
    inventory: str | None,
    sections: str,
    threshold: float | None,
    spans_key: str | None,
    use_medspacy_sections: bool,
) -> AcronymComponent:
    """Make the component; without a model folder and an inventory file the shipped ones are used."""
    return AcronymComponent(
        name,
        ExpanderSettings(model, inventory, sections, threshold),
        spans_key=spans_key,
        use_medspacy_sections=use_medspacy_sections,
    )
