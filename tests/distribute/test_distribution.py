import json
import os

import keras
import pytest
import tensorflow as tf

from quintain import errors
from quintain.core import task_factory
from quintain.distribute import distribution
from quintain.kernels import library
from quintain.run import train_lib
from quintain.settings import config_definitions as cfg


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("one_device", tf.distribute.OneDeviceStrategy),
        ("mirrored", tf.distribute.MirroredStrategy),
        ("MIRRORED", tf.distribute.MirroredStrategy),
    ],
)
def test_names_give_their_strategies(name, kind):
    strategy = distribution.build_strategy(cfg.RuntimeConfig(distribution_strategy=name))

    assert isinstance(strategy, kind)
    assert strategy.num_replicas_in_sync == 1


def test_off_gives_the_strategy_in_force():
    runtime = cfg.RuntimeConfig(distribution_strategy="off")

    assert distribution.build_strategy(runtime) is tf.distribute.get_strategy()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"distribution_strategy": "tpu"}, r"runtime\.tpu: got None, but there is no TPU"),
        ({"distribution_strategy": "miror"}, "expected one of off, one_device, mirrored"),
        (
            {"distribution_strategy": "multi_worker_mirrored", "all_reduce_alg": "tree"},
            "expected auto, ring or nccl",
        ),
        (
            {"distribution_strategy": "multi_worker_mirrored", "worker_hosts": "a:1,b:1"},
            "runtime.task_index: got -1, expected 0 to 1",
        ),
        ({"distribution_strategy": "one_device", "num_gpus": 2}, "expected at most 1"),
        ({"num_gpus": 1000}, "TensorFlow finds"),
    ],
)
def test_impossible_runtimes_are_errors(fields, message):
    with pytest.raises(errors.ConfigError, match=message):
        distribution.build_strategy(cfg.RuntimeConfig(**fields))


@pytest.mark.parametrize(
    ("dtype", "policy"), [(None, "float32"), ("bfloat16", "mixed_bfloat16"), ("float32", "float32")]
)
def test_precision_is_set_inside_and_put_back(dtype, policy):
    before = keras.config.dtype_policy().name

    with distribution.precision(cfg.RuntimeConfig(mixed_precision_dtype=dtype)):
        inside = keras.config.dtype_policy().name

    assert inside == policy
    assert keras.config.dtype_policy().name == before


@pytest.mark.parametrize(
    ("flags", "warns"),
    [({"avx2", "fma"}, True), ({"avx2", "avx512_bf16"}, False), (None, False)],
)
def test_bfloat16_without_instructions_for_it_is_told(flags, warns, monkeypatch, caplog):
    monkeypatch.setattr(library, "_read_processor_flags", lambda: flags)

    with distribution.precision(cfg.RuntimeConfig(mixed_precision_dtype="bfloat16")):
        pass

    assert ("float32 is faster here" in caplog.text) == warns


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"mixed_precision_dtype": "mixed_float16"}, "mixed_precision_dtype"),
        ({"loss_scale": "big"}, "loss_scale"),
        ({"run_eagerly": True, "enable_xla": True}, "run_eagerly"),
    ],
)
def test_values_that_do_not_fit_are_found_by_validate(fields, path):
    with pytest.raises(errors.ConfigError, match=f"^{path}: got"):
        cfg.RuntimeConfig(**fields).validate()


@pytest.mark.slow
def test_the_api_builds_models_in_the_precision_of_the_runtime(line_params):
    params = line_params({"runtime": {"mixed_precision_dtype": "bfloat16"}})
    task = task_factory.get_task(params.task)
    strategy = distribution.build_strategy(params.runtime)

    model, _ = train_lib.run_experiment(
        strategy, task, "train", params.replace(trainer={"train_steps": 5}), None
    )

    assert model.layers[0].compute_dtype == "bfloat16"
    assert {variable.dtype for variable in model.trainable_variables} == {"float32"}
    assert keras.config.dtype_policy().name == "float32"


@pytest.fixture
def no_tf_config(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "")
    monkeypatch.delenv("TF_CONFIG")


def test_worker_hosts_become_tf_config(no_tf_config, monkeypatch):
    count = distribution.configure_cluster("a:1, b:2", 1)
    config = json.loads(os.environ["TF_CONFIG"])
    monkeypatch.delenv("TF_CONFIG")

    assert count == 2
    assert config == {
        "cluster": {"worker": ["a:1", "b:2"]},
        "task": {"type": "worker", "index": 1},
    }


def test_a_tf_config_that_is_there_wins(monkeypatch):
    given = json.dumps({"cluster": {"chief": ["c:0"], "worker": ["x:1", "y:2"]}})
    monkeypatch.setenv("TF_CONFIG", given)

    assert distribution.configure_cluster("a:1", 0) == 3
    assert os.environ["TF_CONFIG"] == given


def test_without_hosts_there_is_one_worker(no_tf_config):
    assert distribution.configure_cluster(None, -1) == 1
    assert "TF_CONFIG" not in os.environ


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"gpu_thread_mode": "private"}, "gpu_thread_mode"),
        ({"num_virtual_cpus": 2, "distribution_strategy": "one_device"}, "num_virtual_cpus"),
        ({"num_virtual_cpus": 2, "num_gpus": 1}, "num_virtual_cpus"),
        ({"num_cores_per_replica": 2}, "num_cores_per_replica"),
        ({"default_shard_dim": -2}, "default_shard_dim"),
        ({"enable_xla": True, "num_virtual_cpus": 2}, "enable_xla"),
        (
            {"enable_xla": True, "distribution_strategy": "multi_worker_mirrored"},
            "enable_xla",
        ),
    ],
)
def test_fields_of_the_machine_are_checked(fields, path):
    with pytest.raises(errors.ConfigError, match=f"^{path}: got"):
        cfg.RuntimeConfig(**fields).validate()


def test_no_strategy_has_a_scope_that_does_nothing():
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")

    with distribution.get_strategy_scope(None):
        assert not tf.distribute.has_strategy()
    with distribution.get_strategy_scope(strategy):
        assert tf.distribute.get_strategy() is strategy


@pytest.fixture(scope="module")
def fresh_process(run_program):
    return run_program("settings_of_a_process.py")


@pytest.mark.slow
def test_settings_of_gpus_are_in_the_environment_before_tensorflow_starts(fresh_process):
    assert fresh_process["threads"] == ["gpu_private", "2"]
    assert fresh_process["persistent"] == "1"


@pytest.mark.slow
def test_all_reduce_is_set_as_asked(fresh_process):
    # 9 float32 weights in 4 packs.
    assert fresh_process["implementation"] == "RING"
    assert fresh_process["bytes_per_pack"] == 9


@pytest.mark.slow
def test_the_cpu_can_not_be_split_after_the_start(fresh_process):
    assert "runtime.num_virtual_cpus: got 3" in fresh_process["message"]


@pytest.mark.slow
def test_operations_are_deterministic_if_asked_for(fresh_process):
    assert fresh_process["is_deterministic"] is True
