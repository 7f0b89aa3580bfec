"""Plain tables and JSON on standard output."""

import json
from collections.abc import Mapping, Sequence
from typing import Any


def print_json(value: Any) -> None:
    """Print a value for machines."""
    print(json.dumps(value, ensure_ascii=False, indent=1))


def print_table(rows: Sequence[tuple[str, Any]], *, title: str = "") -> None:
    """Print names and values, one pair a line; numbers with separators, aligned."""
    if title:
        print(title)
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        print(f"  {name:<{width}}  {f'{value:,}' if isinstance(value, int) else value}")


def account_rows(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a reading skipped or warned of, how often, and where first: rows of a `ReadReport` as plain data."""
    places = report["first_seen"]
    return [
        (f"{kind}: {reason}", f"{n:,}" + (f" (first at {places[reason]})" if places.get(reason) else ""))
        for kind, group in (("skipped", "skipped"), ("warning", "warnings"))
        for reason, n in report[group].items()
    ]


def flat_rows(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Rows of a table; what is inside a setting is a row too: `settings.epochs`."""
    rows: list[tuple[str, str]] = []
    for name, value in settings.items():
        inner = flat_rows(value) if isinstance(value, Mapping) else None
        rows += [(name, str(value))] if inner is None else [(f"{name}.{each}", text) for each, text in inner]
    return rows
