import subprocess
import sys

import pytest

from quintain import errors, optimization

_CONFIG = {
    "optimizer": {
        "type": "adamw",
        "adamw": {"weight_decay_rate": 0.01, "exclude_from_weight_decay": ["bias", "norm"]},
    },
    "learning_rate": {
        "type": "stepwise",
        "stepwise": {"boundaries": [10, 20], "values": [0.3, 0.2, 0.1]},
    },
    "warmup": {"type": "linear", "linear": {"warmup_steps": 5}},
}


def test_a_config_comes_back_from_its_own_plain_data():
    config = optimization.OptimizationConfig(_CONFIG)

    again = optimization.OptimizationConfig(config.as_dict())

    assert again == config
    assert again.as_dict() == config.as_dict()


def test_a_new_config_chooses_nothing():
    config = optimization.OptimizationConfig()

    assert config.optimizer.get() is None
    assert config.learning_rate.get() is None
    assert config.warmup.get() is None
    assert config.ema is None


def test_the_chosen_parts_carry_their_values():
    config = optimization.OptimizationConfig(_CONFIG)

    assert config.optimizer.get().weight_decay_rate == 0.01
    assert config.learning_rate.get().values == [0.3, 0.2, 0.1]
    assert config.warmup.get().warmup_steps == 5


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("optimizer.sgd.momentum", 1.0),
        ("optimizer.sgd.momentum", -0.1),
        ("optimizer.sgd.decay", -0.1),
        ("optimizer.adam.beta_1", 1.0),
        ("optimizer.adam.beta_2", float("nan")),
        ("optimizer.adam.epsilon", -1e-9),
        ("optimizer.adam.learning_rate_factors", {"embedding": 0.0}),
        ("optimizer.adam.clipnorm", 0.0),
        ("optimizer.adam.clipvalue", -1.0),
        ("optimizer.adam.global_clipnorm", float("inf")),
        ("optimizer.adamw.weight_decay_rate", -0.1),
        ("optimizer.adamw.gradient_clip_norm", float("nan")),
        ("optimizer.adamw.exclude_from_weight_decay", "bias"),
        ("learning_rate.constant.learning_rate", float("inf")),
        ("learning_rate.constant.learning_rate", float("nan")),
        ("learning_rate.constant.learning_rate", -0.1),
        ("learning_rate.constant.learning_rate", "0.1"),
        ("learning_rate.stepwise.boundaries", [1.5]),
        ("learning_rate.stepwise.values", [-0.1]),
        ("learning_rate.exponential.decay_steps", 0),
        ("learning_rate.exponential.decay_rate", 0.0),
        ("learning_rate.polynomial.decay_steps", -1),
        ("learning_rate.polynomial.power", 0.0),
        ("learning_rate.cosine.decay_steps", 1.5),
        ("learning_rate.cosine.alpha", -0.1),
        ("learning_rate.power.power", float("nan")),
        ("warmup.linear.warmup_steps", -1),
        ("warmup.linear.warmup_learning_rate", -0.1),
        ("warmup.polynomial.warmup_steps", -1),
        ("ema.average_decay", 1.0),
    ],
)
def test_a_value_out_of_range_is_an_error_that_names_its_path(path, value):
    first, *rest = path.split(".")
    nested = value
    for name in reversed(rest):
        nested = {name: nested}

    with pytest.raises(errors.ConfigError, match=path.replace(".", r"\.")):
        optimization.OptimizationConfig({first: nested})


def test_a_whole_number_is_a_learning_rate_too():
    config = optimization.ConstantLrConfig(learning_rate=1)

    assert config.learning_rate == 1.0


@pytest.mark.slow
def test_configs_do_not_load_tensorflow():
    code = (
        "import sys; from quintain import optimization; "
        "optimization.OptimizationConfig({'optimizer': {'type': 'adam'}}); "
        "print('tensorflow' in sys.modules, 'keras' in sys.modules)"
    )

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout.split() == ["False", "False"]
