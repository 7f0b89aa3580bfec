"""Frames in, Arrow batches out: lazily, with the surface text, and ids as they were given."""

from collections.abc import Iterator
from typing import Any

import pytest

from lmcells import Expander
from lmcells.errors import FormatError, InputError

pa = pytest.importorskip("pyarrow")

NOTES = {"key": [7, 9, 11], "note": ["Pt with HTN.", None, "s/p CABG, in PT"], "other": [b"x", b"y", b"z"]}
WRITTEN = [(7, "Pt"), (7, "HTN"), (11, "s/p"), (11, "CABG"), (11, "PT")]


@pytest.fixture(scope="module")
def expander() -> Expander:
    return Expander.from_pretrained()


def rows(reader: Any) -> list[tuple[Any, str]]:
    return [(row["key"], row["written"]) for row in reader.read_all().to_pylist()]


def test_arrow_tables_and_readers_are_read(expander: Expander) -> None:
    table = pa.table(NOTES)
    assert rows(expander.expand_frame(table, text="note", id="key")) == WRITTEN
    assert rows(expander.expand_frame(table.to_reader(), text="note", id="key", batch_size=1)) == WRITTEN


def test_pandas_and_polars_are_read(expander: Expander) -> None:
    pandas = pytest.importorskip("pandas")
    frame = expander.expand_frame(pandas.DataFrame(NOTES), text="note", id="key").read_pandas()
    assert list(zip(frame["key"], frame["written"], strict=True)) == WRITTEN
    polars = pytest.importorskip("polars")
    back = polars.from_arrow(expander.expand_frame(polars.DataFrame(NOTES), text="note", id="key"))
    assert back.select("key", "written").rows() == WRITTEN


def test_rows_are_the_expansions(expander: Expander) -> None:
    (first, *_) = expander.expand_frame(pa.table(NOTES), text="note", id="key").read_all().to_pylist()
    expansion = expander(NOTES["note"][0])[0]
    expected = expansion.to_dict() | {"key": 7, "written": "Pt", "concept_id": expansion.concept_id}
    assert {name: first[name] for name in expected} == expected
    assert set(first) == set(expected)


@pytest.mark.parametrize(
    "type_", ["int32", "string", "large_string", "string_view", "timestamp[us]", "dictionary"]
)
def test_ids_keep_their_type(expander: Expander, type_: str) -> None:
    words = pa.array(["a", "b", "c"]).dictionary_encode()
    numbers = pa.array([1, 2, 3])
    ids = {"dictionary": words, "string_view": pa.array(["a", "b", "c"], pa.string_view())}.get(type_)
    ids = numbers.cast(pa.type_for_alias(type_)) if ids is None else ids
    table = pa.table({"key": ids, "text": NOTES["note"]})
    found = expander.expand_frame(table, id="key").read_all()
    assert found.schema.field("key").type == ids.type
    assert found["key"].combine_chunks().to_pylist() == [ids[0].as_py()] * 2 + [ids[2].as_py()] * 3


def test_without_ids_rows_are_numbered_over_all_batches(expander: Expander) -> None:
    reader = pa.table({"text": ["HTN"] * 5}).to_reader(max_chunksize=2)
    assert expander.expand_frame(reader, batch_size=1).read_all()["row"].to_pylist() == [0, 1, 2, 3, 4]


def test_nothing_is_read_before_it_is_asked_for(expander: Expander) -> None:
    read: list[int] = []

    def batches() -> Iterator[Any]:
        for number in range(5):
            read.append(number)
            yield pa.record_batch({"text": ["HTN", "CABG"]})

    reader = pa.RecordBatchReader.from_batches(pa.schema([("text", pa.string())]), batches())
    expanded = expander.expand_frame(reader, batch_size=2)
    assert read == []
    assert expanded.read_next_batch().num_rows == 2
    assert read == [0]


def test_rules_read_the_metadata_columns(expander: Expander) -> None:
    table = pa.table({"text": ["Known MS.", "Known MS."], "category": ["Echo", None]})
    pin = {"short_form": "MS", "long_form": "mitral stenosis", "action": "pin", "where": {"category": "Echo"}}
    found = expander.expand_frame(table, metadata=["category"], inventory=[pin]).read_all().to_pylist()
    assert [row["source"] for row in found] == ["pinned", "model"]


def test_categories_of_polars_are_text(expander: Expander) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"key": ["a", "b"], "text": ["HTN", None]}).cast(polars.Categorical)
    (row,) = expander.expand_frame(frame, id="key").read_all().to_pylist()
    assert (row["key"], row["written"]) == ("a", "HTN")


def test_a_number_is_one_even_in_a_column_with_gaps(expander: Expander) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": ["Known MS."] * 2, "ward": [7, None]})  # 7.0 and nan
    for ward in ("7", "*"):
        pin = {"short_form": "MS", "long_form": "mitral stenosis", "action": "pin", "ward": ward}
        found = expander.expand_frame(frame, metadata="ward", inventory=[pin]).read_all().to_pylist()
        assert [row["source"] for row in found] == ["pinned", "model"]


def test_a_column_of_several_types_is_refused_without_quoting_it(expander: Expander) -> None:
    pandas = pytest.importorskip("pandas")
    with pytest.raises(FormatError, match="each with values"):
        expander.expand_frame(pandas.DataFrame([["HTN", "DM"]], columns=["text", "text"]))
    with pytest.raises(FormatError, match="each with values") as refused:
        expander.expand_frame(pandas.DataFrame({"text": [5, "Known MS."]}))
    assert "Known" not in str(refused.value)
    assert refused.value.__suppress_context__


def test_columns_that_would_be_confused_are_refused(expander: Expander) -> None:
    table = pa.Table.from_arrays([pa.array(["HTN"]), pa.array(["DM"])], names=["text", "text"])
    with pytest.raises(FormatError, match="two columns 'text'"):
        expander.expand_frame(table)
    with pytest.raises(InputError, match="the id column 'start' has the name of an output column"):
        expander.expand_frame(pa.table({"text": ["HTN"], "start": [1]}), id="start")


def test_what_cannot_be_read_is_refused(expander: Expander) -> None:
    with pytest.raises(FormatError, match=r"no column 'texts'; columns found: .*Nearest: 'text'"):
        expander.expand_frame(pa.table({"text": ["a"]}), text="texts")
    with pytest.raises(InputError, match="found: list"):
        expander.expand_frame(["a"])
    polars = pytest.importorskip("polars")
    with pytest.raises(InputError, match=r"found: LazyFrame\. Collect it first\."):
        expander.expand_frame(polars.DataFrame({"text": ["a"]}).lazy())
    with pytest.raises(FormatError, match="'text' holds int64, not text"):
        expander.expand_frame(pa.table({"text": [1]})).read_all()
