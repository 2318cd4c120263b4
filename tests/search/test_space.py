import numpy as np
import pytest

from quintain import errors
from quintain.search import hyperparameters
from quintain.search import space as space_lib

CONFIG = {
    "units": {"type": "int", "minval": 1, "maxval": 6, "count": 3},
    "rate": {"type": "log", "base": 10, "minval": -3, "maxval": -1, "count": 3},
    "dropout": {"type": "double", "minval": 0.0, "maxval": 0.5, "count": 2},
    "kind": {"type": "categorical", "vals": ["a", "b"]},
    "metrics": ["loss"],
    "fixed": {"type": "const", "val": 7},
}


def test_sampling_follows_numpy_in_the_order_of_names():
    space = space_lib.Space.parse(CONFIG)

    sampled = space.sample(np.random.RandomState(5))

    random = np.random.RandomState(5)
    assert sampled == {
        "dropout": random.uniform(0.0, 0.5),
        "fixed": 7,
        "kind": ["a", "b"][random.randint(0, 2)],
        "metrics": ["loss"],
        "rate": 10.0 ** random.uniform(-3, -1),
        "units": random.randint(1, 7),
    }


def test_both_ends_of_an_int_range_are_drawn():
    parameter = hyperparameters.Int(1, 3)
    random = np.random.RandomState(0)

    assert {parameter.sample(random) for _ in range(100)} == {1, 2, 3}


def test_the_grid_varies_the_last_name_fastest():
    space = space_lib.Space.parse(
        {
            "b": {"type": "categorical", "vals": [1, 2]},
            "a": {"type": "int", "minval": 0, "maxval": 9, "count": 2},
        }
    )

    assert list(space.grid()) == [
        {"a": 0, "b": 1},
        {"a": 0, "b": 2},
        {"a": 9, "b": 1},
        {"a": 9, "b": 2},
    ]


@pytest.mark.parametrize(
    ("parameter", "points"),
    [
        (hyperparameters.Int(1, 6, 3), [1, 4, 6]),
        (hyperparameters.Int(1, 3, 10), [1, 2, 3]),
        (hyperparameters.Int(2, 5, 1), [4]),
        (hyperparameters.Double(0.0, 1.0, 3), [0.0, 0.5, 1.0]),
        (hyperparameters.Double(0.0, 1.0, 1), [0.5]),
        (hyperparameters.Log(-2, 0, 10.0, 3), [0.01, 0.1, 1.0]),
        (hyperparameters.Log(-2, 0, 10.0, 1), [0.1]),
        (hyperparameters.Const([1, 2]), [[1, 2]]),
    ],
)
def test_grid_points_of_one_parameter(parameter, points):
    assert parameter.grid() == pytest.approx(points) if points != [[1, 2]] else [[1, 2]]


def test_groups_nest_and_conditions_leave_out_what_is_not_used():
    space = space_lib.Space.parse(
        {
            "optimizer": {
                "name": {"type": "categorical", "vals": ["sgd", "adam"]},
                "momentum": {
                    "type": "categorical",
                    "vals": [0.0, 0.9],
                    "when": {"optimizer.name": "sgd"},
                },
            }
        }
    )

    assert list(space.grid()) == [
        {"optimizer": {"momentum": 0.0, "name": "sgd"}},
        {"optimizer": {"name": "adam"}},
        {"optimizer": {"momentum": 0.9, "name": "sgd"}},
    ]


def test_a_grid_needs_counts():
    space = space_lib.Space.parse({"rate": {"type": "double", "minval": 0, "maxval": 1}})

    with pytest.raises(errors.ConfigError, match=r"hyperparameters\.rate: count: missing"):
        space.num_grid_points()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"a": {"type": "itn"}}, r"a\.type: got 'itn'.*Did you mean 'int'"),
        ({"a": {"type": "int", "minval": 1}}, r"a\.maxval: missing"),
        ({"a": {"type": "int", "minval": 3, "maxval": 3}}, r"a\.maxval: got 3, expected more"),
        ({"a": {"type": "int", "minval": 0.5, "maxval": 3}}, r"a\.minval: got 0\.5.*an integer"),
        ({"a": {"type": "double", "minval": "x", "maxval": 3}}, r"a\.minval: got 'x'"),
        ({"a": {"type": "log", "base": 0, "minval": 1, "maxval": 3}}, r"a\.base: got 0"),
        ({"a": {"type": "categorical", "vals": []}}, r"a\.vals: got \[\]"),
        ({"a": {"type": "const", "value": 3}}, r"a\.value: unknown; .*Did you mean 'val'"),
        ({"a": {"type": "const", "val": 3, "when": {"b": 1}}}, r"a\.when: got 'b'"),
        ({"g": {"a": {"type": "int", "minval": 1}}}, r"hyperparameters\.g\.a\.maxval"),
    ],
)
def test_mistakes_are_reported_with_their_place(config, message):
    with pytest.raises(errors.ConfigError, match=message):
        space_lib.Space.parse(config)


def test_several_mistakes_are_reported_at_once():
    with pytest.raises(errors.ConfigError) as caught:
        space_lib.Space.parse({"a": {"type": "x"}, "b": {"type": "int"}})

    assert len(caught.value.problems) == 3


def test_neighbours_stay_in_range():
    space = space_lib.Space.parse(CONFIG)
    random = np.random.RandomState(0)
    point = space.sample(random)

    for _ in range(50):
        point = space.explore(point, random, resample_probability=0.1, perturb_factor=0.5)
        assert 1 <= point["units"] <= 6
        assert 0.0 <= point["dropout"] <= 0.5
        assert 1e-3 <= point["rate"] <= 1e-1
        assert point["metrics"] == ["loss"]


SPACE = {
    "lr": {"type": "log", "minval": -4, "maxval": -1},
    "net": {"units": {"type": "int", "minval": 1, "maxval": 64}},
    "kind": {"type": "categorical", "vals": ["a", "b", True]},
    "c": 3,
}


def test_points_that_are_given_come_first_and_change_no_others():
    drawn, given = (space_lib.Space.parse(SPACE) for _ in range(2))
    points = [{"lr": 1e-3, "net": {"units": 8.0}}, {"net.units": 9, "kind": True}]
    given.first_points.extend(given.parse_points(points, "p"))
    sources = [np.random.RandomState(1) for _ in range(2)]

    for expected in ({"lr": 1e-3, "net": {"units": 8}}, {"net": {"units": 9}, "kind": True}, {}):
        assert given.sample(sources[1]) == {**drawn.sample(sources[0]), **expected}


def test_points_outside_of_the_space_are_refused():
    point = {"lrr": 1, "lr": 5, "kind": 1, "c": 4, "net": {"units": 1.5}}

    with pytest.raises(errors.ConfigError) as caught:
        space_lib.Space.parse(SPACE).parse_points([{}, point], "p")

    assert [(one.path, one.message) for one in caught.value.problems] == [
        ("p[1].lrr", "unknown hyperparameter. Did you mean 'lr'?"),
        ("p[1].lr", "got 5, expected a number from 0.0001 to 0.1."),
        ("p[1].kind", "got 1, expected one of 'a', 'b', True."),
        ("p[1].c", "got 4, expected 3, a constant."),
        ("p[1].net.units", "got 1.5, expected a whole number from 1 to 64."),
    ]


PRIORS = {
    "rate": {
        "type": "log", "minval": -4, "maxval": 0, "prior": {"center": 1e-3, "confidence": "high"},
    },
    "units": {"type": "int", "minval": 1, "maxval": 101, "prior": {"center": 100}},
    "keep": {
        "type": "double", "minval": 0.0, "maxval": 1.0,
        "prior": {"center": 0.5, "confidence": "low"},
    },
    "kind": {"type": "categorical", "vals": ["a", "b", "c"], "prior": {"center": "b"}},
    "free": {"type": "double", "minval": 0.0, "maxval": 1.0},
}  # fmt: skip


def test_half_of_the_points_are_drawn_near_what_users_guess():
    space, random = space_lib.Space.parse(PRIORS), np.random.RandomState(3)
    points = [space.sample(random) for _ in range(4000)]

    def share(is_near):
        return np.mean([is_near(point) for point in points])

    # Within one deviation are 0.683 of the near half, and of the others what the range has.
    half = 0.683 / 2
    assert share(lambda p: abs(np.log10(p["rate"]) + 3) < 0.2) == pytest.approx(
        half + 0.5 * 0.4 / 4, abs=0.03
    )
    # A normal distribution of deviation 0.25 within two deviations of its centre.
    assert share(lambda p: abs(p["keep"] - 0.5) < 0.25) == pytest.approx(
        0.5 * 0.683 / 0.954 + 0.25, abs=0.03
    )
    assert share(lambda p: p["kind"] == "b") == pytest.approx(
        0.5 * (0.75 + 0.25 / 3) + 0.5 / 3, abs=0.03
    )
    assert share(lambda p: p["units"] > 80) == pytest.approx(0.5 * 0.97 + 0.5 * 0.2, abs=0.03)
    assert {p["units"] for p in points} <= set(range(1, 102))
    assert share(lambda p: p["free"] < 0.5) == pytest.approx(0.5, abs=0.03)
    # All of a point is near, or none of it.
    kinds = [p["kind"] == "b" for p in points if abs(np.log10(p["rate"]) + 3) > 1]
    assert np.mean(kinds) == pytest.approx(1 / 3, abs=0.04)


def test_a_guess_has_to_be_in_its_range():
    problems = {
        "rate": {"type": "log", "minval": -4, "maxval": 0, "prior": {"center": 3}},
        "kind": {"type": "categorical", "vals": ["a"], "prior": {"center": "b"}},
        "units": {"type": "int", "minval": 1, "maxval": 5, "prior": {"confidence": "sure"}},
    }

    with pytest.raises(errors.ConfigError) as caught:
        space_lib.Space.parse(problems, "hyperparameters")

    text = str(caught.value)
    assert "hyperparameters.rate.prior.center: got 3, expected a number from 0.0001 to 1." in text
    assert "hyperparameters.kind.prior.center: got 'b', expected one of 'a'." in text
    assert "hyperparameters.units.prior.confidence: got 'sure'" in text
