"""The corpus of a protocol: how its notes are read, and when that makes another corpus of it."""

from dataclasses import replace
from pathlib import Path

from evaluation.reproduce.small_protocol import write_protocol
from lmcells.corpus import Corpus
from lmcells.evaluation.reproduce import Steps, Workspace, load_protocol
from lmcells.evaluation.reproduce.data_steps import corpus_step


def test_stop_words_and_spelled_out_definitions_count_only_where_they_are_asked_for(tmp_path: Path) -> None:
    protocol = load_protocol(write_protocol(tmp_path), checks_models=False)
    workspace = Workspace(tmp_path / "out")

    def settings(**changes: object) -> dict[str, object]:
        changed = replace(protocol, corpus=replace(protocol.corpus, **changes))  # type: ignore[arg-type]
        return dict(corpus_step("main", changed, workspace, workers=1).settings)

    assert "stop_words" not in settings()
    assert settings(stop_words=True) == {**settings(), "stop_words": True}
    assert settings(spelled_out=0.5) == {**settings(), "spelled_out": 0.5}


def test_a_protocols_corpus_has_stop_words_where_it_says_so(tmp_path: Path) -> None:
    protocol = load_protocol(write_protocol(tmp_path), checks_models=False)
    corpus = replace(protocol.corpus, stop_words=True, exclude=())
    step = corpus_step("main", replace(protocol, corpus=corpus), Workspace(tmp_path / "out"), workers=1)
    step.run(Steps([step], Workspace(tmp_path / "out")))
    assert Corpus.open(Workspace(tmp_path / "out").corpus("main")).reads_stop_words
