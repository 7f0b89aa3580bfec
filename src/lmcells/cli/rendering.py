"""Plain tables and JSON on standard output."""

import json
from collections.abc import Sequence
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
