"""Names of numbers in English and German.

English follows British use ("one hundred and twenty-one") with two variants: without "and"
(American), and with the article ("a hundred and twenty-one"). German has the full spelling
("einhunderteinundzwanzig") and, for "a hundred", the short one ("hunderteinundzwanzig").

Numbers below one million are a single word in German, as the spelling rules ask; "Million" is a
noun and stands apart.

Source: Duden, "Zahlen und Ziffern"; official German spelling rules (2006), paragraphs 36 and 66.
"""

MAX_CARDINAL = 100_999_999
"""Largest number that can be named: 101 million would inflect ("hunderteine Million")."""

# fmt: off
_EN_SMALL = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
    "nineteen",
)
_EN_TENS = (
    "zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety",
)
_EN_IRREGULAR_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}

_DE_SMALL = (
    "null", "ein", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn",
    "elf", "zwölf", "dreizehn", "vierzehn", "fünfzehn", "sechzehn", "siebzehn", "achtzehn",
    "neunzehn",
)
_DE_TENS = (
    "null", "zehn", "zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig",
    "neunzig",
)
# fmt: on
_DE_ORDINAL_STEMS = {1: "erst", 3: "dritt", 7: "siebt", 8: "acht"}


def english_cardinal(number: int, *, use_and: bool = True, use_article: bool = False) -> str:
    """Returns the English name of a number.

    Args:
        number: In `[0, MAX_CARDINAL]`.
        use_and: Whether to put "and" before the last two digits, as in Britain.
        use_article: Whether a leading "one" before hundred, thousand or million becomes "a".

    Raises:
        ValueError: If `number` is out of range.

    Example:
        >>> english_cardinal(1234)
        'one thousand two hundred and thirty-four'
        >>> english_cardinal(101, use_article=True)
        'a hundred and one'
    """
    _check_range(number, 0, MAX_CARDINAL)
    if number == 0:
        return "zero"
    words: list[str] = []
    rest = number
    for size, name in ((1_000_000, "million"), (1_000, "thousand")):
        count, rest = divmod(rest, size)
        if count:
            words += [_english_below_thousand(count, use_and), name]
    if rest:
        if words and use_and and rest < 100:
            words.append("and")
        words.append(_english_below_thousand(rest, use_and))
    text = " ".join(words)
    if use_article and number >= 100 and text.startswith("one "):
        text = "a" + text.removeprefix("one")
    return text


def _english_below_thousand(number: int, use_and: bool) -> str:
    hundreds, rest = divmod(number, 100)
    words = [f"{_EN_SMALL[hundreds]} hundred"] if hundreds else []
    if rest:
        if words and use_and:
            words.append("and")
        words.append(_english_below_hundred(rest))
    return " ".join(words)


def _english_below_hundred(number: int) -> str:
    if number < 20:
        return _EN_SMALL[number]
    tens, ones = divmod(number, 10)
    return f"{_EN_TENS[tens]}-{_EN_SMALL[ones]}" if ones else _EN_TENS[tens]


def english_ordinal(number: int) -> str:
    """Returns the English ordinal of a number, in words.

    Args:
        number: In `[1, MAX_CARDINAL]`.

    Raises:
        ValueError: If `number` is out of range.

    Example:
        >>> english_ordinal(121)
        'one hundred and twenty-first'
    """
    _check_range(number, 1, MAX_CARDINAL)
    cardinal = english_cardinal(number)
    cut = max(cardinal.rfind(" "), cardinal.rfind("-")) + 1
    head, last = cardinal[:cut], cardinal[cut:]
    if last in _EN_IRREGULAR_ORDINALS:
        return head + _EN_IRREGULAR_ORDINALS[last]
    return head + (last[:-1] + "ieth" if last.endswith("y") else last + "th")


def english_year(year: int) -> str:
    """Returns how English speakers read a year, such as "nineteen eighty-seven".

    Args:
        year: In `[1100, 2099]`.

    Raises:
        ValueError: If `year` is out of range.

    Example:
        >>> [english_year(year) for year in (1900, 1905, 2005, 2014)]
        ['nineteen hundred', 'nineteen oh five', 'two thousand and five', 'twenty fourteen']
    """
    _check_range(year, 1100, 2099)
    century, rest = divmod(year, 100)
    if 2000 <= year < 2010:
        return english_cardinal(year)
    if rest == 0:
        return f"{_english_below_hundred(century)} hundred"
    oh = "oh " if rest < 10 else ""
    return f"{_english_below_hundred(century)} {oh}{_english_below_hundred(rest)}"


def german_cardinal(number: int, *, is_short: bool = False, before_noun: bool = False) -> str:
    """Returns the German name of a number.

    Args:
        number: In `[0, MAX_CARDINAL]`.
        is_short: Whether a leading "ein" before hundert or tausend is left out.
        before_noun: Whether a noun follows, which makes a final "eins" the stem "ein".

    Raises:
        ValueError: If `number` is out of range.

    Example:
        >>> german_cardinal(1234)
        'eintausendzweihundertvierunddreißig'
        >>> german_cardinal(101, is_short=True)
        'hunderteins'
        >>> german_cardinal(2_000_021)
        'zwei Millionen einundzwanzig'
    """
    _check_range(number, 0, MAX_CARDINAL)
    millions, rest = divmod(number, 1_000_000)
    words = []
    if millions == 1:
        words.append("eine Million")
    elif millions:
        words.append(f"{_german_below_thousand(millions)} Millionen")
    if rest or not millions:
        name = _german_below_million(rest)
        if rest % 100 == 1 and not before_noun:
            name += "s"
        words.append(name)
    text = " ".join(words)
    if is_short and text.startswith(("einhundert", "eintausend")):
        text = text.removeprefix("ein")
    return text


def _german_below_million(number: int) -> str:
    thousands, rest = divmod(number, 1_000)
    if not thousands:
        return _german_below_thousand(rest)
    tail = _german_below_thousand(rest) if rest else ""
    return f"{_german_below_thousand(thousands)}tausend{tail}"


def _german_below_thousand(number: int) -> str:
    hundreds, rest = divmod(number, 100)
    if not hundreds:
        return _german_below_hundred(rest)
    tail = _german_below_hundred(rest) if rest else ""
    return f"{_DE_SMALL[hundreds]}hundert{tail}"


def _german_below_hundred(number: int) -> str:
    if number < 20:
        return _DE_SMALL[number]
    tens, ones = divmod(number, 10)
    return f"{_DE_SMALL[ones]}und{_DE_TENS[tens]}" if ones else _DE_TENS[tens]


def german_ordinal(number: int, *, ending: str = "e") -> str:
    """Returns the German ordinal of a number, inflected by its ending.

    Args:
        number: In `[1, 999_999]`.
        ending: "e" ("der erste Tag"), "en" ("am ersten Tag") or another adjective ending.

    Raises:
        ValueError: If `number` is out of range.

    Example:
        >>> german_ordinal(3), german_ordinal(17, ending="en"), german_ordinal(121)
        ('dritte', 'siebzehnten', 'einhunderteinundzwanzigste')
    """
    return _german_ordinal_stem(number) + ending


def _german_ordinal_stem(number: int) -> str:
    _check_range(number, 1, 999_999)
    head, rest = number - number % 100, number % 100
    prefix = _german_below_million(head) if head else ""
    if rest in _DE_ORDINAL_STEMS:
        return prefix + _DE_ORDINAL_STEMS[rest]
    name = prefix + (_german_below_hundred(rest) if rest else "")
    return name + ("t" if 0 < rest < 20 else "st")


def german_year(year: int) -> str:
    """Returns how German speakers read a year, such as "neunzehnhundertsiebenundachtzig".

    Args:
        year: In `[1100, 2099]`.

    Raises:
        ValueError: If `year` is out of range.

    Example:
        >>> german_year(1987), german_year(2014)
        ('neunzehnhundertsiebenundachtzig', 'zweitausendvierzehn')
    """
    _check_range(year, 1100, 2099)
    if year >= 2000:
        return german_cardinal(year)
    century, rest = divmod(year, 100)
    tail = _german_below_hundred(rest) if rest else ""
    return f"{_DE_SMALL[century]}hundert{tail}" + ("s" if rest == 1 else "")


def english_fraction(numerator: int, denominator: int) -> str:
    """Returns the English name of a fraction: "two thirds", "three quarters".

    Args:
        numerator: At least 1.
        denominator: In `[3, 100]`.

    Raises:
        ValueError: If an argument is out of range.
    """
    _check_range(numerator, 1, MAX_CARDINAL)
    _check_range(denominator, 3, 100)
    special = {4: "quarter", 100: "hundredth"}
    part = special.get(denominator) or english_ordinal(denominator)
    return f"{english_cardinal(numerator)} {part}" + ("s" if numerator > 1 else "")


def german_fraction(numerator: int, denominator: int) -> str:
    """Returns the German name of a fraction: "zwei Drittel", "drei Viertel".

    Args:
        numerator: At least 1.
        denominator: In `[3, 100]`.

    Raises:
        ValueError: If an argument is out of range.
    """
    _check_range(numerator, 1, MAX_CARDINAL)
    _check_range(denominator, 3, 100)
    stem = "hundertst" if denominator == 100 else _german_ordinal_stem(denominator)
    part = stem.removesuffix("t") + "tel"
    return f"{german_cardinal(numerator, before_noun=True)} {part.capitalize()}"


def _check_range(number: int, low: int, high: int) -> None:
    if not low <= number <= high:
        raise ValueError(f"`{low} <= number <= {high}` must hold, but got number={number!r}.")
