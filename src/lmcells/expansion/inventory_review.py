"""What a reviewer should look at in a sense inventory: entries that may say the same thing twice.

    for finding in review_inventory(load_inventory(Path("inventory.csv"))):
        print(f"{finding.short_form}: {finding.first!r} and {finding.second!r}, {finding.rule}")

The rules know no medicine. Two senses that one of them connects may still be different ("hypertension" and
"hypotension" are two letters apart); that is for a person to say.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, product

from lmcells.expansion.inventory import Sense, SenseInventory
from lmcells.notes.stop_words import STOP_WORDS

SHARED_FORM = "a form in common"
SAME_WORDS = "the same words"
GENERIC_WORD = "the same but for a generic word"
SPELLING = "two letters apart or less"
REPEATED_FORM = "one form twice"
SAME_SHORT_FORM = "short forms that differ only in case or dots"

MAX_EDITS = 2
# Words that are added to a name without changing what it names.
GENERIC = frozenset(
    """
    condition count disease disorder finding illness level measurement problem result syndrome test testing
    """.split()
)

_WORD = re.compile(r"[^\W_]+")
_MIN_STEM = 4  # shorter ones are words of their own: "testing" is "test", "sing" is not "s"


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """Two entries of a short form (or two short forms) that may be one, and the rule that connects them."""

    short_form: str
    first: str
    second: str
    rule: str


def review_inventory(inventory: SenseInventory) -> list[Finding]:
    """Return everything to look at, in the inventory's order."""
    return [
        *find_same_short_forms(inventory.short_forms),
        *(found for sense in inventory for found in find_repeated_forms(sense)),
        *(
            found
            for short_form in inventory.short_forms
            for found in find_near_duplicates(inventory.senses(short_form))
        ),
    ]


def find_same_short_forms(short_forms: Iterable[str]) -> Iterator[Finding]:
    """Yield short forms that a reader who ignores case and dots cannot tell apart."""
    first_of: dict[str, str] = {}
    for short_form in short_forms:
        first = first_of.setdefault(short_form.casefold().replace(".", ""), short_form)
        if first != short_form:
            yield Finding(short_form, first, short_form, SAME_SHORT_FORM)


def find_repeated_forms(sense: Sense) -> Iterator[Finding]:
    """Yield forms of one sense that are the same but for case and white space."""
    first_of: dict[str, str] = {}
    for form in sense.forms:
        first = first_of.setdefault(" ".join(form.casefold().split()), form)
        if first != form:
            yield Finding(sense.short_form, first, form, REPEATED_FORM)


def find_near_duplicates(senses: Iterable[Sense]) -> Iterator[Finding]:
    """Yield the pairs of senses of one short form that may mean the same, each with the first rule that says so."""
    for first, second in combinations(senses, 2):
        rule = connecting_rule(first, second)
        if rule:
            yield Finding(first.short_form, first.long_form, second.long_form, rule)


def connecting_rule(first: Sense, second: Sense) -> str | None:
    """Return the strictest rule by which any form of one sense is like any form of the other."""
    pairs = list(product(_all_forms(first), _all_forms(second)))
    if any(_normal(one) == _normal(other) for one, other in pairs):
        return SHARED_FORM
    stems = [(content_stems(one), content_stems(other)) for one, other in pairs]
    if any(one == other for one, other in stems):
        return SAME_WORDS
    if any(_specific(one) == _specific(other) for one, other in stems):
        return GENERIC_WORD
    if any(within_edits(_normal(one), _normal(other), MAX_EDITS) for one, other in pairs):
        return SPELLING
    return None


def content_stems(form: str) -> frozenset[str]:
    """Return the stems of the words that carry the meaning of a form; all its words, if none does."""
    words = _WORD.findall(form.casefold())
    content = [word for word in words if word not in STOP_WORDS and (len(word) > 1 or word.isdigit())]
    return frozenset(map(stem, content or words))


def stem(word: str) -> str:
    """Cut the ending of a plural, a participle or an adverb off a word; nothing that would leave a stump."""
    for ending, replacement in (("ies", "y"), ("ing", ""), ("ed", ""), ("ly", ""), ("es", ""), ("s", "")):
        if word.endswith(ending) and not word.endswith(("ss", "us", "is")):
            cut = word.removesuffix(ending) + replacement
            if len(cut) >= _MIN_STEM:
                return cut.removesuffix("e")
    return word.removesuffix("e") if len(word) > _MIN_STEM else word


def within_edits(first: str, second: str, limit: int) -> bool:
    """Whether so few letters inserted, removed or replaced turn one word into the other."""
    if abs(len(first) - len(second)) > limit:
        return False
    row = list(range(len(second) + 1))
    for at, letter in enumerate(first, start=1):
        above, row = row, [at]
        for column, other in enumerate(second, start=1):
            row.append(min(above[column] + 1, row[-1] + 1, above[column - 1] + (letter != other)))
        if min(row) > limit:
            return False
    return row[-1] <= limit


def _all_forms(sense: Sense) -> tuple[str, ...]:
    return tuple(dict.fromkeys((sense.long_form, *sense.forms)))


def _normal(form: str) -> str:
    return " ".join(_WORD.findall(form.casefold()))


def _specific(stems: frozenset[str]) -> frozenset[str]:
    """Leave the generic words out, unless nothing else is there."""
    return stems - _GENERIC_STEMS or stems


_GENERIC_STEMS = frozenset(map(stem, GENERIC))
