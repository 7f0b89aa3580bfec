"""The worked example on Debian's packages, on invented package lists: a word's meaning moves with its section."""

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from hashlib import md5
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmcells.cli.main import main
from lmcells.notes.tokens import iterate_tokens

EXAMPLE = Path(__file__).parents[2] / "examples" / "debian_packages"
SCRIPTS = ("make_notes", "plant", "views", "measure_planted", "measure_real")
WORDS = {
    "sound": "guitar melody chord drum tempo mixer reverb synth octave treble bass tuner".split(),
    "games": "dragon castle dungeon wizard sword puzzle arcade racer level enemy quest maze".split(),
    "net": "packet router socket gateway firewall tunnel ethernet proxy relay subnet lease host".split(),
}
PIECES = ("guitar", "Compiler", "GUITAR", "x", "5", "'s", "-", "/", ".", "&", " ", "\n")


def run_script(name: str, *arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, EXAMPLE / f"{name}.py", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def succeed(name: str, *arguments: str | Path, cwd: Path) -> str:
    done = run_script(name, *arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    monkeypatch.syspath_prepend(EXAMPLE)
    for name in SCRIPTS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    return import_module


def write_lists(folder: Path, *, n_packages: int) -> None:
    """Package lists as apt prints them, of packages that use the words of their section."""
    draw = random.Random(0)
    available, translations = [], []
    for n in range(n_packages):
        section = list(WORDS)[n % len(WORDS)]
        body = [" ".join(draw.choices(WORDS[section], k=8)) for _ in range(3)]
        lines = [f" {body[0]}", " .", f" {body[1]}", f"  * {body[2]}"]
        key = md5(str(n).encode(), usedforsecurity=False).hexdigest()
        available.append(
            f"Package: p{n}\nSection: main/{section}\nDescription: short\nDescription-md5: {key}\n"
        )
        translations.append(
            "\n".join([f"Package: p{n}", f"Description-md5: {key}", f"Description-en: tool {n}", *lines, ""])
        )
    (folder / "available").write_text("\n".join(available))
    (folder / "translations").write_text("\n".join(translations))


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole example, small: notes, planted words, a corpus with and without, a model of each kind."""
    folder = tmp_path_factory.mktemp("debian")
    write_lists(folder, n_packages=420)
    lists = ("--available", "available", "--translations", "translations")
    succeed("make_notes", "--output", "notes.jsonl", *lists, cwd=folder)
    prepare = ("--min-count", "1", "--workers", "1")
    assert main(["prepare", str(folder / "notes.jsonl"), "--output", str(folder / "corpus"), *prepare]) == 0
    pairs = ("--pairs", "pairs.json", "--n-pairs", "6")
    succeed("plant", "notes.jsonl", "--corpus", "corpus", "--output", "planted.jsonl", *pairs, cwd=folder)
    assert (
        main(["prepare", str(folder / "planted.jsonl"), "--output", str(folder / "planted"), *prepare]) == 0
    )
    train = ["train", str(folder / "planted"), "--config", str(EXAMPLE / "train.toml"), "--device", "cpu"]
    small = {"window": 4, "hidden_dim": 32, "context_dim": 8, "embedding_dim": 32, "cell_dim": 16}
    train += [f"--set=model.{name}={size}" for name, size in small.items()]
    train += ["--batch-size", "512", "--epochs", "10", "--set", "training.subsampling=1.0"]
    assert main([*train, "--output", str(folder / "model")]) == 0
    assert main([*train, "--output", str(folder / "bsg"), "--kind", "bsg", "--epochs", "1"]) == 0
    return folder


def test_planted_words_move_with_their_section(planted: Path) -> None:
    files = ("--model", "model", "--bsg", "bsg", "--pairs", "pairs.json", "--corpus", "corpus")
    found = json.loads(succeed("measure_planted", *files, "--json", cwd=planted))
    nearer = {name: view["nearer"]["mean"] for name, view in found["views"].items()}
    assert found["n_pairs"] == 3
    assert nearer["cell"] > 0.8
    # Without the section both meanings get one answer, which is right for one of them.
    assert nearer["word alone"] == nearer["BSG"] == 0.5
    assert found["views"]["cell"]["neighbours"]["mean"] > 0.8


def test_listed_words_are_measured_and_shown(planted: Path) -> None:
    pair = json.loads((planted / "pairs.json").read_text())[1]
    meant = {
        meaning["section"]: [word for word in WORDS[meaning["section"]] if word != meaning["word"]][:4]
        for meaning in pair["meanings"]
    }
    lines = [f'{section} = "{" ".join(words)} unheardof"' for section, words in meant.items()]
    (planted / "senses.toml").write_text("\n".join([f"[{pair['word']}]", *lines]))
    files = ("--model", "model", "--senses", "senses.toml")
    shown = succeed("measure_real", *files, "--words", pair["word"], cwd=planted)
    for section, words in meant.items():
        assert f"{pair['word']} in {section}; expected: {' '.join(words)}\n" in shown
    found = json.loads(succeed("measure_real", *files, "--json", cwd=planted))
    right_order = {name: view["right order"]["mean"] for name, view in found["views"].items()}
    assert right_order["cell"] > 0.8
    assert right_order["word alone"] == pytest.approx(0.5)


def test_a_word_that_is_not_listed_is_refused_in_one_line(planted: Path) -> None:
    done = run_script("measure_real", "--model", "model", "--words", "zebra", cwd=planted)
    assert done.returncode == 2
    assert done.stderr.startswith("measure_real.py: ")
    assert len(done.stderr.splitlines()) == 1


def test_a_machine_without_apt_is_told_so_in_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLE / "make_notes.py", "--output", "notes.jsonl"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": str(tmp_path)},
    )
    assert done.returncode == 2
    assert done.stderr.startswith("make_notes.py: this machine has no apt.")
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "notes.jsonl").exists()


def test_descriptions_are_joined_by_checksum_and_fall_back_to_what_is_there(
    script: Callable[[str], ModuleType],
) -> None:
    available = [
        "Package: a",
        "Section: contrib/games",
        "Description: short",
        "Description-md5: 1",
        "",
        "Package: b",
        "Section: net",
        "Description: title",
        " long",
        "",
        "Package: a",
        "Section: net",
        "Description: an older version",
        "",
        "Package: c",
        "Description: no section",
    ]
    translations = [
        "Package: a",
        "Description-md5: 1",
        "Description-en: Title",
        " one",
        " two",
        " .",
        "  * three",
    ]
    packages = list(script("make_notes").read_packages(available, translations))
    assert [(each.name, each.section, each.paragraphs) for each in packages] == [
        ("a", "games", ("Title", "one\ntwo", "* three")),
        ("b", "net", ("title", "long")),
    ]


def test_a_paragraph_is_kept_where_it_comes_first(script: Callable[[str], ModuleType]) -> None:
    make_notes = script("make_notes")
    packages = [
        make_notes.Package("a", "libs", ("One", "shared\ntext")),
        make_notes.Package("b", "doc", ("Two", "Shared text", "own")),
        make_notes.Package("c", "doc", ("two", "shared text")),
    ]
    kept = list(make_notes.without_repetitions(packages))
    assert [(each.name, each.paragraphs) for each in kept] == [
        ("a", ("One", "shared\ntext")),
        ("b", ("Two", "own")),
    ]


@pytest.fixture(scope="module")
def plant() -> Callable[[str, dict[str, str]], str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLE)
        found: Callable[[str, dict[str, str]], str] = import_module("plant").plant
    return found


@given(text=st.lists(st.sampled_from(PIECES)).map("".join))
def test_planting_changes_the_spelling_of_whole_words_only(
    plant: Callable[[str, dict[str, str]], str], text: str
) -> None:
    spelled = {"guitar": "guitarcompiler", "compiler": "guitarcompiler"}
    before = [spelled.get(token.word, token.word) for token in iterate_tokens(text)]
    assert [token.word for token in iterate_tokens(plant(text, spelled))] == before


def test_pairs_are_of_different_sections_and_no_word_is_used_twice(planted: Path) -> None:
    pairs = json.loads((planted / "pairs.json").read_text())
    words = [meaning["word"] for pair in pairs for meaning in pair["meanings"]]
    assert len(words) == len(set(words)) == 12
    assert all(len({meaning["section"] for meaning in pair["meanings"]}) == 2 for pair in pairs)
    assert [pair["is_reported"] for pair in pairs] == [False, True] * 3
    notes = (planted / "planted.jsonl").read_text()
    assert all(pair["word"] in notes for pair in pairs)
    assert all(f" {word} " in notes for word in words)  # half of the notes stay as they are


@pytest.mark.skipif(shutil.which("apt-cache") is None, reason="needs apt")
def test_lists_without_long_descriptions_name_the_next_step(tmp_path: Path) -> None:
    (tmp_path / "lists" / "partial").mkdir(parents=True)
    done = run_script("make_notes", "--output", "notes.jsonl", "--lists", "lists", cwd=tmp_path)
    assert done.returncode == 2
    assert "--lists FOLDER --update" in done.stderr
