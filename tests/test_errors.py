import pickle

import pytest

from quintain import errors


@pytest.mark.parametrize(
    ("error", "bases"),
    [
        (errors.ConfigError, ValueError),
        (errors.UnknownKeyError, (KeyError, AttributeError, ValueError)),
        (errors.UnsupportedTypeError, (TypeError, ValueError)),
        (errors.RestrictionError, (KeyError, ValueError)),
        (errors.RegistryError, LookupError),
        (errors.DataError, ValueError),
        (errors.TrainingDivergedError, RuntimeError),
    ],
)
def test_errors_can_be_caught_as_built_in_ones(error, bases):
    assert issubclass(error, errors.QuintainError)
    assert all(issubclass(error, base) for base in (bases if type(bases) is tuple else (bases,)))


def test_a_message_is_shown_without_quotes():
    assert str(errors.UnknownKeyError("a: it's unknown")) == "a: it's unknown"
    assert str(errors.RestrictionError("a < b")) == "a < b"


def test_several_problems_are_counted_and_listed():
    problems = [
        errors.Problem("a.b", "wrong."),
        errors.Problem("c", "bad."),
        errors.Problem("", "x"),
    ]

    error = errors.ConfigError.from_problems(problems)

    assert str(error) == "3 problems:\na.b: wrong.\nc: bad.\nx"
    assert list(error.problems) == problems
    assert type(error) is errors.ConfigError


def test_one_unknown_name_makes_it_an_unknown_key_error():
    unknown = errors.Problem("a", "unknown.", is_unknown=True)

    error = errors.ConfigError.from_problems([errors.Problem("b", "wrong."), unknown])

    assert type(error) is errors.UnknownKeyError


def test_an_unsupported_value_makes_it_a_type_error_unless_a_name_is_unknown():
    unsupported = errors.Problem("a", "no plain data.", is_unsupported=True)
    unknown = errors.Problem("b", "unknown.", is_unknown=True)

    assert type(errors.ConfigError.from_problems([unsupported])) is errors.UnsupportedTypeError
    both = errors.ConfigError.from_problems([unsupported, unknown])
    assert type(both) is errors.UnknownKeyError


def test_an_error_survives_a_process_border():
    error = errors.ConfigError.from_problems([errors.Problem("a", "unknown.", is_unknown=True)])

    again = pickle.loads(pickle.dumps(error))

    assert (type(again), str(again), again.problems) == (type(error), str(error), error.problems)


def test_a_name_that_is_near_nothing_gets_no_suggestion():
    assert errors.suggest("xyz", ["train_steps"]) == ""
    assert errors.suggest("x", []) == ""
    assert errors.suggest("1x", map(str, range(10_000))) == ""  # It would take seconds.


def test_long_names_are_cut_where_they_are_enumerated():
    assert len(errors.enumerate_some(["x" * 10**6, "y"])) < 300
