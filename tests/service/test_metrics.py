"""What Prometheus reads."""

from prometheus_client.parser import text_string_to_metric_families

from lmcells import Expander
from service.serving import NOTE, SECRET, client


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
