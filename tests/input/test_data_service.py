"""A real dispatcher with two real workers, in a process of their own."""

import dataclasses
import itertools
import json
import pathlib
import socket
import subprocess
import sys
import time

import pytest
import tensorflow as tf

from quintain import errors
from quintain.checkpoints import checkpoint_state
from quintain.input import data_service, input_reader
from quintain.input.diagnosis import input_watch
from quintain.settings import config_definitions as cfg

PROGRAM = pathlib.Path(__file__).parents[1] / "programs" / "data_service.py"
NUM_RECORDS = 30

pytestmark = pytest.mark.slow


@dataclasses.dataclass
class RoundRobinConfig(cfg.DataConfig):
    enable_round_robin_tf_data_service: bool = True


@pytest.fixture(scope="module")
def service():
    """Address of a dispatcher with two workers.

    They are killed: in this process they would wait at their end, for minutes, for the iterators
    that still ask them.
    """
    with subprocess.Popen(
        [sys.executable, str(PROGRAM)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        yield json.loads(process.stdout.readline())
        process.kill()


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """Three files of ten records: 0 to 9, 10 to 19 and 20 to 29."""
    directory = tmp_path_factory.mktemp("records")
    for file in range(3):
        with tf.io.TFRecordWriter(str(directory / f"{file}.tfrecord")) as writer:
            for i in range(10):
                writer.write(str(10 * file + i).encode())
    return str(directory / "*.tfrecord")


@pytest.fixture
def make_params(service, paths):
    def make(**fields):
        defaults = {
            "input_path": paths,
            "global_batch_size": 4,
            "is_training": True,
            "enable_tf_data_service": True,
            "tf_data_service_address": service,
            "tf_data_service_job_name": "test",
        }
        return cfg.DataConfig(**(defaults | fields))

    return make


def _read(params, context=None, **stages):
    reader = input_reader.InputReader(
        params, decoder_fn=lambda record: tf.strings.to_number(record, tf.int32), **stages
    )
    return reader.read(context)


def _draw(dataset, num):
    return [batch.numpy().tolist() for batch in itertools.islice(dataset, num)]


@pytest.mark.long("Evaluation and parallel trainers use a service in every run")
def test_training_gets_all_data_in_a_random_order_without_end(make_params):
    params = make_params(tf_data_service_job_name="order")

    batches = _draw(_read(params), 60)

    assert set(itertools.chain(*batches)) == set(range(NUM_RECORDS))
    assert {len(batch) for batch in batches} == {4}


@pytest.mark.long("Evaluation and parallel trainers use a service in every run")
def test_the_order_does_not_follow_the_seed_that_workers_would_share(make_params):
    def draw(name):
        tf.random.set_seed(0)
        return _draw(_read(make_params(tf_data_service_job_name=name, seed=5)), 12)

    assert draw("first") != draw("second")


def test_evaluation_sees_every_example_once_though_there_are_two_workers(make_params):
    dataset = _read(make_params(is_training=False, tf_data_service_job_name="evaluation"))

    for _ in range(2):
        numbers = itertools.chain(*_draw(dataset, None))
        assert sorted(numbers) == list(range(NUM_RECORDS))


def test_workers_of_a_run_share_an_evaluation(make_params):
    params = make_params(is_training=False, tf_data_service_job_name="shared_evaluation")
    first, second = (
        iter(_read(params, tf.distribute.InputContext(2, index, 2))) for index in range(2)
    )

    numbers = _draw(first, 2) + _draw(second, None) + _draw(first, None)

    assert sorted(itertools.chain(*numbers)) == list(range(NUM_RECORDS))


@pytest.mark.long("Further cases of a test of which some run every time", but=["True"])
@pytest.mark.parametrize("before_batching", [False, True])
def test_parallel_trainers_share_batches(make_params, before_batching):
    fields = {
        "tf_data_service_job_name": f"parallel_{before_batching}",
        "enable_shared_tf_data_service_between_parallel_trainers": True,
        "apply_tf_data_service_before_batching": before_batching,
    }

    def draw(trainer_id):
        dataset = _read(make_params(trainer_id=trainer_id, **fields), parser_fn=_draw_number)
        return set(itertools.chain(*_draw(dataset, 50)))

    # The runs may take more from one worker or the other, but without sharing nothing is common.
    assert draw("a") & draw("b")


def _draw_number(example):
    """Returns a number that no other example of any run gets."""
    del example
    return tf.raw_ops.RandomUniform(shape=tf.zeros(0, tf.int32), dtype=tf.float64, seed=0, seed2=0)


@pytest.mark.long("Evaluation and parallel trainers use a service in every run")
def test_the_service_can_end_before_batching(make_params):
    params = make_params(
        is_training=False,
        apply_tf_data_service_before_batching=True,
        tf_data_service_job_name="before",
    )
    sizes = []

    def batch(dataset, context):
        sizes.append(dataset.element_spec.shape.as_list())
        return dataset.batch(7)

    batches = _draw(_read(params, transform_and_batch_fn=batch), None)

    assert sizes == [[]]
    assert [len(batch) for batch in batches] == [7, 7, 7, 7, 2]


def test_parallel_trainers_need_names(make_params):
    params = make_params(enable_shared_tf_data_service_between_parallel_trainers=True)

    with pytest.raises(errors.ConfigError, match="trainer_id: got None, expected a name"):
        _read(params)


def test_a_job_is_named_for_its_batch_size_and_its_process(make_params):
    name = data_service.get_job_name(make_params())

    assert name.startswith("test_bs4_")
    assert name == data_service.get_job_name(make_params())
    assert name != data_service.get_job_name(make_params(global_batch_size=8))
    assert data_service.get_job_name(make_params(), num_pipelines=2) == "test_bs4"
    shared = {"enable_shared_tf_data_service_between_parallel_trainers": True, "trainer_id": "a"}
    assert data_service.get_job_name(make_params(**shared)) == "test_bs4"
    before = make_params(**shared, apply_tf_data_service_before_batching=True)
    assert data_service.get_job_name(before) == "test"
    assert data_service.get_job_name(make_params(is_training=False)).endswith("_eval")


@pytest.mark.parametrize("address", ["", None, "localhost", "localhost:1", "grpc://:5", "grpc://a"])
def test_an_address_of_another_form_is_an_error(address):
    with pytest.raises(errors.ConfigError, match="expected the dispatcher's address, such as"):
        data_service.check_address(address)


def test_a_service_that_does_not_answer_is_an_error_at_once(make_params):
    with socket.socket() as unused:
        unused.bind(("localhost", 0))
        address = f"grpc://localhost:{unused.getsockname()[1]}"

        with pytest.raises(errors.DataError, match=f"{address}', but no dispatcher answers"):
            _read(make_params(tf_data_service_address=address))


def test_it_is_said_before_training_that_the_position_is_lost(make_params, caplog):
    _read(make_params())

    assert "It is an external service, whose position is not stored" in caplog.text


def test_a_service_is_named_but_not_asked_when_training_stands_still(make_params, caplog):
    dataset = _read(make_params(tf_data_service_job_name="watched"))

    with input_watch.StallWatch(dataset, lambda: 7, stall_secs=0.1):
        end = time.monotonic() + 60
        while "look whether it has workers" not in caplog.text and time.monotonic() < end:
            time.sleep(0.02)

    assert "No training step for" in caplog.text
    assert input_watch.measure_stages(dataset) == [
        input_watch.StageTime("tf.data service", 0.0, is_stalled=True)
    ]


def test_a_run_on_a_service_is_saved_and_goes_on_with_other_batches(make_params, caplog):
    def build_position(iterator, num_batches):
        return checkpoint_state.DataPosition(
            lambda: iterator, lambda: num_batches, is_external=True
        )

    first = iter(_read(make_params()))
    _draw(first, 3)
    saved = build_position(first, 3).serialize()

    second = iter(_read(make_params()))
    build_position(second, 0).deserialize(saved)

    assert len(_draw(second, 1)) == 1
    assert "the 3 batches that were trained on are not skipped" in caplog.text


@pytest.mark.long("Evaluation and parallel trainers use a service in every run")
def test_each_replica_gets_its_turn_in_round_robin(make_params):
    fields = make_params(tf_data_service_job_name="robin").as_dict()
    params = RoundRobinConfig(**fields)

    batches = _draw(_read(params, tf.distribute.InputContext(1, 0, 2)), 8)

    assert {len(batch) for batch in batches} == {2}


def test_round_robin_is_for_training_only(make_params):
    params = RoundRobinConfig(**make_params(is_training=False).as_dict())

    with pytest.raises(errors.ConfigError, match="enable_round_robin_tf_data_service: got True"):
        _read(params)
