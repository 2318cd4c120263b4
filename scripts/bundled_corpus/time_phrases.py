"""English-German phrases with years, dates, clock times and durations."""

import datetime

from bundled_corpus import deterministic_draw, number_names

Draw = deterministic_draw.Draw
Pair = tuple[str, str]

_MONTHS = (
    ("January", "Januar"),
    ("February", "Februar"),
    ("March", "März"),
    ("April", "April"),
    ("May", "Mai"),
    ("June", "Juni"),
    ("July", "Juli"),
    ("August", "August"),
    ("September", "September"),
    ("October", "Oktober"),
    ("November", "November"),
    ("December", "Dezember"),
)
_WEEKDAYS = (
    ("Monday", "Montag"),
    ("Tuesday", "Dienstag"),
    ("Wednesday", "Mittwoch"),
    ("Thursday", "Donnerstag"),
    ("Friday", "Freitag"),
    ("Saturday", "Samstag"),
    ("Sunday", "Sonntag"),
)

_NUM_DAYS = 46_000  # From 1900-01-01 to 2025-12-10.

_YEAR_FRAMES = (
    ("in {}", "im Jahr {}"),
    ("the year {}", "das Jahr {}"),
    ("since {}", "seit {}"),
    ("before {}", "vor {}"),
    ("after {}", "nach {}"),
    ("until {}", "bis {}"),
    ("in the summer of {}", "im Sommer {}"),
    ("in the winter of {}", "im Winter {}"),
    ("The house was built in {}.", "Das Haus wurde im Jahr {} gebaut."),
    ("He died in {}.", "Er starb im Jahr {}."),
    ("They have lived here since {}.", "Sie wohnen seit {} hier."),
)

# Frames around a dative date: "on the third of May", "am dritten Mai".
_DATE_FRAMES = (
    ("on the {}", "am {}"),
    ("since the {}", "seit dem {}"),
    ("after the {}", "nach dem {}"),
    ("before the {}", "vor dem {}"),
    ("until the {}", "bis zum {}"),
    ("She was born on the {}.", "Sie wurde am {} geboren."),
    ("The letter is dated the {}.", "Der Brief ist vom {}."),
    ("School starts on the {}.", "Die Schule beginnt am {}."),
    ("We leave on the {}.", "Wir fahren am {} ab."),
    ("The contract ends on the {}.", "Der Vertrag endet am {}."),
)
_MONTH_FRAMES = (
    ("at the beginning of {}", "Anfang {}"),
    ("in the middle of {}", "Mitte {}"),
    ("at the end of {}", "Ende {}"),
    ("in {}", "im {}"),
    ("since {}", "seit {}"),
    ("until {}", "bis {}"),
)

_CLOCK_FRAMES = (
    ("{}", "{}"),
    ("at {}", "um {}"),
    ("It is {}.", "Es ist {}."),
    ("It is not yet {}.", "Es ist noch nicht {}."),
    ("The train leaves at {}.", "Der Zug fährt um {} ab."),
    ("The meeting starts at {}.", "Die Besprechung beginnt um {}."),
    ("The shop closes at {}.", "Das Geschäft schließt um {}."),
    ("He got up at {}.", "Er stand um {} auf."),
    ("They ate at {}.", "Sie aßen um {}."),
    ("tomorrow at {}", "morgen um {}"),
    ("today at {}", "heute um {}"),
    ("yesterday at {}", "gestern um {}"),
    ("every day at {}", "jeden Tag um {}"),
)
_MORNING = ("in the morning", "morgens")
_AFTERNOON = ("in the afternoon", "nachmittags")
_EVENING = ("in the evening", "abends")
_NIGHT = ("at night", "nachts")
# For every hour of the clock, from 1 to 12, the parts of the day it can be in.
_DAY_PARTS = (
    *((_AFTERNOON, _NIGHT),) * 4,
    (_MORNING, _AFTERNOON),
    *((_MORNING, _EVENING),) * 5,
    (_MORNING, _NIGHT),
    (_NIGHT,),
)
_APPOINTMENT_FRAMES = (
    ("{}", "{}"),
    ("We meet {}.", "Wir treffen uns {}."),
    ("The doctor is free {}.", "Der Arzt hat {} Zeit."),
    ("The concert takes place {}.", "Das Konzert findet {} statt."),
    ("The course starts {}.", "Der Kurs beginnt {}."),
)

# English singular and plural, German singular with "ein", plural, dative plural.
_SPANS = (
    ("second", "seconds", "eine Sekunde", "Sekunden", "Sekunden"),
    ("minute", "minutes", "eine Minute", "Minuten", "Minuten"),
    ("hour", "hours", "eine Stunde", "Stunden", "Stunden"),
    ("day", "days", "ein Tag", "Tage", "Tagen"),
    ("week", "weeks", "eine Woche", "Wochen", "Wochen"),
    ("month", "months", "ein Monat", "Monate", "Monaten"),
    ("year", "years", "ein Jahr", "Jahre", "Jahren"),
)
# The last item says whether the German phrase is in the dative.
_SPAN_FRAMES = (
    ("{}", "{}", False),
    ("after {}", "nach {}", True),
    ("in {}", "in {}", True),
    ("{} ago", "vor {}", True),
    ("for {}", "{} lang", False),
    ("{} later", "{} später", False),
    ("The journey takes {}.", "Die Reise dauert {}.", False),
    ("We have been waiting for {}.", "Wir warten seit {}.", True),
    ("He will be back in {}.", "Er kommt in {} zurück.", True),
    ("It will last {} more.", "Es dauert noch {}.", False),
)


def draw_year(draw: Draw) -> Pair:
    """Draws a year: "in nineteen eighty-seven"."""
    year, german_year = _draw_year_name(draw, words_chance=0.8)
    frame, german_frame = draw.one(_YEAR_FRAMES)
    return frame.format(year), german_frame.format(german_year)


def _draw_year_name(draw: Draw, words_chance: float) -> Pair:
    year = draw.between(1900, 2025) if draw.chance(0.6) else draw.between(1100, 2025)
    if draw.chance(words_chance):
        return number_names.english_year(year), number_names.german_year(year)
    return str(year), str(year)


def draw_date(draw: Draw) -> Pair:
    """Draws a date in one of many styles, with its true weekday where one is named."""
    return draw.one((_draw_formal_date, _draw_framed_date, _draw_digit_date, _draw_month))(draw)


def _draw_day(draw: Draw) -> datetime.date:
    return datetime.date(1900, 1, 1) + datetime.timedelta(days=draw.below(_NUM_DAYS))


def _names(day: datetime.date) -> tuple[Pair, Pair]:
    return _WEEKDAYS[day.weekday()], _MONTHS[day.month - 1]


def _draw_year_suffix(draw: Draw, day: datetime.date) -> Pair:
    """Returns nothing, the year in digits or the year in words, with a leading space."""
    if draw.chance(0.35):
        return "", ""
    if draw.chance(0.5):
        return f" {day.year}", f" {day.year}"
    return (
        f" {number_names.english_year(day.year)}",
        f" {number_names.german_year(day.year)}",
    )


def _draw_formal_date(draw: Draw) -> Pair:
    """Draws "Tuesday, the fourteenth of March 1987" or "Tuesday, 14 March 1987"."""
    day = _draw_day(draw)
    (weekday, german_weekday), (month, german_month) = _names(day)
    year, german_year = _draw_year_suffix(draw, day)
    if draw.chance(0.3):
        return (
            f"{weekday}, {day.day} {month}{year}",
            f"{german_weekday}, {day.day}. {german_month}{german_year}",
        )
    ordinal = number_names.english_ordinal(day.day)
    if draw.chance(0.5):
        german = number_names.german_ordinal(day.day)
        return (
            f"{weekday}, the {ordinal} of {month}{year}",
            f"{german_weekday}, der {german} {german_month}{german_year}",
        )
    german = number_names.german_ordinal(day.day, ending="en")
    return (
        f"on {weekday}, the {ordinal} of {month}{year}",
        f"am {german_weekday}, dem {german} {german_month}{german_year}",
    )


def _draw_framed_date(draw: Draw) -> Pair:
    """Draws "She was born on the third of May 1987."."""
    day = _draw_day(draw)
    _, (month, german_month) = _names(day)
    year, german_year = _draw_year_suffix(draw, day)
    ordinal = number_names.english_ordinal(day.day)
    german = number_names.german_ordinal(day.day, ending="en")
    frame, german_frame = draw.one(_DATE_FRAMES)
    return (
        frame.format(f"{ordinal} of {month}{year}"),
        german_frame.format(f"{german} {german_month}{german_year}"),
    )


def _draw_digit_date(draw: Draw) -> Pair:
    """Draws "March 14, 1987", "14 March 1987" or "14/03/1987"."""
    day = _draw_day(draw)
    _, (month, german_month) = _names(day)
    if draw.chance(0.3):
        return f"{day:%d/%m}/{day.year}", f"{day:%d.%m}.{day.year}"
    target = f"{day.day}. {german_month} {day.year}"
    if draw.chance(0.5):
        return f"{month} {day.day}, {day.year}", target
    return f"{day.day} {month} {day.year}", target


def _draw_month(draw: Draw) -> Pair:
    """Draws a part of a month, with or without a year, or the span between two days of it."""
    day = _draw_day(draw)
    _, (month, german_month) = _names(day)
    year, german_year = _draw_year_suffix(draw, day)
    if draw.chance(0.5):
        first = draw.between(1, 27)
        last = draw.between(first + 1, 28)
        english = [number_names.english_ordinal(number) for number in (first, last)]
        german = [number_names.german_ordinal(number, ending="en") for number in (first, last)]
        return (
            f"from the {english[0]} to the {english[1]} of {month}{year}",
            f"vom {german[0]} bis zum {german[1]} {german_month}{german_year}",
        )
    frame, german_frame = draw.one(_MONTH_FRAMES)
    return frame.format(month + year), german_frame.format(german_month + german_year)


def draw_clock_time(draw: Draw) -> Pair:
    """Draws a clock time: "at a quarter past seven", "The train leaves at 7:15 p.m."."""
    source, target = _draw_clock_name(draw)
    frame, german_frame = draw.one(_CLOCK_FRAMES)
    if source.endswith(".") and frame.endswith("."):
        frame = frame.removesuffix(".")
    return frame.format(source), german_frame.format(target)


def _draw_clock_name(draw: Draw) -> Pair:
    if draw.chance(0.15):
        return _draw_digital_time(draw)
    hour = draw.between(1, 12)
    source, target = _draw_spoken_time(draw, hour)
    if draw.chance(0.35):
        part, german_part = draw.one(_DAY_PARTS[hour - 1])
        return f"{source} {part}", f"{target} {german_part}"
    return source, target


def _draw_digital_time(draw: Draw) -> Pair:
    """Draws "7:15 p.m.", which is "19:15 Uhr"."""
    hour, minute = draw.below(24), draw.below(60)
    half = "a.m." if hour < 12 else "p.m."
    return f"{(hour - 1) % 12 + 1}:{minute:02} {half}", f"{hour}:{minute:02} Uhr"


def _draw_spoken_time(draw: Draw, hour: int) -> Pair:
    name = number_names.english_cardinal(hour)
    german_name = number_names.german_cardinal(hour)
    style = draw.below(6)
    if style == 0:
        german_hour = number_names.german_cardinal(hour, before_noun=True)
        return f"{name} o'clock", f"{german_hour} Uhr"
    if style == 1:
        next_hour = number_names.german_cardinal(hour % 12 + 1)
        return f"half past {name}", f"halb {next_hour}"
    if style == 2:
        return f"a quarter past {name}", f"Viertel nach {german_name}"
    if style == 3:
        return f"a quarter to {name}", f"Viertel vor {german_name}"
    minutes = draw.between(1, 29)
    minutes += minutes == 15
    word, german_word = (("past", "nach"), ("to", "vor"))[style - 4]
    if minutes == 1:
        return f"one minute {word} {name}", f"eine Minute {german_word} {german_name}"
    if minutes % 5:
        return (
            f"{number_names.english_cardinal(minutes)} minutes {word} {name}",
            f"{number_names.german_cardinal(minutes)} Minuten {german_word} {german_name}",
        )
    return (
        f"{number_names.english_cardinal(minutes)} {word} {name}",
        f"{number_names.german_cardinal(minutes)} {german_word} {german_name}",
    )


def draw_appointment(draw: Draw) -> Pair:
    """Draws a day and a time: "on Monday, the third of May, at half past seven"."""
    day = _draw_day(draw)
    (weekday, german_weekday), (month, german_month) = _names(day)
    time, german_time = _draw_spoken_time(draw, draw.between(1, 12))
    if draw.chance(0.5):
        source, target = f"on {weekday} at {time}", f"am {german_weekday} um {german_time}"
    else:
        ordinal = number_names.english_ordinal(day.day)
        german = number_names.german_ordinal(day.day, ending="en")
        source = f"on the {ordinal} of {month} at {time}"
        target = f"am {german} {german_month} um {german_time}"
    frame, german_frame = draw.one(_APPOINTMENT_FRAMES)
    return frame.format(source), german_frame.format(target)


def draw_duration(draw: Draw) -> Pair:
    """Draws a span of time: "for three weeks", "two and a half hours later"."""
    one, many, german_one, german_many, dative = draw.one(_SPANS)
    frame, german_frame, is_dative = draw.one(_SPAN_FRAMES)
    number = draw.between(1, 24) if draw.chance(0.5) else draw.between(2, 100)
    if number == 1:
        source, target = f"one {one}", _inflect_one(german_one, german_frame, is_dative)
    else:
        plural = dative if is_dative else german_many
        if draw.chance(0.2):
            source, target = str(number), str(number)
        else:
            source = number_names.english_cardinal(number)
            target = number_names.german_cardinal(number)
            if number < 20 and draw.chance(0.2):
                source, target = f"{source} and a half", f"{target}einhalb"
        source, target = f"{source} {many}", f"{target} {plural}"
    return frame.format(source), german_frame.format(target)


def _inflect_one(german_one: str, german_frame: str, is_dative: bool) -> str:
    """Returns "eine Stunde", "ein Tag" and "ein Jahr" in the case that the frame asks for."""
    article, noun = german_one.split()
    is_masculine = noun in ("Tag", "Monat")
    if is_dative:
        return f"{'einer' if article == 'eine' else 'einem'} {noun}"
    # Spans of time are accusative, except when named alone.
    if is_masculine and german_frame != "{}":
        return f"einen {noun}"
    return german_one
