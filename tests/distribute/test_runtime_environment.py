import pytest
import tensorflow as tf

from quintain.core import task_factory
from quintain.distribute import distribution, runtime_environment
from quintain.run import experiment_runner
from quintain.settings import config_definitions as cfg


def test_nothing_is_set_unless_it_is_asked_for():
    assert runtime_environment.environment_variables(cfg.RuntimeConfig()) == {}


def test_a_dataset_gets_a_thread_pool_of_its_own():
    dataset = runtime_environment.with_private_threads(tf.data.Dataset.range(3), 2)

    assert dataset.options().threading.private_threadpool_size == 2
    assert [int(number) for number in dataset] == [0, 1, 2]


@pytest.mark.parametrize("value", [tf.data.Dataset.range(3), "no dataset"])
def test_without_a_number_of_threads_a_dataset_stays_as_it_is(value):
    assert runtime_environment.with_private_threads(value, None) is value


@pytest.mark.slow
def test_the_trainer_gives_its_datasets_the_thread_pool(line_params):
    params = line_params(
        {"runtime": {"dataset_num_private_threads": 3}, "trainer": {"train_steps": 5}}
    )
    task = task_factory.get_task(params.task)
    strategy = distribution.build_strategy(params.runtime)

    with strategy.scope():
        runner = experiment_runner.ExperimentRunner(strategy, task, "train", params, None)
    runner.run()

    options = runner.trainer.train_dataset.options()
    assert options.threading.private_threadpool_size == 3
    assert int(runner.trainer.global_step) == 5


class FakeLibrary:
    def __init__(self):
        self.calls = []

    def mallopt(self, parameter, value):
        self.calls.append((parameter, value))


def test_freed_memory_is_kept_unless_the_user_says_how(monkeypatch):
    library = FakeLibrary()
    monkeypatch.setattr(runtime_environment.ctypes, "CDLL", lambda name: library)
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "131072")
    runtime_environment.prepare(cfg.RuntimeConfig())
    assert library.calls == []
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_")
    runtime_environment.prepare(cfg.RuntimeConfig())
    assert dict(library.calls) == {-3: 2**25, -1: -1}


def test_a_c_library_without_mallopt_is_left_alone(monkeypatch):
    monkeypatch.setattr(runtime_environment.ctypes, "CDLL", lambda name: object())
    runtime_environment.prepare(cfg.RuntimeConfig())
