"""English sentences with people, places and dates, each word with its label.

Names are made of syllables. Validation and test have other names than training.
"""

from bundled_corpus import deterministic_draw

Draw = deterministic_draw.Draw
Sentence = list[tuple[str, str]]

ONSETS = [
    "b",
    "br",
    "d",
    "dr",
    "f",
    "fr",
    "g",
    "gr",
    "h",
    "j",
    "k",
    "kl",
    "l",
    "m",
    "n",
    "p",
    "pr",
    "r",
    "s",
    "sk",
    "st",
    "t",
    "tr",
    "v",
    "w",
]
_VOWELS = ["a", "e", "i", "o", "u"]
_CODAS = ["", "l", "m", "n", "r", "s", "th", "lv", "rn", "nd"]
RIMES = [vowel + coda for vowel in _VOWELS for coda in _CODAS]
SYLLABLES = sorted(onset + rime for onset in ONSETS for rime in RIMES)
PERSON_ENDS = ("a", "en", "ik", "son", "er", "in", "o")
PLACE_ENDS = ("ford", "stad", "berg", "ville", "ton", "mouth", "dale")
_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_THINGS = [
    "bread",
    "boats",
    "wine",
    "clocks",
    "apples",
    "letters",
    "lamps",
    "horses",
    "maps",
    "paper",
    "salt",
    "wool",
]
TRADES = [
    "baker",
    "doctor",
    "teacher",
    "painter",
    "farmer",
    "judge",
    "sailor",
    "tailor",
    "writer",
    "miller",
]

_FRAMES = (
    "{P} was born in {L} on {D} .",
    "{P} was born on {D} .",
    "{P} moved from {L} to {L} in {D} .",
    "{P} and {P} met in {L} .",
    "{P} , a {trade} from {L} , sold {n} {things} .",
    "On {D} {P} opened a shop in {L} .",
    "In {L} the {trade} sold {n} {things} to {P} .",
    "The town of {L} has {n} streets .",
    "The {trade} {P} wrote to {P} on {D} .",
    "Since {D} , {P} has lived near {L} .",
    "The road to {L} is closed until {D} .",
    "My neighbour {P} buys {things} in {L} every day .",
    "It rained in {L} , and the {trade} went home .",
    "The {trade} bought {n} {things} and left .",
    "Dr. {S} of {L} died on {D} .",
    'Mrs. {S} said : " We leave {L} on {D} . "',
    "{L} lies between {L} and {L} .",
    "Nobody in {L} knew {P} .",
    "Has {P} seen {L} ?",
    "{n} {things} were sent from {L} to {L} .",
)


def _make_stem(draw: Draw, *, is_held_out: bool) -> str:
    """Returns two syllables; those of the held-out names never stand together in training."""
    first, second = draw.below(len(SYLLABLES)), draw.below(len(SYLLABLES))
    if ((first + second) % 4 == 0) != is_held_out:
        return _make_stem(draw, is_held_out=is_held_out)
    return SYLLABLES[first] + SYLLABLES[second]


def make_surname(draw: Draw, *, is_held_out: bool) -> str:
    """Returns the family name of a person."""
    stem = _make_stem(draw, is_held_out=is_held_out).capitalize()
    return stem + draw.one(PERSON_ENDS)


def make_person(draw: Draw, *, is_held_out: bool) -> list[str]:
    """Returns the words of a name; rarely a month is the first of them."""
    first = draw.one(("May", "June", "April", "August")) if draw.chance(0.05) else ""
    first = first or _make_stem(draw, is_held_out=is_held_out).capitalize()
    if draw.chance(0.3):
        return [first]
    return [first, make_surname(draw, is_held_out=is_held_out)]


def make_place(draw: Draw, *, is_held_out: bool) -> list[str]:
    """Returns the words of a place."""
    stem = _make_stem(draw, is_held_out=is_held_out).capitalize()
    name = stem + (draw.one(PLACE_ENDS) if draw.chance(0.6) else "")
    return [draw.one(("North", "Old", "Lake")), name] if draw.chance(0.2) else [name]


def make_date(draw: Draw) -> list[str]:
    """Returns the words of a date."""
    month, year = draw.one(_MONTHS), str(draw.between(1700, 2030))
    kind = draw.below(5)
    if kind == 0:
        return [draw.one(_DAYS)]
    if kind == 1:
        return [month, year]
    if kind == 2:
        return [month, str(draw.between(1, 28)), ",", year]
    return [year] if kind == 3 else [str(draw.between(1, 28)), month, year]


def _make_sentence(draw: Draw, *, is_held_out: bool) -> Sentence:
    sentence: Sentence = []
    for word in draw.one(_FRAMES).split():
        kind, words = "", [word]
        if word == "{P}":
            kind, words = "PER", make_person(draw, is_held_out=is_held_out)
        elif word == "{S}":
            kind, words = "PER", [make_surname(draw, is_held_out=is_held_out)]
        elif word == "{L}":
            kind, words = "LOC", make_place(draw, is_held_out=is_held_out)
        elif word == "{D}":
            kind, words = "DATE", make_date(draw)
        elif word == "{n}":
            words = [str(draw.between(2, 2_000))]
        elif word == "{trade}":
            words = [draw.one(TRADES)]
        elif word == "{things}":
            words = [draw.one(_THINGS)]
        prefixes = ["B-", *["I-"] * (len(words) - 1)] if kind else [""]
        labels = [prefix + kind if kind else "O" for prefix in prefixes]
        sentence += zip(words, labels, strict=True)
    return sentence


def make_splits() -> dict[str, str]:
    """Returns the splits: a word and its label a line, and an empty line after each sentence."""
    sizes = {"train": 3_000, "validation": 400, "test": 400}
    texts = {}
    for seed, (split, size) in enumerate(sizes.items()):
        draw = Draw(seed)
        sentences = (_make_sentence(draw, is_held_out=split != "train") for _ in range(size))
        texts[split] = "".join(
            "".join(f"{word}\t{label}\n" for word, label in sentence) + "\n"
            for sentence in sentences
        )
    return texts
