import dataclasses

import keras
import pytest

from quintain import errors, optimization
from quintain.config import base_config
from quintain.optimization import ema, optimizer_factory
from quintain.optimization.configs import optimization_config
from quintain.optimization.rules import adam, sgd
from quintain.optimization.schedules import lr_schedule

_RATES = {
    "constant": {"learning_rate": 0.1},
    "stepwise": {"boundaries": [10], "values": [0.1, 0.01]},
    "exponential": {"initial_learning_rate": 0.1, "decay_steps": 10, "decay_rate": 0.9},
    "polynomial": {"initial_learning_rate": 0.1, "decay_steps": 10},
    "cosine": {"initial_learning_rate": 0.1, "decay_steps": 10},
    "power": {"initial_learning_rate": 0.1},
    "power_linear": {"initial_learning_rate": 0.1, "total_decay_steps": 100},
    "power_with_offset": {"initial_learning_rate": 0.1},
    "step_cosine_with_offset": {"boundaries": [0, 100], "values": [0.1, 0.01]},
    "wsd": {"initial_learning_rate": 0.1, "stable_steps": 80, "decay_steps": 20},
}


def _make_config(optimizer="sgd", rate="constant", warmup=None, **fields):
    """Makes a config; `fields` override parts of it by `part__field=value`."""
    config = optimization.OptimizationConfig(
        {
            "optimizer": {"type": optimizer},
            "learning_rate": {"type": rate, rate: dict(_RATES[rate])},
            "warmup": {"type": warmup},
        }
    )
    if warmup:
        config.warmup.override({warmup: {"warmup_steps": 5}})
    for path, value in fields.items():
        part, name = path.split("__")
        config.get(part).get().override({name: value})
    return config


def _choices(config_cls):
    return config_cls().choices()


@pytest.mark.parametrize("name", _choices(optimization.OptimizerConfig))
def test_every_optimizer_of_the_config_can_be_built(name):
    factory = optimizer_factory.OptimizerFactory(_make_config(optimizer=name))

    optimizer = factory.build_optimizer(0.1)

    assert isinstance(optimizer, keras.optimizers.Optimizer)
    assert optimizer.name == factory._config.optimizer.get().name


@pytest.mark.parametrize("name", _choices(optimization.LrConfig))
def test_every_learning_rate_of_the_config_can_be_built(name):
    factory = optimizer_factory.OptimizerFactory(_make_config(rate=name))

    optimizer = factory.build_optimizer(factory.build_learning_rate())

    assert float(optimizer.learning_rate.numpy()) == pytest.approx(0.1)


@pytest.mark.parametrize("name", _choices(optimization.WarmupConfig))
def test_every_warmup_of_the_config_can_be_built(name):
    factory = optimizer_factory.OptimizerFactory(_make_config(warmup=name))

    rate = factory.build_learning_rate()

    assert isinstance(rate, lr_schedule.Warmup)
    assert [float(rate(step)) for step in (1, 5)] == pytest.approx([0.02, 0.1])


@pytest.mark.parametrize(
    ("builders", "config_cls"),
    [
        (optimizer_factory.OPTIMIZERS, optimization.OptimizerConfig),
        (optimizer_factory.LEARNING_RATES, optimization.LrConfig),
        (optimizer_factory.WARMUPS, optimization.WarmupConfig),
    ],
)
def test_every_builder_has_a_config(builders, config_cls):
    assert sorted(builders.keys()) == sorted(_choices(config_cls))


def test_a_constant_without_warmup_is_a_number():
    assert optimizer_factory.OptimizerFactory(_make_config()).build_learning_rate() == 0.1


def test_the_fields_of_the_config_reach_the_optimizer():
    config = _make_config(
        optimizer="adamw",
        optimizer__beta_2=0.98,
        optimizer__weight_decay_rate=0.01,
        optimizer__exclude_from_weight_decay=["bias"],
        optimizer__clipvalue=2.0,
    )

    optimizer = optimizer_factory.OptimizerFactory(config).build_optimizer(0.1)

    described = optimizer.get_config()
    assert type(optimizer) is adam.AdamWeightDecay
    assert described["beta_2"] == 0.98
    assert described["weight_decay_rate"] == 0.01
    assert described["exclude_from_weight_decay"] == ["bias"]
    assert described["clipvalue"] == 2.0
    assert described["gradient_clip_norm"] == 1.0


def test_the_decay_of_sgd_becomes_part_of_its_schedule():
    factory = optimizer_factory.OptimizerFactory(_make_config(optimizer__decay=0.5))

    optimizer = factory.build_optimizer(factory.build_learning_rate())

    assert isinstance(optimizer.learning_rate_schedule, lr_schedule.InverseTimeDecay)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"learning_rate": {"type": "constant"}},
            r"trainer\.optimizer_config\.optimizer\.type: got None, expected one of 'sgd', 'adam'",
        ),
        (
            {"optimizer": {"type": "sgd"}},
            r"trainer\.optimizer_config\.learning_rate\.type: got None, expected one of 'constant'",
        ),
        (
            {"optimizer": {"type": "sgd"}, "learning_rate": {"type": "cosine"}},
            r"learning_rate\.cosine\.initial_learning_rate: got None, expected a value",
        ),
        (
            {
                "optimizer": {"type": "sgd"},
                "learning_rate": {"type": "constant"},
                "warmup": {"type": "linear"},
            },
            r"trainer\.optimizer_config\.warmup\.linear\.warmup_steps: got None",
        ),
        (
            {
                "optimizer": {"type": "adam", "adam": {"clipnorm": 1.0, "global_clipnorm": 1.0}},
                "learning_rate": {"type": "constant"},
            },
            r"trainer\.optimizer_config\.optimizer\.adam\.clipnorm: got 1\.0 together with",
        ),
        (
            {
                "optimizer": {"type": "sgd"},
                "learning_rate": {
                    "type": "stepwise",
                    "stepwise": {"boundaries": [5, 5], "values": [1.0, 0.5, 0.1]},
                },
            },
            r"learning_rate\.stepwise\.boundaries: got \[5, 5\], expected increasing steps",
        ),
        (
            {
                "optimizer": {"type": "sgd"},
                "learning_rate": {
                    "type": "stepwise",
                    "stepwise": {"boundaries": [5], "values": [1.0]},
                },
            },
            r"learning_rate\.stepwise\.values: got 1 for 1 boundaries",
        ),
        (
            {
                "optimizer": {"type": "adamw", "adamw": {"exclude_from_weight_decay": ["("]}},
                "learning_rate": {"type": "constant"},
            },
            r"optimizer\.adamw\.exclude_from_weight_decay: got '\(', expected a regular",
        ),
        (
            {
                "optimizer": {"type": "adam", "adam": {"learning_rate_factors": {"[": 2.0}}},
                "learning_rate": {"type": "constant"},
            },
            r"optimizer\.adam\.learning_rate_factors: got '\[', expected a regular",
        ),
    ],
)
def test_what_is_missing_or_does_not_fit_is_an_error_that_names_its_path(config, message):
    with pytest.raises(errors.ConfigError, match=message):
        optimizer_factory.OptimizerFactory(optimization.OptimizationConfig(config))


def test_an_unknown_type_is_an_error_with_the_choices():
    config = _make_config()
    config.optimizer.type = "adamm"

    with pytest.raises(errors.ConfigError, match=r"optimizer\.type: got 'adamm'.*mean 'adam'"):
        optimizer_factory.OptimizerFactory(config)


def test_the_unpublished_optimizer_is_refused_with_the_reason_and_others():
    with pytest.raises(errors.ConfigError, match=r"never published.*'lamb'.*'adafactor'"):
        optimization.OptimizationConfig({"optimizer": {"type": "slide"}})

    config = _make_config()
    config.optimizer.type = "slide"
    with pytest.raises(errors.ConfigError, match=r"^trainer\.optimizer_config\.optimizer"):
        optimizer_factory.OptimizerFactory(config)


def test_gradient_functions_reach_the_optimizer():
    aggregator, transformer = (lambda pairs: pairs), (lambda pairs: pairs)
    factory = optimizer_factory.OptimizerFactory(_make_config())

    optimizer = factory.build_optimizer(
        0.1, gradient_aggregator=aggregator, gradient_transformers=[transformer]
    )

    assert optimizer._gradient_aggregator is aggregator
    assert optimizer._gradient_transformers == (transformer,)


def test_the_postprocessor_has_the_last_word():
    factory = optimizer_factory.OptimizerFactory(_make_config())

    optimizer = factory.build_optimizer(0.1, postprocessor=keras.optimizers.LossScaleOptimizer)

    assert type(optimizer) is keras.optimizers.LossScaleOptimizer


def test_what_is_not_an_optimizer_is_an_error():
    factory = optimizer_factory.OptimizerFactory(_make_config())

    with pytest.raises(TypeError, match="got 'text' from building 'sgd'"):
        factory.build_optimizer(0.1, postprocessor=lambda optimizer: "text")


def test_a_registered_optimizer_is_built_from_its_own_config():
    @dataclasses.dataclass
    class MyOptimizerConfig(optimization_config.OptimizerConfig):
        my_sgd: optimization.SGDConfig = dataclasses.field(default_factory=optimization.SGDConfig)

    config = _make_config()
    config.optimizer = MyOptimizerConfig(type="my_sgd")
    with optimizer_factory.OPTIMIZERS.temporarily():
        optimization.register_optimizer_cls("my_sgd", sgd.SGD)
        optimizer = optimizer_factory.OptimizerFactory(config).build_optimizer(0.1)

    assert type(optimizer) is sgd.SGD


def test_a_name_can_not_be_registered_twice():
    with pytest.raises(errors.RegistryError, match="adam already registered") as raised:
        optimization.register_optimizer_cls("adam", adam.Adam)

    assert isinstance(raised.value, ValueError)


@dataclasses.dataclass
class _KerasSgdConfig(base_config.Config):
    name: str = "mine"
    momentum: float = 0.5


@dataclasses.dataclass
class _OptimizerConfig(optimization_config.OptimizerConfig):
    keras_sgd: _KerasSgdConfig = dataclasses.field(default_factory=_KerasSgdConfig)


@dataclasses.dataclass
class _OptimizationConfig(optimization_config.OptimizationConfig):
    optimizer: _OptimizerConfig = dataclasses.field(default_factory=_OptimizerConfig)


@pytest.fixture
def keras_config():
    """A config that chooses a registered optimizer of Keras."""
    with optimizer_factory.OPTIMIZERS.temporarily():
        optimization.register_optimizer_cls("keras_sgd", keras.optimizers.SGD)
        config = _OptimizationConfig({"learning_rate": {"type": "constant"}})
        config.override({"optimizer": {"type": "keras_sgd", "keras_sgd": {"momentum": 0.9}}})
        yield config


def test_an_optimizer_of_keras_is_chosen_and_overridden_in_a_config_of_ones_own(keras_config):
    optimizer = optimizer_factory.OptimizerFactory(keras_config).build_optimizer(0.1)

    assert type(optimizer) is keras.optimizers.SGD
    assert (optimizer.name, optimizer.momentum) == ("mine", 0.9)


def test_an_optimizer_of_keras_that_is_given_functions_of_gradients_is_an_error(keras_config):
    factory = optimizer_factory.OptimizerFactory(keras_config)

    with pytest.raises(TypeError, match=r"gradient_aggregator: 'keras_sgd'.*FusedOptimizer"):
        factory.build_optimizer(0.1, gradient_aggregator=lambda pairs: pairs)


def test_the_names_of_the_reference_show_the_same_optimizers():
    for names in (optimizer_factory.LEGACY_OPTIMIZERS_CLS, optimizer_factory.NEW_OPTIMIZERS_CLS):
        assert names["adamw"] is adam.AdamWeightDecay
    assert optimizer_factory.LR_CLS["cosine"] is lr_schedule.CosineDecayWithOffset
    assert optimizer_factory.WARMUP_CLS["linear"] is lr_schedule.LinearWarmup


def test_decay_is_refused_where_it_should_be_part_of_the_learning_rate():
    plain = optimizer_factory.OptimizerFactory(_make_config())
    decaying = optimizer_factory.OptimizerFactory(_make_config(optimizer__decay=0.5))

    assert type(plain.build_optimizer(0.1, use_legacy_optimizer=False)) is sgd.SGD
    with pytest.raises(errors.ConfigError, match=r"optimizer\.sgd\.decay: got 0\.5"):
        decaying.build_optimizer(0.1, use_legacy_optimizer=False)


def test_an_average_is_wrapped_around_the_optimizer():
    factory = optimizer_factory.OptimizerFactory(
        optimization_config.OptimizationConfig(
            {
                "optimizer": {"type": "sgd"},
                "learning_rate": {"type": "constant"},
                "ema": {"average_decay": 0.9, "start_step": 5},
            }
        )
    )

    optimizer = factory.build_optimizer(factory.build_learning_rate())

    assert isinstance(optimizer, ema.ExponentialMovingAverage)
    assert isinstance(optimizer.inner_optimizer, sgd.SGD)
    assert (optimizer.average_decay, optimizer.start_step) == (0.9, 5)
