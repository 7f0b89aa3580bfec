"""Looking inside a trained model, as `lmcells inspect VIEW` does.

senses                   the words near a word's cell, and how sections move it
sections                 which sections are alike: nearest ones, clusters, a map
gate, interpolation      how much the section weighs against the words, and what if it weighed more or less
mixtures                 words and sections as mixtures of cells
uncertainty              how sure the model is of its words
figures, point_figures   a figure for each view; the only modules that need matplotlib
cells                    the cells of all words; what words and sections mean on average, and files of those vectors
names, statistics        what the views share: names to ids, numerics
"""

from typing import Any


class Row(dict[str, Any]):
    """A result, or a row of one: plain data for JSON, whose values are attributes too (`row.word`)."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def to_dict(self) -> dict[str, Any]:
        return self


def rows_of(**columns: Any) -> tuple[Row, ...]:
    """Turn columns, lists or arrays, into rows of plain values."""
    plain = (column.tolist() if hasattr(column, "tolist") else column for column in columns.values())
    return tuple(Row(zip(columns, values, strict=True)) for values in zip(*plain, strict=True))
