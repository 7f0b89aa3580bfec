"""With a token, who does not show it is refused; the page, the schema and the health check are for all."""

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from lmcells import Expander
from lmcells.errors import ConfigError
from lmcells.service import ServiceSettings
from service.serving import client

TOKEN = "correct horse"


@pytest.fixture(scope="module")
def http(expander: Expander) -> Iterator[TestClient]:
    with client(expander, token=TOKEN) as running:
        yield running


@pytest.mark.parametrize(
    "header", [None, "", TOKEN, f"Basic {TOKEN}", "Bearer", "Bearer wrong", f"Bearer {TOKEN}x"]
)
def test_without_the_token_nothing_is_answered(http: TestClient, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    for answer in (
        http.post("/expand", json={"text": "PT"}, headers=headers),
        http.get("/inventory", headers=headers),
        http.get("/metrics", headers=headers),
        http.get("/explore/start", headers=headers),
        http.get("/explore/names", params={"kind": "word"}, headers=headers),
    ):
        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"] == 'Bearer realm="lmcells"'
        assert answer.json() == {"detail": "a token is needed: Authorization: Bearer TOKEN."}


def test_with_the_token_all_is_answered(http: TestClient) -> None:
    for scheme in ("Bearer", "bearer"):
        headers = {"Authorization": f"{scheme} {TOKEN}"}
        assert http.post("/expand", json={"text": "PT"}, headers=headers).status_code == 200
        assert http.get("/inventory", headers=headers).status_code == 200
        assert http.get("/metrics", headers=headers).status_code == 200


def test_some_paths_need_no_token(http: TestClient) -> None:
    for path in ("/", "/style.css", "/health", "/openapi.json"):
        assert http.get(path).status_code == 200
    schema = http.get("/openapi.json").json()
    assert schema["paths"]["/expand"]["post"]["security"] == [{"token": []}]


def test_two_headers_are_one_too_many(http: TestClient) -> None:
    headers = [("Authorization", f"Bearer {TOKEN}"), ("Authorization", "Bearer x")]
    assert http.get("/metrics", headers=headers).status_code == 401


def test_a_token_that_no_header_can_carry_is_refused() -> None:
    for token in ("", " x", "x\n", "é"):
        with pytest.raises(ConfigError):
            ServiceSettings(token=token)
    assert TOKEN not in repr(ServiceSettings(token=TOKEN))
