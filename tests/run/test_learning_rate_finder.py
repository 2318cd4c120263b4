import math

import pytest

import quintain.registered_experiments  # noqa: F401 - registered before the tests make room
from quintain import errors
from quintain.core import exp_factory
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


@pytest.mark.parametrize(
    ("name", "width", "expected"),
    [
        ("tabular/local", 16, {"width": 16}),
        (
            "translation/local",
            64,
            {
                "embedding_width": 64,
                "encoder": {"num_attention_heads": 2, "intermediate_size": 256},
                "decoder": {"num_attention_heads": 2, "intermediate_size": 256},
            },
        ),
    ],
)
def test_sizes_of_a_narrow_model_are_in_proportion(name, width, expected):
    model = exp_factory.get_exp_config(name).task.model

    assert learning_rate_finder.narrow(model, width) == expected


def test_only_the_encoder_that_is_chosen_gets_narrow():
    model = exp_factory.get_exp_config("bert/local").task.model
    model.override({"encoder": {"albert": {"hidden_size": 60}}})

    found = learning_rate_finder.narrow(model, model.encoder.bert.hidden_size // 2)

    assert found["encoder"].keys() == {"bert"}
    assert found["encoder"]["bert"]["num_attention_heads"] * 2 == (
        model.encoder.bert.num_attention_heads
    )


@pytest.mark.parametrize(
    ("width", "message"),
    [
        (128, "got 128, but the model is 128"),
        (60, "60/128 of the model's width, but that part of another size, 4, is no whole number"),
    ],
)
def test_a_width_that_does_not_fit_is_refused(width, message):
    model = exp_factory.get_exp_config("translation/local").task.model

    with pytest.raises(errors.ConfigError, match=message):
        learning_rate_finder.narrow(model, width)


def test_a_model_without_a_known_width_is_refused():
    with pytest.raises(errors.ConfigError, match="the model is of no known width"):
        learning_rate_finder.narrow(None, 64)


def test_the_rate_of_a_schedule_without_one_is_refused(line_params):
    rate = {"type": "stepwise"}
    params = line_params({"trainer": {"optimizer_config": {"learning_rate": rate}}})

    with pytest.raises(errors.ConfigError, match="got 'stepwise', which has no single rate"):
        learning_rate_finder.find_rate_field(params)


@pytest.mark.slow
def test_the_rate_with_the_lowest_loss_of_a_narrow_model_is_found(tmp_path):
    params = exp_factory.get_exp_config("tabular/local")
    params.lock()
    seen = []

    found = learning_rate_finder.find_narrow(
        params, str(tmp_path), {"width": 8}, [1e-5, 0.02, 1e6], num_steps=20,
        report=lambda rate, loss: seen.append((rate, loss)),
    )  # fmt: skip

    assert found.best == 0.02
    assert seen == list(zip(found.learning_rates, found.losses, strict=True))
