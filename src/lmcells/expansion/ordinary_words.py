"""English words, all in lower case: those that look like short forms if case is ignored, and those of edited prose.

English words have a vowel, so the lists of the first kind ("or", "pet", "cap", "may") contain words of two to six
letters with one, and titles, ordinals and units without. Lower-case shorthand of notes ("pt", "bid", "htn", "sob") is
left out.
"""

import re
from functools import cache
from importlib import resources

from lmcells.notes.tokens import STOP_WORDS

TITLES = frozenset("dr mr mrs ms miss prof professor sr jr st".split())
UNITS = frozenset(
    "am cm dl ft gm gms hz kcal kg km lb lbs mcg meq mg min mins ml mm mmhg ms nd ng nm oz pg pm rd sec secs th "
    "ug".split()
)
MONTHS = frozenset("jan feb mar apr may jun jul aug sep sept oct nov dec".split())
STATES = frozenset(
    "AL AK AZ AR CA CO CT DC DE FL GA HI ID IL IN IA KS KY LA ME MD MA MI MN MS MO MT NE NV NH NJ NM NY NC ND OH OK OR "
    "PA RI SC SD TN TX UT VT VA WA WV WI WY".split()
)
AFTER_NUMBERS = UNITS | MONTHS | frozenset("hr hrs mo mos st wk wks yr yrs".split())
"""Units and ordinals, after a number: "HR 82" is a heart rate, "24 HR" is not."""
CANNOT_FOLLOW_THE = {"us", *(word for word in STOP_WORDS if len(word) < 4)} - {
    "all",
    "few",
    "off",
    "out",
    "own",
}
"""Function words that never follow an article: "THE OR" is the operating room."""
UNIT_NAMES = frozenset(
    "afternoon ante april august centimeter day decibel deciliter december evening february foot gram hour inch "
    "january july june kilogram liter march may microgram milliequivalent millimeter milligram milliliter millisecond "
    "minute month morning november october ounce picogram post pound second september unit week year".split()
)
"""First words of long forms that may follow a number; a short form with such a sense is found there too."""

_PLAIN_WORDS = frozenset(
    """
    ah eh go hi ho lo oh ok ow ox us ya ye
    ace ache act acts add ado age aged ages ago aid aide aided aids ail aim aims air alas ale ally aloe alot also alto
    amen amid ammo amp ample anal ant anti ants anus any ape apex aqua arc arch area areas arid arm arms army art arts
    ash aside ask asks ass atom atop aunt auto aver avid aware away axe axes axis axon babe baby back bad bag bags bail
    bait bake bald bale ball balm ban band bang bank bar bare bark barn bars base bash basic bask bass bat bath bats bay
    bead beak beam bean bear beat bed beds bee beef beer beet beg belt bend bent best bet beta bias bib big bike bile
    bill bin bind bins bird birth bit bite bits bled bleed blot blow blue blur boat body boil bold bolt bomb bond bone
    bony book boom boost boot bore born boss both bout bow bowel bowl box boy boys brace brain bran bred brief brim bud
    bug build built bulb bulk bull bump bun burn burst bus bush busy buy cab cage cake calf call calm came camp can cane
    cap cape caps car card care cars case cash cast cat cats cause cava cave cell cent chap chat chew chief child chin
    chip chips chop chow cite city clad claim clam clamp clan clap clasp class claw clay clean clear clip clips clot
    club clue coal coat code codes coil coin cold colt coma comb come cone cook cool cop cope copy cord core corn cost
    cot cough cow crab crack cram cramp crash cream crest crib crop cross cry cub cue cues cuff cup cups cure cut cuts
    dab dad dam damp dare dark dart dash data date dates day days dead deaf deal dear death debt deck deep deer den dent
    desk dial dice did die died dies diet dig dim dime din dine dip dire dirt disc dish disk dive do dog dogs dome done
    door dose dot dots dove drag drain draw dread dream drew drift drip drive drop drove drug drugs drum dry dual duct
    due dug dull dumb dump dusk dust duty dye each ear earn ears ease east easy eat eats echo edge edit egg eggs ego
    else end ends envy era even ever evil exam exit eye eyes face faces fact facts fade fail faint fair faith fake fall
    false fame fan far fare farm fast fat fate fats fear fears fed fee feed feel feet fell felt fern few fiber field
    fig fight file fill film fin final find fine fire firm first fish fist fit fits five fix flag flap flash flat fled
    flex flip flow flu fluid flux fly foam focus foe fog foil fold folk fond food fool foot force fork form fort forth
    foul found four fox frame free fresh frog from fuel full fun fund fur fuse gag gain gait gal game gap gaps gas gate
    gave gaze gear gel gels gem gene germ get gets giant gift gin girl give glad gland glass glow glue goal goat god
    goes gold gone good got gout gown grade graft grain gram grams grand grant grasp gray great green grew grey grid
    grin grip gross group grow guard guess guide gum gums gun gut guy gym hail hair half hall halt ham hand hands hang
    hard harm harp hat hate haul have hay head heads heal heap hear heart heat heel heir held help hem hen herd hero hid
    hide high hike hill hilt him hind hint hip hips hire hit hits hive hives hold hole home hood hoof hook hop hope horn
    hose host hot hour hours hover hub huge hum hung hunt hurt hut hymn ice icon idea ideal ill image imp inch ink inn
    ion ions iris iron isle itch item jab jail jam jar jaw jet job jobs jog join joint joke joy jug juice jump jury just
    keen keep keeps kept key keys kick kid kids kill kin kind king kiss kit kits knee kneel knew knife knit knot know
    known lab label labs lace lack lady lag laid lake lamb lame lamp land lane lap lapse lard large lash last late
    law lawn lay lazy lead leaf leak lean leap learn least leave led left leg legs lend lens less lest level liar lice
    lick lid lids lie lies life lift light like limb lime limp line link lion lip lips list lists lit live liver load
    loan lob lobe lobes lock log lone long look loop loose lord lose loss lost lot lots loud love low lower luck lump
    lung lungs lure lush lying mad made maid mail main make male mall malt man many map maps mar march mark marks mask
    mass mast mat match mate math max may maze meal mean means meat meet melt men mend menu mere mesh mess met metal
    mice mid mild mile milk mill mind mine mini mink mint minus miss mist mix mixed moan mob mode mold mole mom moon
    mood mop more moss most motor mount mouth move moved much mud mug mule must nail nails name nap nasal near neat neck
    need nerve nest net nets new news next nice night nil nine nod node nodes none noon norm nose notch note noted notes
    novo nude numb nun nurse nut nuts oak oar oat odd odds odor off oil oils okay old one ones onto ooze open oral organ
    ours out oval oven over owe own owner pace pack pact pad pads page paid pail pain pair pal pale palm pan pane pant
    pants par park part parts pass past paste pat patch path pats pause paw pay pea peak pear peas peat peel peer pen
    pens per perk pest pet pets phase pick pie pig pigs pile pill pin pine pink pins pint pipe pit pits pity place plain
    plan plane plate play plea plot plow plug plum plus poem point poke pole poll pond pool poor pop pore pork port
    pose post pot pour power pray prep press prey prim prime prior prize probe prone pros pub pull pulp pulse pump pun
    punch pup pupil pups pure purse pus push put puts quit quiz race rack raft rag rage raid rail rain raise rake ram
    ramp ran rang range rank rap rape rapid rare rash rat rate rates rats raw ray rays reach react read ready real reap
    rear red reed refer reign relax rely renal rent rest rib ribs rice rich rid ride rift rig right rim ring rings rip
    ripe rise risk rob robe rock rod rode rods role roll roof room root rope rose rot rough round route row rows rub
    rubs rude rug ruin rule run rung runs rush rust rut sac sack sacs sad safe safer sag said sail sake sale salt same
    sand sane sang sat save saw say says scab scale scalp scan scar score sea seal seam search seat see seed seek seem
    seen self sell send sense sent serum serve set sets seven sew sex shade shaft shall sham shape share sharp she shed
    sheet shelf shell shift shin ship shirt shock shoe shop shore short shot show shut shy sick side sigh sight sign
    signs silk sin since sing sink sip sir sit site sits six size skew ski skill skin skip skirt sky slab slam slap sled
    sleep slide slim sling slip slit slot slow slug smart smell smile smoke snack snail snap snip snow soak soap
    sock soda soft soil sold sole solid some son song sons soon sore sort soul sound soup sour south soy spa space span
    spark speak speed spell spend spent spin spine spit split spoke spoon sport spot spots spray spur stab stack staff
    stage stain stair stamp stand star start state stay steal steam steel stem step steps stick stiff still sting stir
    stock stone stood stool stop store storm story strap straw strip stuck study sty such suck sue suit sum sun sure
    surge swab swam swap swear sweat sweep swim swing tab table tag tail take taken talk tall tame tan tank tap tape
    taps tar task taste taught tax tea teach team tear tears teen tell temp ten tend tens tense tent term terms test
    tests text thank theme thick thigh thin thing think third three throw thumb thus tick tide tie tied ties tight tile
    till tilt time times tin tint tiny tip tips tire toe toes told toll tomb ton tone tongue tonic took tool top torn
    toss total touch tough tour toward town toxic toy trace track trade trail train trait tram trap traps tray treat
    tree trend trial trim trip true trunk trust truth try tub tube tubes tuck tug tumor tune turn twice twin twist two
    type ulcer ulna under union unit units upon upper urea urge urine use used user uses usual vague valid value valve
    van vary vase vast vat vein vent very vest vet via vial vice view viral visa visit vital voice void vomit vote
    vow wage waist wait wake walk wall wand want war ward warm warn wary wash watch water wave wax way ways weak
    wear weary web week weeks weep weigh well went were west wet what wheel where which white who whole why wide
    wife wig wild will win wind wine wing wink wipe wire wise wish wit with woke womb won wood wool word words wore
    work works world worm worn worry worse worst worth would wound wrap wrist write wrong yard yawn year years yeast
    yell yes yet yield you young your youth zero zinc zone zoo lymph mono non peg pre
    january jan february feb march mar april apr june jun july jul august aug sep sept october oct november nov december
    dec mon monday tue tues tuesday wed thu thurs thursday fri friday sat saturday sun sunday
    """.split()
)
NAMES = frozenset(
    "abe ada al alan amy ana ann anna art ava ben bob cal cam carl chad dan del don ed eli ella erin eva eve gia gina "
    "gus hal ian ira ivan jan jean jim joe jon jose juan kay ken kim kit lee len leo les lew liz lou luis mac mae mark "
    "max may meg mel mia mike nan nat ned pam pat paul ray rex rob rod ron rose roy sal sam stan sue ted tim tom van "
    "von wes doe de del der des di du el la le los san santa saint da cipro".split()
)
"""First names, particles of surnames and a brand, which count only when capitalised."""
# In notes, these are nearly always short forms.
_SHORTHAND = frozenset("echo echos imp lymphs monos sats temp temps".split())
ENGLISH = (
    _PLAIN_WORDS | STOP_WORDS | frozenset(f"{word}s" for word in _PLAIN_WORDS if len(word) > 2)
) - _SHORTHAND
WITH_ORDINARY_READING = ENGLISH - AFTER_NUMBERS
"""Words that in capitals may be the word itself."""
NOT_SHORTHAND = (
    ENGLISH
    | (UNITS - {"nd"})  # "nt/nd"
    | TITLES
    | frozenset("ad al ala de dos ed el em en et ex id la ma re".split())
    | frozenset("aspects dress prism respect vain".split())
)
"""Words that are short forms only in capitals, among them parts of phrases: "et al", "de novo"."""

VALUES = frozenset("bun k map mg t".split())
"""Laboratory values and vital signs that in small letters need a number: "k 4.2", not "vitamin k"; "bun 22"."""


# Parts of words: split by a scanner ("hemorr hagic", "IDENTIF,IED") or written with a hyphen ("cardio-vascular").
_BETWEEN_PIECES = (" ", "\n", ",", "-")
_PIECE = re.compile(r"[A-Za-z]+(?![\w/&'’])")
PIECE_BEFORE = re.compile(r"(?<![\w/&'’.-])([A-Za-z]{2,12})[ \n]$")
_LONGEST_PIECE = 14
_SHORTEST_JOINED = 5  # letters of a word whose piece is a single letter
_LONG_PIECES = (4, 5)  # letters of two known words that are written as one, at least: "gastro esophageal"
_SHORTEST_AFTER_HYPHEN = 4


@cache
def prose_words() -> frozenset[str]:
    """Return the words of edited prose in the training text, in lower case.

    They occur at least three times in its papers, textbooks and leaflets, or five times in its dictated notes; those of
    more than twelve letters, fifty times in all of it.
    """
    return frozenset(resources.files(__package__).joinpath("prose_words.txt").read_text("utf-8").split())


def is_known_word(word: str) -> bool:
    """Whether a word in lower case is English, as far as the lists know."""
    return word in prose_words() or word in ENGLISH


def is_part_of_word(text: str, start: int, end: int, *, of_any: bool = False) -> bool:
    """ "hemorr hagic", "Addit ional", "cardio-vascular", "gastro esophageal"; not "temp oral" and "post-op".

    `of_any` also joins it to words: "cervi cal".
    """
    written = text[start:end]
    words = prose_words()
    # Capitals continue in capitals. Checked first: it is cheap, and most candidates fail.
    in_capitals = written.isupper() and len(written) > 1
    between = text[end : end + 1]
    at = end + 2 if text[end + 1 : end + 2] == "\n" else end + 1
    if between in _BETWEEN_PIECES and _is_alike(text[at : at + 1], in_capitals):
        after = _PIECE.match(text, at)
        is_word = after is not None and (written + after[0]).lower() in words
        if after is not None and is_word and _is_alike(after[0], in_capitals):
            return of_any or _belong_together(written, after[0], has_hyphen=between == "-")
    if text[start - 1 : start] not in (" ", "\n") or not _is_alike(text[start - 2 : start - 1], in_capitals):
        return False
    before = text[max(0, start - _LONGEST_PIECE) : start - 1].replace("\n", " ").rpartition(" ")[2]
    return (before + written).lower() in words and len(before) > 1 and not is_known_word(before.lower())


def _is_alike(piece: str, in_capitals: bool) -> bool:
    return piece.isupper() if in_capitals else piece.islower()


def _belong_together(first: str, second: str, *, has_hyphen: bool) -> bool:
    """Whether two pieces that spell a word are pieces of it, and not words themselves."""
    if has_hyphen:
        return len(second) >= _SHORTEST_AFTER_HYPHEN
    if len(first) >= _LONG_PIECES[0] and len(second) >= _LONG_PIECES[1]:
        return True
    return (len(second) > 1 or len(first) + 1 >= _SHORTEST_JOINED) and not is_known_word(second.lower())
