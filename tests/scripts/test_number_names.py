import pytest

from bundled_corpus import number_names


@pytest.mark.parametrize(
    ("number", "english", "german"),
    [
        (0, "zero", "null"),
        (1, "one", "eins"),
        (7, "seven", "sieben"),
        (16, "sixteen", "sechzehn"),
        (17, "seventeen", "siebzehn"),
        (21, "twenty-one", "einundzwanzig"),
        (30, "thirty", "dreißig"),
        (66, "sixty-six", "sechsundsechzig"),
        (77, "seventy-seven", "siebenundsiebzig"),
        (100, "one hundred", "einhundert"),
        (101, "one hundred and one", "einhunderteins"),
        (1_001, "one thousand and one", "eintausendeins"),
        (
            1_234,
            "one thousand two hundred and thirty-four",
            "eintausendzweihundertvierunddreißig",
        ),
        (21_000, "twenty-one thousand", "einundzwanzigtausend"),
        (101_000, "one hundred and one thousand", "einhunderteintausend"),
        (
            999_999,
            "nine hundred and ninety-nine thousand nine hundred and ninety-nine",
            "neunhundertneunundneunzigtausendneunhundertneunundneunzig",
        ),
        (1_000_000, "one million", "eine Million"),
        (1_000_001, "one million and one", "eine Million eins"),
        (2_500_000, "two million five hundred thousand", "zwei Millionen fünfhunderttausend"),
        (21_000_021, "twenty-one million and twenty-one", "einundzwanzig Millionen einundzwanzig"),
    ],
)
def test_cardinals_are_spelt_as_in_a_dictionary(number, english, german):
    assert number_names.english_cardinal(number) == english
    assert number_names.german_cardinal(number) == german


def test_the_english_article_is_the_short_german_form():
    assert number_names.english_cardinal(1_005, use_article=True) == "a thousand and five"
    assert number_names.german_cardinal(1_005, is_short=True) == "tausendfünf"
    assert number_names.german_cardinal(111, is_short=True) == "hundertelf"
    assert number_names.german_cardinal(21, is_short=True) == "einundzwanzig"
    assert number_names.english_cardinal(1, use_article=True) == "one"


def test_american_cardinals_have_no_and():
    assert number_names.english_cardinal(1_234, use_and=False) == (
        "one thousand two hundred thirty-four"
    )


def test_one_before_a_noun_has_no_s():
    assert number_names.german_cardinal(1, before_noun=True) == "ein"
    assert number_names.german_cardinal(101, before_noun=True) == "einhundertein"
    assert number_names.german_cardinal(11, before_noun=True) == "elf"


@pytest.mark.parametrize(
    ("number", "english", "german"),
    [
        (1, "first", "erste"),
        (2, "second", "zweite"),
        (3, "third", "dritte"),
        (5, "fifth", "fünfte"),
        (7, "seventh", "siebte"),
        (8, "eighth", "achte"),
        (9, "ninth", "neunte"),
        (12, "twelfth", "zwölfte"),
        (17, "seventeenth", "siebzehnte"),
        (20, "twentieth", "zwanzigste"),
        (31, "thirty-first", "einunddreißigste"),
        (100, "one hundredth", "einhundertste"),
        (101, "one hundred and first", "einhunderterste"),
        (112, "one hundred and twelfth", "einhundertzwölfte"),
        (1_000, "one thousandth", "eintausendste"),
    ],
)
def test_ordinals_are_spelt_as_in_a_dictionary(number, english, german):
    assert number_names.english_ordinal(number) == english
    assert number_names.german_ordinal(number) == german


def test_german_ordinals_are_inflected():
    assert number_names.german_ordinal(14, ending="en") == "vierzehnten"


@pytest.mark.parametrize(
    ("year", "english", "german"),
    [
        (1100, "eleven hundred", "elfhundert"),
        (1701, "seventeen oh one", "siebzehnhunderteins"),
        (1987, "nineteen eighty-seven", "neunzehnhundertsiebenundachtzig"),
        (2000, "two thousand", "zweitausend"),
        (2005, "two thousand and five", "zweitausendfünf"),
        (2014, "twenty fourteen", "zweitausendvierzehn"),
    ],
)
def test_years_are_read_as_people_read_them(year, english, german):
    assert number_names.english_year(year) == english
    assert number_names.german_year(year) == german


@pytest.mark.parametrize(
    ("numerator", "denominator", "english", "german"),
    [
        (2, 3, "two thirds", "zwei Drittel"),
        (1, 4, "one quarter", "ein Viertel"),
        (5, 7, "five sevenths", "fünf Siebtel"),
        (3, 8, "three eighths", "drei Achtel"),
        (7, 20, "seven twentieths", "sieben Zwanzigstel"),
        (21, 100, "twenty-one hundredths", "einundzwanzig Hundertstel"),
    ],
)
def test_fractions_have_their_own_nouns(numerator, denominator, english, german):
    assert number_names.english_fraction(numerator, denominator) == english
    assert number_names.german_fraction(numerator, denominator) == german


@pytest.mark.parametrize("language", ["english", "german"])
@pytest.mark.parametrize("limit", [10_000])
def test_different_numbers_have_different_names(language, limit):
    name = getattr(number_names, f"{language}_cardinal")

    assert len({name(number) for number in range(limit)}) == limit


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("english_cardinal", (-1,)),
        ("german_cardinal", (101_000_000,)),
        ("english_ordinal", (0,)),
        ("german_ordinal", (1_000_000,)),
        ("english_year", (1066,)),
        ("german_year", (2100,)),
        ("english_fraction", (1, 2)),
        ("german_fraction", (0, 3)),
    ],
)
def test_numbers_out_of_range_are_refused(name, arguments):
    with pytest.raises(ValueError, match="must hold, but got number="):
        getattr(number_names, name)(*arguments)
