import collections
import datetime
import hashlib
import re
import unicodedata

import pytest

from bundled_corpus import deterministic_draw, numbers_and_dates, time_phrases

_TRAIN = numbers_and_dates.train_pairs()
_VALIDATION = numbers_and_dates.validation_pairs()
_TEST = numbers_and_dates.test_pairs()
_ALL = [*_TRAIN, *_VALIDATION, *_TEST]


@pytest.fixture(scope="module")
def many_pairs():
    """Far more sentences than the corpus has: every source with all its translations."""
    draw = deterministic_draw.Draw(1)
    targets = collections.defaultdict(set)
    for _, kind in numbers_and_dates._KINDS:
        for _ in range(25_000):
            source, target = kind(draw)
            targets[source].add(target)
    return targets


def test_the_splits_have_their_sizes():
    assert (len(_TRAIN), len(_VALIDATION), len(_TEST)) == (24_000, 500, 1_000)


def test_no_sentence_is_in_two_splits_or_twice_in_one():
    assert len({source for source, _ in _ALL}) == len(_ALL)


def test_the_corpus_is_the_same_on_every_machine():
    text = "\n".join(f"{source}\t{target}" for source, target in _TRAIN)

    assert hashlib.sha256(text.encode()).hexdigest() == (
        "6a8f19623505b47ba00062cbbaf1c9cc7d5639ea91335153a65d34b25419a051"
    )


def test_sentences_are_clean_and_of_moderate_length():
    for sentence in (side for pair in _ALL for side in pair):
        assert sentence == " ".join(sentence.split())
        assert sentence == unicodedata.normalize("NFC", sentence)
        assert 1 <= len(sentence.split()) <= 16

    mean = sum(len(source.split()) for source, _ in _ALL) / len(_ALL)
    assert 5 <= mean <= 8


def test_both_sides_end_alike():
    for source, target in _ALL:
        if source.endswith("?"):
            assert target.endswith("?")
        elif not source.endswith((" a.m.", " p.m.")):
            assert source.endswith(".") == target.endswith(".")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("forty-two", "zweiundvierzig"),
        ("a quarter past seven", "Viertel nach sieben"),
        ("at half past seven", "um halb acht"),
        ("in nineteen eighty-seven", "im Jahr neunzehnhundertsiebenundachtzig"),
        ("two hours ago", "vor zwei Stunden"),
        ("It costs one euro.", "Es kostet einen Euro."),
        ("only one dollar", "nur ein Dollar"),
        ("The journey takes one day.", "Die Reise dauert einen Tag."),
        ("one month ago", "vor einem Monat"),
        ("in one week", "in einer Woche"),
        ("two thirds of the population", "zwei Drittel der Bevölkerung"),
        ("on the third floor", "im dritten Stock"),
        ("the second week", "die zweite Woche"),
        ("at the end of May", "Ende Mai"),
        ("at one o'clock", "um ein Uhr"),
        ("at a quarter to one", "um Viertel vor eins"),
    ],
)
def test_well_known_phrases_are_translated_right(many_pairs, source, target):
    assert many_pairs[source] == {target}


@pytest.mark.slow
def test_a_sentence_has_one_translation_only(many_pairs):
    assert len(many_pairs) > 100_000
    assert [pair for pair in many_pairs.items() if len(pair[1]) > 1] == []


@pytest.mark.parametrize("ending", [" p.m.", " a.m."])
def test_half_days_become_the_hours_of_a_whole_day(ending):
    times = [pair for pair in _ALL if pair[0].endswith(ending)]

    assert len(times) > 200
    for source, target in times:
        hour, _, minute = source.split()[-2].partition(":")
        german = next(word for word in target.rstrip(".").split() if ":" in word)
        expected = int(hour) % 12 + 12 * (ending == " p.m.")
        assert german == f"{expected}:{minute}"


def test_weekdays_are_the_true_ones():
    months = [english for english, _ in time_phrases._MONTHS]
    num_checked = 0
    for source, _ in _ALL:
        found = re.fullmatch(r"(\w+), (\d+) (\w+) (\d{4})", source)
        if found:
            weekday, day, month, year = found.groups()
            date = datetime.date(int(year), months.index(month) + 1, int(day))
            assert time_phrases._WEEKDAYS[date.weekday()][0] == weekday
            num_checked += 1
    assert num_checked > 50


def test_every_character_of_the_test_split_is_frequent_in_training():
    known = collections.Counter(character for pair in _TRAIN for side in pair for character in side)

    assert all(known[character] >= 100 for pair in _TEST for side in pair for character in side)


def test_draws_are_in_range_and_reproducible():
    draw, again = deterministic_draw.Draw(7), deterministic_draw.Draw(7)

    drawn = [draw.between(3, 5) for _ in range(200)]

    assert set(drawn) == {3, 4, 5}
    assert drawn == [again.between(3, 5) for _ in range(200)]
    assert {draw.below(2) for _ in range(50)} == {0, 1}
    assert {draw.one("ab") for _ in range(50)} == {"a", "b"}
    assert 60 < sum(draw.chance(0.5) for _ in range(200)) < 140
