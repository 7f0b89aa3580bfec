"""Counted forms: short forms with a value, expanded by a small grammar instead of an inventory.

    q6h -> every 6 hours    x3 -> times three    x10 days -> for 10 (days)    A&Ox3 -> alert and oriented times three
    G3P2012 -> gravida 3 para 2012    POD#3 -> postoperative day 3    D5W -> 5% dextrose in water    27yo -> year old

Joined forms, too: w/ fever, p/vax, R shoulder. Codes that nobody reads out (pT3a, L5, CD20) are expanded on request.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

# A rule is tried only where the text, reduced to these characters (one digit, one space, no case), has what it needs.
_CHARACTERS = "\0abcdefghijklmnopqrstuvwxyz0 ./#(&+,-)×"
_PLAIN = bytes(
    max(0, _CHARACTERS.find("0" if each.isdigit() else " " if each.isspace() else each.lower()))
    for each in map(chr, range(256))
)
_N = len(_CHARACTERS)  # 39, so that the number of any three is below 2**16
_LOOK_BACK, _LOOK_AHEAD = 16, 32  # characters of a match on either side of where its need begins
_LATEST = 2  # characters from there to the latest start of a match
_NUMBER_WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()
_PERIODS = {"h": "hour", "d": "day", "w": "week", "mo": "month", "min": "minute", "y": "year"}
_DURATION = r"(?:days?|d|wks?|weeks?|w|mos?|months?|yrs?|years?|hrs?|hours?|h|mins?|minutes?|doses?|nights?)"
_PERIOD = r"(?:hours?|hrs?|h|days?|d|weeks?|wks?|wk|w|months?|mos?|minutes?|mins?|min)"


@dataclass(frozen=True, slots=True)
class Counted:
    """A form at `text[start:end]`, and its expansion."""

    start: int
    end: int
    long_form: str


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    read: Callable[[re.Match[str]], str | None]  # None if it is something else
    group: int | str  # the part of the match that is expanded
    needs: tuple[bytes, ...]  # the plain text around a match contains one of these

    def near(self, text: str, needed: list[int]) -> Iterator[Counted]:
        """Yield what the rule reads near these positions of its needs, in order."""
        done = 0
        for start in needed:
            for match in self.pattern.finditer(text, max(done, start - _LOOK_BACK), start + _LOOK_AHEAD):
                if match.start() > start + _LATEST:
                    break
                done = match.end()
                long_form = self.read(match)
                if long_form is not None:
                    yield Counted(match.start(self.group), match.end(self.group), long_form)


class _Rules:
    """Rules, with a table of the three characters that their needs begin with."""

    def __init__(self, *rules: _Rule) -> None:
        self._needs: dict[int, list[tuple[int, bytes]]] = {}  # by the number of these three
        for at, rule in enumerate(rules):
            for need in rule.needs:
                for third in need[2:3] or range(_N):
                    number = int(_triples(bytes([*need[:2], third]))[0])
                    self._needs.setdefault(number, []).append((at, need))
        self._rules = rules
        self._begins_need = np.zeros(_N**3, np.bool_)
        self._begins_need[list(self._needs)] = True

    def __call__(self, text: str) -> Iterator[Counted]:
        """Yield what the rules read in a text, rule by rule."""
        plain = _plain(text) + b"\0"
        triples = _triples(plain)
        found: dict[int, list[int]] = {}
        for start in self._begins_need.take(triples).nonzero()[0].tolist():
            for rule, need in self._needs[int(triples[start])]:
                if plain.startswith(need, start):
                    found.setdefault(rule, []).append(start)
        for rule in sorted(found):
            yield from self._rules[rule].near(text, found[rule])


def _plain(text: str) -> bytes:
    return text.encode("latin-1", "replace").translate(_PLAIN)


def _triples(plain: bytes) -> npt.NDArray[np.uint16]:
    """Return each three neighbouring characters, as a number."""
    characters = np.frombuffer(plain, np.uint8).astype(np.uint16)
    triples: npt.NDArray[np.uint16] = (characters[:-2] * _N + characters[1:-1]) * _N + characters[2:]
    return triples


def find_counted(text: str) -> list[Counted]:
    """Return the counted forms of a text, in order, without overlaps."""
    return _without_overlaps(_RULES(text))


def find_codes(text: str) -> list[Counted]:
    """Return the codes of a text: stages, vertebrae, cell-surface markers."""
    return _without_overlaps(_CODES(text))


def _without_overlaps(found: Iterator[Counted]) -> list[Counted]:
    """Sort forms; of those that overlap, keep the longest."""
    kept: list[Counted] = []
    for each in sorted(found, key=lambda each: (each.start, -each.end)):
        if not kept or each.start >= kept[-1].end:
            kept.append(each)
    return kept


def _rule(
    pattern: str,
    read: Callable[[re.Match[str]], str | None] | str,
    *,
    needs: Iterable[str],
    group: int | str = 0,
    flags: int = re.I,
) -> _Rule:
    looked_for = tuple(_plain(need) for need in needs)
    how = (lambda match: match.expand(read)) if isinstance(read, str) else read
    return _Rule(re.compile(pattern, flags), how, group, looked_for)


def _plural(count: str, noun: str) -> str:
    return f"{count} {noun}" if count == "1" else f"{count} {noun}s"


def _every(match: re.Match[str]) -> str:
    unit = match["unit"].lower()
    period = next(
        name for key, name in sorted(_PERIODS.items(), key=lambda pair: -len(pair[0])) if unit.startswith(key)
    )
    count = re.sub(r"\s", "", match["n"])
    return f"every {_plural(count, period)}"


def _in_words(count: str) -> str:
    return _NUMBER_WORDS[int(count)] if int(count) < len(_NUMBER_WORDS) else count


def _times(match: re.Match[str]) -> str:
    return f"times {_in_words(match['n'])}"


def _gravida(match: re.Match[str]) -> str:
    read = f"gravida {match['g']} para {match['p']}"
    return read + (f" abortus {match['a']}" if match["a"] else "")


def _dextrose(match: re.Match[str]) -> str:
    in_what = {"w": "water", "ns": "normal saline", "lr": "lactated Ringer's", "rl": "Ringer's lactate"}
    base = match["base"].lower().replace(" ", "")
    half = "half " if match["half"] else ""
    return f"{match['n']}% dextrose in {half}{in_what[base]}"


def _fever_or_not(match: re.Match[str]) -> str | None:
    degrees = float(match["n"])
    return "temperature" if 34 <= degrees <= 43 or 93 <= degrees <= 109 else None


def _period_of(match: re.Match[str]) -> str | None:
    if not _BEFORE_PERIOD.search(match.string, max(0, match.start() - 7), match.start()):
        return None  # a fraction or a date
    return _plural(match["n"], {"7": "day", "52": "week", "12": "month"}[match["parts"]])


def _aged(match: re.Match[str]) -> str:
    unit = {"y": "year", "m": "month", "w": "week", "d": "day"}[match["unit"].lower()]
    return unit if match["old"] else f"{unit} old"


_BEFORE_PERIOD = re.compile(r"\b(?:for|x|past|last|in|since|every)\s$", re.I)
_SIDES = {"R": "right", "L": "left", "r": "right", "l": "left"}
_SIDED = (
    "arms?|legs?|shoulders?|knees?|hips?|thighs?|ankles?|foot|feet|hands?|wrists?|elbows?|eyes?|ears?|breasts?|lungs?|kidneys?|"
    "side|sided|deltoid|delt|buttocks?|calf|forearms?|fingers?|toes?|neck|flank|groin|lower|upper|lateral|medial|anterior|posterior|"
    "leg|axilla|axillary|chest|hemithorax|temporal|frontal|parietal|occipital|carotid|femoral|renal|inguinal|ovary|testicle|"
    "hemisphere|lobe|thumb|heel|index|middle|ventricle|atrium|atrial|ventricular|lobectomy|mastectomy|nephrectomy|tube|face|facial|"
    "cheek|jaw|jugular|subclavian|clavicle|scapula|rib|ribs|vocal|tonsil|parotid|thyroid|adrenal|ureter|ureteral|hand|arm"
)
_NUMBER = r"(?P<n>\d{1,2}(?:\s?-\s?\d{1,2})?)"
_AFTER = (
    "vax|vacc|inj|shot|immun|dose|recv|the\\b|being\\b|last\\b|that\\b|each\\b|onset|event|flu\\b|mmr|dtp"
)
_RULES = _Rules(
    # q6h, q.1h., q 4-6 hours, q2wk; 4hrly
    _rule(
        rf"(?<![\w.])q\.?\s?{_NUMBER}\s?(?P<unit>{_PERIOD})(?![a-z])(?:\.(?!\w))?",
        _every,
        needs=["q0", "q.0", "q 0", "q. 0"],
    ),
    _rule(rf"(?<![\w.]){_NUMBER}\s?-?(?P<unit>h)(?:r|ou?r)?ly\b", _every, needs=["hrly", "hourly", "hly"]),
    # x3, x 10 days; not 4 x 3 cm, nor x3.5
    _rule(rf"[xX](?<!\w[xX])\s?(?P<n>\d{{1,3}})(?=\s?{_DURATION}\b)", r"for \g<n>", needs=["x0", "x 0"]),
    _rule(
        r"[xX](?<!\w[xX])(?<!\d [xX])(?:(?<=x)|\s)\s?(?P<n>\d{1,3})(?![\w%/]|\.\d|\s?(?:x|cm|mm|mg|ml|by)\b)",
        _times,
        needs=["x0", "x 0"],
        flags=0,
    ),
    _rule(
        r"(?<!\w)(?:AA&?O|A\s?&\s?O|A/O|AO|A\+O)\s?[x×]\s?(?P<n>[1-4])\b",
        lambda m: f"alert and oriented {_times(m)}",
        needs=["ox0", "ox 0", "o x0", "o x 0", "o×0", "o ×0"],
    ),
    _rule(
        r"\bG(?P<g>\d{1,2})\s?,?\s?P(?P<p>\d{1,4}(?:-\d){0,3})(?:\s?,?\s?A[bB]?(?P<a>\d))?(?!\w)",
        _gravida,
        needs=["g0"],
        flags=0,
    ),
    _rule(r"\bPOD\s?#?\s?(?P<n>\d{1,3})\b", r"postoperative day \g<n>", needs=["pod"], flags=0),
    _rule(r"\bHD\s?#\s?(?P<n>\d{1,3})\b", r"hospital day \g<n>", needs=["hd#", "hd #"], flags=0),
    _rule(r"\bDOL\s?#?\s?(?P<n>\d{1,3})\b", r"day of life \g<n>", needs=["dol"], flags=0),
    _rule(
        r"\bD\s?(?P<n>5|10|20|50)\s?(?P<half>(?:1/2|½|0?\.45%?)\s?)?(?P<base>W|NS|LR|RL)\b",
        _dextrose,
        needs=["d0w", "d00w", "d0n", "d00n", "d0l", "d0 0/0", "d0 n", "d00 w", "d0 w"],
        flags=0,
    ),
    # 27yo, 45 y/o M, 9 mo old
    _rule(
        r"\d(?<![\w./-]\d)\d{0,2}\s?-?(?P<age>(?P<unit>[ymwd])[./]?o\.?)"
        r"(?=[MF]?(?!\w))(?P<old>(?=[\s-]+old\b))?",
        _aged,
        needs=[
            "0yo",
            "0 yo",
            "0-yo",
            "0y/o",
            "0 y/o",
            "0y.o",
            "0 y.o",
            "0mo",
            "0 mo ",
            "0m/o",
            "0 m/o",
            "0wo",
            "0do",
        ],
        group="age",
    ),
    _rule(
        r"\d(?<![\w./-]\d)\d{0,2}\s?-?(?:y\.?o\.?|y/o|yr old|year old|year-old)\s?(?P<sex>[MF])(?!\w)",
        lambda m: {"M": "male", "F": "female"}[m["sex"]],
        needs=[
            "yom",
            "yof",
            "yo m",
            "yo f",
            "y/o m",
            "y/o f",
            "y.o. m",
            "y.o. f",
            "old m ",
            "old f ",
            "old m,",
            "old f,",
        ],
        group="sex",
        flags=0,
    ),
    # w/ fever, w/fever, p/vax; R shoulder, (L) arm
    _rule(r"(?<![\w/])w/(?=\s|[a-z]{3})(?!in\b|out\b)", "with", needs=["w/"]),
    _rule(rf"(?<![\w/])p/(?=\s?(?:{_AFTER}))", "after", needs=["p/"]),
    _rule(
        rf"(?P<side>[RL])(?<![\w.'][RL])(?=[ .-]\s?(?i:{_SIDED})\b)",
        lambda m: _SIDES[m["side"]],
        needs=[f"{before}{side}{after}" for before in ' ("/-,' for side in "rl" for after in " .-"],
        flags=0,
    ),
    _rule(r"\((?P<side>[RL])\)", lambda m: _SIDES[m["side"]], needs=["(r)", "(l)"], group="side", flags=0),
    # T98.6, BP120/80, HR72, RR16
    _rule(
        r"(?<!\w)(?P<t>T)(?=(?P<n>\d{2,3}(?:\.\d)?)(?!\d))",
        _fever_or_not,
        needs=["t0"],
        group="t",
        flags=0,
    ),
    _rule(r"(?<!\w)(?P<s>BP)(?=\d{2,3}/\d{2,3}\b)", "blood pressure", needs=["bp0"], group="s", flags=0),
    _rule(r"(?<!\w)(?P<s>HR)(?=\d{2,3}\b)", "heart rate", needs=["hr0"], group="s", flags=0),
    _rule(r"(?<!\w)(?P<s>RR)(?=\d{1,2}\b)", "respiratory rate", needs=["rr0"], group="s", flags=0),
    # for 3/7, 2/52, 6/12 as British notes count days, weeks and months
    _rule(
        r"(?<![\w./])(?P<n>\d{1,2}(?:-\d{1,2})?)/(?P<parts>7|52|12)(?![/\d])",
        _period_of,
        needs=[f"{end} {number}/" for end in "rxtney" for number in ("0", "00", "0-0")],
    ),
)
_REGIONS = {"C": "cervical", "T": "thoracic", "L": "lumbar", "S": "sacral"}
_STAGED = {"T": "primary tumor", "N": "regional lymph nodes", "M": "distant metastasis"}
_BY = {"p": "pathologic ", "c": "clinical ", "y": "post-therapy ", "": ""}
_CODES = _Rules(
    _rule(
        r"\b(?P<by>y?[pc]?)(?P<part>[TNM])(?P<n>[0-4][a-d]?|is|X|x)(?![\w-])",
        lambda m: f"{_BY[m['by'][-1:]]}{_STAGED[m['part']]} {m['n']}",
        needs=[f"{part}{n}" for part in "tnm" for n in ("0", "is", "x")],
        flags=0,
    ),
    _rule(
        r"\b(?P<region>[CTLS])(?P<n>\d{1,2})(?![\w.])",
        lambda m: f"{_REGIONS[m['region']]} {m['n']}",
        needs=["c0", "t0", "l0", "s0"],
        flags=0,
    ),
    _rule(r"\bCD(?P<n>\d{1,3}[a-z]?)\b", r"cluster of differentiation \g<n>", needs=["cd"], flags=0),
)
