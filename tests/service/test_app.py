"""The service by its paths: what is asked, what is answered, what is refused and how."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

import lmcells
from lmcells import Expander
from lmcells.expansion import Expansion
from lmcells.service.messages import InventoryAnswer, ManyAnswers, NoteAnswer
from lmcells.service.middleware import HEADERS, validation_detail
from service.serving import NOTE, SECRET, client

ONE = [{"short_form": "CVA", "long_form": "cerebrovascular accident"}]


@pytest.fixture(scope="module")
def http(expander: Expander) -> Iterator[TestClient]:
    with client(expander, max_note_length=5_000, max_notes=50, max_body=0.5) as running:
        yield running


def names(expansions: list[Expansion]) -> list[Any]:
    return [(each.start, each.end, each.short_form, each.section, each.long_form) for each in expansions]


def test_one_note_is_expanded(http: TestClient, expander: Expander) -> None:
    answer = http.post("/expand", json={"text": NOTE, "id": "a"})
    assert answer.status_code == 200
    said = NoteAnswer.model_validate_json(answer.content)
    assert names([each.to_expansion() for each in said.expansions]) == names(expander(NOTE))
    assert (said.id, said.explanations, said.expanded) == ("a", None, None)


def test_many_notes_are_expanded_in_order(http: TestClient) -> None:
    notes = [{"id": str(number), "text": "PT " * number} for number in range(50)]
    said = ManyAnswers.model_validate_json(http.post("/expand", json={"notes": notes}).content)
    assert [(each.id, len(each.expansions)) for each in said.notes] == [(str(n), n) for n in range(50)]
    assert http.post("/expand", json={"notes": []}).json() == {"notes": []}


def test_options_go_with_a_request(http: TestClient) -> None:
    answer = http.post(
        "/expand",
        json={
            "text": "PT after CVA",
            "sections": [{"start": 0, "end": 12, "header": "Plan"}],
            "inventory": {"add": ONE, "remove": [{"short_form": "PT"}]},
            "expanded_text": "append",
            "explain": True,
        },
    ).json()
    (expansion,) = answer["expansions"]
    assert (expansion["short_form"], expansion["section"]) == ("CVA", "PLAN")
    assert len(answer["explanations"]) == 1
    assert answer["expanded"]["offset_map"]["starts"] in ([9], [])
    assert answer["expanded"]["text"].startswith("PT after CVA")
    assert http.post("/expand", json={"text": "PT after CVA"}).json()["expansions"][0]["short_form"] == "PT"


def test_offsets_count_code_points(http: TestClient) -> None:
    (expansion,) = http.post("/expand", json={"text": "😀 PT"}).json()["expansions"]
    assert (expansion["start"], expansion["end"]) == (2, 4)


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"text": "x" * 5_001}, "text: found 5,001 characters, allowed: 5,000. Send it in parts."),
        (
            {"notes": [{"text": ""}, {"text": "x" * 5_001}]},
            "notes.1.text: found 5,001 characters, allowed: 5,000. Send it in parts.",
        ),
        ({"notes": [{"text": ""}] * 51}, "notes: found 51, allowed: 50. Send them in parts."),
        ({"text": "PT", "inventory": {"remove": [{"short_form": "P"}]}}, "'P' is not in the inventory"),
        ({"text": "PT", "sections": [{"start": 1, "end": 9}]}, "sections: number 1 is 1-9"),
        ({"text": "PT", SECRET: 1}, "body: has an unknown field. See /openapi.json."),
        ({"notes": [{"text": "", SECRET: 1}]}, "notes.0: has an unknown field."),
        ({"text": [SECRET]}, "text: Input should be a valid string."),
        ({"notes": [{"text": 1}, {"text": 2}]}, "notes.0.text: Input should be a valid string. And 1 more."),
        ([SECRET], "body: not a JSON object."),
        ({}, "text: Field required."),
    ],
)
def test_a_wrong_request_is_refused_in_one_line(http: TestClient, body: Any, detail: str) -> None:
    answer = http.post("/expand", json=body)
    assert answer.status_code == 422
    assert list(answer.json()) == ["detail"]
    assert answer.json()["detail"].startswith(detail)
    assert SECRET not in answer.text
    assert "\n" not in answer.json()["detail"]


@pytest.mark.parametrize(
    ("content", "status"),
    [(b'{"text": "' + SECRET.encode(), 422), (b'{"text": "\xff"}', 400), (b"[" * 100_000, 400), (b"", 422)],
)
def test_what_is_not_json_is_refused(http: TestClient, content: bytes, status: int) -> None:
    answer = http.post("/expand", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == status
    assert SECRET not in answer.text
    assert list(answer.json()) == ["detail"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(SECRET),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["text", "notes", "id", "sections", "inventory", "add", "short_form", SECRET]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(body=JSON)
def test_no_refusal_quotes_a_note(http: TestClient, body: Any) -> None:
    answer = http.post("/expand", json=body)
    assert answer.status_code in (200, 422)
    if answer.status_code == 422:
        assert SECRET not in answer.text


def test_details_leave_out_what_was_found() -> None:
    found = [{"type": "string_type", "loc": ("body", "one", "text"), "msg": "M", "input": SECRET}]
    assert validation_detail(found) == "text: M."


def test_the_inventory_is_listed_and_searched(http: TestClient) -> None:
    everything = InventoryAnswer.model_validate_json(http.get("/inventory").content)
    assert (everything.n_short_forms, everything.n_senses, everything.n_found) == (2, 4, 2)
    assert [entry.short_form for entry in everything.entries] == ["MS", "PT"]
    for search in ("pt", " PT ", "PROTHROMBIN", "physiotherapy"):
        found = InventoryAnswer.model_validate_json(http.get("/inventory", params={"search": search}).content)
        assert [entry.short_form for entry in found.entries] == ["PT"]
    both = http.get("/inventory", params={"search": "p"}).json()
    assert [entry["short_form"] for entry in both["entries"]] == ["PT", "MS"]  # multiple sclerosis has one
    page = http.get("/inventory", params={"offset": 1, "limit": 1}).json()
    assert [entry["short_form"] for entry in page["entries"]] == ["PT"]
    assert http.get("/inventory", params={"limit": 0}).json() == {
        "detail": "limit: Input should be greater than or equal to 1."
    }


def test_health_tells_that_it_can_answer(http: TestClient) -> None:
    assert http.get("/health").json() == {
        "status": "ok",
        "version": lmcells.__version__,
        "n_short_forms": 2,
        "waiting_notes": 0,
    }


def test_unknown_paths_and_methods_are_refused_as_json(http: TestClient) -> None:
    assert http.get("/docs").json() == {"detail": "Not Found"}
    answer = http.get("/expand")
    assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")


def test_every_answer_has_the_security_headers(http: TestClient) -> None:
    for answer in (
        http.get("/"),
        http.get("/nothing"),
        http.post("/expand", json={"text": "PT"}),
        http.post("/expand", content=b"x" * 600_000),
    ):
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS


def test_the_schema_describes_the_limits_and_has_examples(http: TestClient) -> None:
    schema = http.get("/openapi.json").json()
    explored = "start names neighbors senses interpolation sections nearest-sections mixture"
    assert set(schema["paths"]) == {
        *("/expand", "/inventory", "/metrics", "/health"),
        *(f"/explore/{name}" for name in explored.split()),
    }
    models = schema["components"]["schemas"]
    assert models["OneNote"]["properties"]["text"]["maxLength"] == 5_000
    assert models["ManyNotes"]["properties"]["notes"]["maxItems"] == 50
    assert {"400", "401", "408", "413", "422", "429"} < set(schema["paths"]["/expand"]["post"]["responses"])
    assert [name for name, model in models.items() if not model.get("examples")] == []
    assert "HTTPValidationError" not in models


def test_an_error_of_ours_is_answered_and_logged_without_its_message(
    expander: Expander, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ValueError(SECRET)

    monkeypatch.setattr(Expander, "expand_read", broken)
    with caplog.at_level(logging.DEBUG), client(expander) as http:
        answer = http.post("/expand", json={"text": SECRET})
    assert answer.status_code == 500
    assert answer.json() == {"detail": "something went wrong in the service; its log says where."}
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    ours = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("lmcells"))
    assert "ValueError at test_app.py" in ours
    assert SECRET not in caplog.text
    assert SECRET not in json.dumps([str(record.args) for record in caplog.records])


def test_the_log_holds_no_note_no_query_and_no_unknown_path(
    http: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="lmcells.service"):
        http.post("/expand", json={"text": SECRET})
        http.post("/expand", json={"text": [SECRET]})
        http.get("/inventory", params={"search": SECRET})
        http.get(f"/{SECRET}")
        http.request(SECRET.replace(" ", "").upper(), "/expand")
    lines = [record.getMessage() for record in caplog.records if record.name == "lmcells.service"]
    assert len(lines) == 5
    assert lines[0].split(" ", 1)[1].startswith('"POST /expand" 200 ')
    assert '"GET other" 404' in lines[3]
    assert not [line for line in lines if SECRET in line or "QUACKENBUSH" in line.upper()]


def samples(text: str) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_requests_notes_and_outcomes_are_counted(expander: Expander) -> None:
    with client(expander) as http:
        http.post("/expand", json={"notes": [{"text": NOTE}, {"text": f"{SECRET} PT"}]})
        http.post("/expand", json={"text": 1})
        http.get(f"/{SECRET}")
        answer = http.get("/metrics")
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert SECRET not in answer.text
    found = samples(answer.text)
    assert found["lmcells_requests_total", "/expand", "200"] == 1
    assert found["lmcells_requests_total", "/expand", "422"] == 1
    assert found["lmcells_requests_total", "other", "404"] == 1
    assert found["lmcells_request_seconds_count", "/expand"] == 2
    assert found["lmcells_notes_total",] == 2
    assert found["lmcells_characters_total",] == len(NOTE) + len(SECRET) + 3
    assert found["lmcells_expansions_total", "model"] == 4
    assert found["lmcells_expansions_total", "definition"] == 2
    assert found["lmcells_batch_notes_sum",] == 2
    assert found["lmcells_waiting_notes",] == found["lmcells_requests_in_progress",] == 0


def test_applications_count_apart(expander: Expander) -> None:
    for _ in range(2):
        with client(expander) as http:
            http.post("/expand", json={"text": NOTE})
            assert samples(http.get("/metrics").text)["lmcells_notes_total",] == 1
