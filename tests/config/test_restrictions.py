import pytest

from quintain import errors
from quintain.config import restrictions

VALUES = {
    "a": {"b": 3, "kind": "x<y", "none": None, "is_on": True, "sizes": [1, 2], "rate": 1e-3},
    "c": {"d": {"low": 1}, "high": 5},
    "e": {"d": {"low": 1}, "high": 5},
}


@pytest.mark.parametrize(
    "text",
    [
        "a.b == 3",
        "a.b>=3",
        "a.b<=3",
        " a.b  !=  None ",
        "None == a.none",
        "a.b < 3.5",
        "-1 < a.b",
        "a.b > .5",
        "a.rate >= 1e-3",
        "a.b < c.high",
        "a.kind == 'x<y'",
        "'x<y' == a.kind",
        'a.kind == "x<y"',
        "a.kind != 'it''s'",
        "a.kind > 'a'",
        "a.is_on == True",
        "a.is_on != False",
        "c == e",
        "c.d == e.d",
        "c != a",
        "a.sizes == a.sizes",
    ],
)
def test_restrictions_that_hold(text):
    assert restrictions.find_violations([text], VALUES) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.b < 3", "a.b < 3: does not hold, got 3 and 3."),
        ("a.b<=2", "a.b<=2: does not hold, got 3 and 2."),
        ("a.kind == 'x'", "a.kind == 'x': does not hold, got 'x<y' and 'x'."),
        ("a.none != None", "a.none != None: does not hold, got None and None."),
        ("a.b == c.d", "a.b == c.d: does not hold, got 3 and {'low': 1}."),
        (
            "a.none <= 3",
            "a.none <= 3: does not hold, got None and 3; `<=` needs a value on both sides, set the "
            "one that is None.",
        ),
        (
            "a.b < 'x'",
            "a.b < 'x': does not hold, got 3 and 'x'; `<` can't compare int and str.",
        ),
    ],
)
def test_restrictions_that_do_not_hold_show_both_sides(text, message):
    assert restrictions.find_violations([text], VALUES) == [message]


def test_every_violation_is_found():
    assert len(restrictions.find_violations(["a.b > 5", "a.b == 3", "c != e"], VALUES)) == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a.b",
        "a.b = 3",
        "a.b === 3",
        "a.b => 3",
        "a.b <> 3",
        "a.b < 3 < 4",
        "== 3",
        "a.b ==",
        "a.b == foo bar",
        "a.kind == 'x",
        "a.kind == 'x'y",
    ],
)
def test_a_restriction_without_two_sides_is_an_error(text):
    with pytest.raises(errors.ConfigError, match="expected two sides and one of ==, !=, <=") as e:
        restrictions.find_violations([text], VALUES)

    assert repr(text) in str(e.value)


@pytest.mark.parametrize("text", ["a.b == 1x", "a.sizes[0] == 1", "a..b == 1", "a.b == [3]"])
def test_a_side_that_is_nothing_known_is_an_error(text):
    with pytest.raises(errors.ConfigError, match="is no number, None, True, False, text in quotes"):
        restrictions.find_violations([text], VALUES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.kidn == 3", "there is no field 'a.kidn'. Did you mean 'a.kind'?"),
        ("c.d.lwo < 3", "there is no field 'c.d.lwo'. Did you mean 'c.d.low'?"),
        ("a.b.c == 1", "there is no field 'a.b.c'."),
        ("xyz > 1", "there is no field 'xyz'. Known at the top: a, c, e."),
        ("true == a.is_on", "there is no field 'true'."),
    ],
)
def test_an_unknown_path_is_an_error_that_names_the_nearest(text, message):
    with pytest.raises(errors.ConfigError) as caught:
        restrictions.find_violations([text], VALUES)

    assert message in str(caught.value)


_ALTERNATIVES = {"x": "", "y": "", "z": None}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("x != '' or y != ''", False),
        ("x != '' or y == ''", True),
        ("x == '' or y != ''", True),
        ("x != '' or y != '' or z == None", True),
        ("x == ' or ' or y == 'a or b'", False),
        ("x != ' or ' or y == 'a or b'", True),
    ],
)
def test_one_of_several_conditions_has_to_hold(text, holds):
    assert (not restrictions.find_violations([text], _ALTERNATIVES)) is holds


def test_where_none_of_several_holds_both_sides_of_each_are_shown():
    (found,) = restrictions.find_violations(["x != '' or z > 3"], _ALTERNATIVES)

    assert found.startswith("x != '' or z > 3: does not hold, got '' and '', got None and 3; `>`")


def test_half_a_condition_beside_a_whole_one_is_an_error():
    with pytest.raises(errors.ConfigError, match="expected two sides"):
        restrictions.find_violations(["x == '' or y"], _ALTERNATIVES)
