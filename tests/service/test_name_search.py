"""Names for what is typed: what begins so first, the commonest first, and always some name."""

from hypothesis import given
from hypothesis import strategies as st

from lmcells.service.explore import NameSearch, holding

COUNTS = {"history": 90, "histology": 40, "historical": 70, "past history": 10, "gait": 5}


def found(search: NameSearch, text: str, limit: int = 8) -> list[str]:
    return [name for name, _ in search(text, limit=limit)]


def test_what_begins_so_comes_first_the_commonest_first() -> None:
    search = NameSearch(COUNTS)
    assert found(search, "Hist") == ["history", "historical", "histology"]
    assert found(search, "histology") == ["histology"]
    assert found(search, "", limit=2) == ["history", "historical"]
    assert search("gait", limit=1) == [("gait", 5)]


def test_the_name_itself_comes_before_commoner_ones_that_begin_with_it() -> None:
    assert found(NameSearch({"histogram": 50, "histo": 2}), "histo") == ["histo", "histogram"]


def test_names_that_hold_the_text_come_next() -> None:
    search = NameSearch(COUNTS, held_by=holding(list(COUNTS)))
    assert found(search, "history") == ["history", "past history"]


def test_a_misspelt_name_gets_the_nearest() -> None:
    assert found(NameSearch(COUNTS), "histroy")[0] == "history"
    assert found(NameSearch({"SOCIAL HISTORY": 1, "PLAN": 2}), "socail history") == ["SOCIAL HISTORY"]


@given(
    names=st.dictionaries(st.text(min_size=1), st.integers(0, 100), min_size=1),
    text=st.text(max_size=20),
    limit=st.integers(1, 5),
)
def test_there_is_always_a_name_and_never_one_twice(names: dict[str, int], text: str, limit: int) -> None:
    search = NameSearch(names, held_by=holding(list(names)))
    found_names = search(text, limit=limit)
    assert 1 <= len(found_names) <= limit
    assert len(set(found_names)) == len(found_names)
    assert all(names[name] == count for name, count in found_names)
