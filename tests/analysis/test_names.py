"""Names as a person writes them: any case, other names of a section, and what is said of unknown ones."""

import pytest

from lmcells.analysis.names import NULL_SECTION, metadata_id, section_id, section_name, word_id
from lmcells.errors import InputError
from lmcells.pretrained import PretrainedModel


def test_words_and_sections_may_be_written_in_any_case(planted: PretrainedModel) -> None:
    assert planted.words[word_id(planted, "History")] == "history"
    assert section_name(planted, "family history") == "FAMILY HISTORY"
    assert metadata_id(planted, "shx") == section_id(planted, "SHX")


def test_null_metadata_has_a_name(planted: PretrainedModel) -> None:
    assert metadata_id(planted, NULL_SECTION) == -1
    assert section_name(planted, NULL_SECTION) == NULL_SECTION


def test_unknown_names_are_answered_with_known_ones(planted: PretrainedModel) -> None:
    with pytest.raises(InputError, match=r"does not know the word 'histroy'\. Nearest: history\."):
        word_id(planted, "histroy")
    with pytest.raises(InputError, match=r"'smoking mother' is not one word.*such as: smoking, mother\."):
        word_id(planted, "smoking mother")
    with pytest.raises(InputError, match=r"does not know the section 'zzz'\. It knows: [^<]*, and others\."):
        section_id(planted, "zzz")
