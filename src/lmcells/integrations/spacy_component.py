"""The spaCy component `lmcells`.

```python
nlp = spacy.blank("en")
nlp.add_pipe("lmcells", config={"threshold": 0.5})
doc = nlp("PMH: CVA in 2019, now in PT twice weekly.")
doc._.acronyms         # a tuple of dicts with the fields of an Expansion
doc.spans["acronyms"]  # the same as token spans: span._.long_form, span._.acronym
```

The results are plain data in `doc.user_data`, so they survive `n_process`, pickling and DocBin. With
`"attribute": "abbreviations"` they are also in `doc._.abbreviations`, as code written for scispaCy expects them.
"""

import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import KW_ONLY, asdict, dataclass, field
from functools import partial
from io import BytesIO
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from types import SimpleNamespace
from typing import Any, Self
from weakref import finalize
from zipfile import ZipFile

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import ensure_path, from_bytes, from_disk, raise_error, to_bytes, to_disk

from lmcells.errors import ConfigError
from lmcells.expansion.expander import Expander
from lmcells.expansion.expansion import Expansion
from lmcells.expansion.settings import ExpanderSettings
from lmcells.files import read_json, write_json
from lmcells.pretrained.folder import DEFAULT

FACTORY = "lmcells"
LABEL = "ACRONYM"
ACRONYMS, ABBREVIATIONS = "acronyms", "abbreviations"
ATTRIBUTES = (ACRONYMS, ABBREVIATIONS)
METADATA = "lmcells.metadata"
"""The key in `doc.user_data` under which a document may have metadata, such as {"category": "Cardiology"}."""
# In `doc.user_data`: the keys of the components that ran, and whether they fill scispaCy's attributes.
_STORES = "lmcells.stores"

ErrorHandler = Callable[[str, Any, list[Doc], Exception], None]

_OWN_SETTINGS = ("spans_key", "use_medspacy_sections", "attribute")
_SETTINGS, _MODEL, _FILES = "settings.json", "model", "files"


@dataclass(eq=False)
class AcronymComponent:
    """Expands the short forms of documents; made by `nlp.add_pipe("lmcells")`.

    The model is loaded with the first document. Saving the pipeline saves the model folder and the inventory file with
    it, unless they are the shipped ones.

    Args:
        name: The name of the component in its pipeline.
        settings: The model, inventory, sections and threshold.
        spans_key: The key in `doc.spans`; None for no spans. Components with different keys do not interfere.
        attribute: "acronyms", or "abbreviations" to fill `doc._.abbreviations` as well, as scispaCy does.
        use_medspacy_sections: Use `doc._.sections` if medSpaCy's sectionizer ran before.
    """

    name: str
    settings: ExpanderSettings
    _: KW_ONLY
    spans_key: str | None
    use_medspacy_sections: bool
    attribute: str = ACRONYMS
    _expander: Expander | None = field(default=None, init=False, repr=False)
    _error_handler: ErrorHandler = field(default_factory=lambda: raise_error, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.attribute not in ATTRIBUTES:
            raise ConfigError(f"attribute: found {self.attribute!r}, allowed: {', '.join(ATTRIBUTES)}.")

    @property
    def expander(self) -> Expander:
        if self._expander is None:
            self._expander = self.settings.open()
        return self._expander

    def __call__(self, doc: Doc) -> Doc:
        return next(self.pipe([doc]), doc)

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Expand a stream of documents, ranking those of a batch together."""
        documents = iter(stream)
        while batch := list(islice(documents, batch_size)):
            try:
                self._expand(batch)
            except Exception:  # one bad document must not fail the others, so each is tried alone
                yield from filter(self._is_expanded, batch)
            else:
                yield from batch

    def _expand(self, batch: list[Doc]) -> None:
        for doc, expansions in zip(batch, self.expander.pipe(map(self._note, batch)), strict=True):
            self._set(doc, expansions)

    def _is_expanded(self, doc: Doc) -> bool:
        try:
            self._expand([doc])
        except Exception as error:
            self.get_error_handler()(self.name, self, [doc], error)
            return False
        return True

    def _note(self, doc: Doc) -> SimpleNamespace:
        sections = medspacy_sections(doc) if self.use_medspacy_sections else None
        return SimpleNamespace(text=doc.text, sections=sections, metadata=doc.user_data.get(METADATA))

    def _set(self, doc: Doc, expansions: list[Expansion]) -> None:
        key = self.spans_key or self.name
        found = [expansion.to_dict() for expansion in expansions]
        doc.user_data[f"lmcells.{key}"] = found
        doc.user_data[_STORES] = {**doc.user_data.get(_STORES, {}), key: self.attribute}
        spans = [span for each in found if (span := _span(doc, each, key)) is not None]
        if self.spans_key is not None:
            doc.spans[self.spans_key] = spans
        if not _is_ours(Span, "long_form"):
            for span in spans:
                _assign(span, "long_form", _long_form(span))
        if self.attribute == ABBREVIATIONS and not _is_ours(Doc, ABBREVIATIONS):
            theirs = list(doc._.abbreviations or ())
            places = {(span.start, span.end) for span in theirs if isinstance(span, Span)}
            ours = [span for span in _answered(doc) if (span.start, span.end) not in places]
            _assign(doc, ABBREVIATIONS, theirs + ours)

    def set_error_handler(self, error_handler: ErrorHandler) -> None:
        self._error_handler = error_handler

    def get_error_handler(self) -> ErrorHandler:
        return self._error_handler

    def to_disk(self, path: Path | str, *, exclude: Iterable[str] = ()) -> None:
        """Save the settings, with the inventory and model that they name."""
        ensure_path(path).mkdir(parents=True, exist_ok=True)
        saved = {**asdict(self.settings), **{name: getattr(self, name) for name in _OWN_SETTINGS}}
        writers: dict[str, Callable[[Path], None]] = {_SETTINGS: lambda file: write_json(file, saved)}
        for file in self.settings.files:  # copied next to the settings
            writers[f"{len(writers)}-{file.name}"] = partial(shutil.copyfile, file)
        names = iter([name for name in writers if name != _SETTINGS])
        saved["only_inventory"] = next(names) if self.settings.only_inventory else None
        saved["inventory"] = [next(names) for _ in self.settings.inventory]
        saved["header_rules"] = next(names) if self.settings.header_rules else None
        saved["model"] = None if self.settings.model in (None, DEFAULT) else _MODEL
        if saved["model"]:
            writers[_MODEL] = partial(_copy, Path(str(self.settings.model)))
        to_disk(path, writers, exclude)

    def from_disk(self, path: Path | str, *, exclude: Iterable[str] = ()) -> Self:
        saved: dict[str, Any] = {}
        from_disk(path, {_SETTINGS: lambda file: saved.update(read_json(file))}, exclude)
        for name in _OWN_SETTINGS:
            setattr(self, name, saved.pop(name, getattr(self, name)))
        if saved:
            for name in ("model", "only_inventory", "header_rules"):
                saved[name] = None if saved[name] is None else str(ensure_path(path) / saved[name])
            saved["inventory"] = [str(ensure_path(path) / name) for name in saved["inventory"]]
            self.settings = ExpanderSettings(**saved)
        self._expander = None
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        packed = BytesIO()
        with TemporaryDirectory() as temporary, ZipFile(packed, "w") as archive:
            self.to_disk(temporary, exclude=exclude)
            for file in sorted(Path(temporary).rglob("*")):
                archive.write(file, file.relative_to(temporary))
        return to_bytes({_FILES: packed.getvalue}, ())

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> Self:
        """Load the result of `to_bytes`; its files are in a temporary folder as long as the component lives."""
        packed: list[bytes] = []
        from_bytes(bytes_data, {_FILES: packed.append}, ())
        folder = mkdtemp(prefix="lmcells-")
        finalize(self, shutil.rmtree, folder, ignore_errors=True)
        with ZipFile(BytesIO(packed[0])) as archive:
            archive.extractall(folder)  # never writes outside it
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

    Its spans are pairs of token indices. Text before the first header is a section without a title.
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
    """Convert token indices to character offsets; an empty span is where its first token would be."""
    start = doc[first].idx if first < len(doc) else len(doc.text)
    return start, doc[last - 1].idx + len(doc[last - 1]) if last > first else start


def _span(doc: Doc, found: dict[str, Any], key: str = "") -> Span | None:
    """Return the span of all tokens that overlap a short form; its id is the component's key."""
    concept = found["candidates"][0]["concept_id"] if found["long_form"] and found["candidates"] else None
    span = found["start"], found["end"]
    return doc.char_span(*span, label=LABEL, kb_id=concept or "", alignment_mode="expand", span_id=key)


def _keys(doc: Doc) -> list[str]:
    """Return the keys of the components that ran, first the one that `doc._.acronyms` shows."""
    keys = list(doc.user_data.get(_STORES, {}))[::-1]
    return sorted(keys, key=lambda key: key != ACRONYMS)


def _acronyms(doc: Doc, key: str | None = None) -> tuple[dict[str, Any], ...]:
    """Return copies as plain dicts; serialisation turns lists into tuples."""
    key = next(iter(_keys(doc)), ACRONYMS) if key is None else key
    return tuple(
        {**found, "candidates": [dict(candidate) for candidate in found["candidates"]]}
        for found in doc.user_data.get(f"lmcells.{key}", ())
    )


def _acronym(span: Span) -> dict[str, Any] | None:
    """Return the first acronym with exactly the tokens of the span, from the span's own component if known."""
    keys = _keys(span.doc)
    for key in [span.id_] if span.id_ in keys else keys:
        for found in _acronyms(span.doc, key):
            if span.start_char <= found["start"] and found["end"] <= span.end_char:
                tokens = _span(span.doc, found)
                if tokens is not None and (tokens.start, tokens.end) == (span.start, span.end):
                    return found
    return None


def _long_form(span: Span) -> Span | str | None:
    """Return the long form: a span if the note contains it and the component fills `doc._.abbreviations`."""
    found = _acronym(span)
    if found is None or found["long_form"] is None:
        return None
    if ABBREVIATIONS in span.doc.user_data.get(_STORES, {}).values():
        return _span_of_long_form(span.doc, found) or found["long_form"]
    return str(found["long_form"])


def _span_of_long_form(doc: Doc, found: dict[str, Any]) -> Span | None:
    """Return the span of the long form in the note that is nearest to its short form."""
    words = map(re.escape, found["long_form"].split())
    places = [match.span() for match in re.finditer(r"\s+".join(words), doc.text, re.IGNORECASE)]
    if found["source"] != "definition" or not places:
        return None
    start, end = min(places, key=lambda place: abs(place[0] - found["start"]))
    return doc.char_span(start, end, alignment_mode="expand")


def _answered(doc: Doc) -> list[Span]:
    """Return the short forms with an answer, from components that fill `doc._.abbreviations`."""
    stores = doc.user_data.get(_STORES, {})
    return [
        span
        for key, attribute in stores.items()
        if attribute == ABBREVIATIONS
        for found in doc.user_data.get(f"lmcells.{key}", ())
        if found["long_form"] is not None and (span := _span(doc, found, key)) is not None
    ]


# Attributes. scispaCy's detector registers its own "abbreviations" and "long_form", before or over ours: we then set
# our values on those. `long_form_text` and `acronym` are always ours.

_GETTERS: dict[tuple[type[Doc] | type[Span], str], Callable[[Any], Any]] = {
    (Doc, ACRONYMS): _acronyms,
    (Doc, ABBREVIATIONS): _answered,
    (Span, "acronym"): _acronym,
    (Span, "long_form"): _long_form,
    (Span, "long_form_text"): lambda span: (_acronym(span) or {}).get("long_form"),
}
for (_holder, _name), _getter in _GETTERS.items():
    if not _holder.has_extension(_name):
        _holder.set_extension(_name, getter=_getter)


def _is_ours(holder: type[Doc] | type[Span], name: str) -> bool:
    return bool(holder.get_extension(name)[2] is _GETTERS[holder, name])


def _assign(holder: Doc | Span, name: str, value: Any) -> None:
    """Set the attribute of another package, if it can be set."""
    with suppress(NotImplementedError):
        setattr(holder._, name, value)


@Language.factory(
    FACTORY,
    assigns=["doc._.acronyms", "doc._.abbreviations", "doc.spans", "span._.acronym", "span._.long_form"],
    default_config={
        **dict.fromkeys(("model", "inventory", "only_inventory", "header_rules", "threshold")),
        "sections": "rules",
        "spans_key": ACRONYMS,
        "use_medspacy_sections": True,
        "attribute": ACRONYMS,
    },
)
def create_component(
    nlp: Language,  # noqa: ARG001 - part of the factory's signature
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
    attribute: str,
) -> AcronymComponent:
    senses: dict[str, Any] = {"inventory": inventory, "only_inventory": only_inventory}
    settings = ExpanderSettings(
        model, sections=sections, threshold=threshold, header_rules=header_rules, **senses
    )
    own: dict[str, Any] = {"spans_key": spans_key, "use_medspacy_sections": use_medspacy_sections}
    return AcronymComponent(name, settings, attribute=attribute, **own)
