"""Time that a call takes, told apart from what else a long test process does."""

import gc
import time
from collections.abc import Callable


def seconds_of(call: Callable[[], object], *, rounds: int = 3) -> float:
    """Processor time of the fastest of some calls, without collecting the garbage of the tests before."""
    times = []
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        for _ in range(rounds):
            start = time.process_time()
            call()
            times.append(time.process_time() - start)
    finally:
        if was_enabled:
            gc.enable()
    return min(times)
