import threading
import time

import keras
import pytest
import tensorflow as tf

from quintain.core import base_task, base_trainer
from quintain.input import input_reader
from quintain.input.diagnosis import input_watch
from quintain.settings import config_definitions as cfg

SLOW_SECS = 0.02
PROBE_SECS = 2.0  # Much longer than a loaded machine takes to start a thread.


@pytest.fixture
def make_dataset(tmp_path):
    """Returns a function that builds a pipeline of a reader, with stages of one's own."""
    path = str(tmp_path / "numbers.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for i in range(200):
            writer.write(str(i).encode())

    def make(params=None, **stages):
        defaults = {"input_path": path, "global_batch_size": 4, "is_training": True}
        config = cfg.DataConfig(**(defaults | (params or {})))
        return input_reader.InputReader(config, **stages).read()

    return make


def _slowly(value):
    def wait(part):
        time.sleep(SLOW_SECS)
        return part

    return tf.ensure_shape(tf.py_function(wait, [value], value.dtype), value.shape)


def _to_number(record):
    return tf.strings.to_number(record, tf.int32)


@pytest.mark.long("Further cases of a test of which some run every time", but=["parse"])
@pytest.mark.slow
@pytest.mark.parametrize("name", ["decode", "parse"])
def test_the_slow_stage_is_named(make_dataset, name):
    stages = {"decoder_fn": _to_number, "parser_fn": tf.abs}
    fn = stages[f"{name}r_fn"]
    stages[f"{name}r_fn"] = lambda value: fn(_slowly(value))

    stage = input_watch.find_slow_stage(make_dataset(**stages), probe_secs=PROBE_SECS)

    assert stage.name == name
    # Several calls of it may run at the same time.
    assert stage.secs_per_example > SLOW_SECS / 16
    assert not stage.is_stalled


@pytest.mark.long("Further cases of a test of which some run every time")
@pytest.mark.slow
def test_slow_files_are_named_though_the_shuffle_waits_for_them(make_dataset):
    def read_slowly(path):
        return tf.data.TFRecordDataset(path).map(_slowly)

    dataset = make_dataset({"shuffle_buffer_size": 1_000}, dataset_fn=read_slowly)

    assert input_watch.find_slow_stage(dataset, probe_secs=PROBE_SECS).name == "files"


@pytest.mark.long("Further cases of a test of which some run every time")
@pytest.mark.slow
def test_slow_batching_is_named(make_dataset):
    dataset = make_dataset(
        decoder_fn=_to_number,
        transform_and_batch_fn=lambda data, _: data.batch(4, name="batch").map(
            _slowly, name="augment"
        ),
    )

    stage = input_watch.find_slow_stage(dataset, probe_secs=PROBE_SECS)

    assert stage.name == "augment"
    assert stage.secs_per_example > SLOW_SECS / 16 / 4


@pytest.mark.slow
def test_stages_have_their_names_in_their_order(make_dataset):
    dataset = make_dataset(
        decoder_fn=_to_number,
        parser_fn=tf.abs,
        filter_fn=lambda number: number >= 0,
        postprocess_fn=tf.abs,
    )

    times = input_watch.measure_stages(dataset, probe_secs=PROBE_SECS)

    assert [stage.name for stage in times] == [
        "files", "shuffle", "decode", "parse", "filter", "batch", "postprocess",
    ]  # fmt: skip


@pytest.mark.slow
def test_stages_of_another_pipeline_are_called_by_their_kind():
    numbers = tf.data.Dataset.range(20)
    mixture = tf.data.Dataset.sample_from_datasets([numbers.map(tf.abs), numbers])

    names = {stage.name for stage in input_watch.measure_stages(lambda: mixture.batch(2))}

    assert {"range", "map", "directed interleave", "batch"} <= names


@pytest.mark.slow
def test_a_stage_that_hangs_is_named(make_dataset):
    release = threading.Event()

    def hang(part):
        release.wait(120)
        return part

    dataset = make_dataset(
        decoder_fn=_to_number, parser_fn=lambda number: tf.py_function(hang, [number], tf.int32)
    )
    try:
        stage = input_watch.find_slow_stage(dataset, probe_secs=PROBE_SECS)
    finally:
        release.set()

    assert (stage.name, stage.is_stalled) == ("parse", True)
    assert "'parse', which gave nothing for" in str(stage)


def test_an_empty_pipeline_is_not_stalled():
    stage = input_watch.find_slow_stage(tf.data.Dataset.range(0), probe_secs=PROBE_SECS)

    assert not stage.is_stalled


@pytest.mark.slow
def test_a_stall_is_reported_once_with_its_stage(make_dataset, caplog):
    release = threading.Event()

    def hang(part):
        release.wait(120)
        return part

    dataset = make_dataset(decoder_fn=lambda record: tf.py_function(hang, [record], tf.string))
    try:
        with input_watch.StallWatch(dataset, lambda: 7, stall_secs=0.2, probe_secs=PROBE_SECS):
            _wait_for(lambda: "gives no batch" in caplog.text)
            time.sleep(1)
    finally:
        release.set()

    assert caplog.text.count("The stage to look at is 'decode'") == 1


@pytest.mark.slow
def test_a_long_step_with_ready_input_is_no_stall(make_dataset, caplog):
    dataset = make_dataset()
    looked = threading.Event()

    def build():
        looked.set()
        return dataset

    with input_watch.StallWatch(build, lambda: 7, stall_secs=0.1, probe_secs=PROBE_SECS):
        assert looked.wait(60)
        time.sleep(2)

    assert "gives no batch" not in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("is_busy", [True, False])
def test_a_busy_process_gives_its_input_as_long_as_the_step_had(monkeypatch, caplog, is_busy):
    monkeypatch.setattr(time, "process_time", time.monotonic if is_busy else lambda: 7.0)
    release = threading.Event()
    starts = []

    def hang(number):
        release.wait(120)
        return number

    def build():
        starts.append(time)
        dataset = tf.data.Dataset.range(9)
        if len(starts) > 1:  # The machine has caught up.
            return dataset
        return dataset.map(lambda number: tf.py_function(hang, [number], tf.int64))

    watch = input_watch.StallWatch(build, lambda: 7, stall_secs=0.2, probe_secs=0.2)
    with watch:
        _wait_for(lambda: len(starts) > 1 or "gives no batch" in caplog.text)
    watch._thread.join()
    release.set()

    assert ("gives no batch" in caplog.text) == (not is_busy)


def test_progress_is_no_stall(caplog):
    steps = iter(range(1_000))
    looked = threading.Event()

    with input_watch.StallWatch(looked.set, lambda: next(steps), stall_secs=0.1):
        time.sleep(0.6)

    assert not looked.is_set()


def _wait_for(condition, secs=60):
    end = time.monotonic() + secs
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)


@pytest.mark.slow
def test_a_trainer_that_waits_for_input_names_the_stage(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(input_watch.StallWatch.__init__, "__kwdefaults__", {
        "stall_secs": 0.5, "probe_secs": PROBE_SECS
    })  # fmt: skip
    path = str(tmp_path / "numbers.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for i in range(50):
            writer.write(str(i).encode())
    release = threading.Event()

    def hang(part):
        release.wait(120)
        return part

    def build_inputs(params, input_context=None):
        def parse(number):
            number = tf.ensure_shape(tf.py_function(hang, [number], tf.float32), [])
            return number[tf.newaxis], number[tf.newaxis]

        reader = input_reader.InputReader(params, decoder_fn=tf.strings.to_number, parser_fn=parse)
        return reader.read(input_context)

    trainer = _build_trainer(path, build_inputs)
    threading.Thread(
        target=lambda: _wait_for(lambda: "gives no batch" in caplog.text) or release.set()
    ).start()

    logs = trainer.train(tf.constant(2))

    assert "No training step for" in caplog.text
    assert "The stage to look at is 'parse'" in caplog.text
    assert int(trainer.global_step) == 2
    assert "training_loss" in logs


def _build_trainer(path, build_inputs):
    class LineTask(base_task.Task):
        def build_inputs(self, params, input_context=None):
            return build_inputs(params, input_context)

        def build_losses(self, labels, model_outputs, aux_losses=None):
            return tf.reduce_mean(tf.square(labels - model_outputs))

    data = cfg.DataConfig(input_path=path, global_batch_size=4, is_training=True)
    config = cfg.ExperimentConfig(task=cfg.TaskConfig(train_data=data))
    model = keras.Sequential([keras.layers.Dense(1)])
    model.build((None, 1))
    task = LineTask(config.task)
    optimizer = keras.optimizers.SGD(1e-6)
    return base_trainer.Trainer(config, task, model, optimizer, evaluate=False)
