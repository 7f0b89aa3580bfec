"""Tables of the page: text to the left, numbers to the right, columns that a click sorts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lmcells.evaluation.intervals import Interval
from lmcells.evaluation.report.markup import Child, Markup, element, together


@dataclass(frozen=True)
class Number:
    """A number as shown, and as it sorts; `below` is a line in small print."""

    shown: str
    value: float | None  # None is the smallest
    below: str | None = None
    is_best: bool = False


Cell = Number | str
MISSING = Number("–", None)


def html_table(
    columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, is_sortable: bool = False
) -> Markup:
    """A table that scrolls sideways on a narrow screen; the first cell of a row is its heading."""
    body = list(rows)
    is_number = [
        any(isinstance(row[index], Number) for row in body if len(row) > index)
        for index in range(len(columns))
    ]
    head = [
        element(
            "th",
            element("button", column, type="button") if is_sortable and column else column,
            scope="col",
            class_="number" if number else None,
            aria_sort="none" if is_sortable and column else None,
        )
        for column, number in zip(columns, is_number, strict=True)
    ]
    lines = [
        element("tr", *(_cell(cell, is_heading=not index) for index, cell in enumerate(row))) for row in body
    ]
    table = element(
        "table", element("thead", element("tr", *head)), element("tbody", *lines), class_="sticky"
    )
    return scrolling(table)


def scrolling(content: Markup) -> Markup:
    """Wide content in a box of its own, which the keyboard can reach."""
    return element("div", content, class_="scroll", tabindex="0")


def score(value: float | None, interval: Interval | None = None, *, is_best: bool = False) -> Cell:
    """A metric with three decimals and its interval."""
    if value is None:
        return MISSING
    below = None if interval is None else f"{interval.low:.3f} to {interval.high:.3f}"
    return Number(f"{value:.3f}", value, below, is_best)


def count(value: int | None) -> Cell:
    """A whole number, in groups of three."""
    return MISSING if value is None else Number(f"{value:,}", value)


def folded(title: Child, *content: Child, is_open: bool = False) -> Markup:
    """Content behind its title."""
    return element("details", element("summary", title), together(content), open=is_open)


def _cell(cell: Cell, *, is_heading: bool) -> Markup:
    if isinstance(cell, Number):
        return element(
            "td",
            cell.shown,
            element("small", cell.below) if cell.below else None,
            class_="number best" if cell.is_best else "number",
            data_value="-Infinity" if cell.value is None else repr(float(cell.value)),
        )
    return element("th", cell, scope="row") if is_heading else element("td", cell)
