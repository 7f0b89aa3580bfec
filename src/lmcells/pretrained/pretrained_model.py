"""A saved model, opened without torch."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from lmcells.corpus import WordMetadataCounts
from lmcells.errors import ConfigError, FormatError, MissingExtra, ModelError
from lmcells.pretrained import folder as layout
from lmcells.pretrained.folder import load_statistics
from lmcells.pretrained.layers import Floats
from lmcells.pretrained.network import (
    NumpyModelNetwork,
    NumpyPhraseNetwork,
    NumpyVariationalNetwork,
    NumpyWordPrior,
)
from lmcells.pretrained.phrase_store import PhraseStore
from lmcells.pretrained.quantized import expanded
from lmcells.pretrained.sizes import ModelSizes
from lmcells.pretrained.subwords import TABLE, Subwords, SubwordSettings

if TYPE_CHECKING:
    from lmcells.model import CellModel


@dataclass(frozen=True)
class PretrainedModel:
    """What a model folder holds.

    model = PretrainedModel.from_pretrained("model")
    model.word_ids["pain"], model.section_ids["HPI"]
    model.variational.posterior(center, metadata, context, context_mask)  # q(z | w, m, c) in numpy
    model.prior                                                           # p(z | w, m), or p(z | w)
    model.to_torch()                                                      # the same model in torch
    """

    folder: Path
    config: layout.FolderConfig = field(repr=False)
    arrays: dict[str, npt.NDArray[Any]] = field(repr=False)  # read-only, through a memory map
    words: list[str] = field(repr=False)
    sections: list[str] = field(repr=False)  # names of the metadata, whatever kind it is of
    word_counts: npt.NDArray[np.int64] = field(repr=False)
    statistics: WordMetadataCounts = field(repr=False)

    @classmethod
    def from_pretrained(cls, folder: Path | str, *, verify: bool = False) -> Self:
        """Open a model folder; `verify` also compares every checksum."""
        folder = Path(folder)
        config = layout.load_config(folder, verify=verify)
        sizes = config.sizes
        words = layout.load_names(folder / layout.VOCABULARY, expected=sizes.n_words, distinct=True)
        sections = layout.load_names(
            folder / layout.SECTIONS, expected=None if sizes.kind == "bsg" else sizes.n_metadata
        )
        try:
            arrays = _load_weights(folder / layout.WEIGHTS, sizes)
            statistics, word_counts = load_statistics(
                folder / layout.STATISTICS, n_words=sizes.n_words, n_metadata=len(sections)
            )
        except FormatError as error:
            raise ModelError(str(error)) from None
        return cls(folder, config, arrays, words, sections, word_counts, statistics)

    @cached_property
    def sizes(self) -> ModelSizes:
        """The kind of the model and the sizes of its tables and layers."""
        return self.config.sizes

    @property
    def reads_stop_words(self) -> bool:
        """Whether words such as "of" and "the" are read, as they were in training."""
        return self.config.reads_stop_words

    @cached_property
    def word_ids(self) -> dict[str, int]:
        """The id of each word."""
        return {word: id_ for id_, word in enumerate(self.words)}

    @cached_property
    def section_ids(self) -> dict[str, int]:
        """The id of each metadata by its name (documents may share one: then the id of the last)."""
        return {name: id_ for id_, name in enumerate(self.sections)}

    @cached_property
    def variational(self) -> NumpyVariationalNetwork:
        """q(z | w, m, c)."""
        return NumpyVariationalNetwork.from_arrays(self.arrays, self.sizes)

    @cached_property
    def prior(self) -> NumpyModelNetwork | NumpyWordPrior:
        """p(z | w, m) of the LMC, p(z | w) of BSG and MBSGE."""
        return (NumpyModelNetwork if self.sizes.kind == "lmc" else NumpyWordPrior).from_arrays(self.arrays)

    @cached_property
    def phrase_network(self) -> NumpyPhraseNetwork | None:
        """What a phrase means by its words alone; None in a model without."""
        return NumpyPhraseNetwork.from_arrays(self.arrays) if self.sizes.phrase_dim else None

    @cached_property
    def phrase_store(self) -> PhraseStore | None:
        """What occurrences taught about frequent phrases; None in a model without."""
        if layout.PHRASES not in self.config.files:
            return None
        return PhraseStore.load(self.folder, cell_dim=self.sizes.cell_dim)

    @cached_property
    def subwords(self) -> Subwords | None:
        """What words that the model does not know are read as; None in a model that leaves them out."""
        if layout.SUBWORDS not in self.config.files:
            return None
        settings = SubwordSettings.load(self.folder)
        return Subwords(self.words, self.arrays[TABLE], self.word_counts, settings)

    def word_vectors(self, words: Sequence[str]) -> dict[str, Floats]:
        """In which vectors (E,) words of a context or a long form are read: those that can be."""
        ids = [(word, id_) for word in words if (id_ := self.word_ids.get(word)) is not None]
        table = np.asarray(self.arrays[TABLE][[id_ for _, id_ in ids]], np.float32)
        vectors: dict[str, Floats] = dict(zip((word for word, _ in ids), table, strict=True))
        if self.subwords is not None:
            unknown = [word for word in words if word not in vectors and word in self.subwords]
            vectors.update(zip(unknown, self.subwords.vectors(unknown), strict=True))
        return vectors

    def to_torch(self) -> "CellModel":
        """The same model in torch: float32, on the CPU, not in training mode."""
        try:
            import torch

            from lmcells.model import ModelConfig, create_model
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise MissingExtra("torch", extra="train", purpose="Running a model in torch") from None
        unknown = self.config.model.keys() - {setting.name for setting in fields(ModelConfig)}
        if unknown:
            raise ModelError(
                f"{self.folder} has settings that this lmcells does not know: {', '.join(sorted(unknown))}. "
                f"It was made by lmcells {self.config.written_by}: upgrade lmcells."
            )
        try:
            config = ModelConfig(**self.config.model)
        except ConfigError as error:
            raise ModelError(f"{self.folder / layout.CONFIG} is damaged: {error}") from None
        with torch.device("meta"):  # no random number is drawn
            model = create_model(config)
        weights = {name: torch.from_numpy(np.array(array, np.float32)) for name, array in self.arrays.items()}
        model.load_state_dict(weights, assign=True)
        return model.eval()


def _load_weights(path: Path, sizes: ModelSizes) -> dict[str, npt.NDArray[Any]]:
    arrays = expanded(layout.load_tensors(path))
    expected = sizes.tensor_shapes()
    missing = [name for name in expected if name not in arrays]
    if missing:
        shown = ", ".join(missing[:3]) + (" ..." if len(missing) > 3 else "")
        raise ModelError(
            f"{path} lacks {len(missing)} of the {len(expected)} tensors of a model of kind {sizes.kind!r}: {shown}. "
            "Train or download the model again."
        )
    for name, shape in expected.items():
        if arrays[name].shape != shape or arrays[name].dtype.kind != "f":
            raise ModelError(
                f"{path} has {name} of {arrays[name].dtype} {arrays[name].shape}, the model's settings need floats "
                f"{shape}. Train or download the model again."
            )
    return {name: arrays[name] for name in expected}
