"""What the Explore view asks: answers are the analysis' own, and what the model does not know is refused in a line."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.exceptions import HTTPException
from starlette.testclient import TestClient

from expansion.clinic import INVENTORY as CLINIC
from expansion.clinic import clinic_corpus, random_model
from lmcells import Expander
from lmcells.analysis.cells import WordCells
from lmcells.analysis.interpolation import interpolate, section_ranker
from lmcells.analysis.sections import map_sections, nearest_sections
from lmcells.analysis.senses import nearest_words, word_senses
from lmcells.service.explore import CountedNames, ExploringThread
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
def http(planted: Expander) -> Iterator[TestClient]:
    with client(planted) as running:
        yield running


def ask(http: TestClient, what: str, **asked: Any) -> Any:
    answer = http.get(f"/explore/{what}", params=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()


def plain(result: Any) -> Any:
    """What the analysis returns, as JSON has it."""
    return json.loads(json.dumps(result.to_dict()))


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
        found = ask(http, "neighbors", word="history", section=section, against="expected", n=3)
        own = nearest_words(WordCells(planted.model), "history", section, against="expected", n=3)
        assert found == plain(own)
        assert found["neighbors"][0]["word"] == expected
    assert ask(http, "neighbors", word="history")["section"] is None


def test_senses_are_those_of_the_analysis(http: TestClient, planted: Expander) -> None:
    sections, words = ["SOCIAL HISTORY", "FHX"], ["smoking", "mother"]
    found = ask(http, "senses", word="history", section=sections, against=words)
    own = word_senses(WordCells(planted.model), "history", sections=sections, words=words, n_neighbors=8)
    assert found == plain(own)
    social, family = ([each["ratio"] for each in section["likenesses"]] for section in found["sections"])
    assert social[0] > 1 > social[1]
    assert family[0] < 1 < family[1]


def test_the_gate_is_moved_in_so_many_steps(http: TestClient, planted: Expander) -> None:
    found = ask(http, "interpolation", short_form="sm", section="labs", steps=11)
    ranker = section_ranker(planted.model, planted.inventory)
    named = {"section": "LABORATORY DATA", "steps": 11}
    assert found == plain(interpolate(ranker, "SM", **named, calibration=planted.calibration))
    assert (found["short_form"], found["section"], len(found["weights"])) == ("SM", "LABORATORY DATA", 11)
    for step in range(11):
        assert sum(path["probabilities"][step] for path in found["long_forms"]) == pytest.approx(1)


def test_sections_lie_on_a_map_that_is_made_once(http: TestClient, planted: Expander) -> None:
    for network in ("variational", "prior"):
        found = ask(http, "sections", network=network)
        own = plain(map_sections(planted.model, network=network, n_clusters=3))
        assert (found["network"], found["clusters"]) == (network, own["clusters"])
        for one, other in zip(found["sections"], own["sections"], strict=True):
            assert one == other | {name: pytest.approx(other[name], abs=1e-3) for name in ("x", "y")}
        assert found == ask(http, "sections", network=network)
    assert {each["cluster"] for each in found["sections"]} == {0, 1, 2}


def test_the_nearest_sections_are_those_of_both_networks(http: TestClient, planted: Expander) -> None:
    found = ask(http, "nearest-sections", section="plan", n=2)
    assert found == plain(nearest_sections(planted.model, "PLAN", n=2))
    assert found["variational"][0]["section"] == "SOCIAL HISTORY"
    assert found["prior"][0]["section"] == "LABORATORY DATA"


def test_the_cells_of_a_word_lie_on_a_plane(http: TestClient) -> None:
    found = ask(http, "mixture", word="history")
    sections = ["SOCIAL HISTORY", "FAMILY HISTORY", "LABORATORY DATA"]
    assert [each["section"] for each in found["components"]] == sections
    assert sum(each["weight"] for each in found["components"]) == pytest.approx(1)
    mean = sum(each["weight"] * each["x"] for each in found["components"])
    assert found["expected"]["x"] == pytest.approx(mean, abs=1e-6)
    assert len(ask(http, "mixture", word="history", most=1)["components"]) == 1


@pytest.mark.parametrize(
    ("path", "asked", "detail"),
    [
        ("neighbors", {"word": "histroy"}, "the model does not know the word 'histroy'. Nearest: history"),
        ("neighbors", {"word": "history", "section": "PLAM"}, "the model does not know the section 'PLAM'"),
        ("senses", {"word": "history", "section": ["x"]}, "the model does not know the section 'x'"),
        ("senses", {"word": "history", "section": ["PLAN"] * 9}, "section: List should have at most 8 items"),
        ("interpolation", {"short_form": "SN", "section": "PLAN"}, "'SN' is not in the inventory"),
        ("interpolation", {"short_form": "SM", "section": "PLAN", "steps": 1}, "steps: Input should be"),
        ("sections", {"network": "other"}, "network: Input should be 'variational' or 'prior'"),
        ("names", {"kind": "note"}, "kind: Input should be"),
        ("names", {"kind": "word", "search": "x" * 201}, "search: String should have at most 200 characters"),
        ("mixture", {"word": "x" * 101}, "word: String should have at most 100 characters"),
        ("mixture", {"word": " "}, "word: is blank. Write"),
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


@pytest.mark.parametrize("kind", ["bsg", "mbsge"])
def test_a_model_that_reads_no_sections_says_so(tmp_path: Path, kind: str) -> None:
    model = random_model(tmp_path / "model", clinic_corpus(tmp_path, n_notes=2), kind)
    with client(Expander(model, CLINIC)) as http:
        assert http.post("/expand", json={"text": "PT"}).status_code == 200
        for path, asked in PATHS.items():
            answer = http.get(f"/explore/{path}", params=asked)
            assert answer.status_code == 422
            assert answer.json()["detail"].startswith(f"the service's model is of kind {kind!r}")
            assert str(tmp_path) not in answer.text


def test_nothing_is_made_before_it_is_asked_for(planted: Expander, monkeypatch: pytest.MonkeyPatch) -> None:
    def made(*_: object, **__: object) -> None:
        raise AssertionError

    for name in ("map_sections", "section_ranker", "WordCells", "CountedNames"):
        monkeypatch.setattr(f"lmcells.service.explore.{name}", made)
    with client(planted) as http:
        assert http.post("/expand", json={"text": "SM"}).status_code == 200
        assert http.get("/explore/sections").status_code == 500


# The thread that answers


def test_questions_are_answered_one_by_one_by_another_thread() -> None:
    at_once: list[int] = []
    running = 0

    def ask() -> int:
        nonlocal running
        running += 1
        at_once.append(running)
        running -= 1
        return threading.get_ident()

    async def main() -> list[int]:
        in_thread = ExploringThread()
        return await asyncio.gather(*(in_thread(ask) for _ in range(10)))

    threads = set(asyncio.run(main()))
    assert set(at_once) == {1}
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_the_event_loop_goes_on_meanwhile() -> None:
    answered = threading.Event()

    async def main() -> bool:
        asked = asyncio.create_task(ExploringThread()(lambda: answered.wait(10)))
        await asyncio.sleep(0)
        answered.set()  # by the event loop: were it held up, nobody would
        return await asked

    assert asyncio.run(main())


def test_too_many_questions_are_refused_and_later_ones_answered() -> None:
    go_on = threading.Event()

    async def main() -> tuple[HTTPException, int]:
        in_thread = ExploringThread(max_questions=2)
        waiting = [asyncio.create_task(in_thread(lambda: go_on.wait(10))) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(HTTPException) as refused:
            await in_thread(lambda: 1)
        go_on.set()
        assert all(await asyncio.gather(*waiting))
        return refused.value, await in_thread(lambda: 2)

    refused, later = asyncio.run(main())
    assert (refused.status_code, refused.headers) == (429, {"Retry-After": "1"})
    assert refused.detail.startswith("2 questions about the model are waiting")
    assert later == 2


def test_an_error_is_the_askers() -> None:
    def broken() -> None:
        raise ValueError

    async def main() -> int:
        in_thread = ExploringThread(max_questions=1)
        with pytest.raises(ValueError):  # noqa: PT011 - its kind is all there is
            await in_thread(broken)
        return await in_thread(lambda: 1)

    assert asyncio.run(main()) == 1


# Names as they are typed

COUNTS = {"history": 90, "histology": 40, "historical": 70, "past history": 10, "gait": 5}


def found(search: CountedNames, text: str, limit: int = 8) -> list[str]:
    return [name for name, _ in search(text, limit=limit)]


def test_what_begins_so_comes_first_the_commonest_first() -> None:
    search = CountedNames(COUNTS)
    assert found(search, "Hist") == ["history", "historical", "histology"]
    assert found(search, "histology") == ["histology"]
    assert found(search, "", limit=2) == ["history", "historical"]
    assert search("gait", limit=1) == [("gait", 5)]


def test_the_name_itself_comes_before_commoner_ones_that_begin_with_it() -> None:
    assert found(CountedNames({"histogram": 50, "histo": 2}), "histo") == ["histo", "histogram"]


def test_names_that_hold_the_text_come_next() -> None:
    search = CountedNames(COUNTS, searched={name: name for name in COUNTS})
    assert found(search, "history") == ["history", "past history"]


@given(
    names=st.dictionaries(st.text(min_size=1), st.integers(0, 100), min_size=1),
    text=st.text(max_size=20),
    limit=st.integers(1, 5),
)
def test_there_is_always_a_name_and_never_one_twice(names: dict[str, int], text: str, limit: int) -> None:
    search = CountedNames(names, searched={name: name.casefold() for name in names})
    found_names = search(text, limit=limit)
    assert 1 <= len(found_names) <= limit
    assert len(set(found_names)) == len(found_names)
    assert all(names[name] == count for name, count in found_names)
