"""The service by its paths: what is asked, what is answered, what is refused and how."""

import json
import logging
import re
from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

import lmcells
from lmcells import Expander
from lmcells.expansion import Expansion
from lmcells.service.app import create_app
from lmcells.service.messages import InventoryAnswer, ManyAnswers, NoteAnswer
from lmcells.service.middleware import HEADERS
from lmcells.service.requests import NDJSON, validation_detail
from service.serving import NOTE, SECRET, client

ONE = [{"short_form": "CVA", "long_form": "cerebrovascular accident"}]


@pytest.fixture(scope="module")
def http(expander: Expander) -> Iterator[TestClient]:
    with client(expander, max_note_length=5_000, max_notes=50, max_body=0.5) as running:
        yield running


def names(expansions: list[Expansion]) -> list[Any]:
    return [(each.start, each.end, each.short_form, each.section, each.long_form) for each in expansions]


def test_one_note_is_expanded(http: TestClient, expander: Expander) -> None:
    answer = http.post("/v1/expand", json={"text": NOTE, "id": "a"})
    assert answer.status_code == 200
    said = NoteAnswer.model_validate_json(answer.content)
    assert names([each.to_expansion() for each in said.expansions]) == names(expander(NOTE))
    assert (said.id, said.explanations, said.expanded) == ("a", None, None)


def test_many_notes_are_expanded_in_order(http: TestClient) -> None:
    notes = [{"id": str(number), "text": "PT " * number} for number in range(50)]
    said = ManyAnswers.model_validate_json(http.post("/v1/expand", json={"notes": notes}).content)
    assert [(each.id, len(each.expansions)) for each in said.notes] == [(str(n), n) for n in range(50)]
    assert http.post("/v1/expand", json={"notes": []}).json() == {"notes": []}


def test_options_go_with_a_request(http: TestClient) -> None:
    answer = http.post(
        "/v1/expand",
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
    assert (
        http.post("/v1/expand", json={"text": "PT after CVA"}).json()["expansions"][0]["short_form"] == "PT"
    )


def test_offsets_count_code_points(http: TestClient) -> None:
    (expansion,) = http.post("/v1/expand", json={"text": "😀 PT"}).json()["expansions"]
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
        ({"text": "PT", SECRET: 1}, "body: has an unknown field. See /docs."),
        ({"notes": [{"text": "", SECRET: 1}]}, "notes.0: has an unknown field."),
        ({"text": [SECRET]}, "text: Input should be a valid string."),
        ({"notes": [{"text": 1}, {"text": 2}]}, "notes.0.text: Input should be a valid string."),
        ({"notes": None}, "notes: Input should be an array."),
        ([SECRET], "body: not a JSON object."),
        ({}, "text: Field required."),
    ],
)
def test_a_wrong_request_is_refused_in_one_line(http: TestClient, body: Any, detail: str) -> None:
    answer = http.post("/v1/expand", json=body)
    assert answer.status_code == 422
    assert list(answer.json()) == ["detail"]
    assert answer.json()["detail"].startswith(detail)
    assert SECRET not in answer.text
    assert "\n" not in answer.json()["detail"]


@pytest.mark.parametrize(
    ("content", "status"),
    [(b'{"text": "' + SECRET.encode(), 422), (b'{"text": "\xff"}', 422), (b"[" * 100_000, 422), (b"", 422)],
)
def test_what_is_not_json_is_refused(http: TestClient, content: bytes, status: int) -> None:
    answer = http.post("/v1/expand", content=content, headers={"Content-Type": "application/json"})
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


@settings(max_examples=60)
@given(body=JSON)
def test_no_refusal_quotes_a_note(http: TestClient, body: Any) -> None:
    content = json.dumps(body).encode()
    answer = http.post("/v1/expand", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code in (200, 422)
    if answer.status_code == 422:
        assert SECRET not in answer.text


def test_details_leave_out_what_was_found() -> None:
    found = [{"type": "string_type", "loc": ("body", "text"), "msg": "M", "input": SECRET}]
    assert validation_detail(found) == "text: M."


def test_the_inventory_is_listed_and_searched(http: TestClient) -> None:
    everything = InventoryAnswer.model_validate_json(http.get("/v1/inventory").content)
    assert (everything.n_short_forms, everything.n_senses, everything.n_found) == (2, 4, 2)
    assert [entry.short_form for entry in everything.entries] == ["MS", "PT"]
    for search in ("pt", " PT ", "PROTHROMBIN", "physiotherapy"):
        found = InventoryAnswer.model_validate_json(
            http.get("/v1/inventory", params={"search": search}).content
        )
        assert [entry.short_form for entry in found.entries] == ["PT"]
    both = http.get("/v1/inventory", params={"search": "p"}).json()
    assert [entry["short_form"] for entry in both["entries"]] == ["PT", "MS"]  # multiple sclerosis has one
    page = http.get("/v1/inventory", params={"offset": 1, "limit": 1}).json()
    assert [entry["short_form"] for entry in page["entries"]] == ["PT"]
    assert http.get("/v1/inventory", params={"limit": 0}).json() == {
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
    for path in ("/redoc", "/v1/expand/"):
        answer = http.post(path, json={"text": "PT"})
        assert (answer.status_code, answer.json()) == (404, {"detail": "no such path. See /docs."})
    answer = http.get("/v1/expand")
    assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")
    assert answer.json() == {"detail": "method not allowed on this path; allowed: POST."}


def test_every_answer_has_the_security_headers(http: TestClient) -> None:
    for answer in (
        http.get("/"),
        http.get("/nothing"),
        http.post("/v1/expand", json={"text": "PT"}),
        http.post("/v1/expand", content=b"x" * 600_000),
    ):
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS


def test_the_schema_describes_the_limits_and_has_examples(http: TestClient) -> None:
    schema = http.get("/openapi.json").json()
    explored = "start names neighbors senses interpolation sections nearest-sections mixture"
    assert set(schema["paths"]) == {
        *("/v1/expand", "/v1/inventory", "/metrics", "/health", "/livez", "/readyz"),
        *(f"/v1/explore/{name}" for name in explored.split()),
    }
    models = schema["components"]["schemas"]
    assert models["OneNote"]["properties"]["text"]["maxLength"] == 5_000
    assert models["ManyNotes"]["properties"]["notes"]["maxItems"] == 50
    assert {"400", "401", "408", "413", "415", "422", "429", "503"} < set(
        schema["paths"]["/v1/expand"]["post"]["responses"]
    )
    assert all(models[name]["examples"] for name in ("OneNote", "ManyNotes", "NoteAnswer", "ErrorMessage"))
    assert "HTTPValidationError" not in models
    ids = [each["operationId"] for path in schema["paths"].values() for each in path.values()]
    assert sorted(ids) == sorted(
        [*"expand list_inventory show_metrics health livez readyz".split()]
        + [f"explore_{name.replace('-', '_')}" for name in explored.split()]
    )


def test_an_error_of_ours_is_answered_and_logged_without_its_message(
    expander: Expander, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ValueError(SECRET)

    monkeypatch.setattr(Expander, "expand_read", broken)
    with caplog.at_level(logging.DEBUG), client(expander) as http:
        answer = http.post("/v1/expand", json={"text": SECRET})
    assert answer.status_code == 500
    assert answer.json() == {"detail": "internal error; see the log of the service."}
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    ours = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("lmcells"))
    assert "ValueError at test_app.py" in ours
    assert SECRET not in caplog.text
    assert SECRET not in json.dumps([str(record.args) for record in caplog.records])


def test_the_log_holds_no_note_no_query_and_no_unknown_path(
    http: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="lmcells.service"):
        http.post("/v1/expand", json={"text": SECRET})
        http.post("/v1/expand", json={"text": [SECRET]})
        http.get("/v1/inventory", params={"search": SECRET})
        http.get(f"/{SECRET}")
        http.request(SECRET.replace(" ", "").upper(), "/v1/expand")
    lines = [record.getMessage() for record in caplog.records if record.name == "lmcells.service"]
    assert len(lines) == 5
    assert lines[0].split(" ", 1)[1].startswith('"POST /v1/expand" 200 ')
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
        http.post("/v1/expand", json={"notes": [{"text": NOTE}, {"text": f"{SECRET} PT"}]})
        http.post("/v1/expand", json={"text": 1})
        http.get(f"/{SECRET}")
        answer = http.get("/metrics")
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert SECRET not in answer.text
    found = samples(answer.text)
    assert found["lmcells_requests_total", "/v1/expand", "200"] == 1
    assert found["lmcells_requests_total", "/v1/expand", "422"] == 1
    assert found["lmcells_requests_total", "other", "404"] == 1
    assert found["lmcells_request_seconds_count", "/v1/expand"] == 2
    assert found["lmcells_notes_total",] == 2
    assert found["lmcells_characters_total",] == len(NOTE) + len(SECRET) + 3
    assert found["lmcells_expansions_total", "model"] == 4
    assert found["lmcells_expansions_total", "definition"] == 2
    assert found["lmcells_batch_notes_sum",] == 2
    assert found["lmcells_waiting_notes",] == found["lmcells_requests_in_progress",] == 0


def test_applications_count_apart(expander: Expander) -> None:
    for _ in range(2):
        with client(expander) as http:
            http.post("/v1/expand", json={"text": NOTE})
            assert samples(http.get("/metrics").text)["lmcells_notes_total",] == 1


def test_old_paths_answer_and_say_what_replaces_them(http: TestClient) -> None:
    old, new = (http.post(f"{version}/expand", json={"text": "PT"}) for version in ("", "/v1"))
    assert old.json() == new.json()
    assert old.headers["Deprecation"] == "true"
    assert old.headers["Link"] == '</v1/expand>; rel="successor-version"'
    assert "Deprecation" not in new.headers
    assert http.get("/explore/start").json() == http.get("/v1/explore/start").json()


def test_nothing_is_redirected(http: TestClient) -> None:
    for path in ("/expand/", "/v1/expand/", "/inventory/", "/v1", "//evil.example/v1/inventory"):
        answer = http.post(path, json={"text": "PT"}, follow_redirects=False)
        assert answer.status_code in (404, 405)
        assert "Location" not in answer.headers


def test_head_is_answered_like_get_without_the_content(http: TestClient) -> None:
    for path in ("/", "/health", "/livez", "/readyz", "/v1/inventory", "/style.css"):
        head, get = http.head(path), http.get(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["Content-Type"] == get.headers["Content-Type"]
    assert http.head("/v1/expand").status_code == 405


def test_only_allowed_hosts_are_answered(expander: Expander) -> None:
    with client(expander, allowed_hosts=("Acronyms.Hospital.example", "[::1]")) as http:
        for host, status in (
            ("acronyms.hospital.example", 200),
            ("ACRONYMS.hospital.example:8000", 200),
            ("[::1]:8000", 200),
            ("evil.example", 421),
            ("acronyms.hospital.example.evil.example", 421),
            ("", 421),
        ):
            assert http.get("/v1/inventory", headers={"Host": host}).status_code == status
            assert http.get("/", headers={"Host": host}).status_code == status
            assert http.get("/livez", headers={"Host": host}).status_code == 200  # probes call by address


def test_a_request_with_two_hosts_is_refused(expander: Expander) -> None:
    with client(expander, allowed_hosts=("here.example",)) as http:
        for hosts in (["here.example", "evil.example"], ["here.example"] * 2):
            for path in ("/v1/inventory", "/livez"):
                answer = http.get(path, headers=[("Host", host) for host in hosts])
                assert (answer.status_code, answer.headers["Connection"]) == (400, "close")
                assert answer.json() == {"detail": "Host: given more than once. Send it once."}


def test_a_request_keeps_its_id(http: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="lmcells.service"):
        given = http.get("/livez", headers={"X-Request-ID": "ward-7:42"})
        made = [http.get("/livez", headers={"X-Request-ID": wrong}) for wrong in (SECRET, "x" * 101, "")]
    assert given.headers["X-Request-ID"] == "ward-7:42"
    assert "ward-7:42" in caplog.text
    ids = {answer.headers["X-Request-ID"] for answer in made}
    assert len(ids) == 3
    assert all(len(each) == 32 for each in ids)
    assert SECRET not in caplog.text


def test_an_address_that_is_none_is_not_logged(expander: Expander, caplog: pytest.LogCaptureFixture) -> None:
    app = create_app(expander)
    with caplog.at_level(logging.INFO, logger="lmcells.service"):
        TestClient(app, client=(SECRET, 1)).get("/livez")
        TestClient(app, client=("10.0.0.7", 1)).get("/livez")
    assert SECRET not in caplog.text
    assert '10.0.0.7 "GET /livez" 200' in caplog.text


def test_answers_are_compressed_for_who_accepts_it(http: TestClient) -> None:
    for path in ("/", "/v1/inventory", "/openapi.json", "/docs"):
        plain = http.get(path, headers={"Accept-Encoding": "identity"})
        packed = http.get(path, headers={"Accept-Encoding": "br, gzip;q=0.5"})
        assert "Content-Encoding" not in plain.headers
        assert packed.content == plain.content
        if len(plain.content) >= 1_000:
            assert packed.headers["Content-Encoding"] == "gzip"
            assert "Accept-Encoding" in packed.headers["Vary"]
            assert int(packed.headers["Content-Length"]) < len(plain.content)
    assert "Content-Encoding" not in http.get("/", headers={"Accept-Encoding": "gzip;q=0"}).headers
    assert "Content-Encoding" not in http.get("/livez", headers={"Accept-Encoding": "gzip"}).headers


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_notes_one_a_line_are_answered_one_a_line(http: TestClient, encoding: str) -> None:
    wrong = {"id": "b", "text": "PT", "sections": [{"start": 0, "end": 99}]}
    notes = [{"id": "a", "text": NOTE}, wrong, {"id": "c", "text": "no short form"}]
    content = "\n".join([*map(json.dumps, notes), '{"id": "d", "txt": 1}'])
    headers = {"Content-Type": NDJSON, "Accept": NDJSON, "Accept-Encoding": encoding}
    answer = http.post("/v1/expand?expanded_text=append", content=content, headers=headers)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, NDJSON)
    first, second, third, last = map(json.loads, answer.text.splitlines())
    assert NoteAnswer.model_validate(first | {"expanded": None}).id == "a"
    assert len(first["expanded"]["text"]) > len(NOTE)
    assert second["id"] == "b"
    assert second["detail"].startswith("sections: number 1 is 0-99")
    assert (third["id"], third["expansions"]) == ("c", [])
    assert last == {"id": "d", "detail": "line 4: text: Field required. And 1 more."}
    whole = http.post("/v1/expand", content=content, headers={"Content-Type": NDJSON})
    assert (whole.status_code, whole.json()["detail"]) == (422, last["detail"])
    several = http.post("/v1/expand", json={"notes": notes[::2]}, headers={"Accept": NDJSON})
    assert [json.loads(line)["id"] for line in several.text.splitlines()] == ["a", "c"]
    none = http.post("/v1/expand", json={"notes": []}, headers={"Accept": NDJSON})
    assert (none.status_code, none.text) == (200, "")


def test_what_is_wrong_with_all_lines_is_said_at_once(http: TestClient) -> None:
    wrong = {"notes": [{"text": "PT"}], "inventory": {"remove": [{"short_form": "XYZ"}]}}
    answer = http.post("/v1/expand", json=wrong, headers={"Accept": NDJSON})
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("'XYZ' is not in the inventory")


def test_other_kinds_of_content_are_refused(http: TestClient) -> None:
    for content_type in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = http.post("/v1/expand", content=b'{"text": "PT"}', headers={"Content-Type": content_type})
        assert answer.status_code == 415
    charset = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert http.post("/v1/expand", content=b'{"text": "PT"}', headers=charset).status_code == 200


def test_an_answer_that_takes_too_long_is_given_up(
    expander: Expander, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = Event()
    whole = Expander.expand_read

    def slow(self: Expander, notes: Any, lexicon: Any) -> Any:
        go_on.wait(20)
        return whole(self, notes, lexicon)

    monkeypatch.setattr(Expander, "expand_read", slow)
    with client(expander, deadline=0.2) as http:
        answer = http.post("/v1/expand", json={"text": "PT"})
        lines = http.post("/v1/expand", json={"text": "PT"}, headers={"Accept": NDJSON})
        monkeypatch.setattr("lmcells.service.routes._READY_SECONDS", 0.1)
        ready = http.get("/readyz")
        assert http.get("/livez").status_code == 200
        go_on.set()
    for late in (answer, lines):
        assert (late.status_code, late.headers["Retry-After"]) == (503, "5")
        assert late.json()["detail"].startswith("not answered within 0.2 seconds.")
    assert (ready.status_code, ready.headers["Retry-After"]) == (503, "5")


def test_the_page_of_the_api_needs_nothing_from_elsewhere(http: TestClient) -> None:
    page = http.get("/docs")
    assert page.headers["Content-Type"].startswith("text/html")
    assert "http://" not in page.text
    assert "https://" not in page.text
    assert "<script" not in page.text
    assert "style=" not in page.text
    schema = http.get("/openapi.json").json()
    for path in schema["paths"]:
        assert f" {path}</code>" in page.text
    for name in schema["components"]["schemas"]:
        assert f'id="{name}"' in page.text
    for target in set(re.findall(r'href="#([^"]+)"', page.text)):
        assert f'id="{target}"' in page.text
    for target in set(re.findall(r'href="([^#"]+)"', page.text)):
        assert http.get(f"/{target}").status_code == 200
