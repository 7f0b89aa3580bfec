"""Requests made from the schema by schemathesis: right ones, wrong ones, and whether the answers are as it says."""

from collections import Counter
from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.generation import GenerationMode
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi import checks

from lmcells import Expander
from service.serving import in_thread

CHECKS = [
    schemathesis.checks.not_a_server_error,
    *(checks.content_type_conformance, checks.negative_data_rejection, checks.response_headers_conformance),
    *(checks.response_schema_conformance, checks.status_code_conformance, checks.unsupported_method),
]

EXPLORED = {
    "/v1/explore/start": {},
    "/v1/explore/names": {},
    "/v1/explore/neighbors": {"word": "gait"},
    "/v1/explore/senses": {"word": "gait", "section": ["PLAN"], "against": ["warfarin"]},
    "/v1/explore/interpolation": {"short_form": "PT", "section": "LABS"},
    "/v1/explore/sections": {},
    "/v1/explore/nearest-sections": {"section": "PLAN"},
    "/v1/explore/mixture": {"word": "gait"},
}
"""What looks into the model, with names that it knows: from random ones nothing but refusals would be seen."""
ASKED = [
    ("POST", "/v1/expand", GenerationMode.POSITIVE),
    ("POST", "/v1/expand", GenerationMode.NEGATIVE),
    ("GET", "/v1/inventory", GenerationMode.POSITIVE),
    ("GET", "/v1/inventory", GenerationMode.NEGATIVE),
    *(("GET", path, GenerationMode.POSITIVE) for path in ("/health", "/livez", "/readyz")),
    ("GET", "/metrics", GenerationMode.POSITIVE),
    *(("GET", path, GenerationMode.POSITIVE) for path in EXPLORED),
    *(("GET", path, GenerationMode.NEGATIVE) for path in EXPLORED if path != "/v1/explore/start"),
]


@pytest.fixture(scope="module")
def described(expander: Expander) -> Iterator[BaseSchema]:
    with in_thread(expander, max_note_length=500) as url:  # what is too long need not be huge
        yield schemathesis.openapi.from_url(f"{url}/openapi.json")


@pytest.mark.parametrize(("method", "path", "mode"), ASKED)
def test_answers_are_as_the_schema_says(
    described: BaseSchema, method: str, path: str, mode: GenerationMode
) -> None:
    seen: Counter[int] = Counter()

    @settings(
        max_examples=12,
        derandomize=True,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(case=described[path][method].as_strategy(generation_mode=mode), is_known=st.booleans())
    def check(case: schemathesis.Case, is_known: bool) -> None:
        if is_known and mode is GenerationMode.POSITIVE:
            case.query.update(EXPLORED.get(path, {}))
        seen[case.call_and_validate(checks=CHECKS, timeout=20).status_code] += 1

    check()
    assert seen[200 if mode is GenerationMode.POSITIVE else 422] > 0


def test_every_path_of_the_schema_is_asked(described: BaseSchema) -> None:
    assert set(described) == {path for _, path, _ in ASKED}
