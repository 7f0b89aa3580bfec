import csv
import re
import sys
from collections import Counter
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from evaluation.prediction_samples import predictions_from_answers, random_predictions
from evaluation.reproduce.small_protocol import draw_nothing
from lmcells.errors import InputError, MissingExtra
from lmcells.evaluation.dataset import Example
from lmcells.evaluation.evaluate import ModelResult
from lmcells.evaluation.intervals import bootstrap_intervals
from lmcells.evaluation.metrics import acronym_table, confusion_matrix, measure, summarise_seeds
from lmcells.evaluation.predictions import Exclusion, Predictions
from lmcells.evaluation.report import Findings, Published, Setting, write_report
from lmcells.evaluation.report.findings import commonest_mistakes, window_around
from lmcells.evaluation.report.latex import _bold_best, escape

HOSTILE = "<script>alert('x')</script> & \"<img src=http://evil.example/x.png onerror=alert(1)>"
VOID = {"meta", "img", "br", "link", "input", "hr"}
EXCLUDED = Exclusion("S1", "S1-<b>1</b>", "no known word", 3, kept=True)

PUBLISHED = (
    Published("LMC", "LMC & co", "MIMIC", 0.81, 0.74, 0.78, 0.69),
    Published("LMC", "LMC & co", "CASI", 0.79, 0.71, 0.73, None),
)
REMARK = "A remark of <the> protocol."


class Page(HTMLParser):
    """A strict reading of the page: every element is closed, in order."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str | None]] = []
        self.text = ""
        self.feed(source)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def result_of(predictions: Predictions, *, leakage: dict[str, object] | None = None) -> ModelResult:
    text, start = f"before {HOSTILE} S0 after", 8 + len(HOSTILE)
    contexts = {id_: Example(id_, text, start, start + 2, "S0", "PLAN", "x", "n") for id_ in predictions.ids}
    return ModelResult(
        model=predictions.model,
        predictions=predictions,
        metrics=measure(predictions),
        intervals=bootstrap_intervals(predictions, n_resamples=50),
        n_parameters=169_000,
        hours_to_peak=None,
        seconds=1.5,
        contexts=contexts,
        leakage=leakage,
        section_mapping={"as written": 50, "unknown": 10},
    )


def results() -> list[ModelResult]:
    skills = {"LMC": 2.0, "_odd $x_1$ <b>": 0.5, "ELMo": 1.0}
    made = [
        random_predictions(seed, skill=skill, n_notes=20, test_set=1, model=name)
        for seed, (name, skill) in enumerate(skills.items())
    ]
    made[1] = replace(made[1], excluded=(EXCLUDED,))
    counts = {"n_notes": 20, "n_leaked_examples": 2, "n_incomparable_notes": 0, "n_corpus_notes": 900}
    found = {"n_leaked_notes": 1, **counts, "leaked_notes": ["n3"]}
    return [result_of(predictions, leakage=found if not i else None) for i, predictions in enumerate(made)]


def settings() -> tuple[Setting, ...]:
    return (
        Setting("LMC", is_chosen=False, n_seeds=2, macro_f1_there=0.25, here=vars(results()[0].metrics)),
        Setting("LMC@_b$", is_chosen=True, n_seeds=2, macro_f1_there=0.5, here=vars(results()[2].metrics)),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reports") / "report"
    everyone = results()
    runs = {result.model: [result.metrics, everyone[0].metrics] for result in everyone}
    findings = Findings(
        everyone,
        dataset_name="reverse_dev <i>",
        runs=runs,
        curves={"LMC": [(0.0, 0.2), (1.0, 0.6)], "other": [(0.5, 0.3)]},
        ablation={"LMC": (vars(everyone[0].metrics), vars(everyone[1].metrics))},
        chosen_on="dev & co",
        settings=settings(),
        published=PUBLISHED,
        remarks=[REMARK],
        n_rounds=50,
        n_resamples=50,
    )
    write_report(folder, findings)
    return folder


@pytest.fixture(scope="module")
def source(folder: Path) -> str:
    return (folder / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(source: str) -> Page:
    return Page(source)


def rows_of(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_page_is_well_formed_and_has_every_section(page: Page) -> None:
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    links = [value for tag, name, value in page.attributes if tag == "a" and name == "href" and value]
    assert len(links) == 14
    assert {link.removeprefix("#") for link in links} <= set(ids)
    assert page.tags["img"] == 5


def test_page_is_self_contained(source: str, page: Page) -> None:
    assert not page.tags.keys() & {"link", "iframe", "object", "embed", "base", "form", "image"}
    assert all(
        (value or "").startswith("#") for _, name, value in page.attributes if name in ("href", "xlink:href")
    )
    assert not any(name == "style" or name.startswith("on") for _, name, _ in page.attributes)
    sources = [value or "" for _, name, value in page.attributes if name == "src"]
    assert all(each.startswith("data:image/svg+xml;base64,") for each in sources)
    assert "@import" not in source
    assert all(match.startswith("#") for match in re.findall(r"url\(([^)]*)\)", source))
    policy = next(value for _, name, value in page.attributes if name == "content" and value)
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'sha256-")
    assert "unsafe" not in policy
    assert source.count("<style") == source.count("<script") == 1


def test_hostile_text_is_shown_and_not_run(page: Page) -> None:
    assert page.tags["script"] == 1
    assert HOSTILE in page.text
    assert "S1-<b>1</b>" in page.text
    assert not page.tags.keys() & {"b", "i"}
    assert page.tags["mark"] > 0


def test_page_shows_numbers_leakage_and_exclusions(page: Page) -> None:
    text = page.text
    metrics = results()[0].metrics
    for value in (metrics.nll, metrics.accuracy, metrics.mean_weighted_f1, metrics.macro_f1):
        assert f"{value:.3f}" in text
    assert "Best macro F1: LMC" in text
    assert "Leaked: n3." in text
    assert "ranked last, counts" in text
    assert "Small print: the middle 95 % of the samples." in text
    assert ", the mean over its pre-training runs)" in text
    assert "a run that shared the machine has no hours" in text
    assert "169,000" in text


def test_headline_csv_holds_the_metrics_unrounded(folder: Path) -> None:
    for row, result in zip(rows_of(folder, "headline"), results(), strict=True):
        assert row["model"] == result.model
        for name in ("nll", "accuracy", "weighted_f1", "macro_f1", "mean_accuracy"):
            assert float(row[name]) == getattr(result.metrics, name)
            assert float(row[f"{name}_low"]) == result.intervals[name].low
        assert row["hours_to_peak"] == ""


def test_other_tables_hold_what_was_measured(folder: Path) -> None:
    first = results()[0]
    acronyms = [row for row in rows_of(folder, "acronyms") if row["model"] == "LMC"]
    expected_f1 = [row["macro_f1"] for row in acronym_table(first.predictions)]
    assert [float(row["macro_f1"]) for row in acronyms] == expected_f1
    seeds = {(row["model"], row["metric"]): row for row in rows_of(folder, "seeds")}
    expected = summarise_seeds([results()[2].metrics, first.metrics])["nll"]
    assert float(seeds["ELMo", "nll"]["worst"]) == expected["worst"]
    rows = rows_of(folder, "confusion")
    counted = sum(
        int(row["n_examples"]) for row in rows if (row["model"], row["short_form"]) == ("LMC", "S0")
    )
    assert counted == confusion_matrix(first.predictions, "S0").counts.sum()
    errors = [row["id"] for row in rows_of(folder, "errors") if row["model"] == "LMC"]
    assert len(errors) == (~first.predictions.is_right).sum()
    assert len(rows_of(folder, "significance")) == 3 * 4
    assert rows_of(folder, "leakage")[0]["n_leaked_notes"] == "1"


def test_no_table_quotes_a_note(folder: Path) -> None:
    assert not any("alert" in path.read_text(encoding="utf-8") for path in (folder / "tables").iterdir())


@pytest.mark.parametrize("name", ["main", "seeds", "acronyms", "cost", "ablation", "selection"])
def test_latex_is_balanced_and_every_row_has_all_columns(folder: Path, name: str) -> None:
    text = (folder / "tables" / f"{name}.tex").read_text(encoding="utf-8")
    unescaped = re.sub(r"\\[{}$&_%#]", "", text)
    assert unescaped.count("{") == unescaped.count("}")
    assert "$" not in unescaped
    open_environments: list[str] = []
    width = 0
    for kind, environment, columns in re.findall(r"\\(begin|end)\{(\w+)\}(?:\{([lrc|]+)\})?", text):
        width = len(columns.replace("|", "")) if columns else width
        if kind == "begin":
            open_environments.append(environment)
        else:
            assert open_environments.pop() == environment
    assert not open_environments
    lines = [line for line in text.splitlines() if line.endswith(r"\\")]
    rows = [line for line in lines if "multicolumn" not in line and "&" in line]
    assert len(rows) >= 3
    if name != "acronyms":
        assert {len(re.findall(r"(?<!\\)&", row)) + 1 for row in rows} == {width}
    assert (r"\textbf" in text) == (name not in ("cost", "ablation"))


def test_what_a_protocol_adds_is_on_the_page_and_in_the_tables(folder: Path, page: Page) -> None:
    text = page.text
    assert REMARK in text
    assert "LMC@_b$ was chosen on dev & co by the mean macro F1 of its runs, and not on this dataset." in text
    assert "0.74 / 0.78 / 0.69 / 0.81" in text
    assert "0.71 / 0.73 / – / 0.79" in text
    chosen = rows_of(folder, "selection")
    assert [(row["setting"], row["chosen"]) for row in chosen] == [("LMC", "False"), ("LMC@_b$", "True")]
    assert float(chosen[1]["macro_f1"]) == results()[2].metrics.macro_f1
    assert [row["macro_f1"] for row in rows_of(folder, "published")] == ["0.69", ""]
    latex = (folder / "tables" / "selection.tex").read_text(encoding="utf-8")
    assert r"\textbf{LMC@\_b\$} & 0.50 &" in latex
    assert r"LMC & 169,000 & --" in (folder / "tables" / "cost.tex").read_text(encoding="utf-8")


def test_main_latex_table_has_means_over_runs_and_bold_best(folder: Path) -> None:
    text = (folder / "tables" / "main.tex").read_text(encoding="utf-8")
    assert "Mean across 2 pre-training runs." in text
    assert r"Model & NLL & Acc & W F1 & M F1 \\" in text
    mean = (results()[2].metrics.nll + results()[0].metrics.nll) / 2
    assert f"ELMo & {mean:.2f} &" in text
    assert re.search(r"LMC & \\textbf", text)


def test_figures_are_vectors_with_the_models_names(folder: Path) -> None:
    names = {"intervals", "accuracy_at_k", "number_of_candidates", "calibration", "training_time"}
    assert {path.name for path in (folder / "figures").iterdir()} == {
        f"{n}.{e}" for n in names for e in ("svg", "pdf")
    }
    for name in names:
        drawing = (folder / "figures" / f"{name}.svg").read_text(encoding="utf-8")
        text = "".join(ElementTree.fromstring(drawing).itertext())
        assert "LMC" in text
        assert ("_odd $x_1$ <b>" in text) == (name != "training_time")
        assert "<image" not in drawing
        assert (folder / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")


def test_one_flawless_model_on_one_note_always_gives_the_same_files_and_old_ones_go(tmp_path: Path) -> None:
    predictions = predictions_from_answers([("A", 0, 0), ("A", 1, 1)], {"A": 2}, notes=["n", "n"])
    result = ModelResult("m", predictions, measure(predictions), {}, None, None, 0.0, {})
    again, once = tmp_path / "again", tmp_path / "once"
    for old in (again / "tables" / "seeds.tex", again / "figures" / "training_time.svg"):
        old.parent.mkdir(parents=True)
        old.touch()
    for folder in (again, once):
        write_report(folder, Findings([result], dataset_name="tiny"))
    files = {path.relative_to(again): path.read_bytes() for path in again.rglob("*.*")}
    assert files == {path.relative_to(once): path.read_bytes() for path in once.rglob("*.*")}
    text = Page((once / "report.html").read_text(encoding="utf-8")).text
    assert "m made no mistake." in text
    assert "There is only one model." in text
    assert "Not checked: there was no corpus" in text


def test_models_on_different_examples_and_a_choice_made_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are reported without comparison, and the choice is called biased."""
    draw_nothing(monkeypatch)
    made = [random_predictions(i, n=40 + i, n_notes=9, test_set=i, model=f"m{i}") for i in range(2)]
    here = [setting._replace(here={}) for setting in settings()]
    write_report(
        tmp_path, Findings(list(map(result_of, made)), dataset_name="two", chosen_on="two", settings=here)
    )
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "were not evaluated on the same examples" in page
    assert "are biased by the choice" in page
    assert {row["macro_f1"] for row in rows_of(tmp_path, "selection")} == {""}


def test_many_models_with_names_in_any_script(tmp_path: Path) -> None:
    names = ["模型", "a" * 60, "\udcff\x00", *(f"m{i}" for i in range(6))]
    made = [random_predictions(i, n=30, n_notes=8, test_set=1, model=name) for i, name in enumerate(names)]
    results = [ModelResult(p.model, p, measure(p), {}, None, None, 0.0, {}) for p in made]
    write_report(tmp_path, Findings(results, dataset_name="many", n_rounds=10, n_resamples=10))
    text = Page((tmp_path / "report.html").read_text(encoding="utf-8")).text
    shown = [name.replace("\udcff", "?") for name in names]
    assert [name for name in shown if name not in text] == []
    assert [row["model"] for row in rows_of(tmp_path, "headline")] == shown
    assert sum(name in (tmp_path / "tables" / "main.tex").read_text(encoding="utf-8") for name in names) == 8


@pytest.mark.parametrize("models", [[], ["m", "m"]])
def test_models_must_be_named_apart(tmp_path: Path, models: list[str]) -> None:
    made = [result_of(random_predictions(0, n_notes=9, model=model)) for model in models]
    with pytest.raises(InputError, match="with distinct names"):
        write_report(tmp_path, Findings(made, dataset_name="d"))


def test_without_matplotlib_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"pip install 'lmcells\[report\]'"):
        write_report(tmp_path / "r", Findings(results()[:1], dataset_name="d"))
    assert not (tmp_path / "r").exists()


def test_folder_that_cannot_be_made_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_report(tmp_path / "file" / "report", Findings(results()[:1], dataset_name="d"))


def test_mistakes_are_grouped_by_kind_commonest_first() -> None:
    answers = [("A", 0, 1), ("A", 0, 1), ("A", 1, 0), ("A", 1, 1), ("B", 1, 0)]
    predictions = predictions_from_answers(answers, {"A": 2, "B": 2})
    result = ModelResult("m", predictions, measure(predictions), {}, None, None, 0.0, {})
    found = commonest_mistakes(result, limit=2)
    assert [(m["long_form"], m["taken_for"], m["n"]) for m in found] == [("A-0", "A-1", 2), ("A-1", "A-0", 1)]
    assert found[0]["p_taken"] == pytest.approx(2 / 3)
    assert found[0]["window"] is None


def test_window_keeps_whole_words_and_marks_what_was_cut_off() -> None:
    text = "word " * 100 + "MS\n\n  noted" + " word" * 100
    before, short_form, after = window_around(text, 500, 502)
    assert short_form == "MS"
    assert before.startswith("… word ")
    assert after.startswith(" noted word")
    assert after.endswith("word …")
    assert window_around("MS", 0, 2) == ("", "MS", "")


def test_latex_escapes_every_special_character() -> None:
    assert escape("a_b & 5% {x} $y$ #1 \\ ~^\n") == (
        r"a\_b \& 5\% \{x\} \$y\$ \#1 \textbackslash{} \textasciitilde{}\textasciicircum{} "
    )


def test_an_oracle_is_never_bold_and_weighted_f1_is_the_papers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_nothing(monkeypatch)
    everyone = results()
    oracle = max(everyone, key=lambda result: result.metrics.macro_f1)
    findings = Findings(everyone, dataset_name="x", oracles=[oracle.model], n_rounds=200, n_resamples=5)
    write_report(tmp_path / "without", replace(findings, oracles=()))
    write_report(tmp_path, findings)
    lines = (tmp_path / "tables" / "main.tex").read_text().splitlines()
    (row,) = [line for line in lines if line.startswith(f"{escape(oracle.model)} (oracle) &")]
    assert "textbf" not in row
    assert f"& {oracle.metrics.mean_weighted_f1:.2f} & {oracle.metrics.macro_f1:.2f} " in row
    assert sum("textbf" in line for line in lines) > 1
    page = (tmp_path / "report.html").read_text()
    cells = re.findall(r'<th scope="row">([^<]*)</th>\s*((?:<td[^>]*>.*?</td>\s*)+)', page)
    of_oracle = [row for name, row in cells if f"{oracle.model} (oracle)" in unescape(name)]
    assert len(of_oracle) > 2
    assert not any("best" in row for row in of_oracle)
    significant = re.compile(r'best"[^>]*>[+−][^<]*<small>[^<]*, p [<=&]')  # a difference in bold
    assert significant.search((tmp_path / "without" / "report.html").read_text())
    assert not significant.search(page)  # here, all that are significant involve the oracle
    acronyms = (tmp_path / "tables" / "acronyms.tex").read_text()
    average = next(line for line in acronyms.splitlines() if "AVG" in line)
    assert average.count("&") == 2 + 2 * 6  # the oracle, and beside it a model whose means are bold
    assert average.count("textbf") == 1 + 6
    assert r"{LMC (oracle)}" in acronyms


@pytest.mark.parametrize(("oracles", "is_told"), [((), False), (("dominant",), False), (("ELMo",), True)])
def test_a_report_speaks_of_an_oracle_only_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, oracles: tuple[str, ...], is_told: bool
) -> None:
    draw_nothing(monkeypatch)
    write_report(tmp_path, Findings(results(), dataset_name="x", oracles=oracles, n_rounds=5, n_resamples=5))
    page = (tmp_path / "report.html").read_text()
    (bold,) = re.findall(r"The best value is bold[^<]*", page)
    assert bold.endswith("and does not compete." if is_told else "is bold.")


def test_an_oracle_alone_is_not_called_the_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_nothing(monkeypatch)
    write_report(tmp_path, Findings(results()[:1], dataset_name="x", oracles=["LMC"]))
    assert "Best macro F1" not in (tmp_path / "report.html").read_text()


def test_an_oracle_that_equals_or_beats_the_best_is_not_bold_in_latex() -> None:
    values = {
        "lmc": {"nll": 0.5, "accuracy": 0.7, "mean_weighted_f1": 0.6, "macro_f1": 0.5},
        "bsg": {"nll": 0.9, "accuracy": 0.6, "mean_weighted_f1": 0.6, "macro_f1": 0.4},
        "dominant": {"nll": 0.5, "accuracy": 0.8, "mean_weighted_f1": 0.6, "macro_f1": 0.5},
    }
    assert _bold_best(values, ["dominant"]) == {
        "lmc": [r"\textbf{0.50}", r"\textbf{0.70}", r"\textbf{0.60}", r"\textbf{0.50}"],
        "bsg": ["0.90", "0.60", r"\textbf{0.60}", "0.40"],
        "dominant": ["0.50", "0.80", "0.60", "0.50"],
    }
