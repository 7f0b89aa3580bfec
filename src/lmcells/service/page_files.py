"""The page: files of the package, read once, each under a path of its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/style.css": ("style.css", "text/css; charset=utf-8"),
    "/explore.css": ("explore.css", "text/css; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_SCRIPTS = (
    "app.js",
    "chart_lines.js",
    "chart_map.js",
    "confidence.js",
    "details.js",
    "download.js",
    "effects.js",
    "element.js",
    "explore.js",
    "explore_gate.js",
    "explore_sections.js",
    "explore_word.js",
    "heat_table.js",
    "inventory.js",
    "label_places.js",
    "markers.js",
    "note.js",
    "offsets.js",
    "sample.js",
    "service.js",
    "suggest.js",
    "tabs.js",
    "unknown_name.js",
    "views.js",
)


@dataclass(frozen=True, slots=True)
class PageFile:
    """What is sent for a path."""

    content: bytes
    content_type: str


def page_files() -> Mapping[str, PageFile]:
    """Return the files by their path."""
    named = _FILES | {f"/{name}": (name, "text/javascript; charset=utf-8") for name in _SCRIPTS}
    folder = resources.files(__package__).joinpath("page")
    return {path: PageFile(folder.joinpath(name).read_bytes(), kind) for path, (name, kind) in named.items()}
