import types

import pytest
import tensorflow as tf

from quintain import errors
from quintain.distribute import distribution, tpu
from quintain.settings import config_definitions as cfg


@pytest.fixture
def calls(monkeypatch):
    """A TPU of 8 cores on one machine, which notes how it is used."""
    noted = []

    def note(name, result=None):
        def call(*args, **kwargs):
            noted.append((name, args, kwargs))
            return result

        return call

    job = types.SimpleNamespace()
    spec = types.SimpleNamespace(jobs=["worker"], job_tasks=lambda name: ["host:1"])
    job.num_accelerators = lambda: {"TPU": 8}
    job.cluster_spec = lambda: spec
    monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", note("resolver", job))
    monkeypatch.setattr(tf.config, "experimental_connect_to_cluster", note("connect"))
    monkeypatch.setattr(
        tf.tpu.experimental, "initialize_tpu_system", note("initialize", "topology")
    )
    monkeypatch.setattr(tf.tpu.experimental.DeviceAssignment, "build", note("assign", "assignment"))
    monkeypatch.setattr(tf.distribute, "TPUStrategy", note("strategy", "the strategy"))
    return noted


def _find(calls, name):
    return [(args, kwargs) for called, args, kwargs in calls if called == name]


def test_a_named_tpu_is_connected_to_and_initialised(calls):
    runtime = cfg.RuntimeConfig(distribution_strategy="tpu", tpu="grpc://10.0.0.2:8470")

    strategy = distribution.build_strategy(runtime)

    assert strategy == "the strategy"
    assert _find(calls, "resolver") == [((), {"tpu": "grpc://10.0.0.2:8470"})]
    assert len(_find(calls, "connect")) == len(_find(calls, "initialize")) == 1
    assert _find(calls, "strategy")[0][1] == {}


@pytest.mark.parametrize(("name", "address"), [(None, ""), ("", ""), ("local", "local")])
def test_the_tpu_of_this_machine_needs_no_connection(calls, name, address):
    tpu.tpu_initialize(name)

    assert _find(calls, "resolver") == [((), {"tpu": address})]
    assert _find(calls, "connect") == []


def test_a_model_can_be_split_over_cores(calls):
    runtime = cfg.RuntimeConfig(
        distribution_strategy="tpu", use_tpu_mp_strategy=True, num_cores_per_replica=2
    )

    distribution.build_strategy(runtime)

    (assignment,) = _find(calls, "assign")
    assert assignment[1] == {"computation_shape": [1, 1, 1, 2], "num_replicas": 4}
    assert _find(calls, "strategy")[0][1] == {"experimental_device_assignment": "assignment"}


def test_cores_that_do_not_divide_the_tpu_are_an_error(calls):
    runtime = cfg.RuntimeConfig(
        distribution_strategy="tpu", use_tpu_mp_strategy=True, num_cores_per_replica=3
    )

    with pytest.raises(
        errors.ConfigError, match=r"num_cores_per_replica: got 3, expected a divisor"
    ):
        distribution.build_strategy(runtime)


def test_without_a_tpu_the_error_names_the_field_and_what_to_do(monkeypatch):
    def fail(tpu):
        raise ValueError("Please provide a TPU Name to connect to.")

    monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", fail)

    with pytest.raises(errors.ConfigError, match=r"^runtime\.tpu: got 'mine', .*--tpu=NAME"):
        tpu.tpu_initialize("mine")


@pytest.mark.parametrize(("value", "expected"), [(None, True), (True, True), (False, False)])
def test_the_padder_is_set_in_the_options_of_a_step(value, expected):
    runtime = cfg.RuntimeConfig(tpu_enable_xla_dynamic_padder=value)

    options = tpu.get_runtime_options(runtime)

    assert options.experimental_xla_options.enable_xla_dynamic_padder is expected


def test_batches_are_split_along_the_dimension():
    noted = []
    strategy = types.SimpleNamespace(
        experimental_split_to_logical_devices=lambda tensor, parts: noted.append(parts) or tensor
    )
    inputs = {"matrix": tf.zeros([4, 6]), "vector": tf.zeros([4])}
    runtime = cfg.RuntimeConfig(
        use_tpu_mp_strategy=True, num_cores_per_replica=2, default_shard_dim=1
    )

    tpu.split_inputs(strategy, runtime, inputs)

    assert noted == [[1, 2]]
    assert tpu.split_inputs(strategy, cfg.RuntimeConfig(), inputs) is inputs
