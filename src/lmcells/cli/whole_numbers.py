"""Whole numbers that an option takes only from a smallest one on."""

import argparse
from collections.abc import Callable


def at_least(least: int) -> Callable[[str], int]:
    """The type of an option; a smaller number, or no number, is refused in one line."""

    def whole_number(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            raise argparse.ArgumentTypeError(f"found {text!r}, allowed: a whole number from {least} on")
        return number

    return whole_number
