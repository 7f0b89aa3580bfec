"""What one pattern reads for certain: short forms with a value, joined forms, and words whose neighbours decide.

    q4-6h -> every 4-6 hours    x3 -> times three    x 7-10 days -> for 7-10 (days)    A&Ox3 -> alert and oriented ...
    G3P2012 -> gravida 3 para 2012    POD#3 -> postoperative day 3    D5W -> 5% dextrose in water    27yo -> year old

Joined forms: w/ fever, p/vax, p/1st, R>L, R-sided. Vital signs beside others (P88 R20), values out of range (5.7 (H)).
Words that mean something else elsewhere: this am, temp inc to 103, lap appendectomy, exp 8/4/06. Codes that nobody
spells out: pT3a, L5, CD20. `lmcells.expansion.grammar` finds them in a text.
"""

import re
from collections.abc import Callable

_NUMBER_WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()
_PERIODS = {"h": "hour", "d": "day", "w": "week", "mo": "month", "min": "minute", "y": "year", "s": "second"}
_PERIOD = r"(?:hours?|hrs?|days?|weeks?|wks?|months?|mos?|years?|yrs?|minutes?|mins?|seconds?|secs?)"
_RANGE = r"(?:\s?(?:[-–]|to)\s?\d{1,3})"


class Rule:
    """A pattern, and its reading: a template, or a function that returns None if the match is something else.

    Each match contains one of `needs`, separated by "|"; `group` is the part that is expanded.
    """

    def __init__(
        self,
        pattern: str,
        read: Callable[[re.Match[str]], str | None] | str,
        *,
        needs: str,
        group: int | str = 0,
        flags: int = 0,
    ) -> None:
        self.pattern = re.compile(pattern, flags)
        self.read = (lambda match: match.expand(read)) if isinstance(read, str) else read
        self.needs = needs.split("|")
        self.group = group


def _plural(count: str, noun: str) -> str:
    return f"{count} {noun}" if count == "1" else f"{count} {noun}s"


def _every(match: re.Match[str]) -> str:
    unit = match["unit"].lower()
    period = next(
        name for key, name in sorted(_PERIODS.items(), key=lambda pair: -len(pair[0])) if unit.startswith(key)
    )
    return f"every {_plural(_counted(match), period)}"


def _counted(match: re.Match[str]) -> str:
    """Return a number or a range: "4-6" of "4 to 6"."""
    return re.sub(r"\s?(?:[-–]|to)\s?", "-", match["n"])


def _in_words(count: int) -> str:
    return _NUMBER_WORDS[count] if count < len(_NUMBER_WORDS) else str(count)


def _numbers(match: re.Match[str]) -> str:
    return "numbers" if match[0].endswith("s") else "number"


def _times(match: re.Match[str]) -> str | None:
    first, *last = map(int, _counted(match).split("-"))
    dosed = _DOSED_BEFORE.search(match.string, max(0, match.start() - 8), match.start())
    if dosed or (last and last[0] <= first):
        return None  # days or years ("bid x 7", "1 ppd x 20"); a suture: 3-0
    return f"times {' to '.join(_in_words(each) for each in (first, *last))}"


def _gravida(match: re.Match[str]) -> str | None:
    if len(match["p"]) < 3 and int(match["p"]) > int(match["g"]):
        return None  # "G3, P16" of a tumor, "G1P8" of a rotavirus
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


def _flag(match: re.Match[str]) -> str | None:
    """ "5.7 (H)" and "131 L" are out of range; not sides ("110 (L), 120 (R)"), sizes ("4 (W)"), times ("120 H")."""
    text, number = match.string, float(match["n"])
    ends = (_FLAG_ENDS if match["open"] else _VALUE_ENDS).match(text, match.end())
    if ends is None or (not match["open"] and not 100 <= number < 1000):
        return None
    around = text[max(0, match.start() - _SIDES_REACH) : match.end() + _SIDES_REACH]
    if _SIZE.search(around):
        return None
    if match["flag"] == "H":
        return None if number % 12 == 0 and not match["open"] else "high"
    is_side = _OTHER_SIDE.search(around) or (match["open"] and number.is_integer() and number < 20)
    return None if is_side else "low"


def _vital_sign(match: re.Match[str]) -> str | None:
    """ "P80" beside "R 16" or "HR 80"; not "P18, P32", proteins."""
    name, before, follows = _VITAL_SIGNS[match[0].upper()]
    near = match.string[max(0, match.start() - _VITAL_SIGNS_REACH) : match.start()]
    return name if before.search(near) or follows.match(match.string, match.end()) else None


def _period_of(match: re.Match[str]) -> str | None:
    is_time = _follows_for(match) or _LATER_FOLLOWS.match(match.string, match.end())
    is_date = _DATE_BEFORE.search(match.string, max(0, match.start() - 20), match.start())
    if _PARTS_FOLLOW.match(match.string, match.end()) or (
        match["parts"] != "52" and (is_date or not is_time)
    ):
        return None  # a fraction or a date
    return _plural(match["n"], _PARTS[match["parts"]])


def _because_of(match: re.Match[str]) -> str | None:
    """ "AKI 2/2 sepsis"; not a date ("seen 2/2 with", "2/2 and"), nor a part ("in 2/2 nodes", "pupils 2/2")."""
    before = _WORD_BEFORE_BECAUSE.search(match.string, max(0, match.start() - 24), match.start())
    return "secondary to" if before is not None and before[1].lower() not in _NO_EFFECTS else None


def _increased(match: re.Match[str]) -> str | None:
    """ "temp inc to 103", "inc redness", "fever inc;": only of what increases; the model reads the others."""
    text = match.string
    if text[match.end()] not in ",;":
        return "increased" if _INCREASES_FOLLOW.match(text, match.end()) else None
    is_other = _NOT_INCREASED_BEFORE.search(text, max(0, match.start() - 16), match.start())
    return None if is_other else "increased"


def _expiration(match: re.Match[str]) -> str | None:
    """ "lot 12 exp 8/4/06", "exp date"; not "pt exp 8/10 pain"."""
    before = match.string[max(0, match.start() - 30) : match.start()]
    return "expiration" if match.string[match.end()].isalpha() or _LOT_BEFORE.search(before) else None


def _stopped(match: re.Match[str]) -> str | None:
    """ "d/c Foley" is "discontinue", "abx dc'd" is "discontinued"; not "d/c home" and "on abx dc'd to rehab"."""
    done = "d" if match["done"] else ""
    if _STOPPED_FOLLOWS.match(match.string, match.end()):
        return f"discontinue{done}"
    before = done and _STOPPED_BEFORE.search(match.string, max(0, match.start() - 36), match.start())
    return "discontinued" if before and not _PLACE_FOLLOWS.match(match.string, match.end()) else None


def _of_system(match: re.Match[str]) -> str | None:
    """ "GU: Foley" beside other systems, "ID: afebrile" after one; not "ID: 45 yo man" and "ID: bracelet on"."""
    name = match[0].upper()
    end = match.start() if name == "ID" else match.end() + _SYSTEMS_REACH
    others = {
        each.upper() for each in _SYSTEM.findall(match.string, max(0, match.start() - _SYSTEMS_REACH), end)
    }
    return _SYSTEMS[name] if others - {name} else None


def _glued(match: re.Match[str]) -> str | None:
    """ "10d" is "days", "5y" is "years"; unless a time is meant, not "2d", "78d" (a lens), nor "5w" (a ward, watts)."""
    if (match["unit"] == "w" or match["n"] in _OF_LENSES) and match["unit"] != "y" and not _is_time(match):
        return None
    return _PERIODS[match["unit"]] + ("" if match["n"] == "1" else "s")


def _follows_for(match: re.Match[str]) -> bool:
    """Whether "for", "past", "since" or the like is before it."""
    return _BEFORE_PERIOD.search(match.string, max(0, match.start() - 7), match.start()) is not None


def _is_time(match: re.Match[str]) -> bool:
    return _follows_for(match) or _AGO_FOLLOWS.match(match.string, match.end()) is not None


def _aged(match: re.Match[str]) -> str:
    """ "27yo" is "year old", "6 mo old" is "month", "6mo M" is "month old", and "6 mo" is "months"."""
    unit = {"y": "year", "m": "month", "w": "week", "d": "day"}[match["unit"].lower()]
    if match["old"] is not None:
        return unit
    if match["age"].lower().startswith("mo") and (_is_time(match) or not _is_of_person(match)):
        return unit if match["n"] == "1" else f"{unit}s"
    return f"{unit} old"


def _sex(match: re.Match[str]) -> str:
    return "male" if match["sex"] == "M" else "female"


def _is_of_person(match: re.Match[str]) -> bool:
    aged = _AGE_BEFORE.search(match.string, max(0, match.start() - 8), match.start())
    return aged is not None or _PERSON_FOLLOWS.match(match.string, match.end()) is not None


def _after_or_with(match: re.Match[str]) -> str:
    ordinals = {"1st": "first", "2nd": "second", "3rd": "third"}
    return f"{'with' if match['word'] == 'w' else 'after'} {ordinals.get(match['n'], match['n'])}"


_DOSED_BEFORE = re.compile(r"(?:[bt]id|qid|qd|daily|qhs|ppd)\s$", re.I)
_AGO_FOLLOWS = re.compile(r"\s(?:later|ago|post\w*|pp|preg\w*|IUP|prior|after|of|hx|history)\b|\sp/", re.I)
_LATER_FOLLOWS = re.compile(r"\s(?:later|ago|hx|history)\b", re.I)
_AGE_BEFORE = re.compile(r"\baged?\s$", re.I)
_PERSON_FOLLOWS = re.compile(
    r"[\s-]{0,2}(?:[MF]\b(?![./])|"
    r"(?:male|female|boy|girl|infant|child|baby|pt|patient|ex-|who|brought|presents)(?!\w))",
    re.I,
)
_BEFORE_PERIOD = re.compile(r"\b(?:for|x|past|last|in|since|every|[bt]ds?|[oq]ds)\s$", re.I)
_DATE_BEFORE = re.compile(r"\b(?:in|since|every|(?:scheduled|booked|planned|appointment|appt) for)\s$", re.I)
_PARTS_FOLLOW = re.compile(
    r"\)|\s(?:of|cases|patients|subjects|(?:positive |lymph )?(?:cores?|nodes?|LNs?|biops\w+)"
    r"|(?:are |is |was |were )?(?:positive|involved))\b"
)
_OF_LENSES = ("2", "3", "4", "6", "20", "78", "90")  # and of echoes and nerves
_WORD_BEFORE_BECAUSE = re.compile(r"([A-Za-z]{2,}[A-Za-z\d-]*)\)?\s$")
_NO_EFFECTS = frozenset(
    "and appointment appt are at began biceps bottle by cath clinic ct date dated day done dose dp echo egd femoral "
    "for from given grade has in is last margins mri murmur near next objects of on or page part patellar pulses "
    "pupils radial recall received return sets st unit units visit week bcx cultures cx cxr dtr dtrs labs reflexes "
    "scheduled score seen since started strength test than the through till to until vaccinated was were with mon "
    "monday tue tues tuesday wed wednesday thu thurs thursday fri friday sat saturday sun sunday".split()
)
_INCREASES = (
    r"(?:(?:t|bp|hr|rr|cr|o2|ggt|sed|sob|uop|wob|icp|lfts?)\b|(?:agitation|anxiety|attenuation|bili|body temp|bruising|"
    r"calcium|chol|confusion|cough|creat|crying|dyspnea|edema|eos|erythema|esr|fatigue|fever|fuss|heart|heat|irritab|"
    r"itching|intracranial|lactate|lethargy|liver|lymphocytes|numbness|oxygen|protein|pulse|rash|red|resp|secretions|"
    r"sensitivity|serum|sgot|sgpt|sleep|soreness|swelling|temp|tenderness|thirst|uptake|warm|wbc|weakness|wheezing)\w*)"
)
_INCREASES_FOLLOW = re.compile(rf"\.?\s(?:in\b|(?:to|from|by)\st?\d|\d|{_INCREASES})", re.I)
_NOT_INCREASED_BEFORE = re.compile(
    r"\b(?:pt|patient|is|was|remains|urin\w*|bladder|bowel|stool|fecal|stress|urge|abd\w*|midline|surgical|sternal|lap|"
    r"skin|inguinal|groin|left|right|[rl]t?|hip|knee|chest)\s$",
    re.I,
)
_LOT_BEFORE = re.compile(r"\b(?:lot|batch|NDC|vaccine|vial)\b|#|\b[A-Z][A-Z0-9]*\d{2}[A-Z0-9]*\b", re.I)
_STOPPABLE = (
    r"(?:abx|aline|(?:a|art|arterial|c|central|picc)[ -]lines?|antibiotics?|asa|aspirin|caths?|catheters?|"
    r"chest tubes?|coumadin|drips?|epidural|feeds|fluids|foley|gtts?|heparin|insulin|"
    r"isolation|ivfs?|ivs?|jp(?: drains?)?|lasix|levophed|lines?|lovenox|narcotics|ngt?|(?:ng|og)[ -]tubes?|"
    r"nsaids|ogt|packing|pca|piccs?|pivs?|plavix|propofol|restraints|sedation|sitter|staples|"
    r"steroids|sutures|swan|tele|telemetry|tpn|vanco?|wires|zosyn|"
    r"[a-z]{2,}(?:azole|barbital|cillin|dipine|floxacin|formin|gliptin|isone|micin|mycin|olol|olone|parin|"
    r"penem|pril|sartan|semide|statin|thiazide|tidine|triptyline|xaban|zepam|zolam))"
)
_STOPPED_FOLLOWS = re.compile(
    rf"\s+(?:(?:all|her|his|iv|oral|po|prn|the|[rl]|left|right)\s+){{0,2}}{_STOPPABLE}(?!\w"
    r"|\s(?:dos|educ|instruct|plan|regimen|taper|teach|(?:\w+\s)?\d)|:)",
    re.I,
)
_STOPPED_BEFORE = re.compile(
    rf"(?<!\w)(?<!\bon )(?<!with ){_STOPPABLE}\s(?:(?:been|is|now|then|to be|was|were)\s)?$", re.I
)
_PLACE_FOLLOWS = re.compile(r"\s(?:home|to)\b", re.I)
_GASES = {"HCO3": "bicarbonate", "CO2": "carbon dioxide", "O2": "oxygen"}
_SYSTEM = re.compile(r"\b(CVS?|ENDO|FEN|GI|GU|HEME|INTEG|NEURO|PULM|RENAL|RESP|SKIN)\s?:", re.I)
_SYSTEMS_REACH = 600  # characters on either side
_SYSTEMS = {
    "CV": "cardiovascular",
    "ENDO": "endocrinology",
    "GI": "gastrointestinal",
    "GU": "genitourinary",
    "HEME": "hematology",
    "ID": "infectious disease",
    "PULM": "pulmonary",
}
_PARTS = {"7": "day", "52": "week", "12": "month"}
_SIDES = {"R": "right", "L": "left"}
_SIDED = (
    "sided?|arm|leg|shoulder|knee|hip|hand|foot|thigh|ankle|wrist|elbow|eye|ear|breast|lung|deltoid|chest|facial|neck|"
    "flank|groin|calf|forearm|finger|thumb|toe|heel|buttock|upper|lower|lateral|medial"
)
_BEFORE_VALUE = "|".join(f"{letter}{sign}0" for letter in "pr" for sign in ("", " ", ":", ": ", "-", " - "))
_VALUE = r"[ :=-]{0,3}\d{2,3}"
_VITAL_SIGN = (
    rf"(?:(?:(?i:BP|HR|RR|SpO2|O2|pulse)|OTHER){_VALUE}(?![\dA-Za-z])"
    r"|(?i:T|temp)[ :=-]{0,2}(?:3[4-9]|4[0-3]|9\d|10\d))"
)
_VITAL_SIGNS_REACH = 36  # characters: "P 72 and regular, R 14"
_VITAL_SIGNS = {
    letter: (
        name,
        re.compile(rf"(?<!\w){_VITAL_SIGN}[^\n:]{{0,24}}$".replace("OTHER", other)),
        re.compile(rf"{_VALUE}[^\n\w:][^\n:]{{0,12}}(?<!\w){_VITAL_SIGN}".replace("OTHER", other)),
    )
    for letter, name, other in (("P", "pulse", "R"), ("R", "respiratory rate", "P"))
}
_VALUE_ENDS = re.compile(r"[,;]|\.\s|\.?[ \t]*(?:\n|$)")
_FLAG_ENDS = re.compile(_VALUE_ENDS.pattern + r"|[ ][A-Z%]")
_SIDES_REACH = 30  # characters on either side of "(L)"
_SIZE = re.compile(r"\([WD]\)")
_OTHER_SIDE = re.compile(
    r"(?<!\w)R(?![\w/])|\b(?i:right|left|IOP|ABI|ROM|calf|circ\w*|cup|grip|flexion|extension|kidney|peak flow|thigh)\b"
)
_DAY = r"(?:yesterday|today|tomorrow|(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?s?)"
_BY_LAPAROSCOPE = (
    "adjustable|append|appy|assisted|band\\b|banding|bypass|chole|colect|cystect|fundoplication|gastr|hernia|hyster|ligation|"
    "myomect|nephrect|nissen|oophorect|ovarian|prostatect|roux|salping|sigmoid|sleeve|splenect|tubal"
)
_NUMBER = rf"(?P<n>\d{{1,2}}{_RANGE}?)"
COUNTED = (
    # q6h, q.1h., q 4-6 hours, q2wk; 4hrly
    Rule(
        rf"(?<![\w.])q\.?\s?{_NUMBER}\s?(?P<unit>{_PERIOD}|[dhw])(?![a-z]|(?<=w)/)(?:\.(?!\w))?",
        _every,
        needs="q0|q.0|q 0|q. 0",
        flags=re.I,
    ),
    # q2 turns, q15 checks; q.8, q6
    Rule(
        r"(?<![\w.])q\.?\s?(?P<n>1|2|3|4|6|8|12|24|15|30)"
        r"(?=\s(?:accuchecks?|atc|checks?|ivp?|labs?|monitor\w*|neuro|oral|po|prn|suction\w*|turns?|vitals?|vs|x)\b)",
        lambda m: f"every {_plural(m['n'], 'minute' if m['n'] in ('15', '30') else 'hour')}",
        needs="q0|q.0|q 0|q. 0",
        flags=re.I,
    ),
    Rule(
        r"(?<![\w.])(?:q\.\s?|(?:(?<=\d )|(?<=mg )|(?<=po ))q\s?)(?P<n>4|6|8|12|24)(?=[,;])",
        r"every \g<n> hours",
        needs="q0|q.0|q 0|q. 0",
    ),
    Rule(rf"(?<![\w.]){_NUMBER}\s?-?(?P<unit>h)(?:r|ou?r)?ly\b", _every, needs="hrly|hourly|hly", flags=re.I),
    # x3/7, x 2/52
    Rule(
        r"[xX](?<!\w[xX])\s?(?P<n>\d{1,2})/(?P<parts>7|52|12)(?![/\d])",
        lambda m: f"for {_plural(m['n'], _PARTS[m['parts']])}",
        needs="x0|x 0",
        flags=re.I,
    ),
    # x3, x 7-10 days; not 4 x 3 cm, 3"x2", "x 6 .8 cm", 10^9, nor a block "x 1 D"
    Rule(
        rf"[xX](?<!\w[xX])\s?(?P<n>\d{{1,3}}(?:\.\d|\s1/2)?{_RANGE}?)(?=\s?(?:{_PERIOD}|doses?|nights?|(?-i:(?:[dh]|(?<=\d)w)(?!/)))\b)",
        lambda m: f"for {_counted(m)}",
        needs="x0|x 0",
        flags=re.I,
    ),
    Rule(
        r"[xX](?<!\w[xX])(?<!\d\s[xX])(?<!\d[\"”″][xX])(?<!\d[\"”″]\s[xX])"
        r"(?<![mM][mM]\s[xX])(?<!\dF\s[xX])(?<!Fr\s[xX])(?<!(?i:factor)\s[xX])"
        r"(?:(?<=x)|(?<=[A-Z]{2}\sX)|\s)\s?(?P<n>\d{1,2}(?:[-–]\d{1,2})?)"
        r"(?![\w%/^'’]|\s?\.\d|[-–]\d|\s?(?:x|[cmuµμ]m|em|mg|ml|by|inch|inches|feet|ft)\b)",
        _times,
        needs="x0|x 0",
    ),
    Rule(
        r"(?<!\w)(?:AA&?O|A\s?&\s?O|A/O|AO|A\+O)\s?[x×]\s?(?P<n>[1-4])\b(?!\.\d|\s?[cm]m)",
        lambda m: f"alert and oriented {_times(m)}",
        needs="ox0|ox 0|o x0|o x 0|o×0|o ×0",
        flags=re.I,
    ),
    Rule(
        # Not "rotavirus G3 G4 P1", its serotypes.
        r"\bG(?<!G\d\sG)(?P<g>\d{1,2})\s?,?\s?P\s?(?P<p>\d{1,4}(?:-\d){0,3})(?:\s?,?\s?A[bB]?(?P<a>\d))?"
        r"(?![\w[]|\sstrain)",
        _gravida,
        needs="g0",
    ),
    Rule(
        r"\bE(?P<e>[1-4])\s?V(?P<v>[1-5T])\s?M(?P<m>[1-6])\b",
        lambda m: f"eyes {m['e']} verbal {m['v'] if m['v'].isdigit() else 'intubated'} motor {m['m']}",
        needs="e0v|e0 v",
        flags=re.I,
    ),
    Rule(r"\bC(?P<c>\d{1,2})D(?P<d>\d{1,2})\b", r"cycle \g<c> day \g<d>", needs="c0d|c00d"),
    Rule(r"\bPOD\s?#?\s?(?P<n>\d{1,3})\b", r"postoperative day \g<n>", needs="pod"),
    Rule(
        # Not "underwent HD#2", a dialysis.
        r"(?<!s/p )(?<!had )(?<!ated )(?<!rted )(?<!went )\bHD(?:\s?#\s?)?(?P<n>\d{1,3})\b"
        r"(?!x|\+|\s(?:times|completed|run|session|tolerated|via|weekly))",
        r"hospital day \g<n>",
        needs="hd#|hd #|hd0",
    ),
    Rule(r"\bDOL\s?#?\s?(?P<n>\d{1,3})\b", r"day of life \g<n>", needs="dol"),
    Rule(
        r"\bD\s?(?P<n>5|10|20|50)\s?(?P<half>(?:1/2|½|0?\.45%?)\s?)?(?P<base>W|NS|LR|RL)\b",
        _dextrose,
        needs="d0w|d00w|d0n|d00n|d0l|d0 0/0|d0 n|d00 w|d0 w",
    ),
    # 27yo, 45 y/o M, 9 mo old, 4 1/2 mo old
    Rule(
        r"(?P<n>\d(?:(?<![\w./-]\d)|(?<=\s1/2))\d{0,2})\s?-?(?P<age>(?!mom\b)(?P<unit>[ymwd])[./]?o\.?)"
        r"(?=[MF]?(?!\w))(?P<old>(?=[\s-]+old\b))?",
        _aged,
        needs="0yo|0 yo|0-yo|0y/o|0 y/o|0y.o|0 y.o|0mo|0 mo|0-mo|0m/o|0 m/o|0wo|0do",
        group="age",
        flags=re.I,
    ),
    Rule(
        r"\d(?<![\w./-]\d)\d{0,2}\s?-?(?:y\.?o\.?|y/o|yr old|year old|year-old)\s?(?P<sex>[MF])(?!\w)",
        _sex,
        needs="yom|yof|yo m|yo f|y/o m|y/o f|y.o. m|y.o. f|old m |old f |old m,|old f,",
        group="sex",
    ),
    # 15M with pain, at the start of a sentence; 72F, SOBOE, of a line: neither a temperature nor a catheter
    Rule(
        r"(?:^|\n|[.:;]\s)(?:\d{1,2}\s?(?=M)|(?:2[5-9]|[3-8]\d|9[0-4])\s?)(?P<sex>[MF])"
        r"(?=,?\s(?:adm|admitted|BIBA|c/o|driver|from|h/o|here|hx|p/w|PMH|presents?|restrained|s/p|sent|w/|who|with)(?!\w)"
        r"(?!\s?(?:CGA|FWW|RW|SBA|cane|min|mod|walker)\b))",
        _sex,
        needs="0m,|0f,|0m |0f |0 m,|0 f,|0 m |0 f ",
        group="sex",
    ),
    Rule(
        r"(?:^|\n)(?:[2-8]\d|9[0-5])\s?(?P<sex>[MF])(?=,\s)",
        _sex,
        needs="0m,|0f,|0 m,|0 f,",
        group="sex",
    ),
    # 2u, 10d, 5y
    Rule(
        r"(?<![\w.-])\d{1,3}(?:,\d{3})?\s?(?P<u>u)(?![\w/'-]|\s(?:thick|filter|blood filter|in diam))",
        "units",
        needs="0u|0 u",
        group="u",
    ),
    Rule(r"(?<![\w./,-])(?P<n>\d{1,3})(?P<unit>[dwy])(?![\w/'-])", _glued, needs="0d|0w|0y", group="unit"),
    # w/ fever, w/fever, w/t102, /w fever, p/vax, p/1st
    Rule(
        r"(?<![\w/])w/(?=\s|[a-z]{2}|a\b|t\d)(?!in\b|out\b|wo\b|up\b|held\b|hold|ends?\b|ch\b|wp\b|cm|dr[ae]w|kg\b|stand)",
        "with",
        needs="w/",
        flags=re.I,
    ),
    Rule(
        r"(?<=[A-Za-z,;)]\s)w(?=\s(?!(?:and|dry|female|male|man|pink|to|well|woman)\b)[A-Za-z]{2})"
        r"|(?<=[a-z]\s)(?<!\dx\s)/w(?=\s)",
        "with",
        needs=" /w | w ",
    ),
    Rule(
        r"(?<![\w/&])(?:p/(?!\s?(?:day|night|wk|week|mo|month|yr|year|min|hr|hour|kg|lb|MD|op|os|RN|up)\b|\s?(?:order|protocol|rectum|vag))"
        r"(?=\s?[a-zA-Z]{2}|\s\d)|P/(?=[a-z]{3}))",
        "after",
        needs="p/",
    ),
    Rule(
        r"(?<![\w/&])(?P<word>[wp])/(?!\d{2,3}(?:\.|,?\s[rR]/|$))(?P<n>\d+(?:st|nd|rd|th)?)",
        _after_or_with,
        needs="w/0|p/0",
    ),
    # this am, the next a.m., q pm; "I am" is none
    Rule(
        rf"\b(?:each|early|every|following|in|in the|late|next|q\.?|since|that|the|this|until|(?i:{_DAY})\.?)\s"
        r"(?P<half>[ap]\.?m\b(?:\.(?=\s?[a-z,;]))?)(?![\w'’&-]|\s(?:\w+ing|not|un\w+|I)\b)",
        lambda m: "morning" if m["half"].startswith("a") else "evening",
        needs=" am| a.m| pm| p.m",
        group="half",
    ),
    # q. weekly, q am, q other day
    Rule(
        r"(?<![\w.])(?<!enzyme )(?<!co )(?-i:q\.?|Q(?!\.))"
        rf"(?=\s(?:daily|weekly|monthly|yearly|morning|evening|night|shift|bedtime|other|[ap]\.?m\b|{_DAY})(?!\w))",
        "every",
        needs="q |q. ",
        flags=re.I,
    ),
    # lap cholecystectomy; "sponge, lap and needle counts"
    Rule(rf"\blap\.?(?=\s(?:{_BY_LAPAROSCOPE}))", "laparoscopic", needs="lap ", flags=re.I),
    Rule(
        r"\blap(?=\s(?:sponges?|pads?|packs?|tapes?|counts?)\b|,?\s(?:and\s)?(?:needle|instrument)s?,?\s(?:and|counts?|was|were)\b)",
        "laparotomy",
        needs="lap |lap,",
        flags=re.I,
    ),
    # platelets 196K, lymph 20
    Rule(r"(?<![\w.#])\d{3}(?P<k>K)(?!\w|\s\d\.\d)", "thousand", needs="000k", group="k"),
    Rule(
        r"\blymphs?(?=[ :]\s?(?:\d{2}(?!\d|[\s-]?(?:cm|mm|nodes?|points?|systems)\b)|\d(?:[%,;]|$)))",
        "lymphocytes",
        needs="lymph 0|lymphs 0|lymph: 0",
        flags=re.I,
    ),
    # temp inc to 103, inc redness
    Rule(
        r"(?<!\w)(?<!labs )(?<!oods )(?<!ests )(?<!toms )(?<!sx )(?<!hx )inc(?=\.?\s\w|(?<=[a-zP] inc)[;,])",
        _increased,
        needs="inc |inc.|inc;|inc,",
    ),
    # rx w/Tylenol; lot 12 exp 8/4/06, exp date; serous otitis med; given 02
    Rule(
        r"(?<!llergic )(?<!dverse )(?<!asses )(?<!the )(?<!a )(?<!of )(?<!no )(?<!new )"
        r"\b[Rr]x(?=\s?(?:w/\s?|with\s)(?:[A-Z]{2,4}\b(?!\s(?:allergy|latex))|[A-Z][a-z]|abx|antibiotics|ice|steroids))",
        "treated",
        needs="rx w",
    ),
    Rule(
        r"(?<!and )(?<!pt )(?<!ain )\bexp\.?(?=\s?(?:dates?\b|:?\s?\d{1,2}/\d))",
        _expiration,
        needs="exp|exp.",
        flags=re.I,
    ),
    Rule(r"(?<=otitis )med\b", "media", needs="s med"),
    Rule(
        r"(?:(?<=given )|(?<=recvd )|(?<=on )|(?<=w/)|(?<=with )|(?<=& ))"
        r"02(?=\s?[,.;)&](?!\d)|\s(?:and|at|by|per|via)\b)"
        r"|(?<![\w/.:-])02(?=\s(?:desat\w*|level|nasal|sats?|per|via|mask|therapy|tank|\d+\s?L)\b)",
        "oxygen",
        needs="n 00|d 00|h 00|/00|& 00|00 s|00 p|00 v|00 m|00 t|00 d|00 l|00 n|00 0",
    ),
    # vomited 3x, 6-7x; not 2x3 cm, 10x lens
    Rule(
        r"(?<![\w./-])\d{1,2}(?:-\d{1,2})?(?P<x>[xX])(?![\w/]|\s?\d|\s(?:field|high|lens|magn|objective|power))",
        "times",
        needs="0x",
        group="x",
    ),
    # No.4, batch nos. 044A21A
    Rule(r"(?<![:?] )(?<![:?-])(?<!\w)(?:No\.(?=[ ]?\d)|no\.(?=\d))", "number", needs="no.0|no. 0"),
    Rule(
        r"(?:(?<=batch )|(?<=lot ))(?<!a lot )nos?\b(?=[.:]{0,2} ?#?[A-Za-z]{0,4}-?\d)",
        _numbers,
        needs="h no|t no",
        flags=re.I,
    ),
    # Labels of pathology reports: Ref. Physician; Sect. Site, Site PCs; 1: SP: Left kidney; H&E, as scanners read it
    Rule(
        r"\bRef\.?(?=\s(?:physician|phys|source|provider|MD)\b)",
        "referring",
        needs="ref p|ref. p|ref s|ref. s|ref m|ref. m",
        flags=re.I,
    ),
    Rule(r"\bSect\.?(?=\sSite\b)", "section", needs="sect s|sect. s"),
    Rule(r"(?<=Site )PCs\b|(?<=Designation )PCs\b", "pieces", needs="pcs"),
    Rule(r"(?<=\d: )SP(?=:)", "specimen", needs="sp:"),
    Rule(
        r"(?:(?<![^\n])|(?<=FS )|(?<=TPS ))HIE(?=\sx\s?[1-9lI](?:[lI]|\s\d)?\s*(?:\n|$|Block))",
        "hematoxylin and eosin",
        needs="hie x",
    ),
    # n,v,d: the letters beside each other; "n & v" is in the inventory
    Rule(r"(?<![\w/'’.-])n(?=,\s?(?:v|d)\b(?!\sintact)|\sor\sv\b)", "nausea", needs="n,v|n, v|n,d|n or v"),
    Rule(
        r"(?:(?<=\bn,)|(?<=\bn, )|(?<=\bn or ))v\b(?![/'’.]|\sintact)|(?<![\w/'’.-])v(?=,\s?d\b)",
        "vomiting",
        needs=",v|, v|r v|v,d|v, d",
    ),
    Rule(
        r"(?:(?<=\bv,)|(?<=\bv, )|(?<=\bv & )|(?<=\bv or )|(?<=\bn,))d\b(?!['’./])",
        "diarrhea",
        needs=",d|, d|& d|r d",
    ),
    # gr II murmur, st II; cell ct; in all quads
    Rule(
        # Not grains ("thyroid gr 2").
        r"(?<![\w.])(?<!\d )(?<!hyroid )(?<!ASA )(?<!spirin )(?<!odeine )[Gg]r\.?(?!1)(?=\s?(?:I{1,3}\b|IV\b|VI?/"
        r"|[1-6](?!\d|\.\d|/|,?\s?(?:g|mg|q|x|[Pp]\s?\d|[Pp]ara|ab\b|daily|bid|tid|qd|min|times))))"
        r"|(?<!\w)(?:GR|gr)(?=\sI{2,3}\b)",
        "grade",
        needs="gr 0|gr0|gr i|gr v|gr. ",
    ),
    Rule(r"(?<![\w.])st\.?(?=\s(?:I{1,3}|IV)\b)", "stage", needs="st i|st. i"),
    Rule(
        r"(?:(?<=cell )|(?<=[Pp]lt )|(?<=WBC )|(?<=sponge )|(?<=needle ))[Cc]t\b"
        r"(?=[ :-]{1,2}[<>~]?\d(?!/)|\s(?:correct|high|low|pending|sent)\b)",
        "count",
        needs=" ct",
    ),
    Rule(r"(?:(?<=in all )|(?<=\b[4x] )|(?<=four ))quads\b", "quadrants", needs="quads"),
    # R>L, L = R; R-sided and L-arm, which are one token
    Rule(
        rf"(?<![\w.'])[RL](?=\s?[<>=]\s?[RL]\b|(?<!\d\s[RL])(?<!/[RL])(?<!Dr\.\s[RL])[.-]\s?(?i:{_SIDED})\b)|(?<=[RL][<>=])[RL]\b",
        lambda m: _SIDES[m[0]],
        needs="r>l|l>r|r >|l >|r-|l-|r.|l.",
    ),
    # T98.6, t102, BP120/80, HR72, RR16, CN7
    Rule(r"(?<!\w)[Tt](?=(?P<n>\d{2,3}(?:\.\d)?)(?![\dAX]|\.\d))", _fever_or_not, needs="t0"),
    Rule(r"(?<!\w)BP(?=\d{2,3}/\d{2,3}\b)", "blood pressure", needs="bp0"),
    Rule(
        r"(?<!\w)HR(?=\d{2,3}\b)"
        r"|(?<![\w/-])(?<!\d\s)(?<!(?i:per)\s)(?<!(?i:one|two)\s)(?<!(?i:three)\s)"
        r"(?<!HPV\s)HR(?=:? (?:[3-9]\d|[12]\d\d)(?![\w/.-]|\s?(?:hrs|ml|cc|mg|ML|\(95)))",
        "heart rate",
        needs="hr0|hr 0|hr: 0",
    ),
    Rule(r"(?<!\w)RR(?=\d{2}\b)", "respiratory rate", needs="rr0"),
    Rule(r"(?<!\w)CN(?=(?:[2-9]|1[0-2])\b)", "cranial nerve", needs="cn0"),
    # 5.7 (H), 131 L: values out of range
    Rule(
        r"(?<![\w#./-])(?P<n>[1-9]\d{0,3}(?:\.\d+)?|0\.\d+)\s?(?P<open>\()?(?P<flag>[HL])(?(open)\)|(?!\w))",
        _flag,
        needs="0h|0 h|0(h|0 (h|0l|0 l|0(l|0 (l",
        group="flag",
    ),
    # 1.30 ng/mL HI, 65.9 % *LO*
    Rule(
        r"\d\s?(?:[\w^*]*/(?:[dmnu]?L|hr)\s(?:FEU\s)?[*(]?|%\s[*(])(?P<flag>HI|LO)(?![\w/-])",
        lambda m: {"HI": "high", "LO": "low"}[m["flag"]],
        needs="l hi|l lo|r hi|r lo|u hi|u lo|l *hi|l *lo|% *hi|% *lo|% (hi|% (lo",
        group="flag",
    ),
    # P80 and R 16 beside another vital sign; not the proteins p63 and p40, nor "T104 R 12 hrs", a rectal one
    Rule(
        rf"(?<![\w-])[PRpr](?={_VALUE}(?![\d/A-Z]|\s?(?:mg|mcg|meq|[gG]|gauge|ml|mL|units?|cm|mm|%|min|hr?s?|hours?|days?|weeks?|deg\w*|ft|feet|L)(?!\w)))",
        _vital_sign,
        needs=_BEFORE_VALUE,
    ),
    # AKI 2/2 sepsis
    Rule(
        r"(?<=\s)2/2(?=\s(?!(?:and|at|bilat\w*|blood|bottles?|but|by|cm|cultures?|he|i|in|is|it|left|lymph|nodes?|on|or|positive|"
        r"abx|completed?|for|given|negative|ngtd|pending|show\w*|"
        r"through\w*|to|today|pt|pts|right|samples?|sets?|she|specimens?|symmetric\w*|then|they|though|tubes?|was|were|when|which|with|"
        r"drs?|mrs?|ms|clinic|(?!\w*path)[a-z]+(?:ology|iatrics|iatry))\b)[a-z(])",
        _because_of,
        needs=" 0/0 ",
        flags=re.I,
    ),
    # d/c Foley, abx dc'd; ID: afebrile, near other systems; cc: Dr. Jones
    Rule(
        # Not "prior to d/c Foley removed".
        r"(?<![\w/.])(?<!at )(?<!on )(?<!of )(?<!by )(?<!or to )(?<!ter )(?<!ore )(?<!ost )(?<!nce )(?<!til )(?<!for )"
        r"d/?c(?P<done>['’]?e?d)?(?![\w/'’])",
        _stopped,
        needs="d/c|dc |dc.|dc,|dc'|dced|dcd",
        flags=re.I,
    ),
    Rule(
        rf"(?:(?<=[,.;]\s)|(?<=\n))(?:{'|'.join(_SYSTEMS)})(?=:(?!\s*[<>~#]?\d|\s(?:b[ar]|wrist)))",
        _of_system,
        needs="|".join(f"{name.lower()}:" for name in _SYSTEMS),
        flags=re.I,
    ),
    Rule(
        r"(?:^|\n)[ \t]*(?P<cc>cc|CC)"
        r"(?=:\s*(?:Drs?\.?\s(?:[A-Z][\w.'-]*\s?){1,3}(?:[,;&\n]|$)|file\b|[A-Z][a-z]+,?\s(?:[A-Z]\.?\s)?[A-Z][a-z]+,\sM\.?D))",
        "carbon copy",
        needs="cc:",
        group="cc",
    ),
    # CTs to suction, CT put out 300 cc
    Rule(
        r"(?<![\w/-])CT(?P<s>['’]?s)?(?=\s(?:x\s?\d\s)?(?i:clamped|dumped|put out|output \d"
        r"|(?:on|to)\s?(?:low |wall )?(?:-20|H2O seal|LCS|LWS|WS|sxn|suction|water[ -]?seal)(?![\w-])))",
        lambda m: "chest tubes" if m["s"] else "chest tube",
        needs="ct c|ct d|ct o|ct p|ct t|ct x|cts|ct's",
    ),
    # TF 120 cc/kg/day
    Rule(
        r"(?<!\w)TF(?=\s?(?:[:=@]|at|of|to)?\s?\d{2,3}\s?(?:cc|ml)s?/kg?/d)",
        "total fluids",
        needs="tf 0|tf:|tf=|tf@|tf at|tf of|tf to|tf0|tf @|tf =",
        flags=re.I,
    ),
    # Laboratory lists: HCO3-30, pCO2-42; Tm 99.4, Tc 98.2; with s/s drainage
    Rule(
        r"(?<![\w-])(?P<p>p?)(?P<gas>HCO3|CO2|(?<=p)O2)(?=-\d{2,3}(?!\d))",
        lambda m: ("partial pressure of " if m["p"] else "") + _GASES[m["gas"].upper()],
        needs="co0-0|po0-0",
        flags=re.I,
    ),
    Rule(
        r"(?<!\w)T(?P<which>[mc])(?=\s?[:=]?\s?(?:3[4-9]|4[0-3]|9\d|10\d)\.\d(?![\dA-Za-z/-]))",
        lambda m: "maximum temperature" if m["which"] == "m" else "current temperature",
        needs="tm0|tm 0|tm: 0|tm:0|tm=0|tc0|tc 0|tc: 0|tc:0|tc=0",
    ),
    Rule(
        r"(?:(?<=amt )|(?<=amts )|(?<=with )|(?<=w/ )|(?<=small )|(?<=mod )|(?<=scant ))"
        r"s/s(?=\s(?:drain|drng|ooz|output))",
        "serosanguineous",
        needs="s/s d|s/s o",
    ),
    # 39w2d, 28 w 5 d
    Rule(
        r"(?<![\w./-])(?P<w>\d{1,2})\s?w(?:k|ks)?\s?(?P<d>[0-6])\s?(?-i:d)(?![\w/'-])",
        lambda m: f"{_plural(m['w'], 'week')} {_plural(m['d'], 'day')}",
        needs="0w0d|0w 0d|0 w 0d|0 w 0 d|0wk0d|0wk 0d|0 wk 0",
        flags=re.I,
    ),
    # 2/52, for 3/7 and 6/12 as British notes count weeks, days and months; not "BP 90/52"
    Rule(
        r"(?<![\w./])(?<!BP )(?<!BP: )(?P<n>[1-9](?:-\d{1,2})?|[12]\d(?:-\d\d)?)/(?P<parts>7|52|12)"
        r"(?![/\d]|\.\d|\s?mm)",
        _period_of,
        needs="0/0",
        flags=re.I,
    ),
)
_REGIONS = {"C": "cervical", "T": "thoracic", "L": "lumbar", "S": "sacral"}
_STAGED = {"T": "primary tumor", "N": "regional lymph nodes", "M": "distant metastasis"}
_BY = {"p": "pathologic ", "c": "clinical ", "y": "post-therapy ", "": ""}
CODES = (
    Rule(
        r"\b(?P<by>y?[pc]?)(?P<part>[TNM])(?P<n>[0-4][a-d]?|is|X|x)(?![\w-])",
        lambda m: f"{_BY[m['by'][-1:]]}{_STAGED[m['part']]} {m['n']}",
        needs="|".join(f"{part}{n}" for part in "tnm" for n in ("0", "is", "x")),
    ),
    Rule(
        r"\b(?P<region>[CTLS])(?P<n>\d{1,2})(?![\w.])",
        lambda m: f"{_REGIONS[m['region']]} {m['n']}",
        needs="c0|t0|l0|s0",
    ),
    Rule(r"\bCD(?P<n>\d{1,3}[a-z]?)\b", r"cluster of differentiation \g<n>", needs="cd"),
)
