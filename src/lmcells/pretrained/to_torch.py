"""A saved model -> a model in torch. The only file here that needs torch; nothing else imports it but on demand."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from lmcells.model import CellModel, ModelConfig, create_model


def build_torch_model(config: ModelConfig, arrays: Mapping[str, npt.NDArray[Any]]) -> CellModel:
    """The model in float32 on the CPU, not in training mode; no random number is drawn."""
    with torch.device("meta"):
        model = create_model(config)
    own = {name: torch.from_numpy(np.array(array, np.float32)) for name, array in arrays.items()}
    model.load_state_dict(own, assign=True)
    return model.eval()
