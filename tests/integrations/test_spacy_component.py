"""The spaCy component: any tokenizer, and results that survive all that documents go through."""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from expansion.clinic import INVENTORY
from integrations.ward import AWKWARD, ward_notes
from lmcells.errors import ConfigError
from lmcells.expansion import Sense, save_inventory
from lmcells.expansion.settings import ExpanderSettings

spacy = pytest.importorskip("spacy", reason="spaCy is not installed: pip install 'lmcells[spacy]'")

from spacy.language import Language  # noqa: E402
from spacy.tokens import Doc, DocBin, Span  # noqa: E402

from lmcells.integrations import spacy_component  # noqa: E402

MakeNlp = Callable[..., Language]
TEXTS = [note["text"] for note in ward_notes(12)]


class WhitespaceTokenizer:
    """Cuts at single spaces, as the example in spaCy's documentation does."""

    def __init__(self, vocab: Any) -> None:
        self.vocab = vocab

    def __call__(self, text: str) -> Doc:
        return Doc(self.vocab, words=[word or " " for word in text.split(" ")])


class CharacterTokenizer(WhitespaceTokenizer):
    """Every character is a token."""

    def __call__(self, text: str) -> Doc:
        return Doc(self.vocab, words=list(text), spaces=[False] * len(text))


@pytest.fixture
def make_nlp(settings: ExpanderSettings) -> MakeNlp:
    def make(tokenizer: type[WhitespaceTokenizer] | None = None, **config: Any) -> Language:
        nlp = spacy.blank("en")
        if tokenizer is not None:
            nlp.tokenizer = tokenizer(nlp.vocab)
        clinic = {"model": settings.model, "only_inventory": settings.only_inventory}
        nlp.add_pipe("lmcells", config=clinic | config)
        return nlp

    return make


def long_forms(doc: Doc) -> list[Any]:
    return [span._.long_form for span in doc.spans["acronyms"]]


def close(left: Any, right: Any) -> bool:
    """The same but for the last digits: notes are ranked in other batches."""
    without = [[{**each, "probability": 0, "candidates": 0} for each in side] for side in (left, right)]
    return without[0] == without[1] and all(
        one["candidates"][0]["probability"] == pytest.approx(other["candidates"][0]["probability"], abs=1e-5)
        for one, other in zip(left, right, strict=True)
    )


def test_the_component_says_what_the_expander_says(make_nlp: MakeNlp, settings: ExpanderSettings) -> None:
    doc = make_nlp()(AWKWARD)
    assert doc._.acronyms == tuple(each.to_dict() for each in settings.open()(AWKWARD))
    assert isinstance(doc._.acronyms, tuple)
    assert {type(each) for each in doc._.acronyms} == {dict}
    spans = doc.spans["acronyms"]
    assert [span.text for span in spans] == ["PT", "MS", "MS", "PT", "PT"]
    for span, found in zip(spans, doc._.acronyms, strict=True):
        assert span._.acronym == found
        assert span._.long_form == found["long_form"]
        assert span.label_ == "ACRONYM"


@pytest.mark.parametrize("tokenizer", [None, WhitespaceTokenizer, CharacterTokenizer])
def test_any_tokenizer_will_do(make_nlp: MakeNlp, tokenizer: type[WhitespaceTokenizer] | None) -> None:
    doc = make_nlp(tokenizer)(AWKWARD)
    assert len(doc._.acronyms) == 5
    for span, found in zip(doc.spans["acronyms"], doc._.acronyms, strict=True):
        assert span.start_char <= found["start"] < found["end"] <= span.end_char
        assert doc.text[found["start"] : found["end"]] in ("PT", "MS")
        assert span._.acronym == found


def test_two_short_forms_in_one_token_are_both_there(make_nlp: MakeNlp) -> None:
    doc = make_nlp(WhitespaceTokenizer)("seen by PT/MS today")
    assert [each["short_form"] for each in doc._.acronyms] == ["PT", "MS"]
    assert [span.text for span in doc.spans["acronyms"]] == ["PT/MS", "PT/MS"]
    assert doc.spans["acronyms"][0]._.acronym["short_form"] == "PT"


def test_a_span_that_is_no_acronym_has_none(make_nlp: MakeNlp) -> None:
    doc = make_nlp()("in PT today")
    assert (doc[0:1]._.acronym, doc[0:1]._.long_form) == (None, None)
    assert doc[0:2]._.acronym is None
    assert doc[1:2]._.acronym["start"] == 3
    assert spacy.blank("en")("PT")._.acronyms == ()


def test_what_was_found_is_plain_data_of_its_own(make_nlp: MakeNlp) -> None:
    doc = make_nlp()("in PT today")
    doc.spans["acronyms"][0]._.acronym["long_form"] = "changed"
    assert doc._.acronyms[0]["long_form"] != "changed"


def test_streams_give_the_same(make_nlp: MakeNlp) -> None:
    nlp = make_nlp()
    single = [nlp(text)._.acronyms for text in TEXTS]
    for batch_size in (1, 5, 100):
        streamed = [doc._.acronyms for doc in nlp.pipe(TEXTS, batch_size=batch_size)]
        assert all(close(one, other) for one, other in zip(streamed, single, strict=True))
    numbered = nlp.pipe(zip(TEXTS, range(12), strict=True), as_tuples=True)
    assert [context for _, context in numbered] == [*range(12)]


def test_a_stream_is_not_drained(make_nlp: MakeNlp) -> None:
    taken = []

    def endless() -> Iterator[str]:
        while True:
            taken.append(1)
            yield "PT"

    next(make_nlp().pipe(endless(), batch_size=4))
    assert len(taken) <= 8


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_results_come_back_from_other_processes(make_nlp: MakeNlp) -> None:
    nlp = make_nlp()
    expected = list(nlp.pipe(TEXTS, batch_size=3))
    found = list(nlp.pipe(TEXTS, n_process=2, batch_size=3))
    assert [doc._.acronyms for doc in found] == [doc._.acronyms for doc in expected]
    assert list(map(long_forms, found)) == list(map(long_forms, expected))


def test_documents_survive_pickle_bytes_and_docbin(make_nlp: MakeNlp) -> None:
    nlp = make_nlp()
    doc = nlp(AWKWARD)
    stored = DocBin(store_user_data=True)
    stored.add(doc)
    copies = [
        pickle.loads(pickle.dumps(doc)),
        Doc(nlp.vocab).from_bytes(doc.to_bytes()),
        *DocBin().from_bytes(stored.to_bytes()).get_docs(nlp.vocab),
        doc.copy(),
    ]
    for copy in copies:
        assert copy._.acronyms == doc._.acronyms
        assert long_forms(copy) == long_forms(doc)


def test_a_pipeline_is_saved_whole(make_nlp: MakeNlp, tmp_path: Path, settings: ExpanderSettings) -> None:
    own = INVENTORY.add(Sense("CVA", "stroke", concept_id="C7"))
    save_inventory(own, tmp_path / "own.csv")
    nlp = make_nlp(inventory=str(tmp_path / "own.csv"), threshold=0.5, sections="none", spans_key="found")
    expected = nlp("PT after CVA")
    nlp.to_disk(tmp_path / "pipeline")
    (tmp_path / "own.csv").unlink()
    moved = (tmp_path / "pipeline").rename(tmp_path / "moved")
    component = moved / "lmcells"
    assert (component / "model" / "config.json").is_file()
    for loaded in (spacy.load(moved), make_nlp().from_disk(moved)):
        doc = loaded("PT after CVA")
        assert doc._.acronyms == expected._.acronyms
        ids, expected_ids = ([span.kb_id_ for span in each.spans["found"]] for each in (doc, expected))
        assert ids == expected_ids
        pipe = loaded.get_pipe("lmcells")
        assert (pipe.settings.threshold, pipe.settings.sections) == (0.5, "none")
        assert str(settings.model) not in str(pipe.settings)
    loaded.to_disk(moved)  # onto itself
    assert spacy.load(moved)("PT after CVA")._.acronyms == expected._.acronyms


def test_layers_headers_and_metadata_reach_the_component(make_nlp: MakeNlp, tmp_path: Path) -> None:
    (tmp_path / "site.csv").write_text("short_form,long_form,action\nPT,gait,pin\n")
    (tmp_path / "ward.json").write_text(
        '[{"short_form": "MS", "long_form": "status", "action": "pin", "where": {"category": "Echo"}}]'
    )
    (tmp_path / "headers.json").write_text('{"PLAN": ["next steps"]}')
    files = [str(tmp_path / "site.csv"), str(tmp_path / "ward.json")]
    nlp = make_nlp(inventory=files, header_rules=str(tmp_path / "headers.json"))
    nlp.to_disk(tmp_path / "pipeline")
    for each in (nlp, spacy.load(tmp_path / "pipeline")):
        docs = [each.make_doc("next steps\nPT, MS"), each.make_doc("MS")]
        docs[0].user_data[spacy_component.METADATA] = {"category": "echo"}
        first, second = each.pipe(docs)
        assert long_forms(first) == ["gait", "status"]
        assert first._.acronyms[0]["section"] == "PLAN"
        assert second._.acronyms[0]["source"] == "model"


def test_a_pipeline_travels_as_bytes(make_nlp: MakeNlp) -> None:
    nlp = make_nlp(threshold=0.5)
    saved = nlp.to_bytes()
    other = make_nlp().from_bytes(saved)
    assert other.get_pipe("lmcells").settings.threshold == 0.5
    assert other(AWKWARD)._.acronyms == nlp(AWKWARD)._.acronyms
    folder = Path(other.get_pipe("lmcells").settings.model).parent
    assert folder.is_dir()
    del other
    assert not folder.exists()


def test_a_component_survives_pickle(make_nlp: MakeNlp) -> None:
    component = make_nlp(threshold=0.5).get_pipe("lmcells")
    copy = pickle.loads(pickle.dumps(component))
    again = pickle.loads(pickle.dumps(copy))
    del copy
    text = spacy.blank("en")(AWKWARD)
    assert again(text)._.acronyms == component(spacy.blank("en")(AWKWARD))._.acronyms
    assert (again.spans_key, again.settings.threshold) == ("acronyms", 0.5)


def test_a_wrong_setting_is_refused(make_nlp: MakeNlp) -> None:
    with pytest.raises(ConfigError, match="threshold: found 7, allowed: 0 to 1"):
        make_nlp(threshold=7)
    with pytest.raises(ConfigError, match="sections: found 'best'"):
        make_nlp(sections="best")
    with pytest.raises(ConfigError, match="attribute: found 'abbrev', allowed: acronyms, abbreviations"):
        make_nlp(attribute="abbrev")
    with pytest.raises(Exception, match="surprise"):  # spaCy's own check of configurations
        make_nlp(surprise=1)


def test_errors_go_to_the_handler_of_the_pipeline(make_nlp: MakeNlp, monkeypatch: pytest.MonkeyPatch) -> None:
    nlp = make_nlp()
    component = nlp.get_pipe("lmcells")
    failed: list[int] = []

    def refuse(*_: Any, **__: Any) -> Any:
        raise ValueError("broken")

    monkeypatch.setattr(type(component.expander), "pipe", refuse)
    with pytest.raises(ValueError, match="broken"):
        list(nlp.pipe(TEXTS))
    nlp.set_error_handler(lambda _, __, docs, ___: failed.append(len(docs)))
    assert list(nlp.pipe(TEXTS)) == []
    assert sum(failed) == len(TEXTS)


def test_a_document_that_fails_takes_no_other_with_it(make_nlp: MakeNlp) -> None:
    nlp = make_nlp()
    docs = [nlp.make_doc(text) for text in ("in PT", "bad PT", "on PT")]
    docs[1].user_data[spacy_component.METADATA] = 5
    failed: list[str] = []
    nlp.set_error_handler(lambda _, __, docs, ___: failed.extend(doc.text for doc in docs))
    assert [doc.text for doc in nlp.pipe(docs) if doc._.acronyms] == ["in PT", "on PT"]
    assert failed == ["bad PT"]


class Sectioned:
    """What medSpaCy keeps of a section: pairs of token numbers."""

    def __init__(self, category: str | None, title_span: tuple[int, int], body_span: tuple[int, int]) -> None:
        self.category = category
        self.title_span = title_span
        self.body_span = body_span
        self.section_span = (title_span[0], body_span[1])


def test_sections_in_the_form_of_medspacy_are_respected(make_nlp: MakeNlp) -> None:
    nlp = make_nlp()
    had = Doc.has_extension("sections")
    if not had:
        Doc.set_extension("sections", default=[])
    try:
        doc = nlp.make_doc("in PT . Gait training : PT then MS")
        doc._.sections = [Sectioned(None, (0, 0), (0, 3)), Sectioned("gait", (3, 6), (6, 9))]
        component = nlp.get_pipe("lmcells")
        component(doc)
        assert [each["section"] for each in doc._.acronyms] == [None, "GAIT TRAINING", "GAIT TRAINING"]
        (streamed,) = component.pipe([doc])
        assert [each["section"] for each in streamed._.acronyms] == [None, "GAIT TRAINING", "GAIT TRAINING"]
        component.use_medspacy_sections = False
        component(doc)
        assert {each["section"] for each in doc._.acronyms} == {None}
        plain = component(nlp.make_doc("PLAN: PT"))
        assert plain._.acronyms[0]["section"] == "PLAN"
    finally:
        if not had:
            Doc.remove_extension("sections")


def test_sections_of_medspacy_are_respected(make_nlp: MakeNlp) -> None:
    medspacy = pytest.importorskip("medspacy", reason="medspaCy is not installed")
    assert medspacy
    nlp = make_nlp()
    nlp.add_pipe("medspacy_sectionizer", before="lmcells")
    text = "In PT.\n\nPast Medical History: MS since 2019"
    doc = nlp(text)
    assert [each.category for each in doc._.sections] == [None, "past_medical_history"]
    assert [each["section"] for each in doc._.acronyms] == [None, "PAST MEDICAL HISTORY"]


def test_no_import_is_needed_with_the_entry_point(tmp_path: Path) -> None:
    """An installed package that names the factory, in a process that imports nothing but spaCy."""
    installed = tmp_path / "named-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: named\nVersion: 1.0\n")
    factory = "lmcells = lmcells.integrations.spacy_component:create_component"
    (installed / "entry_points.txt").write_text(f"[spacy_factories]\n{factory}\n")
    code = "import spacy; nlp = spacy.blank('en'); nlp.add_pipe('lmcells'); print(nlp.pipe_names)"
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['lmcells']\n"


@pytest.fixture
def our_attributes() -> Iterator[None]:
    """Puts back our attributes after another package has set its own."""
    yield
    for (holder, name), getter in spacy_component._GETTERS.items():
        holder.set_extension(name, getter=getter, force=True)


def add_detector(nlp: Language, **place: Any) -> None:
    """Add scispaCy's abbreviation detector or, where it is not installed, what it does."""
    try:
        import scispacy.abbreviation  # noqa: F401
    except ImportError:
        if not Language.has_factory("abbreviation_detector"):

            @Language.factory("abbreviation_detector")
            class Detector:
                def __init__(self, nlp: Language, name: str) -> None:  # noqa: ARG002
                    Doc.set_extension("abbreviations", default=[], force=True)
                    Span.set_extension("long_form", default=None, force=True)

                def __call__(self, doc: Doc) -> Doc:
                    first = doc.text.find("atrial fibrillation (AF)")
                    if first >= 0:
                        short = doc.char_span(first + 21, first + 23)
                        short._.long_form = doc.char_span(first, first + 19)
                        doc._.abbreviations = [short]
                    return doc

    nlp.add_pipe("abbreviation_detector", **place)


NOTE = "Known atrial fibrillation (AF) and HTN. AF is rate controlled, seen in the ED."


@pytest.mark.usefixtures("our_attributes")
@pytest.mark.parametrize("first", [True, False])
def test_our_values_stay_beside_the_detector_of_scispacy(first: bool) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("lmcells")
    add_detector(nlp, **({"first": True} if first else {}))
    doc = nlp(NOTE)
    expected = ["atrial fibrillation", "hypertension", "atrial fibrillation", "emergency department"]
    spans = doc.spans["acronyms"]
    assert [span._.long_form_text for span in spans] == expected
    assert [str(span._.long_form) for span in spans] == expected
    assert [span._.acronym["long_form"] for span in spans] == expected


@pytest.mark.usefixtures("our_attributes")
@pytest.mark.parametrize("beside", [True, False])
def test_code_written_for_scispacy_runs_unchanged(beside: bool) -> None:
    nlp = spacy.blank("en")
    if beside:
        add_detector(nlp)
    nlp.add_pipe("lmcells", config={"attribute": "abbreviations"})
    doc = nlp(NOTE)
    found = sorted((span.start, str(span), str(span._.long_form)) for span in doc._.abbreviations)
    assert [each[1:] for each in found] == [
        ("AF", "atrial fibrillation"),
        ("HTN", "hypertension"),
        ("AF", "atrial fibrillation"),
        ("ED", "emergency department"),
    ]
    by_text = {span.text: span for span in doc._.abbreviations}
    assert isinstance(by_text["AF"]._.long_form, Span)
    assert by_text["AF"]._.long_form.start_char == NOTE.index("atrial")
    assert by_text["ED"]._.long_form == by_text["ED"]._.long_form_text == "emergency department"
    # What scispaCy's linker looks at: the entities, whatever their labels.
    doc.ents = [Span(doc, span.start, span.end, label="DISEASE") for span in doc._.abbreviations]
    assert [str(ent._.long_form) for ent in doc.ents] == [each[2] for each in found]


def test_abbreviations_survive_other_processes_and_docbin() -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("lmcells", config={"attribute": "abbreviations"})
    stored = DocBin(store_user_data=True, docs=nlp.pipe([NOTE] * 3, n_process=2, batch_size=1))
    for doc in DocBin().from_bytes(stored.to_bytes()).get_docs(nlp.vocab):
        assert [span.text for span in doc._.abbreviations] == ["AF", "HTN", "AF", "ED"]
        assert doc._.abbreviations[0]._.long_form.text == "atrial fibrillation"


def test_components_with_other_keys_are_apart() -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("lmcells")
    nlp.add_pipe("lmcells", name="strict", config={"spans_key": "strict", "threshold": 1.0})
    nlp.add_pipe("lmcells", name="silent", config={"spans_key": None, "sections": "none"})
    doc = nlp("Pt goes to PT twice weekly for gait training.")
    at = [span.text for span in doc.spans["strict"]].index("PT")
    assert doc.spans["strict"][at]._.long_form is None
    assert doc.spans["acronyms"][at]._.long_form is not None
    assert "patient" in long_forms(doc)
    assert doc._.acronyms == tuple(span._.acronym for span in doc.spans["acronyms"])
    assert doc[0:1]._.long_form == "patient"  # a span of nobody's: the first component's answer
