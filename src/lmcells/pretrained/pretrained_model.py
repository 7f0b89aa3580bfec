"""A saved model, opened without torch."""

from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from lmcells.corpus import WordMetadataCounts
from lmcells.errors import MissingExtra
from lmcells.model.config import ModelConfig
from lmcells.pretrained import folder as layout
from lmcells.pretrained.network import NumpyModelNetwork, NumpyVariationalNetwork, NumpyWordPrior
from lmcells.pretrained.phrase_store import NumpyPhraseNetwork, PhraseStore
from lmcells.pretrained.subwords import TABLE, Subwords, SubwordSettings

if TYPE_CHECKING:
    from lmcells.model import CellModel


@dataclass(frozen=True)
class PretrainedModel:
    """A model folder in memory.

    model = PretrainedModel.from_pretrained("model")
    model.word_ids["pain"], model.section_ids["HPI"]
    model.variational.posterior(windows, metadata)                        # q(z | w, m, c) in numpy
    model.prior                                                           # p(z | w, m), or p(z | w)
    model.to_torch()                                                      # the same model in torch
    """

    folder: Path
    config: layout.FolderConfig = field(repr=False)
    arrays: dict[str, npt.NDArray[Any]] = field(repr=False)  # the tensors of the torch model, by name
    words: list[str] = field(repr=False)
    sections: list[str] = field(repr=False)  # names of the metadata values, whatever their kind
    word_counts: npt.NDArray[np.int64] = field(repr=False)
    statistics: WordMetadataCounts = field(repr=False)

    @classmethod
    def from_pretrained(cls, folder: Path | str, *, verify: bool = False) -> Self:
        """Open a model folder; `verify` also compares every checksum."""
        folder = Path(folder)
        config = layout.FolderConfig.load(folder, verify=verify)
        sizes = ModelConfig(**config.model)
        words = layout.load_names(folder / layout.VOCABULARY, expected=sizes.n_words, distinct=True)
        sections = layout.load_names(
            folder / layout.SECTIONS, expected=None if sizes.kind == "bsg" else sizes.n_metadata
        )
        arrays = layout.load_weights(folder / layout.WEIGHTS, sizes)
        statistics, word_counts = layout.load_statistics(
            folder / layout.STATISTICS, n_words=sizes.n_words, n_metadata=len(sections)
        )
        return cls(folder, config, arrays, words, sections, word_counts, statistics)

    @cached_property
    def sizes(self) -> ModelConfig:
        """The kind of the model and the sizes of its tables and layers."""
        return ModelConfig(**self.config.model)

    @cached_property
    def reads_stop_words(self) -> bool:
        """Whether words such as "of" and "the" are read, as they were in training."""
        return bool(self.config.corpus["settings"]["stop_words"])

    @cached_property
    def word_ids(self) -> dict[str, int]:
        return {word: id_ for id_, word in enumerate(self.words)}

    @cached_property
    def section_ids(self) -> dict[str, int]:
        """The id of each metadata value by its name; the last one's where several share a name."""
        return {name: id_ for id_, name in enumerate(self.sections)}

    @cached_property
    def variational(self) -> NumpyVariationalNetwork:
        """q(z | w, m, c)."""
        return NumpyVariationalNetwork(self.arrays, self.sizes)

    @cached_property
    def prior(self) -> NumpyModelNetwork | NumpyWordPrior:
        """p(z | w, m) of the LMC, p(z | w) of BSG and MBSGE."""
        return (NumpyModelNetwork if self.sizes.kind == "lmc" else NumpyWordPrior)(self.arrays)

    @cached_property
    def phrase_network(self) -> NumpyPhraseNetwork | None:
        """Composes the meaning of a phrase from its words; None in a model without."""
        return NumpyPhraseNetwork(self.arrays) if self.sizes.phrase_dim else None

    @cached_property
    def phrase_store(self) -> PhraseStore | None:
        """Prototypes of frequent phrases; None in a model without."""
        if layout.PHRASES not in self.config.files:
            return None
        return PhraseStore.load(self.folder, cell_dim=self.sizes.cell_dim)

    @cached_property
    def subwords(self) -> Subwords | None:
        """Vectors for out-of-vocabulary words; None in a model that drops them."""
        if layout.SUBWORDS not in self.config.files:
            return None
        return Subwords(self.words, self.arrays[TABLE], self.word_counts, self._subword_settings)

    @cached_property
    def _subword_settings(self) -> SubwordSettings:
        return SubwordSettings.load(self.folder)

    def __getstate__(self) -> dict[str, Any]:
        """What was read from files, nothing derived from it: the folder may not exist where it is unpickled."""
        state = {each.name: getattr(self, each.name) for each in fields(self)}
        state["arrays"] = {name: _packed(array) for name, array in self.arrays.items()}
        if layout.SUBWORDS in self.config.files:
            state["_subword_settings"] = self._subword_settings
        return state | {"phrase_store": self.phrase_store}

    def __setstate__(self, state: dict[str, Any]) -> None:
        arrays = {
            name: layout.from_eight_bits(*each) if isinstance(each, tuple) else each
            for name, each in state["arrays"].items()
        }
        self.__dict__.update(state | {"arrays": arrays})

    def to_torch(self) -> "CellModel":
        """Return the same model in torch: float32, on the CPU, in evaluation mode."""
        try:
            import torch

            from lmcells.model import create_model
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise MissingExtra("torch", extra="train", purpose="Running a model in torch") from None
        with torch.device("meta"):  # draws no random numbers
            model = create_model(self.sizes)
        weights = {name: torch.from_numpy(np.array(array, np.float32)) for name, array in self.arrays.items()}
        model.load_state_dict(weights, assign=True)
        return model.eval()


def _packed(array: npt.NDArray[Any]) -> npt.NDArray[Any] | tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return a table of word vectors as levels and scales, as it was stored, if that is lossless."""
    if array.ndim == 2 and array.dtype == np.float32:
        packed = layout.to_eight_bits(array)
        if np.array_equal(layout.from_eight_bits(*packed), array):
            return packed
    return array
