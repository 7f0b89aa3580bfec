"""Bytes that are not UTF-8 become U+FFFD, one for one, and the note is kept.

Files are decoded with `surrogateescape`, so a bad byte travels as a lone surrogate until `mend` replaces it:
decoding runs ahead of parsing, and this tells which note it was in. A lone "\\ud800" in JSON ends alike.
"""

import re

_SURROGATE = re.compile("[\ud800-\udfff]")


def mend(text: str) -> str:
    """Return `text` without lone surrogates; the same object when it has none."""
    if text.isascii():
        return text
    try:
        text.encode()  # the fastest test for surrogates
    except UnicodeEncodeError:
        return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)
    return text
