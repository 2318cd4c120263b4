import pytest

from quintain import errors
from quintain.config import restrictions

VALUES = {"a": {"b": 3, "kind": "fast", "none": None}, "c": {"b": 3, "kind": "fast", "none": None}}


@pytest.mark.parametrize(
    "text",
    [
        "a.b == 3",
        "a.b>=3",
        "a.b != None",
        "a.none == None",
        "a.b < 3.5",
        "a.kind == 'fast'",
        "a == c",
        "-1 < a.b",
    ],
)
def test_restrictions_that_hold(text):
    assert restrictions.find_violations([text], VALUES) == []


@pytest.mark.parametrize("text", ["a.b < 3", "a.none <= 3", "a.kind != 'fast'", "a.b == c"])
def test_restrictions_that_do_not_hold_show_both_sides(text):
    (message,) = restrictions.find_violations([text], VALUES)

    assert message.startswith(f"{text}: does not hold, got")


@pytest.mark.parametrize(
    ("text", "message"),
    [("a.b", "expected two sides"), ("a.kidn == 3", "Did you mean 'kind'"), ("x > 1", "no field")],
)
def test_malformed_restrictions_are_errors(text, message):
    with pytest.raises(errors.ConfigError, match=message):
        restrictions.find_violations([text], VALUES)
