"""Independent streams of random numbers from one seed."""

import numpy as np
import torch

# What a stream is for: the first number beside the user's seed.
INITIALISATION, DROPOUT, DRAWS, ORDER, CHUNKS = range(5)


def derived_seed(seed: int, *purpose: int) -> int:
    """A seed of its own for each purpose: equal arguments, equal seed; others have nothing in common."""
    return int(np.random.SeedSequence((seed, *purpose)).generate_state(1, np.uint64)[0] >> np.uint64(1))


def generator_for(device: torch.device, seed: int, *purpose: int) -> torch.Generator:
    """A generator on a device, seeded for a purpose."""
    return torch.Generator(device=device).manual_seed(derived_seed(seed, *purpose))
