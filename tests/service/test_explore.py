"""What the Explore view asks: answers are the analysis' own, and what the model does not know is refused in a line."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from expansion.clinic import INVENTORY as CLINIC
from expansion.clinic import clinic_corpus, random_model
from lmcells import Expander
from lmcells.analysis.cells import WordCells
from lmcells.analysis.interpolation import interpolate, section_ranker
from lmcells.analysis.neighbors import nearest_words
from lmcells.analysis.sections import map_sections, nearest_sections
from lmcells.analysis.senses import word_senses
from lmcells.expansion import SenseInventory
from lmcells.service import explore as exploring_thread
from lmcells.service.explore_messages import (
    InterpolationAnswer,
    MixtureAnswer,
    NearestSectionsAnswer,
    NeighborsAnswer,
    SectionMapAnswer,
    SensesAnswer,
)
from service.planted_service import plant
from service.serving import client

PATHS: dict[str, dict[str, Any]] = {
    "start": {},
    "names": {"kind": "word"},
    "neighbors": {"word": "history"},
    "senses": {"word": "history"},
    "interpolation": {"short_form": "SM", "section": "PLAN"},
    "sections": {},
    "nearest-sections": {"section": "PLAN"},
    "mixture": {"word": "history"},
}


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Expander:
    return plant(tmp_path_factory.mktemp("planted"))


@pytest.fixture(scope="module")
def http(planted: Expander) -> Iterator[TestClient]:
    with client(planted) as running:
        yield running


def ask(http: TestClient, what: str, **asked: Any) -> Any:
    answer = http.get(f"/explore/{what}", params=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()


def names_of(http: TestClient, kind: str, search: str, **more: Any) -> tuple[str | None, list[str]]:
    found = ask(http, "names", kind=kind, search=search, **more)
    return found["known"], [each["name"] for each in found["names"]]


def test_the_first_look_is_the_papers_where_the_model_knows_it(http: TestClient) -> None:
    first = ask(http, "start")
    assert (first["word"], first["sections"]) == ("history", ["SOCIAL HISTORY", "FAMILY HISTORY"])
    assert (first["short_form"], first["section"]) == ("SM", "SOCIAL HISTORY")  # neither MG nor its section
    assert (first["n_words"], first["n_sections"], first["n_short_forms"]) == (7, 7, 2)


def test_the_first_look_of_another_model_can_be_looked_at(expander: Expander) -> None:
    with client(expander) as http:
        first = ask(http, "start")
        ask(http, "interpolation", short_form=first["short_form"], section=first["section"])
        ask(http, "senses", word=first["word"], section=first["sections"])
        ask(http, "mixture", word=first["word"])
        assert len(ask(http, "sections")["sections"]) == 2  # the fewest there may be
        ask(http, "nearest-sections", section=first["section"])


def test_names_are_found_while_they_are_typed(http: TestClient) -> None:
    assert names_of(http, "word", "smok") == (None, ["smoking"])
    assert names_of(http, "word", "History") == ("history", ["history"])
    assert names_of(http, "section", "hist")[1] == ["SOCIAL HISTORY", "FAMILY HISTORY"]
    assert names_of(http, "short_form", "sm") == ("SM", ["SM"])
    assert names_of(http, "short_form", "smoking") == (None, ["SM"])
    assert len(names_of(http, "word", "", limit=3)[1]) == 3


def test_a_section_is_known_by_its_other_names(http: TestClient) -> None:
    assert names_of(http, "section", "labs") == ("LABORATORY DATA", ["LABORATORY DATA"])


def test_unknown_names_get_the_nearest(http: TestClient) -> None:
    assert names_of(http, "word", "sodum") == (None, ["sodium"])
    assert names_of(http, "section", "socail history")[1][0] == "SOCIAL HISTORY"
    assert names_of(http, "short_form", "SNM")[1][0] == "SM"
    assert names_of(http, "section", "<no section>")[0] is None


def test_neighbors_move_with_the_section(http: TestClient, planted: Expander) -> None:
    for section, expected in (("SOCIAL HISTORY", "alcohol"), ("FAMILY HISTORY", "father")):
        found = NeighborsAnswer.model_validate_json(
            http.get(
                "/explore/neighbors",
                params={"word": "history", "section": section, "against": "expected", "n": 3},
            ).content
        )
        own = nearest_words(WordCells(planted.model), "history", section, against="expected", n=3)
        assert found == NeighborsAnswer.model_validate(own.to_dict())
        assert found.neighbors[0].word == expected
    assert ask(http, "neighbors", word="history")["section"] is None


def test_senses_are_those_of_the_analysis(http: TestClient, planted: Expander) -> None:
    asked = {"word": "history", "section": ["SOCIAL HISTORY", "FHX"], "against": ["smoking", "mother"]}
    found = SensesAnswer.model_validate(ask(http, "senses", **asked))
    own = word_senses(
        WordCells(planted.model),
        "history",
        sections=asked["section"],
        words=asked["against"],
        n_neighbors=8,
    )
    assert found == SensesAnswer.model_validate(own.to_dict())
    social, family = (each.likenesses for each in found.sections)
    assert social[0].ratio > 1 > social[1].ratio
    assert family[0].ratio < 1 < family[1].ratio


def test_the_gate_is_moved_in_so_many_steps(http: TestClient, planted: Expander) -> None:
    found = InterpolationAnswer.model_validate(
        ask(http, "interpolation", short_form="sm", section="labs", steps=11)
    )
    ranker = section_ranker(planted.model, planted.inventory)
    own = interpolate(
        ranker, "SM", section="LABORATORY DATA", steps=11, calibration=planted.calibration
    ).to_dict()
    assert found == InterpolationAnswer.model_validate(own)
    assert (found.short_form, found.section, len(found.weights)) == ("SM", "LABORATORY DATA", 11)
    for step in range(11):
        assert sum(path.probabilities[step] for path in found.long_forms) == pytest.approx(1)


def test_sections_lie_on_a_map_that_is_made_once(http: TestClient, planted: Expander) -> None:
    for network in ("variational", "prior"):
        found = SectionMapAnswer.model_validate(ask(http, "sections", network=network))
        own = map_sections(planted.model, network=network, n_clusters=3)
        assert (found.network, found.clusters) == (network, own.clusters)
        for one, other in zip(found.sections, own.sections, strict=True):
            assert (one.section, one.count, one.cluster) == (other.section, other.count, other.cluster)
            assert (one.x, one.y) == pytest.approx((other.x, other.y), abs=1e-3)
        assert found == SectionMapAnswer.model_validate(ask(http, "sections", network=network))
    assert {each.cluster for each in found.sections} == {0, 1, 2}


def test_the_nearest_sections_are_those_of_both_networks(http: TestClient, planted: Expander) -> None:
    found = NearestSectionsAnswer.model_validate(ask(http, "nearest-sections", section="plan", n=2))
    assert found == NearestSectionsAnswer.model_validate(
        nearest_sections(planted.model, "PLAN", n=2).to_dict()
    )
    assert (found.variational[0].section, found.prior[0].section) == ("SOCIAL HISTORY", "LABORATORY DATA")


def test_the_cells_of_a_word_lie_on_a_plane(http: TestClient) -> None:
    found = MixtureAnswer.model_validate(ask(http, "mixture", word="history"))
    assert [each.section for each in found.components] == [
        "SOCIAL HISTORY",
        "FAMILY HISTORY",
        "LABORATORY DATA",
    ]
    assert sum(each.weight for each in found.components) == pytest.approx(1)
    mean = sum(each.weight * each.x for each in found.components)
    assert found.expected.x == pytest.approx(mean, abs=1e-6)
    assert len(ask(http, "mixture", word="history", most=1)["components"]) == 1


@pytest.mark.parametrize(
    ("path", "asked", "detail"),
    [
        (
            "neighbors",
            {"word": "histroy"},
            "the model does not know the word 'histroy'. Nearest: history",
        ),
        ("neighbors", {"word": "history", "section": "PLAM"}, "the model does not know the section 'PLAM'"),
        ("senses", {"word": "history", "section": ["x"]}, "the model does not know the section 'x'"),
        ("senses", {"word": "history", "section": ["PLAN"] * 9}, "section: List should have at most 8 items"),
        ("interpolation", {"short_form": "SN", "section": "PLAN"}, "'SN' is not in the inventory"),
        ("interpolation", {"short_form": "SM", "section": "PLAN", "steps": 1}, "steps: Input should be"),
        ("sections", {"network": "other"}, "network: Input should be 'variational' or 'prior'"),
        ("names", {"kind": "note"}, "kind: Input should be"),
        ("names", {"kind": "word", "search": "x" * 201}, "search: String should have at most 200 characters"),
        ("mixture", {"word": "x" * 101}, "word: String should have at most 100 characters"),
        ("mixture", {"word": " "}, "word: String should match pattern"),
        ("mixture", {}, "word: Field required."),
    ],
)
def test_what_cannot_be_answered_is_refused_in_one_line(
    http: TestClient, path: str, asked: dict[str, Any], detail: str
) -> None:
    answer = http.get(f"/explore/{path}", params=asked)
    assert answer.status_code == 422
    assert list(answer.json()) == ["detail"]
    assert answer.json()["detail"].startswith(detail)
    assert "\n" not in answer.json()["detail"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", ["bsg", "mbsge"])
def test_a_model_that_reads_no_sections_says_so(tmp_path: Path, kind: str, path: str) -> None:
    model = random_model(tmp_path / "model", clinic_corpus(tmp_path, n_notes=2), kind)
    with client(Expander(model, CLINIC)) as http:
        answer = http.get(f"/explore/{path}", params=PATHS[path])
        assert http.post("/expand", json={"text": "PT"}).status_code == 200
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(f"the service's model is of kind {kind!r}")
    assert str(tmp_path) not in answer.text


def test_an_inventory_without_senses_says_so(planted: Expander) -> None:
    with client(Expander(planted.model, SenseInventory({}))) as http:
        answer = http.get("/explore/start")
    assert answer.status_code == 422
    assert "no senses" in answer.json()["detail"]


def test_too_many_questions_are_answered_with_429(planted: Expander, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exploring_thread.ExploringThread.__init__, "__kwdefaults__", {"most_waiting": 0})
    with client(planted) as http:
        answer = http.get("/explore/start")
        assert http.post("/expand", json={"text": "SM"}).status_code == 200
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "1")
    assert answer.json()["detail"].startswith("0 questions about the model wait")


def test_nothing_is_made_before_it_is_asked_for(planted: Expander, monkeypatch: pytest.MonkeyPatch) -> None:
    def made(*_: object, **__: object) -> None:
        raise AssertionError

    for name in ("map_sections", "section_ranker", "WordCells", "NameSearch"):
        monkeypatch.setattr(f"lmcells.service.explore.{name}", made)
    with client(planted) as http:
        assert http.post("/expand", json={"text": "SM"}).status_code == 200
        assert http.get("/explore/sections").status_code == 500
