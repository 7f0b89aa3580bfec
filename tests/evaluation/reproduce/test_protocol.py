"""A protocol's file: what is wrong is named with what is allowed."""

from pathlib import Path

import pytest

from evaluation.reproduce.small_protocol import changed, write_protocol
from lmcells.errors import ConfigError
from lmcells.evaluation.reproduce import Workspace, load_protocol, plan_steps

CONFIGS = Path(__file__).parents[3] / "configs"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write_protocol(tmp_path)


def test_a_protocol_is_read_with_its_defaults(config: Path) -> None:
    protocol = load_protocol(config)
    assert protocol.model("lmc").seeds == (0, 1)
    assert protocol.dataset("reverse").max_per_sense == 500
    inputs = [source.path() for source in protocol.corpus.inputs]
    assert inputs == [config.parent / name for name in ("train.jsonl", "dev.jsonl")]


INPUTS = 'inputs = ["train.jsonl", "dev.jsonl"]'
NOTES = 'notes = ["dev.jsonl"]'
SELECTION = "[selection]\nmodel = 'lmc'\ndataset = 'reverse'\n{}\n[report]"
LEAKAGE = "[leakage]\ndataset = 'reverse'\n"
SETTING = "[[selection.setting]]\nname = 'a'\n"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("[corpus]", "[korpus]", "'korpus' is not known; allowed: extends, seeds"),
        ("seeds = [0, 1]", "seeds = 3", "seeds is 3; allowed: different whole numbers"),
        ("seeds = [0, 1]", "seeds = [1, 1]", "seeds is [1, 1]"),
        ("min_count = 0", "min_cout = 0", "corpus.min_cout is not known"),
        ("min_count = 0", "min_cout = 0", "Nearest: 'min_count'"),
        ("min_count = 0", "min_count = -1", "corpus.min_count is -1; allowed: an integer of at least 0"),
        ("min_count = 0", 'min_count = "ten"', "corpus.min_count is 'ten'; allowed: a whole number"),
        ("min_count = 0", 'sections = "mine"', "corpus.sections is 'mine'; allowed: auto, paper"),
        ("min_count = 0", 'format = "doc"', "corpus.format is 'doc'; allowed: auto"),
        ("min_count = 0", 'pack = "no"', "corpus.pack is 'no'; allowed: true or false"),
        ('["reverse"]', '["revers"]', "corpus.exclude is 'revers'; allowed: reverse. Nearest"),
        ('["reverse"]', "[3]", "corpus.exclude is 3; allowed: text"),
        (INPUTS, 'inputs = "train"', "corpus.inputs is 'train'; allowed: a list of paths"),
        (INPUTS, "inputs = []", "corpus.inputs is empty"),
        ('"reverse"\nnotes', '"revers"\nnotes', "dataset 'reverse': kind is 'revers'; allowed: file, casi,"),
        (NOTES, "", "dataset 'reverse': notes is not given; a dataset of kind 'reverse' needs"),
        (NOTES, f"{NOTES}\nshare = 1.5", "share is 1.5; allowed: above 0, at most 1"),
        ('name = "reverse"', 'name = "a/b"', "dataset.name is 'a/b'; allowed: letters"),
        ('name = "lmc"', 'name = "lmc@x"', "model.name is 'lmc@x'; allowed: letters"),
        ('name = "lmc"', "", "model: one has no name"),
        ('name = "lmc"', "name = [1]", "model: a name is not text"),
        ('kind = "lmc"', 'kind = "lmcs"', "model 'lmc': kind is 'lmcs'; allowed: lmc, bsg"),
        ('kind = "lmc"', 'kind = "bert"', "model 'lmc': folder; the kind 'bert' needs the folder of a check"),
        ('kind = "lmc"', 'kind = "random"', "model 'lmc': 'model' is for trained kinds"),
        ('"paper"', '"papr"', "model 'lmc': preset is 'papr'; allowed: paper, tuned, default. Nearest"),
        ("training.epochs = 1", "training.epoch = 1", "model 'lmc': --set: 'training.epoch' is not known. N"),
        ("training.epochs = 1", "training.epochs = 0", "model 'lmc': epochs is 0; allowed"),
        ("training.epochs = 1", "training.epochs = 2020-01-01", "epochs is '2020-01-01'"),
        ("training.epochs = 1", "language_model = 1", "language_model is a value; write language_model.KEY"),
        ("training.epochs = 1", "speed = 1", "model 'lmc': speed is not known; allowed: name, model"),
        ("rounds = 20", "rounds = 0", "report.rounds is 0; allowed: 1 or more"),
        ("[[model]]", '[[model]]\nname = "lmc"\n[[model]]', "model: the name 'lmc' is given twice"),
        ("[report]", "[curve]\ndataset = 'x'\n[report]", "curve.dataset is 'x'; allowed: reverse"),
        ("[report]", f"{LEAKAGE}model = 'x'\n[report]", "leakage.model is 'x'; allowed: lmc"),
        (
            "[report]",
            "[leakage]\nmodel = 'lmc'\ndataset = ''\n[report]",
            "leakage.dataset is ''; allowed: reverse",
        ),
        ("[report]", "[leakage]\nmodel = 'lmc'\n[report]", "leakage.dataset is not given"),
        ("[report]", SELECTION.format(""), "selection.setting: there is none"),
        (
            "[report]",
            SELECTION.format(f"seeds = [7]\n{SETTING}"),
            "selection.seeds is [7]; allowed: of lmc's",
        ),
        ("[report]", SELECTION.format(2 * SETTING), "selection.setting: the name 'a' is given twice"),
        ("[report]", SELECTION.format(f"{SETTING}training.epoch = 3"), "model 'lmc@a': --set: 'training.epo"),
        ("[report]", "[report]\nrounds = [", "cannot be read as TOML"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(config: Path, before: str, after: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_protocol(changed(config, before, after))
    said = str(caught.value)
    assert message in said
    assert said.startswith(str(config))
    assert "\n" not in said


def test_a_file_that_is_absent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        load_protocol(tmp_path / "absent.toml")


def test_a_protocol_extends_another_whose_paths_stay_its_own(config: Path) -> None:
    above = config.parent / "above"
    above.mkdir()
    (above / "mine.toml").write_text(
        'extends = "../protocol.toml"\nseeds = [5]\n[corpus]\nmin_count = 3\n'
        '[[model]]\nname = "lmc"\ntraining.epochs = 9\n[[model]]\nname = "chance"\nkind = "random"\n'
    )
    protocol = load_protocol(above / "mine.toml")
    assert protocol.corpus.min_count == 3
    assert protocol.corpus.inputs[0].path() == above / ".." / "train.jsonl"
    assert protocol.model("lmc").settings["training"]["epochs"] == 9
    assert protocol.model("lmc").settings["model"]["cell_dim"] == 4
    assert protocol.model("lmc").preset == "paper"
    assert protocol.model("chance").seeds == (5,)


def test_files_that_extend_each_other_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('extends = "b.toml"')
    (tmp_path / "b.toml").write_text('extends = "a.toml"')
    with pytest.raises(ConfigError, match="which extends this file"):
        load_protocol(tmp_path / "a.toml")


def test_a_path_to_extend_that_names_no_file_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "loop.toml").symlink_to(tmp_path / "loop.toml")
    for written in (r"b\u0000.toml", "loop.toml"):
        (tmp_path / "a.toml").write_text(f'extends = "{written}"')
        with pytest.raises(
            ConfigError, match=r"a\.toml: extends is '.*', which is not the path|cannot be read"
        ):
            load_protocol(tmp_path / "a.toml")


def test_datasets_that_use_each_other_are_refused(config: Path) -> None:
    circle = '[[dataset]]\nname = "a"\nkind = "reverse"\nnotes = ["dev.jsonl"]\ninventory = "{}"\n'
    text = circle.format("b") + circle.replace('"a"', '"b"').format("a")
    protocol = load_protocol(changed(config, "[[model]]", f"{text}[[model]]"))
    with pytest.raises(ConfigError, match="use each other: a -> b -> a"):
        plan_steps(protocol, Workspace(config.parent / "out"))


def test_runs_that_would_share_their_files_are_refused(config: Path) -> None:
    clash = '[[model]]\nname = "lmc-1"\nkind = "dominant"\n[[model]]'
    with pytest.raises(ConfigError, match="two runs would be called 'evaluate/reverse/lmc-1'"):
        plan_steps(load_protocol(changed(config, "[[model]]", clash)), Workspace(config.parent / "out"))


@pytest.mark.parametrize(
    "name", ["open.toml", "open-cpu.toml", "paper-mimic.toml", "paper-mimic-strict.toml"]
)
def test_the_protocols_that_come_with_the_project_are_valid(name: str, tmp_path: Path) -> None:
    protocol = load_protocol(CONFIGS / name)
    assert {"lmc", "bsg", "mbsge", "elmo"} <= {model.kind for model in protocol.models}
    assert len(list(plan_steps(protocol, Workspace(tmp_path)))) > 20
    if name != "open-cpu.toml":
        assert protocol.models[0].seeds == (0, 1, 2, 3, 4)
