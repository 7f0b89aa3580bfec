"""HTML elements whose text is escaped unless it is known to be markup."""

import html
from collections.abc import Iterable


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = str | None


def element(tag: str, *children: Child, **attributes: str | bool | None) -> Markup:
    """One element. `class_` and `aria_sort` are written as `class` and `aria-sort`; a None is left out."""
    written = "".join(_attribute(name, value) for name, value in attributes.items())
    return Markup(f"<{tag}{written}>{together(children)}</{tag}>")


def together(children: Iterable[Child]) -> Markup:
    """Children one after the other; what is not markup is escaped."""
    return Markup("".join(map(_escaped, children)))


def _escaped(child: Child) -> str:
    if child is None:
        return ""
    return child if isinstance(child, Markup) else html.escape(child)


def _attribute(name: str, value: str | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{html.escape(value)}"'
