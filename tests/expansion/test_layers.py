"""Layers of inventories: what is added, forbidden and pinned where, in files and in answers."""

import gc
import json
import sys
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmcells import Expander
from lmcells.errors import InputError, InventoryError
from lmcells.expansion import Expansion, Sense, SenseInventory, load_inventory
from lmcells.expansion.inventory import SenseRule
from lmcells.expansion.inventory_files import as_rules, load_rules, read_rules
from lmcells.expansion.layers import ContextRules, extend
from lmcells.notes.note import Note
from lmcells.notes.sections import load_aliases

BASE = SenseInventory.from_senses(
    [
        Sense("PT", "physical therapy", ("physical therapy", "physiotherapy")),
        Sense("PT", "prothrombin time"),
        Sense("MS", "multiple sclerosis", concept_id="7"),
        Sense("MS", "mitral stenosis"),
    ]
)
IN_CARDIOLOGY = {"where": {"section": "CARDIOLOGY"}}


def rule(short_form: str, long_form: str = "*", action: str = "add", **others: Any) -> dict[str, Any]:
    return {"short_form": short_form, "long_form": long_form, "action": action, **others}


def names(inventory: SenseInventory, short_form: str) -> list[str]:
    return [sense.long_form for sense in inventory.senses(short_form)]


def allowed_in(inventory: SenseInventory, short_form: str, section: str = "", **metadata: str) -> Any:
    found = ContextRules(inventory, load_aliases())(short_form, section, metadata)
    if found is None:
        return None
    allowed = [inventory.senses(short_form)[at].long_form for at in found.senses]
    return allowed if found.pinned is None else (allowed, found.pinned.long_form)


@pytest.fixture(scope="module")
def shipped() -> Expander:
    return Expander.from_pretrained()


def answers(found: list[Expansion]) -> list[tuple[str, str | None, str]]:
    return [(each.short_form, each.long_form, each.source) for each in found]


# Files


def test_a_layer_may_be_empty_as_that_of_an_audit_that_found_nothing(tmp_path: Path) -> None:
    (tmp_path / "site.csv").write_text("short_form,long_form,action\n")
    assert extend(BASE, tmp_path / "site.csv") == BASE
    with pytest.raises(InventoryError, match="the inventory is empty"):
        load_inventory(tmp_path / "site.csv")


def test_the_columns_of_a_table_are_the_keys_of_an_object(tmp_path: Path) -> None:
    (tmp_path / "site.csv").write_text(
        "short_form,long_form,action,Section,ward,comment,n_notes\nMS,mitral stenosis,pin,CARDIOLOGY,B2,ok,3\n"
    )
    entry = rule(
        "MS", "mitral stenosis", "pin", Section="CARDIOLOGY", ward="B2", comment="ok", n_notes=3, bed=None
    )
    (tmp_path / "site.json").write_text(json.dumps([entry]))
    (_, expected), *_ = load_rules(tmp_path / "site.csv")
    assert expected.where == (("section", "CARDIOLOGY"), ("ward", "B2"))
    assert load_rules(tmp_path / "site.json")[0][1] == expected
    for empty in ("", [], {}, None):  # the other keys are conditions all the same
        (tmp_path / "site.json").write_text(json.dumps([entry | {"where": empty}]))
        assert load_rules(tmp_path / "site.json")[0][1] == expected
    with pytest.raises(InventoryError, match="'bed' is a condition, so its value must be text"):
        extend(BASE, [entry | {"bed": 4}])


def test_metadata_must_be_a_mapping(shipped: Expander) -> None:
    with pytest.raises(InputError, match=r"metadata are names and values \(a dict\), found: str"):
        shipped("Known MS.", metadata="Echo")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("site.csv", "short_form,long_form,action,section,ward\nMS,mitral stenosis,pin,CARDIOLOGY,B2\nXX,new,,,\n"),
        ("site", "Short_Form\tlong_form\taction\tsection\tward\nMS\tmitral stenosis\tpin\tCARDIOLOGY\tB2\nXX\tnew\n"),
        ("site.csv", "short_form,long_form,action,where\nMS, mitral stenosis, pin, section=CARDIOLOGY;ward=B2\nXX,new"),
        (
            "site.json",
            json.dumps(
                [
                    rule("MS", "mitral stenosis", "pin", where={"ward": "B2", "section": "CARDIOLOGY"}),
                    {"short_form": "XX", "long_form": "new", "n_notes": 3},
                ]
            ),
        ),
    ],
)  # fmt: skip
def test_every_format_says_the_same(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    where = (("section", "CARDIOLOGY"), ("ward", "B2"))
    assert [each for _, each in load_rules(tmp_path / name)] == [
        SenseRule(Sense("MS", "mitral stenosis"), "pin", where),
        SenseRule(Sense("XX", "new")),
    ]


def test_the_records_of_a_frame_are_rules() -> None:
    records = [
        rule("MS", "mitral stenosis", "pin", section=float("nan"), forms=None, concept_id=101.0),
        rule("PT", "gait", float("nan"), section="PLAN", forms=float("nan"), concept_id=float("nan")),
    ]
    assert as_rules(records) == [
        SenseRule(Sense("MS", "mitral stenosis", concept_id="101"), "pin"),
        SenseRule(Sense("PT", "gait"), where=(("section", "PLAN"),)),
    ]


def test_all_bad_rows_are_found_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "site.csv"
    path.write_text(
        'short_form,long_form,action,where\nPT,"two\nlines",,\n\n,x,,\nPT,y,ban,\nPT,,pin,\n'
        "PT,*,pin,\nPT,z,add,ward\nPT,two lines,,,,too many\nPT,two  lines\n"
    )
    rules, problems = read_rules(path)
    assert [place for place, _ in rules] == ["line 2"]
    assert [problem.split(":")[0] for problem in problems] == [f"line {n}" for n in (5, 6, 7, 8, 9, 10, 11)]
    assert "already a sense of 'PT' (line 2)" in problems[-1]
    with pytest.raises(InventoryError, match=r"site\.csv, line 5: .* And 6 more: lmcells inventory check"):
        load_rules(path)
    (tmp_path / "site.json").write_text('[\n {"short_form": "PT"},\n\n {"short_form": "PT", "long_form": 3}]')
    assert [each.split(":")[0] for each in read_rules(tmp_path / "site.json")[1]] == [
        "entry 1 (line 2)",
        "entry 2 (line 4)",
    ]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("sectoin", "section"),
        ("catgeory", "category"),
        ("Sections", "section"),
        ("actoin", "action"),
        ("form", "forms"),
        ("Short Form", "short_form"),
        ("wehre", "where"),
        ("comments", "comment"),
    ],
)
def test_a_misspelt_key_is_no_condition(tmp_path: Path, name: str, meant: str) -> None:
    message = f"{name.lower()!r} looks like a misspelt {meant!r}"
    entry = rule("MS", "mitral stenosis", "pin") | {name: "Cardiology"}
    (tmp_path / "site.csv").write_text(f"{','.join(entry)}\n{','.join(entry.values())}\n")
    (tmp_path / "site.json").write_text(json.dumps([entry]))
    for path, place in (("site.csv", "line 2"), ("site.json", r"entry 1 \(line 1\)")):
        with pytest.raises(InventoryError, match=f"{path}, {place}: {message}"):
            load_rules(tmp_path / path)
    with pytest.raises(InventoryError, match=f"entry 1: {message}"):
        extend(BASE, [entry])


@pytest.mark.parametrize(("name", "meant"), [("sectoin", "section"), ("catgeory", "category")])
def test_a_condition_is_not_misspelt_either(tmp_path: Path, name: str, meant: str) -> None:
    message = f"{name!r} looks like a misspelt {meant!r}. Correct it, or rename the metadata."
    (tmp_path / "site.csv").write_text(
        f"short_form,long_form,action,where\nMS,mitral stenosis,pin,ward=B2; {name}=x\n"
    )
    assert read_rules(tmp_path / "site.csv")[1] == [f"line 2: {message}"]
    with pytest.raises(InventoryError, match=message):
        extend(BASE, [rule("MS", "mitral stenosis", "pin", where={name: "x"})])
    with pytest.raises(InventoryError, match=message):
        SenseRule(Sense("MS", "mitral stenosis"), "pin", ((name, "x"),))


def test_other_metadata_are_conditions_whatever_their_names() -> None:
    names = (
        "ward",
        "station",
        "session",
        "sector",
        "subsection",
        "subcategory",
        "location",
        "note_type",
        "concept",
    )
    (found,) = as_rules(
        [rule("MS", "mitral stenosis", "pin", where={"form": "H&P"}, **dict.fromkeys(names, "x"))]
    )
    assert found.where == tuple(sorted({"form": "H&P", **dict.fromkeys(names, "x")}.items()))


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("section=PLAN; Section=HPI", "'where' has a condition twice"),
        ("section=PLAN and ward=B2", "'where' has a condition with two '='. Separate conditions by ';'"),
    ],
)
def test_conditions_that_could_never_hold_together_are_refused(
    tmp_path: Path, where: str, message: str
) -> None:
    (tmp_path / "site.csv").write_text(f"short_form,long_form,action,where\nMS,x,pin,{where}\n")
    with pytest.raises(InventoryError, match=f"line 2: {message}"):
        load_rules(tmp_path / "site.csv")
    (tmp_path / "site.csv").write_text("short_form,long_form,section,Section\nMS,x,PLAN,HPI\n")
    with pytest.raises(InventoryError, match="two columns 'section'"):
        load_rules(tmp_path / "site.csv")


def test_a_short_form_is_pinned_once_in_a_place(tmp_path: Path) -> None:
    path = tmp_path / "site.csv"
    path.write_text(
        "short_form,long_form,action,section\nMS,mitral stenosis,pin,\nMS,multiple sclerosis,pin,PLAN\n"
        "MS,morphine sulfate,pin,\nMS,morphine sulfate,add,PLAN\n"
    )
    rules, problems = read_rules(path)
    assert [place for place, _ in rules] == ["line 2", "line 3", "line 5"]
    assert problems == ["line 4: 'MS' is already pinned there (line 2). Keep one."]


def test_rules_are_no_inventory_of_their_own(tmp_path: Path) -> None:
    for row, message in (
        ("PT,x,forbid,", "line 2: forbid is a rule"),
        ("PT,x,,PLAN", "line 2: depends on 'section'"),
    ):
        (tmp_path / "site.csv").write_text(f"short_form,long_form,action,section\n{row}\n")
        with pytest.raises(InventoryError, match=message):
            load_inventory(tmp_path / "site.csv")


# Layers


def test_senses_are_added_and_forbidden_everywhere() -> None:
    mine = extend(
        BASE, [Sense("PT", "posterior tibial"), rule("MS", "stenosis, mitral", "forbid"), Sense("XX", "new")]
    )
    assert names(mine, "PT") == ["physical therapy", "prothrombin time", "posterior tibial"]
    assert names(mine, "MS") == ["multiple sclerosis", "mitral stenosis"]  # no way to write it
    mine = extend(mine, [rule("PT", "Physiotherapy", "forbid"), rule("MS", action="forbid")])
    assert names(mine, "PT") == ["prothrombin time", "posterior tibial"]
    assert names(mine, "MS") == []
    assert not any(mine.rules.values())
    assert len(BASE) == 2


def test_a_sense_that_is_there_gains_forms_and_a_concept() -> None:
    (sense, _) = extend(BASE, [Sense("MS", "Multiple Sclerosis", ("MS disease",), "9")]).senses("MS")
    assert sense == Sense("MS", "multiple sclerosis", ("multiple sclerosis", "MS disease"), "9")


def test_what_holds_depends_on_the_place() -> None:
    site = [
        rule("MS", "mitral stenosis", "pin", **IN_CARDIOLOGY),
        rule("MS", "morphine sulfate", where={"category": "nurs*"}),
        rule("PT", action="forbid", where={"section": "PMH"}),
    ]
    mine = extend(BASE, site)
    both = ["multiple sclerosis", "mitral stenosis"]
    assert allowed_in(mine, "MS") == both
    assert allowed_in(mine, "MS", "Cardiology") == (both, "mitral stenosis")
    assert allowed_in(mine, "MS", category="Nursing/other") == [*both, "morphine sulfate"]
    assert allowed_in(mine, "PT", "PAST MEDICAL HISTORY") == []
    assert allowed_in(mine, "PT", "PLAN") == ["physical therapy", "prothrombin time"]
    assert allowed_in(extend(mine, [Sense("XX", "new")]), "XX") is None


def test_later_layers_and_more_conditions_are_stronger() -> None:
    specific = rule("MS", "mitral stenosis", "pin", **IN_CARDIOLOGY)
    general = rule("MS", "multiple sclerosis", "pin")
    for site in ([specific, general], [general, specific]):
        assert allowed_in(extend(BASE, site), "MS", "CARDIOLOGY")[1] == "mitral stenosis"
        assert allowed_in(extend(BASE, site), "MS", "PLAN")[1] == "multiple sclerosis"
    above = extend(extend(BASE, [specific]), [general])
    assert allowed_in(above, "MS", "CARDIOLOGY")[1] == "multiple sclerosis"
    assert allowed_in(extend(above, [rule("MS", action="forbid")]), "MS", "PLAN") == []


def test_a_layered_inventory_may_be_a_layer() -> None:
    site = extend(SenseInventory(), [rule("MS", "x", "pin", **IN_CARDIOLOGY), rule("PT", action="forbid")])
    mine = extend(BASE, site)
    assert names(mine, "PT") == []
    assert allowed_in(mine, "MS", "PLAN") == ["multiple sclerosis", "mitral stenosis"]
    assert allowed_in(mine, "MS", "CARDIOLOGY")[1] == "x"


# Answers of the shipped model


def test_a_pinned_sense_is_the_answer(shipped: Expander) -> None:
    note = "CARDIOLOGY: severe MS again.\n\nPLAN: MS, q6h."
    pins = [
        rule("MS", "mitral stenosis", "pin", concept_id="4", **IN_CARDIOLOGY),
        rule("q6h", "every sixth hour", "pin"),
        rule("zzq", "never heard of", "pin"),
    ]
    found = shipped(f"{note} zzq", inventory=pins)
    assert answers(found)[0] == ("MS", "mitral stenosis", "pinned")
    assert found[0].probability == 1.0
    assert found[0].concept_id == "4"
    assert answers(found)[1][2] == "model"
    assert answers(found)[2:] == [("q6h", "every sixth hour", "pinned"), ("zzq", "never heard of", "pinned")]
    assert answers(shipped(note)) == answers(shipped(note, inventory=[Sense("XYZ", "something new")]))
    (defined,) = shipped("mitral stenosis (MS)", inventory=[rule("MS", "multiple sclerosis", "pin")])
    assert defined.long_form == "mitral stenosis"  # the note's own words are stronger


@pytest.mark.parametrize("where", [{}, {"section": "PLAN"}])
def test_a_forbidden_short_form_is_not_read_in_another_way(shipped: Expander, where: dict[str, str]) -> None:
    note = "PLAN: PT tomorrow. Pt is well, q6h."
    assert [each.short_form for each in shipped(note)] == ["PT", "Pt", "q6h."]
    forbidden = [rule(name, action="forbid", where=where) for name in ("PT", "q6h")]
    assert [each.short_form for each in shipped(note, inventory=forbidden)] == ["Pt"]


def test_rules_read_the_metadata_of_notes(shipped: Expander) -> None:
    pin = [rule("MS", "mitral stenosis", "pin", where={"category": "Echo", "ward": "B2"})]
    notes = [
        Note("1", "MS", {"category": "echo", "ward": "b2"}),
        Note("2", "MS", {"category": "echo"}),
        "MS",
    ]
    sources = [found[0].source for found in shipped.pipe(notes, inventory=pin)]
    assert sources == ["pinned", "model", "model"]
    assert shipped("MS", inventory=pin, metadata={"Category": "ECHO", "WARD": "B2"})[0].source == "pinned"


def test_a_missing_value_meets_no_condition() -> None:
    mine = extend(
        BASE, [rule("MS", "mitral stenosis", "pin", ward="*"), rule("MS", action="forbid", ward="7")]
    )
    senses = ["multiple sclerosis", "mitral stenosis"]
    for missing in (None, float("nan"), "", " "):
        found = ContextRules(mine, load_aliases())("MS", "", {"ward": missing})
        assert found is not None
        assert found.pinned is None
        assert len(found.senses) == len(senses)
    for seven in (7, 7.0, "7"):
        assert ContextRules(mine, load_aliases())("MS", "", {"ward": seven, 5: "x"}).senses == ()  # type: ignore


def test_metadata_may_name_the_section_of_a_text_without_headers() -> None:
    mine = extend(BASE, [rule("MS", "mitral stenosis", "pin", section="PAST MEDICAL HISTORY")])
    rules, metadata = ContextRules(mine, load_aliases()), {"Section": "pmh"}
    for section, is_pinned in (("", True), ("PLAN", False)):
        found = rules("MS", section, metadata)
        assert found is not None
        assert (found.pinned is not None) == is_pinned


def test_layers_of_files_lie_over_the_shipped_inventory(tmp_path: Path) -> None:
    (tmp_path / "site.csv").write_text(
        "short_form,long_form,action\nMS,mitral stenosis,pin\nQZX,quartz oxide,\n"
    )
    (tmp_path / "mine.tsv").write_text("short_form\tlong_form\taction\nMS\tmorphine sulfate\tpin\n")
    files = [tmp_path / "site.csv", str(tmp_path / "mine.tsv")]
    expander = Expander.from_pretrained(inventory=files)
    assert answers(expander("MS QZX HTN")) == [
        ("MS", "morphine sulfate", "pinned"),
        ("QZX", "quartz oxide", "model"),
        ("HTN", "hypertension", "model"),
    ]
    alone = Expander.from_pretrained(only_inventory=tmp_path / "site.csv", letters=False)
    assert [each.short_form for each in alone("MS QZX HTN")] == ["MS", "QZX"]


# Layers over an expander that is prepared already

EVERY_CASE = """HPI: Pt is a 27y/o with GI bleed s/p MI, seen by PT. PTs x3, 24 hr, q6h. mitral stenosis (MS).
CARDIOLOGY: severe MS, pt stable, QQ and qq, Qq-7 qQ-7. NEXT TO PT: 3 QQ L. EF 40.
PLAN: PT FOR MS AND QQ, GI BLEED. HTN MI
"""
SENSES = [
    ("PT", "physical therapy"),
    ("PT", "prothrombin time"),
    ("PT", "gait"),
    ("Pt", "patient"),
    ("pt", "physical therapy"),
    ("MS", "mitral stenosis"),
    ("GI bleed", "bleeding of the gut"),
    ("QQ", "quality of the quote"),
    ("qq", "quart"),
    ("QQ-7", "quality seven"),
    ("qQ-7", "quote seven"),
    ("L", "lumbar"),
    ("q6h", "every sixth hour"),
]
WHERE: list[dict[str, str]] = [{}, {}, {"section": "CARDIOLOGY"}, {"section": "PLAN", "ward": "b*"}]


@st.composite
def rules(draw: st.DrawFn) -> dict[str, Any]:
    short_form, long_form = draw(st.sampled_from(SENSES))
    action = draw(st.sampled_from(["add", "add", "forbid", "pin"]))
    if action == "forbid" and draw(st.booleans()):
        long_form = "*"
    return rule(
        short_form, long_form, action, where=draw(st.sampled_from(WHERE)), error_prone=draw(st.booleans())
    )


def place(given: dict[str, Any]) -> str:
    """What a layer may have once: a pin of a short form in a place, or a whole rule."""
    is_pin = given["action"] == "pin"
    return json.dumps([given["short_form"], given["where"]] if is_pin else given)


@settings(max_examples=12)
@given(layers=st.lists(st.lists(rules(), min_size=1, max_size=8, unique_by=place), min_size=1, max_size=2))
def test_a_layer_answers_as_an_expander_of_its_inventory_would(
    shipped: Expander, layers: list[list[dict[str, Any]]]
) -> None:
    below = shipped if len(layers) == 1 else rebuilt(shipped, layers[0])
    laid_over = below(EVERY_CASE, inventory=layers[-1], metadata={"ward": "B2"})
    from_scratch = rebuilt(below, layers[-1])(EVERY_CASE, metadata={"ward": "B2"})
    assert without_numbers(laid_over) == without_numbers(from_scratch)
    assert numbers(laid_over) == pytest.approx(numbers(from_scratch), abs=1e-6)


def rebuilt(expander: Expander, layer: list[dict[str, Any]]) -> Expander:
    return Expander(expander.model, extend(expander.inventory, layer), calibration=expander.calibration)


def without_numbers(found: list[Expansion]) -> list[Expansion]:
    return [
        replace(
            each, probability=None, candidates=tuple(replace(one, probability=0) for one in each.candidates)
        )
        for each in found
    ]


def numbers(found: list[Expansion]) -> list[float]:
    return [one.probability for each in found for one in each.candidates]


def test_only_the_short_forms_of_a_layer_are_looked_at(shipped: Expander) -> None:
    """Counted in instructions: a layer over thousands of short forms takes as many as over two."""
    two = {name: shipped.inventory.senses(name) for name in ("PT", "MS")}
    small = Expander(shipped.model, replace(shipped.inventory, by_short_form=two))
    layer = [
        rule("MS", "morphine", "pin", **IN_CARDIOLOGY),
        rule("PT", "prothrombin time", "forbid"),
        rule("ZZQ", "new"),
    ]
    over_two = n_instructions(lambda: small.lexicon(layer))
    over_thousands = n_instructions(lambda: shipped.lexicon(layer))
    assert 0 < over_thousands < 1.05 * over_two


def n_instructions(do: Callable[[], object]) -> int:
    counted = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal counted
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        counted += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        do()
    finally:
        sys.settrace(before)
    return counted


def test_senses_are_forgotten_with_their_inventory() -> None:
    class Text(str):  # weak references need a class of ours
        pass

    form = Text("a form of this user")
    kept = weakref.ref(form)
    sense = Sense("QXZ", "long form", (form,))
    extended = extend(BASE, [sense, SenseRule(Sense("QXZ", "another"), "forbid")])
    ruled = extend(extended, [SenseRule(sense, where=(("section", "PLAN"),)), SenseRule(sense, "forbid")])
    assert ContextRules(ruled, load_aliases())("QXZ", "PLAN") is not None
    del form, sense, extended, ruled
    gc.collect()
    assert kept() is None
