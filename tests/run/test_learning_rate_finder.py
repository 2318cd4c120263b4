import math

import pytest

from quintain import errors
from quintain.run import learning_rate_finder


def test_the_rate_of_the_steepest_fall_is_suggested():
    rates = [10.0 ** (index - 6) for index in range(7)]

    found = learning_rate_finder.choose(rates, [5.0, 4.9, 4.0, 2.0, 1.5, 1.4, 3.0])

    assert found.suggestion == pytest.approx(1e-4)
    assert found.best == pytest.approx(1e-1)


def test_a_loss_that_only_rises_suggests_nothing():
    assert learning_rate_finder.choose([0.1, 1.0], [1.0, 2.0]).suggestion is None


def test_without_a_loss_there_is_an_error():
    with pytest.raises(errors.TrainingDivergedError, match="Look at the data"):
        learning_rate_finder.choose([], [])


@pytest.mark.slow
def test_a_line_is_learned_fastest_below_the_rate_at_which_it_blows_up(line_params, tmp_path):
    optimizer = {"type": "sgd", "sgd": {"momentum": 0.0}}
    params = line_params({"trainer": {"optimizer_config": {"optimizer": optimizer}}})
    seen = []

    found = learning_rate_finder.find(
        params, str(tmp_path), lowest=1e-4, highest=1e2, num_steps=60,
        report=lambda step, rate, loss: seen.append((step, rate)),
    )  # fmt: skip

    assert found.is_blown_up
    assert found.suggestion < found.best < 10
    assert found.learning_rates[1] / found.learning_rates[0] == pytest.approx(10 ** (6 / 59))
    assert seen == list(enumerate(found.learning_rates, start=1))
    assert all(map(math.isfinite, found.losses))


def test_an_empty_range_is_refused(line_params, tmp_path):
    with pytest.raises(errors.ConfigError, match=r"from 1 to 0\.1 in 100 steps, expected a rising"):
        learning_rate_finder.find(line_params(), str(tmp_path), lowest=1.0, highest=0.1)
