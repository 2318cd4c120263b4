import pytest
import tensorflow as tf

from quintain import errors
from quintain.distribute import replica_steps
from quintain.kernels import library, selection
from quintain.kernels.modes import KernelMode
from quintain.settings import config_definitions as cfg


@pytest.fixture(name="has_kernels")
def _has_kernels(monkeypatch):
    monkeypatch.setattr(library, "find_reason", lambda: None)


def _trace(**settings):
    """Returns whether a training step of these settings would use native kernels."""
    seen = []

    def step():
        seen.append(selection.is_native())
        return tf.constant(0.0)

    runtime = cfg.RuntimeConfig(**settings)
    tf.function(replica_steps.compile_train_step(step, runtime))()
    return seen[0]


@pytest.mark.parametrize(
    ("settings", "is_native"),
    [
        ({}, True),
        ({"kernels": "native"}, True),
        ({"kernels": "tensorflow"}, False),
        ({"enable_xla": True}, False),
        ({"distribution_strategy": "parameter_server"}, False),
    ],
)
def test_only_steps_that_can_use_native_kernels(has_kernels, settings, is_native):
    assert _trace(**settings) == is_native
    assert not selection.is_native()


def test_auto_takes_tensorflows_where_there_are_none(monkeypatch):
    monkeypatch.setattr(library, "find_reason", lambda: "no reason")

    replica_steps.check_kernels(cfg.RuntimeConfig())

    assert not _trace()


def test_native_is_an_error_where_there_are_none(monkeypatch):
    monkeypatch.setattr(library, "find_reason", lambda: "there is no C++ compiler")

    with pytest.raises(
        errors.ConfigError, match=r"runtime\.kernels: got 'native', .*no C\+\+ compiler"
    ):
        replica_steps.check_kernels(cfg.RuntimeConfig(kernels="native"))


def test_native_is_an_error_under_xla(has_kernels):
    with pytest.raises(errors.ConfigError, match="XLA compiles the steps"):
        replica_steps.check_kernels(cfg.RuntimeConfig(kernels="native", enable_xla=True))


def test_replicas_on_gpus_do_not_use_them(has_kernels, monkeypatch):
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: ["it"] * (kind == "GPU"))

    assert selection.find_reason(KernelMode.AUTO) == "steps run on a GPU"


def test_names_the_nearest_mode():
    with pytest.raises(errors.ConfigError, match=r"kernels: got 'nativ'.*Did you mean 'native'"):
        cfg.RuntimeConfig(kernels="nativ").validate()
