"""A matplotlib SVG as part of a page whose policy allows no inline styles.

`style="fill: #000"` becomes the attribute `fill="#000"`, which the page's style sheet may override for a dark screen;
ids get the figure's name in front, since a page has many figures.
"""

import re
import xml.etree.ElementTree as ET

_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_DROPPED = {f"{_SVG}metadata", f"{_SVG}style"}
_FONT = re.compile(r"(?:(?P<weight>\d+|bold) )?(?P<size>[\d.]+px) (?P<family>.+)")
_URL = re.compile(r"url\(#([^)]+)\)")


def inline_svg(source: str, *, name: str, description: str) -> str:
    """Return an `<svg>` element that can stand in an HTML page, labelled with what it shows."""
    root = ET.fromstring(source)
    for parent in list(root.iter()):
        for child in [child for child in parent if child.tag in _DROPPED]:
            parent.remove(child)
    used = {reference for element in root.iter() for reference in _references(element)}
    for element in root.iter():
        _rewrite(element, name=name, used=used)
        element.tag = element.tag.removeprefix(_SVG)
    for attribute in ("width", "height", "version"):
        root.attrib.pop(attribute, None)
    root.set("role", "img")
    root.set("aria-label", description)
    return ET.tostring(root, encoding="unicode")


def _references(element: ET.Element) -> list[str]:
    found = [match for value in element.attrib.values() for match in _URL.findall(value)]
    if _HREF in element.attrib:
        found.append(element.attrib[_HREF].removeprefix("#"))
    return found


def _rewrite(element: ET.Element, *, name: str, used: set[str]) -> None:
    for declaration in element.attrib.pop("style", "").split(";"):
        key, _, value = (part.strip() for part in declaration.partition(":"))
        if key == "font" and (font := _FONT.fullmatch(value)):  # the family is the page's
            element.set("font-size", font["size"])
            if font["weight"]:
                element.set("font-weight", font["weight"])
        elif key and key != "font":
            element.set(key, value)
    if (id_ := element.attrib.pop("id", None)) in used:
        element.set("id", f"{name}-{id_}")
    if _HREF in element.attrib:
        element.set("href", f"#{name}-{element.attrib.pop(_HREF).removeprefix('#')}")
    for key, value in element.attrib.items():
        element.set(key, _URL.sub(rf"url(#{name}-\1)", value))
