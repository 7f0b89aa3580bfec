"""De-identification marks, and the placeholder word that stands for each.

MIMIC-III writes `[**2151-7-16**]` and `[**Hospital 12**]`, MIMIC-IV `___`, CASI `_%#NAME#%_`.
"""

import re

NUMBER = "<digit>"
UNKNOWN = "<deid>"

# Lengths are bounded so that text full of openings that never close is still read in linear time.
MARK = re.compile(r"\[\*\*[^\[\]]{0,120}?\*\*\]|_%#[^#%]{0,60}#%_|_{3,}")

# The first that matches names the placeholder.
_KINDS = tuple(
    (word, re.compile("|".join(parts.split()), re.IGNORECASE))
    for word, parts in (
        ("<name>", r"name initial doctor attending dictator \bmd\b signature"),
        (
            "<place>",
            "hospital location street address city state country county zip ward unit university company apartment "
            "box precinct",
        ),
        (
            "<contact>",
            r"telephone phone fax pager e-?mail url number serial ssn account medical.record \bid\b",
        ),
        ("<age>", r"\bage\b"),
        (
            "<date>",
            r"\d{1,4}[-/]\d{1,2} date month year day holiday \bmm \bdd\b january february march april \bmay\b "
            r"june july august september october november december \b(?:19|20|21)\d\d\b",
        ),
    )
)


def placeholder(mark: str) -> str:
    """Return the word that stands for a de-identification mark."""
    return next((word for word, pattern in _KINDS if pattern.search(mark)), UNKNOWN)
