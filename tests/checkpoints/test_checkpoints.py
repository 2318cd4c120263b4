import json
import logging
import os
import resource
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.checkpoints import checkpoint_fit, checkpoint_state, checkpoints


def build(units=3, value=0.0):
    model = keras.Sequential([keras.layers.Dense(units), keras.layers.Dropout(0.5)])
    model.build((None, 2))
    for variable in model.trainable_variables:
        variable.assign(tf.fill(variable.shape, value))
    step = tf.Variable(0, dtype=tf.int64)
    return model, step, tf.train.Checkpoint(model=model, global_step=step)


def make_manager(directory, value=0.0, **kwargs):
    model, step, checkpoint = build(value=value)
    return (
        model,
        step,
        checkpoints.CheckpointManager(checkpoint, str(directory), step_counter=step, **kwargs),
    )


def save_steps(directory, steps, **kwargs):
    model, step, manager = make_manager(directory, **kwargs)
    for number in steps:
        step.assign(number)
        model.weights[0].assign(tf.fill([2, 3], float(number)))
        manager.save(check_interval=False)
    manager.sync()
    return manager


def names(directory):
    return [os.path.basename(path) for path in checkpoints.list_checkpoints(str(directory))]


def test_keeps_only_the_newest_checkpoints(tmp_path):
    save_steps(tmp_path, [10, 20, 30], max_to_keep=2)

    assert names(tmp_path) == ["ckpt-20", "ckpt-30"]
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "ckpt-30")


def test_keeps_all_checkpoints_when_max_to_keep_is_none(tmp_path):
    save_steps(tmp_path, [1, 2, 3, 4, 5, 6, 7], max_to_keep=None)

    assert len(names(tmp_path)) == 7


def test_an_asynchronous_save_holds_the_values_of_the_moment_it_was_called(tmp_path):
    model, _, manager = make_manager(tmp_path)
    kernel = model.weights[0]
    kernel.assign(tf.fill([2, 3], 1.0))
    manager.save(check_interval=False)
    kernel.assign(tf.fill([2, 3], 9.0))
    manager.sync()

    manager.restore_or_initialize()

    np.testing.assert_array_equal(kernel, np.full([2, 3], 1.0))


def test_the_saved_values_are_let_go_before_a_receipt_reads_them_back(tmp_path, monkeypatch):
    captured, held = [], []

    def capture(checkpoint, capture=checkpoints._capture):
        snapshot = capture(checkpoint)
        captured.append(weakref.ref(snapshot))
        return snapshot

    class Writer:
        def write(self, prefix, step):
            held.append(captured[0]())

    monkeypatch.setattr(checkpoints, "_capture", capture)
    _, _, manager = make_manager(tmp_path)
    manager.write_receipts(Writer())

    manager.save(check_interval=False)
    manager.sync()

    assert held == [None]


def test_a_mirrored_variable_is_saved_as_it_was_when_save_was_called(tmp_path, monkeypatch):
    with tf.distribute.MirroredStrategy(["/cpu:0"]).scope():
        value = tf.Variable(1.0)
    manager = checkpoints.CheckpointManager(tf.train.Checkpoint(value=value), str(tmp_path))
    writes = []
    monkeypatch.setattr(manager, "_start_writing", writes.append)

    path = manager.save(checkpoint_number=1)
    value.assign(2.0)
    writes[0]()

    saved = tf.train.load_checkpoint(path).get_tensor("value/.ATTRIBUTES/VARIABLE_VALUE")
    assert saved == 1.0


def test_saves_at_intervals_counted_from_the_restored_checkpoint(tmp_path):
    save_steps(tmp_path, [100])
    _, step, manager = make_manager(tmp_path, checkpoint_interval=50)
    manager.restore_or_initialize()

    step.assign(149)
    early = manager.save()
    step.assign(150)
    due = manager.save()
    manager.sync()

    assert early is None
    assert due == str(tmp_path / "ckpt-150")


def test_an_interval_of_zero_saves_only_when_asked_to(tmp_path):
    _, step, manager = make_manager(tmp_path, checkpoint_interval=0)
    step.assign(1000)

    at_interval = manager.save()
    forced = manager.save(check_interval=False)
    manager.sync()

    assert (at_interval, forced) == (None, str(tmp_path / "ckpt-1000"))


def test_calls_init_fn_only_when_there_is_no_checkpoint(tmp_path):
    calls = []
    _, _, fresh = make_manager(tmp_path, init_fn=lambda: calls.append("fresh"))
    fresh.restore_or_initialize()
    save_steps(tmp_path, [5])
    _, _, resumed = make_manager(tmp_path, init_fn=lambda: calls.append("resumed"))
    resumed.restore_or_initialize()

    assert calls == ["fresh"]


@pytest.mark.parametrize("suffix", [".index", ".data-00000-of-00001"])
def test_a_truncated_newest_checkpoint_falls_back_to_the_one_before(tmp_path, caplog, suffix):
    save_steps(tmp_path, [10, 20])
    file = tmp_path / f"ckpt-20{suffix}"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    model, step, manager = make_manager(tmp_path)

    with caplog.at_level(logging.WARNING):
        path = manager.restore_or_initialize()

    assert path == str(tmp_path / "ckpt-10")
    assert int(step) == 10
    np.testing.assert_array_equal(model.weights[0], np.full([2, 3], 10.0))
    assert "ckpt-20 is damaged" in caplog.text


def test_a_flipped_bit_is_found(tmp_path):
    save_steps(tmp_path, [10, 20])
    file = tmp_path / "ckpt-20.data-00000-of-00001"
    content = bytearray(file.read_bytes())
    content[3] ^= 1
    file.write_bytes(content)
    _, step, manager = make_manager(tmp_path)

    manager.restore_or_initialize()

    assert int(step) == 10


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("Permission denied", "Check the owner"),
        ("Input/output error", "The disk or the network fails"),
        ("Stale file handle", "The disk is gone"),
        ("Too many open files", "Let the process open more files"),
        ("Cannot allocate memory", "There is not enough memory"),
    ],
)
def test_a_checkpoint_that_can_not_be_read_now_is_not_taken_for_damaged(
    tmp_path, monkeypatch, reason, advice
):
    save_steps(tmp_path, [10, 20])
    _, step, manager = make_manager(tmp_path)
    read = checkpoints.literal_paths.read

    def refuse(path):
        if path.endswith("ckpt-20"):
            raise tf.errors.OpError(None, None, f"{path}.index; {reason}", 2)
        return read(path)

    monkeypatch.setattr(checkpoints.literal_paths, "read", refuse)
    with pytest.raises(errors.CheckpointError, match=f"may be whole: .*{reason}. {advice}"):
        manager.restore_or_initialize()

    assert int(step) == 0


def test_a_missing_newest_checkpoint_falls_back_with_a_warning(tmp_path, caplog):
    save_steps(tmp_path, [10, 20])
    for file in tmp_path.glob("ckpt-20*"):
        file.unlink()
    _, step, manager = make_manager(tmp_path)

    manager.restore_or_initialize()

    assert int(step) == 10
    assert "recorded as the newest, but its files are missing" in caplog.text


def test_an_error_is_raised_when_all_checkpoints_are_damaged(tmp_path):
    save_steps(tmp_path, [10])
    (tmp_path / "ckpt-10.data-00000-of-00001").write_bytes(b"")
    _, _, manager = make_manager(tmp_path)

    with pytest.raises(errors.CheckpointError, match=r"All checkpoints in .* are damaged"):
        manager.restore_or_initialize()


def test_a_checkpoint_of_another_shape_is_refused_and_nothing_is_restored(tmp_path):
    save_steps(tmp_path, [10])
    model, step, checkpoint = build(units=4, value=7.0)
    manager = checkpoints.CheckpointManager(checkpoint, str(tmp_path), step_counter=step)

    with pytest.raises(errors.CheckpointError, match=r"dense.*kernel.*\[2, 4\].*\[2, 3\]"):
        manager.restore_or_initialize()

    assert int(step) == 0
    np.testing.assert_array_equal(model.weights[0], np.full([2, 4], 7.0))


def test_variables_missing_on_either_side_are_named(tmp_path):
    save_steps(tmp_path, [10])
    step = tf.Variable(0, dtype=tf.int64)
    other = tf.train.Checkpoint(global_step=step, other=tf.Variable([1.0, 2.0]))
    manager = checkpoints.CheckpointManager(other, str(tmp_path), step_counter=step)

    with pytest.raises(errors.CheckpointError) as caught:
        manager.restore_or_initialize()

    assert "other: in the model [2], not in the checkpoint" in str(caught.value)
    assert "not in the model" in str(caught.value)


def test_weights_alone_are_refused_with_the_way_to_start_from_them(tmp_path):
    model, step, checkpoint = build()
    tf.train.Checkpoint(model=model).write(str(tmp_path / "ckpt-10"))
    manager = checkpoints.CheckpointManager(checkpoint, str(tmp_path), step_counter=step)

    with pytest.raises(errors.CheckpointError, match=r"global_step(.|\n)*as init_checkpoint"):
        manager.restore_or_initialize()


@pytest.fixture
def small_files_only():
    """Makes the operating system refuse files of more than 100 bytes, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_write_error_keeps_earlier_checkpoints_and_is_reported(tmp_path, request):
    _, step, manager = make_manager(tmp_path)
    step.assign(1)
    manager.save(check_interval=False)
    manager.sync()
    step.assign(2)
    request.getfixturevalue("small_files_only")

    manager.save(check_interval=False)
    with pytest.raises(errors.CheckpointError, match=r"can't be written.*still .*ckpt-1"):
        manager.sync()

    assert names(tmp_path) == ["ckpt-1"]
    assert checkpoints.find_damage(str(tmp_path / "ckpt-1")) is None
    assert not list(tmp_path.glob("*.incomplete"))


def test_random_state_makes_dropout_continue(tmp_path):
    model, _, _ = build(value=1.0)
    checkpoint = tf.train.Checkpoint(model=model, random=checkpoint_state.RandomState(model))
    inputs = tf.ones([4, 2])
    model(inputs, training=True)
    path = checkpoint.write(str(tmp_path / "c"))
    expected = model(inputs, training=True)

    checkpoint.read(path).expect_partial()

    np.testing.assert_array_equal(model(inputs, training=True), expected)


def make_dataset():
    return tf.data.Dataset.range(100).shuffle(30, seed=1).batch(4).repeat()


def test_data_position_continues_a_tf_data_iterator_exactly(tmp_path):
    first, second = iter(make_dataset()), iter(make_dataset())
    position = checkpoint_state.DataPosition(lambda: first, lambda: 37)
    for _ in range(37):
        next(first)
    saved = position.serialize()

    checkpoint_state.DataPosition(lambda: second, lambda: 0).deserialize(saved)

    for _ in range(40):
        np.testing.assert_array_equal(next(second), next(first))


def test_data_position_replays_an_iterator_that_cannot_be_stored(caplog):
    def build_iterator():
        return iter(
            tf.data.Dataset.from_generator(
                lambda: iter(range(10)), output_signature=tf.TensorSpec((), tf.int64)
            )
        )

    first, second = build_iterator(), build_iterator()
    for _ in range(4):
        next(first)
    saved = checkpoint_state.DataPosition(lambda: first, lambda: 4).serialize()

    checkpoint_state.DataPosition(lambda: second, lambda: 0).deserialize(saved)

    assert int(next(second)) == 4
    assert json.loads(saved.partition(b"\n")[0])["batches"] == 4
    assert "can't be stored" in caplog.text


class ListModel(keras.Model):
    """Keeps its layers in a list that is made when it is built, as users' models do."""

    def build(self, input_shape):
        self.blocks = [keras.layers.Dense(2), keras.layers.Dense(2)]
        for block in self.blocks:
            block.build(input_shape)
        self.built = True

    def call(self, inputs):
        for block in self.blocks:
            inputs = block(inputs)
        return inputs


def test_layers_in_lists_are_saved_and_restored(tmp_path):
    first, second = ListModel(), ListModel()
    first.build((None, 2))
    second.build((None, 2))
    path = tf.train.Checkpoint(**checkpoint_fit.model_items(first)).write(str(tmp_path / "c"))

    checkpoint_fit.restore_model(second, path)

    inputs = tf.constant([[1.0, 2.0]])
    np.testing.assert_array_equal(first(inputs), second(inputs))


@pytest.mark.parametrize("name", ["lr[0.1]", "x[1]", "a [1] ü", "x?", "x*", "x\\1"])
def test_a_run_keeps_to_its_own_files_whatever_its_directory_is_called(tmp_path, name):
    others = ["lr0", "lr.", "x1", "xy"]
    for other in others:
        save_steps(tmp_path / other, [1, 2, 3])

    manager = save_steps(tmp_path / name, [1, 2, 3], max_to_keep=2)
    model, step, resumed = make_manager(tmp_path / name)
    resumed.restore_or_initialize()
    manager.discard([str(tmp_path / name / "ckpt-2")])

    assert int(step) == 3
    assert float(model.weights[0][0, 0]) == 3.0
    assert names(tmp_path / name) == ["ckpt-3"]
    assert sorted(os.listdir(tmp_path / name)) == [
        "checkpoint",
        "ckpt-3.data-00000-of-00001",
        "ckpt-3.index",
    ]
    assert [len(os.listdir(tmp_path / other)) for other in others] == [7] * 4


def test_the_values_are_on_the_disk_before_the_index_makes_them_a_checkpoint(tmp_path, monkeypatch):
    done = []
    publish = checkpoints.whole_files.publish

    def note(scratch, path):
        publish(scratch, path)
        done.append(os.path.basename(path))

    monkeypatch.setattr(checkpoints.whole_files, "publish", note)

    save_steps(tmp_path, [1])

    assert done == ["ckpt-1.data-00000-of-00001", "ckpt-1.index"]


@pytest.mark.parametrize("content", [b"", b"model_check", b"\0\0", b'model_checkpoint_path: "\xc3'])
def test_a_damaged_list_of_checkpoints_loses_none(tmp_path, content):
    save_steps(tmp_path, [1, 2])
    (tmp_path / "checkpoint").write_bytes(content)

    assert os.path.basename(make_manager(tmp_path)[2].restore_or_initialize()) == "ckpt-2"
    assert checkpoint_fit.find_newest(str(tmp_path), "x") == str(tmp_path / "ckpt-2")


def test_step_is_read_from_a_checkpoint(tmp_path):
    step = tf.Variable(17, dtype=tf.int64)
    path = tf.train.Checkpoint(global_step=step).save(str(tmp_path / "ckpt"))

    assert checkpoints.read_global_step_from_checkpoint(path) == 17


def test_checkpoint_without_a_step_is_an_error(tmp_path):
    path = tf.train.Checkpoint(v=tf.Variable(1.0)).save(str(tmp_path / "ckpt"))

    with pytest.raises(ValueError, match="global_step not found"):
        checkpoints.read_global_step_from_checkpoint(path)


def test_checkpoints_and_their_list_are_removed_and_nothing_else(tmp_path):
    tf.train.Checkpoint(v=tf.Variable(1.0)).save(str(tmp_path / "ckpt"))
    (tmp_path / "ckpt-2.parts").mkdir()
    (tmp_path / "ckpt-notes.txt").write_text("mine")
    (tmp_path / "params.yaml").write_text("x")

    checkpoints.remove_ckpts(str(tmp_path))

    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"ckpt-2.parts", "ckpt-notes.txt", "params.yaml"}


def test_leftovers_of_a_killed_writer_are_removed(tmp_path):
    (tmp_path / "ckpt-7.incomplete").mkdir()
    (tmp_path / "ckpt-7.incomplete" / "ckpt-7.index").write_text("half")
    (tmp_path / "evaluations.jsonl.incomplete").write_text("half")
    (tmp_path / "mine.incomplete").write_text("a user's")
    (tmp_path / "ckpt-best.incomplete").mkdir()

    checkpoints.remove_incomplete(str(tmp_path), ["evaluations.jsonl"])

    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"mine.incomplete", "ckpt-best.incomplete"}
