"""A model folder: what is saved comes back, with torch and without, and what is not whole is refused."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from safetensors.torch import load_file

from corpora import corpus_of
from lmcells.corpus import Corpus, count_words_by_metadata
from lmcells.errors import InputError, ModelError
from lmcells.files import read_tensors, write_tensors
from lmcells.model import CellModel, ModelConfig, Windows, create_model
from lmcells.pretrained import PretrainedModel, ReadWindows, save_pretrained
from lmcells.pretrained.folder import REQUIRED, from_eight_bits, shipped_model, to_eight_bits

NOTES = [
    f"HPI: chest pain {'fever ' * (i % 3)}cough\n\nPLAN: rest pain {'ice' if i % 2 else 'heat'}"
    for i in range(20)
]
TRAINING = {"epochs": 3, "seed": 17, "learning_rate": 1e-3}
KINDS = pytest.mark.parametrize("kind", ["lmc", "bsg", "mbsge"])


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return corpus_of(tmp_path_factory.mktemp("corpus"), NOTES)


def model_for(corpus: Corpus, kind: str = "lmc", *, seed: int = 0, **sizes: Any) -> CellModel:
    torch.manual_seed(seed)
    sizes |= {"n_words": len(corpus.words), "cell_dim": 5, "embedding_dim": 4, "hidden_dim": 3}
    n_metadata, n_categories = corpus.n_metadata("section") * (kind != "bsg"), 2 * (kind == "mbsge")
    return create_model(ModelConfig(kind=kind, n_metadata=n_metadata, n_categories=n_categories, **sizes))


@pytest.fixture(scope="module")
def saved(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "model"
    save_pretrained(model_for(corpus), folder, corpus=corpus, training=TRAINING)
    return folder


@pytest.fixture
def copy(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "copy"))


def edit_config(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))


def rewrite(folder: Path, name: str, arrays: dict[str, Any]) -> None:
    """Replace a tensor file and make its new size the expected one."""
    write_tensors(folder / name, arrays)
    edit_config(folder, lambda config: config["files"][name].update(bytes=(folder / name).stat().st_size))


@KINDS
def test_a_saved_model_comes_back_bit_for_bit(corpus: Corpus, kind: str, tmp_path: Path) -> None:
    model = model_for(corpus, kind)
    save_pretrained(model, tmp_path / "model", corpus=corpus, training=TRAINING)
    loaded = PretrainedModel.from_pretrained(str(tmp_path / "model"), verify=True)
    again = loaded.to_torch()
    assert type(again) is type(model)
    assert again.config == model.config
    assert not again.training
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor)
        np.testing.assert_array_equal(loaded.arrays[name], tensor.numpy())
    assert all(parameter.requires_grad for parameter in again.parameters())


def test_the_shipped_model_says_the_same_in_numpy_and_in_torch() -> None:
    """Random windows, with a masked span in each."""
    model = PretrainedModel.from_pretrained(shipped_model())
    draw, sizes = np.random.default_rng(0), model.sizes
    context = draw.integers(0, sizes.n_words, (9, 2 * sizes.window))
    mask = draw.random(context.shape) < 0.8
    at = np.arange(9), draw.integers(0, context.shape[1], 9)
    context[at], mask[at] = sizes.mask_id, True
    center, metadata = draw.integers(0, sizes.n_words, 9), draw.integers(-1, sizes.n_metadata, 9)
    given = {"center": center, "metadata": metadata, "context": context, "context_mask": mask}
    with torch.no_grad():
        windows = Windows(**{name: torch.from_numpy(array) for name, array in given.items()})
        expected = model.to_torch().posterior(windows).cell
    read = ReadWindows(center, np.ones(9, np.bool_), context, mask)
    found = model.variational.posterior(read, metadata)
    np.testing.assert_allclose(found.mean, expected.mean.numpy(), rtol=0, atol=1e-4)
    np.testing.assert_allclose(found.log_variance, expected.log_variance.numpy(), rtol=0, atol=1e-4)


def test_loading_in_torch_draws_no_random_number(saved: Path) -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    PretrainedModel.from_pretrained(saved).to_torch()
    assert torch.equal(torch.get_rng_state(), before)


def test_words_sections_and_statistics_are_those_of_the_corpus(corpus: Corpus, saved: Path) -> None:
    loaded = PretrainedModel.from_pretrained(saved)
    assert loaded.words == corpus.words
    assert loaded.sections == corpus.metadata_names("section")
    assert loaded.words[loaded.word_ids["pain"]] == "pain"
    assert loaded.sections[loaded.section_ids[loaded.sections[-1]]] == loaded.sections[-1]
    assert loaded.word_counts.tolist() == corpus.word_counts.tolist()
    expected = count_words_by_metadata(corpus, "section")
    for name in ("offsets", "metadata", "counts"):
        ours, theirs = getattr(loaded.statistics, name), getattr(expected, name)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(loaded.statistics.metadata_given_word(1), expected.metadata_given_word(1))


def test_settings_seed_and_corpus_are_saved_with_the_model(corpus: Corpus, saved: Path) -> None:
    config = PretrainedModel.from_pretrained(saved).config
    assert (config.kind, config.metadata_kind) == ("lmc", "section")
    assert (config.seed, config.training) == (17, TRAINING)
    assert config.corpus["fingerprint"] == corpus.manifest.fingerprint
    assert config.corpus["settings"]["min_count"] == 0
    card = (saved / "README.md").read_text()
    said = ("Not for clinical decisions", "learning_rate", "## Licence", "from_pretrained")
    assert all(text in card for text in (*said, corpus.manifest.fingerprint))


def test_the_weights_are_an_ordinary_safetensors_file(corpus: Corpus, saved: Path) -> None:
    model = model_for(corpus)
    assert model.load_state_dict(load_file(saved / "model.safetensors"))


def test_the_model_card_may_be_edited(copy: Path) -> None:
    (copy / "README.md").write_text("Licence: CC0")
    PretrainedModel.from_pretrained(copy, verify=True)


def test_half_precision_halves_the_weights_and_hardly_changes_them(
    corpus: Corpus, saved: Path, tmp_path: Path
) -> None:
    save_pretrained(model_for(corpus), tmp_path / "half", corpus=corpus, dtype="float16")
    half, full = PretrainedModel.from_pretrained(tmp_path / "half"), PretrainedModel.from_pretrained(saved)
    assert half.config.dtype == "float16"
    for name, array in full.arrays.items():
        assert half.arrays[name].nbytes * 2 == array.nbytes
        np.testing.assert_allclose(half.arrays[name], array, rtol=1e-3, atol=1e-6)
    assert all(parameter.dtype == torch.float32 for parameter in half.to_torch().parameters())


def test_eight_bits_quarter_the_word_vectors_and_hardly_change_them(
    corpus: Corpus, saved: Path, tmp_path: Path
) -> None:
    save_pretrained(model_for(corpus), tmp_path / "small", corpus=corpus, dtype="int8")
    small, full = PretrainedModel.from_pretrained(tmp_path / "small"), PretrainedModel.from_pretrained(saved)
    stored = read_tensors(tmp_path / "small" / "model.safetensors")
    assert stored["prior.words.weight"].dtype == np.int8
    assert stored["prior.metadata.weight"].dtype == np.float16
    for name, array in full.arrays.items():
        np.testing.assert_allclose(small.arrays[name], array, atol=0.02)


@given(
    arrays_of.arrays(
        np.float32, arrays_of.array_shapes(min_dims=2, max_dims=2), elements=st.floats(-50, 50, width=32)
    )
)
def test_every_number_in_eight_bits_comes_back_within_a_level_of_its_row(rows: Any) -> None:
    levels, scale = to_eight_bits(rows)
    level = np.maximum(np.abs(rows).max(axis=1, keepdims=True) / 127, 1e-4)
    assert levels.dtype == np.int8
    assert (np.abs(from_eight_bits(levels, scale) - rows) <= 0.6 * level).all()


@pytest.mark.parametrize(
    ("value", "dtype"), [(float("nan"), "float32"), (float("inf"), "float32"), (1e5, "float16")]
)
def test_a_model_that_has_diverged_is_not_saved(
    corpus: Corpus, value: float, dtype: Any, tmp_path: Path
) -> None:
    model = model_for(corpus)
    with torch.no_grad():
        model.get_parameter("variational.gate.bias")[0] = value
    with pytest.raises(ModelError, match=r"variational\.gate\.bias holds values that are not finite"):
        save_pretrained(model, tmp_path / "model", corpus=corpus, dtype=dtype)
    assert not list(tmp_path.iterdir())


def test_another_kind_of_metadata_can_be_the_metadata(corpus: Corpus, tmp_path: Path) -> None:
    model = create_model(replace(model_for(corpus).config, n_metadata=corpus.n_metadata("document")))
    save_pretrained(model, tmp_path / "model", corpus=corpus, metadata_kind="document")
    assert PretrainedModel.from_pretrained(tmp_path / "model").sections == corpus.metadata_names("document")


@pytest.mark.parametrize("sizes", [{"n_words": 3}, {"n_metadata": 99}])
def test_a_model_of_another_corpus_is_not_saved(
    corpus: Corpus, sizes: dict[str, int], tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match="Give the corpus that the model was trained on"):
        save_pretrained(
            create_model(replace(model_for(corpus).config, **sizes)), tmp_path / "model", corpus=corpus
        )


def test_a_folder_that_exists_is_replaced_only_when_asked_and_only_if_it_is_a_model(
    corpus: Corpus, copy: Path
) -> None:
    other = model_for(corpus, seed=1)
    with pytest.raises(InputError, match="already exists"):
        save_pretrained(other, copy, corpus=corpus)
    save_pretrained(other, copy, corpus=corpus, overwrite=True)
    name = "variational.gate.weight"
    np.testing.assert_array_equal(
        PretrainedModel.from_pretrained(copy).arrays[name], other.state_dict()[name].numpy()
    )
    (copy / "config.json").unlink()
    with pytest.raises(InputError, match="is not a model, so it is not overwritten"):
        save_pretrained(other, copy, corpus=corpus, overwrite=True)
    assert [path.name for path in copy.parent.iterdir()] == ["copy"]


def test_equal_models_give_equal_folders(corpus: Corpus, saved: Path, tmp_path: Path) -> None:
    save_pretrained(model_for(corpus), tmp_path / "model", corpus=corpus, training=TRAINING)
    for path in saved.iterdir():
        assert path.read_bytes() == (tmp_path / "model" / path.name).read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda c: c.update(version=2, written_by="9.9"),
            r"model format 2, made by lmcells 9\.9.* reads 1\. Up",
        ),
        (lambda c: c.update(format="lmcells-corpus"), "is of another format"),
        (lambda c: c.update(tokenizer="2"), "tokenizer rules '2'"),
        (lambda c: c.pop("training"), "it lacks training"),
        (lambda c: c.update(files=[]), "files is not a mapping"),
        (lambda c: c["files"].pop("model.safetensors"), "files lacks model.safetensors"),
        (lambda c: c["files"].update({"../x": {"bytes": 0, "sha256": ""}}), "no size and checksum of '../x'"),
        (lambda c: c["files"]["vocabulary.json"].update(bytes="9"), "checksum of 'vocabulary.json'"),
        (lambda c: c["model"].update(kind="lcm"), "kind is 'lcm'"),
        (lambda c: c.update(kind="bsg"), "its kind is 'bsg' and 'lmc'"),
        (lambda c: c["model"].pop("hidden_dim"), "are missing: hidden_dim"),
        (lambda c: c["model"].update(hidden_dim=4), "the model's settings need floats"),
        (lambda c: c["model"].update(masked_span_reach=0), "masked_span_reach is 0; allowed: an"),
        (lambda c: c["model"].update(masked_span_reach=2.0), "masked_span_reach is 2.0; allowed: an"),
        (lambda c: c["model"].update(masked_span_reach="2"), "masked_span_reach is '2'; allowed: an"),
        (lambda c: c["model"].update(masked_span_reach=True), "masked_span_reach is True; allowed: an"),
        (lambda c: c["model"].update(n_layers=2), "does not know, or that are missing: n_layers"),
        (lambda c: c["model"].update(n_words=3), "vocabulary.json has 7 names, the model's settings say 3"),
        (lambda c: c["model"].update(n_metadata=9), "sections.json has 3 names, the model's settings say 9"),
    ],
)
def test_a_config_of_a_newer_version_or_with_damage_is_refused(
    copy: Path, change: Callable[[dict[str, Any]], Any], message: str
) -> None:
    edit_config(copy, change)
    with pytest.raises(ModelError, match=message) as refused:
        PretrainedModel.from_pretrained(copy)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("content", ["", "{", "[]", "[" * 100_000, "\udcff"])
def test_a_config_that_is_not_one_is_refused(copy: Path, content: str) -> None:
    (copy / "config.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(ModelError, match=r"is not JSON|of another format"):
        PretrainedModel.from_pretrained(copy)


@pytest.mark.parametrize("name", REQUIRED)
def test_a_missing_shortened_or_changed_file_is_refused(copy: Path, name: str) -> None:
    whole = (copy / name).read_bytes()
    (copy / name).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ModelError, match=f"{name} is damaged: its checksum differs"):
        PretrainedModel.from_pretrained(copy, verify=True)
    (copy / name).write_bytes(whole[:-1])
    with pytest.raises(ModelError, match=f"{name} is damaged: found .* bytes, expected"):
        PretrainedModel.from_pretrained(copy)
    (copy / name).unlink()
    with pytest.raises(ModelError, match=f"{name} is missing"):
        PretrainedModel.from_pretrained(copy)


def test_missing_and_misshapen_tensors_are_named(copy: Path) -> None:
    arrays = read_tensors(copy / "model.safetensors")
    rewrite(copy, "model.safetensors", {**arrays, "variational.gate.bias": np.zeros(3, np.float32)})
    with pytest.raises(ModelError, match=r"gate\.bias is of float32 \(3,\), .* need floats \(2,\)"):
        PretrainedModel.from_pretrained(copy)
    rewrite(copy, "model.safetensors", {**arrays, "variational.gate.bias": np.zeros(2, np.int32)})
    with pytest.raises(ModelError, match=r"gate\.bias is of int32"):
        PretrainedModel.from_pretrained(copy)
    del arrays["prior.words.weight"]
    rewrite(copy, "model.safetensors", arrays)
    with pytest.raises(ModelError, match=r"prior\.words\.weight is missing, the model's settings need"):
        PretrainedModel.from_pretrained(copy)


@pytest.mark.parametrize("levels", [None, np.zeros((200_000, 1), np.int8)])
def test_scales_without_the_rows_of_a_table_are_refused(copy: Path, levels: Any) -> None:
    arrays = read_tensors(copy / "model.safetensors")
    name = "prior.words.weight"
    del arrays[name]
    arrays |= {f"{name}.scale": np.zeros((1, 200_000), np.float16)} | (
        {} if levels is None else {name: levels}
    )
    rewrite(copy, "model.safetensors", arrays)
    with pytest.raises(ModelError, match=r"prior\.words\.weight\.scale does not have a number for each row"):
        PretrainedModel.from_pretrained(copy)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_model_whose_numbers_are_not_finite_is_refused(copy: Path, number: float) -> None:
    arrays = read_tensors(copy / "model.safetensors")
    arrays["prior.words.weight"] = arrays["prior.words.weight"].copy()
    arrays["prior.words.weight"][0, 0] = number
    rewrite(copy, "model.safetensors", arrays)
    with pytest.raises(ModelError, match=r"prior\.words\.weight has numbers that are infinite"):
        PretrainedModel.from_pretrained(copy)


@pytest.mark.parametrize("settings_", [None, "x", {}, {"stop_words": 1}])
def test_a_corpus_that_does_not_say_which_words_were_read_is_refused(copy: Path, settings_: Any) -> None:
    edit_config(copy, lambda config: config["corpus"].update(settings=settings_))
    with pytest.raises(ModelError, match="the settings of its corpus lack stop_words"):
        PretrainedModel.from_pretrained(copy)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.pop("counts"), "lacks counts"),
        (lambda a: a.update(offsets=a["offsets"][1:]), "does not count 7 words"),
        (lambda a: a.update(counts=a["counts"][1:]), "does not count 7 words"),
        (lambda a: a.update(counts=a["counts"].astype(np.float32)), "does not count 7 words"),
        (lambda a: a.update(offsets=a["offsets"][::-1]), "its rows are not counts"),
        (lambda a: a.update(metadata=a["metadata"] + 9), "not counts under 3 metadata"),
    ],
)
def test_statistics_that_cannot_be_are_refused(
    copy: Path, change: Callable[[dict[str, Any]], Any], message: str
) -> None:
    arrays = read_tensors(copy / "statistics.safetensors")
    change(arrays)
    rewrite(copy, "statistics.safetensors", arrays)
    with pytest.raises(ModelError, match=message):
        PretrainedModel.from_pretrained(copy)


@pytest.mark.parametrize(
    ("names", "message"),
    [({"a": 1}, "not a list of names"), (["a"] * 7, "a name twice"), ([1] * 7, "not a list")],
)
def test_a_vocabulary_that_is_none_is_refused(copy: Path, names: Any, message: str) -> None:
    text = json.dumps(names)
    (copy / "vocabulary.json").write_text(text)
    edit_config(copy, lambda config: config["files"]["vocabulary.json"].update(bytes=len(text)))
    with pytest.raises(ModelError, match=message):
        PretrainedModel.from_pretrained(copy)


@settings(max_examples=60)
@given(data=st.data())
def test_a_changed_byte_anywhere_is_seen_when_verifying(
    saved: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """In config.json a change may be harmless (a digit of a setting); never is there another kind of error."""
    folder = tmp_path_factory.mktemp("changed") / "model"
    shutil.copytree(saved, folder)
    path = folder / data.draw(st.sampled_from(["config.json", *REQUIRED]))
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    try:
        PretrainedModel.from_pretrained(folder, verify=True).variational  # noqa: B018
    except ModelError:
        return
    assert path.name == "config.json"


@pytest.mark.parametrize(
    ("name", "message"), [("absent", "does not exist"), ("file", "is not a folder"), (".", "has no config")]
)
def test_what_is_no_model_folder_is_refused(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ModelError, match=message):
        PretrainedModel.from_pretrained(tmp_path / name)


LOAD_AND_RUN = """
import sys
import numpy as np
import lmcells.pretrained
model = lmcells.pretrained.PretrainedModel.from_pretrained(sys.argv[1], verify=True)
true = np.array([True])
windows = lmcells.pretrained.ReadWindows(np.array([0]), true, np.array([[1]]), true[None])
model.variational.posterior(windows, np.array([0]))
model.prior(np.array([0]), np.array([0]))
"""
NAME_TORCH = "print([name for name in sys.modules if name.startswith('torch')])"
HIDE_TORCH = "import sys; sys.modules['torch'] = None"
ASK_FOR_TORCH = """
try:
    model.to_torch()
except lmcells.errors.MissingExtra as error:
    print(error)
"""


def run_python(*code: str, argument: Path) -> str:
    command = [sys.executable, "-c", "\n".join(code), str(argument)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_a_model_is_loaded_and_run_without_importing_torch(saved: Path) -> None:
    assert run_python(LOAD_AND_RUN, NAME_TORCH, argument=saved) == "[]\n"


def test_where_torch_is_not_installed_a_model_runs_and_to_torch_says_how_to_get_it(saved: Path) -> None:
    assert run_python(HIDE_TORCH, LOAD_AND_RUN, ASK_FOR_TORCH, argument=saved) == (
        "Running a model in torch needs torch, which is not installed. Run: pip install 'lmcells[train]'\n"
    )
