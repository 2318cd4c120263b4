import os
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.garden.core import savedmodel_checkpoint_manager


class Doubler(tf.Module):
    def __init__(self):
        super().__init__()
        self.factor = tf.Variable(2.0)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def double(self, x):
        return {"doubled": self.factor * x}

    @property
    def saved_model_signatures(self):
        return {"double": self.double}


@pytest.fixture
def make_manager(tmp_path):
    def make(modules="default", **kwargs):
        if modules == "default":
            modules = {"one": Doubler(), "two": Doubler()}
        return savedmodel_checkpoint_manager.SavedModelCheckpointManager(
            checkpoint=tf.train.Checkpoint(),
            directory=str(tmp_path / "run"),
            modules_to_export=modules,
            **{"max_to_keep": 1, **kwargs},
        )

    return make


def directory_of(path):
    return savedmodel_checkpoint_manager.make_saved_modules_directory_name(path)


def test_exports_go_with_their_checkpoints(make_manager):
    manager = make_manager()
    first, second = manager.save(), manager.save()

    assert manager.latest_savedmodel == directory_of(manager.latest_checkpoint)
    assert sorted(os.listdir(directory_of(second))) == ["one", "two"]
    assert not os.path.exists(directory_of(first))
    assert manager.savedmodels == manager.get_existing_savedmodels() == [directory_of(second)]


def test_an_export_has_the_signatures_of_its_module(make_manager):
    manager = make_manager()
    manager.save(checkpoint_number=7)

    loaded = tf.saved_model.load(os.path.join(manager.latest_savedmodel, "one"))

    outputs = loaded.signatures["double"](tf.constant([1.0, 2.0]))
    np.testing.assert_array_equal(outputs["doubled"], [2.0, 4.0])


def test_a_keras_model_is_exported(make_manager):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
    manager = make_manager({"model": model})
    manager.save()

    loaded = tf.saved_model.load(os.path.join(manager.latest_savedmodel, "model"))
    inputs = tf.ones([1, 2])
    np.testing.assert_allclose(loaded.serve(inputs), model(inputs), rtol=1e-6)


def test_exports_of_earlier_managers_are_found_in_the_order_of_their_numbers(make_manager):
    manager = make_manager(max_to_keep=5)
    for number in (9, 10, 100):
        manager.save(checkpoint_number=number)

    again = make_manager(max_to_keep=5)
    assert [again.get_savedmodel_number_from_path(path) for path in again.savedmodels] == [
        9,
        10,
        100,
    ]
    assert again.latest_savedmodel.endswith("ckpt-100_saved_modules")


def test_without_modules_only_checkpoints_are_saved(make_manager):
    manager = make_manager({})

    assert manager.save() is not None
    assert manager.latest_savedmodel is None


def test_nothing_is_exported_between_two_intervals(make_manager):
    step = tf.Variable(0, dtype=tf.int64)
    manager = make_manager(step_counter=step, checkpoint_interval=10)

    assert manager.save() is not None
    step.assign(5)
    assert manager.save() is None
    assert len(manager.get_existing_savedmodels()) == 1


def test_an_unfinished_export_is_not_seen(make_manager, tmp_path):
    manager = make_manager()
    os.makedirs(tmp_path / "run" / "ckpt-5_saved_modules.incomplete")

    assert manager.get_existing_savedmodels() == []


def test_waiting_ends_at_the_time_out(make_manager):
    start_secs = time.monotonic()

    assert make_manager().wait_for_new_savedmodel(None, seconds_to_sleep=0.05, timeout=0.1) is None

    assert time.monotonic() - start_secs >= 0.05


def test_the_iterator_yields_all_exports_in_order(make_manager):
    manager = make_manager(max_to_keep=2)
    for number in (1, 2, 3):
        manager.save(checkpoint_number=number)

    assert list(manager.savedmodels_iterator(timeout=0)) == manager.savedmodels


def test_the_iterator_asks_after_every_time_out_whether_to_go_on(make_manager):
    answers = [False, False, True]

    found = list(
        make_manager().savedmodels_iterator(timeout=0.01, timeout_fn=lambda: answers.pop(0))
    )

    assert found == []
    assert answers == []


@pytest.mark.parametrize(
    ("path", "number"),
    [("a/ckpt-12_saved_modules", 12), ("a/ckpt-12", None), ("a/ckpt-x_saved_modules", None)],
)
def test_the_number_of_an_export_is_in_its_name(make_manager, path, number):
    assert make_manager().get_savedmodel_number_from_path(path) == number


def test_what_else_lies_beside_exports_stays(make_manager, tmp_path):
    manager = make_manager()
    first = directory_of(manager.save())
    with open(os.path.join(first, "notes.txt"), "w") as file:
        file.write("mine")
    foreign = tmp_path / "run" / "ckpt-900_saved_modules"
    foreign.mkdir()
    (foreign / "mine.txt").touch()

    manager.save()

    assert os.listdir(first) == ["notes.txt"]
    assert os.listdir(foreign) == ["mine.txt"]


def test_a_manager_keeps_to_its_own_files_whatever_its_directory_is_called(tmp_path):
    step = tf.Variable(1, dtype=tf.int64)
    (tmp_path / "x1").mkdir()
    for name in ("ckpt-1.index", "ckpt-1.data-00000-of-00001"):
        (tmp_path / "x1" / name).write_text("another run's")

    def make():
        return savedmodel_checkpoint_manager.SavedModelCheckpointManager(
            tf.train.Checkpoint(step=step),
            str(tmp_path / "x[1]"),
            max_to_keep=1,
            modules_to_export={"one": Doubler()},
        )

    manager = make()
    manager.save()
    second = manager.save()
    step.assign(0)

    assert make().restore_or_initialize() == second
    assert int(step) == 1
    assert manager.savedmodels == [directory_of(second)]
    assert len(os.listdir(tmp_path / "x1")) == 2
    assert sorted(os.listdir(tmp_path / "x[1]")) == [
        "checkpoint",
        "ckpt-2.data-00000-of-00001",
        "ckpt-2.index",
        "ckpt-2_saved_modules",
    ]
