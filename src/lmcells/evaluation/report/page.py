"""One HTML page that needs nothing else: no network, no other file, and a policy that forbids both."""

import base64
import hashlib
from collections.abc import Mapping
from importlib.resources import files

from lmcells.evaluation.report import inspection, scores
from lmcells.evaluation.report.findings import Findings
from lmcells.evaluation.report.markup import Child, Markup, element, together
from lmcells.evaluation.report.svg import inline_svg

_CAPTIONS = {
    "intervals": "Dot: all examples. Thin line: 95 % interval, BCa bootstrap over notes. Thick line: the paper's 100 "
    "samples of 80 %.",
    "accuracy_at_k": "Share of examples whose true long form is among the K most probable.",
    "number_of_candidates": "F1 of short forms by the number of their candidate long forms.",
    "calibration": "Left: how often answers are right, by how sure the model was; on the dotted line, probabilities "
    "mean what they say. Right: accuracy when only the surest answers are given.",
    "training_time": "Accuracy at successive checkpoints of pre-training.",
}
_NARROW = frozenset({"accuracy_at_k", "training_time"})


def page(findings: Findings, figures: Mapping[str, str]) -> str:
    """The report; `figures` are SVG documents by name."""
    drawn = {name: _figure(name, source) for name, source in figures.items()}
    first = [scores.headline(findings), drawn["intervals"], scores.paper_samples(findings)]
    sections = [("results", "Results", together(first))]
    if findings.seeds:
        sections.append(("runs", "Pre-training runs", scores.seeds(findings)))
    if findings.study.published:
        sections.append(("paper", "Beside the paper", scores.published(findings)))
    if findings.study.selection is not None:
        sections.append(("selection", "Choice of settings", scores.selection(findings.study.selection)))
    sections += [
        ("significance", "Is one better than another?", scores.significance(findings)),
        ("at-k", "Accuracy@K", drawn["accuracy_at_k"]),
        ("candidates", "Number of candidates", drawn["number_of_candidates"]),
        ("calibration", "Calibration", together([drawn["calibration"], scores.calibration(findings)])),
        ("cost", "Cost", together([scores.cost(findings), drawn.get("training_time")])),
        ("acronyms", "By short form", scores.acronyms(findings)),
        ("confusions", "Confusions", together([_about_confusions(), inspection.confusions(findings)])),
        ("errors", "Errors in context", inspection.mistakes(findings)),
        ("excluded", "What was excluded", inspection.excluded(findings)),
        ("leakage", "Leakage", inspection.leakage(findings)),
    ]
    links = [element("li", element("a", title, href=f"#{id_}")) for id_, title, _ in sections]
    metrics = findings.models[0].result.metrics
    main = [
        element("h1", f"Acronym expansion: {findings.dataset_name}"),
        element(
            "p",
            f"{metrics.n:,} examples of {metrics.n_short_forms:,} short forms, {len(findings.models)} "
            f"model{'s' if len(findings.models) > 1 else ''}. Best macro F1: {findings.leader.name} "
            f"({findings.mean(findings.leader.name, 'macro_f1'):.3f}).",
        ),
        *(element("p", remark) for remark in findings.study.remarks),
        element(
            "p",
            "This page quotes notes (“Errors in context”) and names them: keep it where the notes are kept. The tables "
            "name examples and notes but quote none. Not for clinical decisions.",
            class_="privacy",
        ),
        element("nav", element("ul", *links), aria_label="Sections"),
        *(element("section", element("h2", title), content, id=id_) for id_, title, content in sections),
    ]
    return document(f"{findings.dataset_name}: lmcells report", element("main", *main))


def _about_confusions() -> Markup:
    return element(
        "p",
        "The short forms with the lowest macro F1. Shades are shares of a row; boxed cells are right answers.",
        class_="soft",
    )


def _figure(name: str, source: str) -> Markup:
    caption = _CAPTIONS[name]
    return element(
        "figure",
        element(
            "div", Markup(inline_svg(source, name=name, description=caption)), class_="scroll", tabindex="0"
        ),
        element("figcaption", caption),
        class_="narrow" if name in _NARROW else None,
    )


def document(title: str, body: Child) -> str:
    """A page with our style and the script that sorts tables, which may fetch nothing."""
    style, script = (_part(name) for name in ("style.css", "sort.js"))
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    head = "\n".join(
        [
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            element("title", title),
            f"<style>{style}</style>",
        ]
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}\n</head>\n'
        f"<body>\n{together([body])}\n<script>{script}</script>\n</body>\n</html>\n"
    )


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(source: str) -> str:
    """A part of the page as its policy allows it."""
    digest = hashlib.sha256(source.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
