"""English-German phrases with numbers, fractions, prices and measures."""

from bundled_corpus import deterministic_draw, number_names

Draw = deterministic_draw.Draw
Pair = tuple[str, str]

# (digits at least, digits at most) -> how often. Most numbers of real text are small.
_MAGNITUDES = (
    (28, 0, 99),
    (24, 100, 999),
    (22, 1_000, 9_999),
    (14, 10_000, 99_999),
    (9, 100_000, 999_999),
    (3, 1_000_000, 9_999_999),
)
_MAGNITUDE_TABLE = tuple((low, high) for weight, low, high in _MAGNITUDES for _ in range(weight))

# Frames for any number, and frames for numbers that are names (small ones).
_CARDINAL_FRAMES = (
    ("the number {}", "die Zahl {}"),
    ("We count to {}.", "Wir zählen bis {}."),
    ("The answer is {}.", "Die Antwort ist {}."),
    ("The result is not {}.", "Das Ergebnis ist nicht {}."),
    ("Is {} an even number?", "Ist {} eine gerade Zahl?"),
)
_LABEL_FRAMES = (
    ("number {}", "Nummer {}"),
    ("room number {}", "Zimmer Nummer {}"),
    ("page {}", "Seite {}"),
    ("chapter {}", "Kapitel {}"),
    ("line {}", "Zeile {}"),
)
_MAX_LABEL = 999

# English plural, German nominative and accusative plural (the same word for all of them).
_COUNTED = (
    ("people", "Menschen"),
    ("children", "Kinder"),
    ("books", "Bücher"),
    ("houses", "Häuser"),
    ("trees", "Bäume"),
    ("letters", "Briefe"),
    ("words", "Wörter"),
    ("tickets", "Karten"),
    ("students", "Studenten"),
    ("cars", "Autos"),
    ("chairs", "Stühle"),
    ("examples", "Beispiele"),
    ("birds", "Vögel"),
    ("votes", "Stimmen"),
)
_COUNTED_FRAMES = (
    ("{} {}", "{} {}"),
    ("more than {} {}", "mehr als {} {}"),
    ("fewer than {} {}", "weniger als {} {}"),
    ("about {} {}", "etwa {} {}"),
    ("almost {} {}", "fast {} {}"),
    ("exactly {} {}", "genau {} {}"),
    ("at least {} {}", "mindestens {} {}"),
    ("There are {} {} here.", "Hier sind {} {}."),
    ("We see {} {}.", "Wir sehen {} {}."),
    ("We need {} new {}.", "Wir brauchen {} neue {}."),
)

# English noun, German article, dative contraction, noun: "the third day", "on the third day".
_ORDINAL_NOUNS = (
    ("day", "der", "am", "on", "Tag"),
    ("week", "die", "in der", "in", "Woche"),
    ("month", "der", "im", "in", "Monat"),
    ("year", "das", "im", "in", "Jahr"),
    ("chapter", "das", "im", "in", "Kapitel"),
    ("page", "die", "auf der", "on", "Seite"),
    ("question", "die", "in der", "in", "Frage"),
    ("floor", "der", "im", "on", "Stock"),
    ("row", "die", "in der", "in", "Reihe"),
    ("attempt", "der", "beim", "at", "Versuch"),
)

_FRACTION_WHOLES = (
    ("of the population", "der Bevölkerung"),
    ("of the area", "der Fläche"),
    ("of the price", "des Preises"),
    ("of a year", "eines Jahres"),
    ("of a litre", "eines Liters"),
    ("of a kilometre", "eines Kilometers"),
    ("of the time", "der Zeit"),
    ("of the students", "der Studenten"),
    ("of the votes", "der Stimmen"),
    ("of the work", "der Arbeit"),
    ("of the pages", "der Seiten"),
)
_DENOMINATORS = (3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 20, 100)

# English singular, plural, German word (the same in singular and plural), symbol.
_CURRENCIES = (
    ("euro", "euros", "Euro", "€"),
    ("dollar", "dollars", "Dollar", "$"),
    ("Swiss franc", "Swiss francs", "Schweizer Franken", "CHF"),
)
# The last item says whether the German phrase is in the accusative ("einen Euro").
_PRICE_FRAMES = (
    ("{}", "{}", False),
    ("only {}", "nur {}", False),
    ("for {}", "für {}", True),
    ("It costs {}.", "Es kostet {}.", True),
    ("The book costs {}.", "Das Buch kostet {}.", True),
    ("That is {}.", "Das macht {}.", True),
    ("He paid {} for the car.", "Er zahlte {} für das Auto.", True),
    ("She found {} in the street.", "Sie fand {} auf der Straße.", True),
    ("We still have {}.", "Wir haben noch {}.", True),
)

# English unit, German unit, how a thing of this measure is described.
_UNITS = (
    ("metres", "Meter", "The tower is {} high.", "Der Turm ist {} hoch."),
    ("metres", "Meter", "The room is {} long.", "Das Zimmer ist {} lang."),
    ("kilometres", "Kilometer", "The river is {} long.", "Der Fluss ist {} lang."),
    ("kilometres", "Kilometer", "It is another {} to the town.", "Bis zur Stadt sind es noch {}."),
    ("kilograms", "Kilogramm", "The parcel weighs {}.", "Das Paket wiegt {}."),
    ("tonnes", "Tonnen", "The ship carries {}.", "Das Schiff trägt {}."),
    ("litres", "Liter", "The bucket holds {}.", "Der Eimer fasst {}."),
    ("grams", "Gramm", "We need {} of sugar.", "Wir brauchen {} Zucker."),
    ("litres", "Liter", "We need {} of milk.", "Wir brauchen {} Milch."),
    ("kilograms", "Kilogramm", "{} of apples", "{} Äpfel"),
    ("litres", "Liter", "{} of water", "{} Wasser"),
    ("degrees", "Grad", "It is {} outside.", "Draußen sind es {}."),
    ("percent", "Prozent", "The share is {}.", "Der Anteil beträgt {}."),
    ("percent", "Prozent", "{} of the votes", "{} der Stimmen"),
)


def draw_magnitude(draw: Draw) -> int:
    """Returns a number from 0 to 9,999,999, small ones more often, a part of them round."""
    low, high = draw.one(_MAGNITUDE_TABLE)
    number = draw.between(low, high)
    if number >= 1_000 and draw.chance(0.3):
        number -= number % draw.one((100, 1_000))
    if number >= 1_000_000 and draw.chance(0.5):
        number -= number % 100_000
    return number


def draw_number_words(draw: Draw, number: int, *, before_noun: bool = False) -> Pair:
    """Returns the number in words, in one of the English wordings."""
    has_article = 100 <= number < 200 or 1_000 <= number < 1_100 or number == 1_000_000
    use_article = has_article and draw.chance(0.5)
    use_and = use_article or draw.chance(0.85)
    return (
        number_names.english_cardinal(number, use_and=use_and, use_article=use_article),
        number_names.german_cardinal(number, is_short=use_article, before_noun=before_noun),
    )


def to_digits(number: int) -> Pair:
    """Returns the number in digits: "12,345" and "12.345"."""
    digits = f"{number:,}"
    return digits, digits.replace(",", ".")


def draw_cardinal(draw: Draw) -> Pair:
    """Draws a number alone ("forty-two") or in a frame that counts or names it."""
    number = draw_magnitude(draw)
    frames = _LABEL_FRAMES if number <= _MAX_LABEL and draw.chance(0.5) else _CARDINAL_FRAMES
    source, target = draw_number_words(draw, number)
    if draw.chance(0.55):
        return source, target
    frame, german_frame = draw.one(frames)
    return frame.format(source), german_frame.format(target)


def draw_counted(draw: Draw) -> Pair:
    """Draws a number of things: "at least twelve houses"."""
    number = _countable(draw_magnitude(draw))
    amount = to_digits(number) if draw.chance(0.15) else draw_number_words(draw, number)
    frame, german_frame = draw.one(_COUNTED_FRAMES)
    noun, german_noun = draw.one(_COUNTED)
    return frame.format(amount[0], noun), german_frame.format(amount[1], german_noun)


def _countable(number: int) -> int:
    """Returns a number that takes an uninflected plural noun: not 0, and not ending in 01.

    German inflects the last "ein" of 101 ("hundertein Häuser" or "hundertundeine Häuser") and
    usage varies. A plain million takes no "of" in English, but "Millionen" is fine before a noun.
    """
    return number + 2 if number == 0 or number % 100 == 1 else number


def draw_ordinal(draw: Draw) -> Pair:
    """Draws an ordinal with a noun: "on the third floor"."""
    number = draw.between(1, 31) if draw.chance(0.4) else draw.between(1, 999)
    noun, article, dative, preposition, german_noun = draw.one(_ORDINAL_NOUNS)
    ordinal = number_names.english_ordinal(number)
    if draw.chance(0.5):
        german = number_names.german_ordinal(number)
        return f"the {ordinal} {noun}", f"{article} {german} {german_noun}"
    german = number_names.german_ordinal(number, ending="en")
    return f"{preposition} the {ordinal} {noun}", f"{dative} {german} {german_noun}"


def draw_decimal(draw: Draw) -> Pair:
    """Draws a decimal number in words ("three point one four") or digits ("3.14")."""
    whole = draw.between(0, 99) if draw.chance(0.6) else draw.between(100, 9_999)
    decimals = [draw.below(10) for _ in range(draw.between(1, 3))]
    if draw.chance(0.3):
        (source, target), digits = to_digits(whole), "".join(map(str, decimals))
        source, target = f"{source}.{digits}", f"{target},{digits}"
    else:
        source, target = draw_number_words(draw, whole)
        source += " point " + " ".join(map(number_names.english_cardinal, decimals))
        target += " Komma " + " ".join(map(number_names.german_cardinal, decimals))
    if draw.chance(0.2):
        return f"minus {source}", f"minus {target}"
    return source, target


def draw_fraction(draw: Draw) -> Pair:
    """Draws a fraction of something: "two thirds of the population"."""
    denominator = draw.one(_DENOMINATORS)
    numerator = draw.between(1, denominator - 1)
    whole, german_whole = draw.one(_FRACTION_WHOLES)
    source = number_names.english_fraction(numerator, denominator)
    target = number_names.german_fraction(numerator, denominator)
    return f"{source} {whole}", f"{target} {german_whole}"


def draw_sum(draw: Draw) -> Pair:
    """Draws a true equation: "seven plus eight is fifteen"."""
    word, german_word = draw.one(
        (("plus", "plus"), ("minus", "minus"), ("times", "mal"), ("divided by", "geteilt durch"))
    )
    left, right = draw.between(1, 99), draw.between(1, 99)
    if word in ("times", "divided by"):
        left, right = draw.between(2, 30), draw.between(2, 12)
    result = {"plus": left + right, "times": left * right}.get(word, left)
    if word == "minus":
        left = left + right
    if word == "divided by":
        left = left * right
    english = [number_names.english_cardinal(number) for number in (left, right, result)]
    german = [number_names.german_cardinal(number) for number in (left, right, result)]
    return (
        f"{english[0]} {word} {english[1]} is {english[2]}",
        f"{german[0]} {german_word} {german[1]} ist {german[2]}",
    )


def draw_price(draw: Draw) -> Pair:
    """Draws a price in words ("twelve euros and fifty cents") or digits ("€12.50")."""
    frame, german_frame, is_accusative = draw.one(_PRICE_FRAMES)
    one, many, german_name, symbol = draw.one(_CURRENCIES)
    number = draw.between(1, 99) if draw.chance(0.5) else _countable(draw.between(100, 9_999))
    cents = draw.between(2, 99)
    if draw.chance(0.15) and symbol != "CHF":
        source, target = to_digits(number)
        source, target = f"{symbol}{source}.{cents:02}", f"{target},{cents:02} {symbol}"
    elif number == 1:
        source, target = f"one {one}", f"{'einen' if is_accusative else 'ein'} {german_name}"
    else:
        source, target = draw_number_words(draw, number, before_noun=True)
        source, target = f"{source} {many}", f"{target} {german_name}"
        if draw.chance(0.4) and symbol != "CHF":
            source += f" and {number_names.english_cardinal(cents)} cents"
            target += f" und {number_names.german_cardinal(cents)} Cent"
    return frame.format(source), german_frame.format(target)


def draw_measure(draw: Draw) -> Pair:
    """Draws a measured thing: "The tower is 120 metres high."."""
    unit, german_unit, frame, german_frame = draw.one(_UNITS)
    number = draw.between(2, 100) if draw.chance(0.6) else _countable(draw.between(102, 2_000))
    if draw.chance(0.2):
        (source, target), decimal = to_digits(number), draw.below(10)
        if draw.chance(0.5):
            source, target = f"{source}.{decimal}", f"{target},{decimal}"
    else:
        source, target = draw_number_words(draw, number, before_noun=True)
        if number < 20 and draw.chance(0.3):
            source, target = f"{source} and a half", f"{target}einhalb"
    source, target = f"{source} {unit}", f"{target} {german_unit}"
    return frame.format(source), german_frame.format(target)
