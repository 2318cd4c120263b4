import pytest

from quintain import errors
from quintain.settings import runtime_config


@pytest.mark.parametrize("name", ["mirrored", "Mirrored", "MIRRORED"])
def test_a_strategy_is_found_in_upper_and_lower_case(name):
    config = runtime_config.RuntimeConfig(distribution_strategy=name, num_virtual_cpus=2)

    config.validate()

    assert config.distribution is runtime_config.Distribution.MIRRORED


def test_an_unknown_strategy_is_found_before_anything_is_built():
    config = runtime_config.RuntimeConfig(distribution_strategy="miror")

    with pytest.raises(errors.ConfigError, match=r"got 'miror', expected one of off, .*'mirrored'"):
        config.validate()


def test_an_off_that_yaml_took_for_false_is_explained():
    config = runtime_config.RuntimeConfig(distribution_strategy="False")

    with pytest.raises(errors.ConfigError, match=r"runtime\.distribution_strategy: .*Quote 'off'"):
        _ = config.distribution


@pytest.mark.parametrize(
    "other",
    [{"enable_xla": True}, {"distribution_strategy": "tpu", "tpu": "local"}],
    ids=["xla", "tpu"],
)
def test_xla_is_not_told_what_to_compute_again(other):
    config = runtime_config.RuntimeConfig(rematerialize=True, **other)

    with pytest.raises(errors.ConfigError, match=r"rematerialize: got True with XLA"):
        config.validate()
