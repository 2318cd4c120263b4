import pytest

from quintain import errors
from quintain.records.config import line_pattern


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", ["^(a+)+$", "(a|aa)+$", "(.*)*(.*)*(.*)*b$"])
def test_a_pattern_that_would_backtrack_for_years_takes_no_time(text):
    assert not line_pattern.LinePattern(text).is_in("a" * 60 + "!")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (r"(a)\1", "back-references"),
        ("(?=a)a", "look-around"),
        ("(", r"missing \): \("),
        ("(?:.?){1000}", "instructions when compiled, expected at most 2,000"),
        ("\ud800", "surrogates not allowed"),
    ],
)
def test_a_pattern_without_a_bound_on_its_time_is_refused(text, message):
    with pytest.raises(errors.ConfigError, match=message):
        line_pattern.LinePattern(text)


def test_a_line_may_have_any_character():
    assert line_pattern.LinePattern("é.x").is_in("é\ud800x")
