"""What is restored of a checkpoint that fits in part, and what is said of one that does not."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.checkpoints import checkpoint_fit

FIELD = "task.init_checkpoint"


def build(*, classes=10, frozen=False, value=0.0):
    """Returns a model of a base and a head with an optimizer, as a run saves them."""
    base = keras.layers.Dense(4, name="base", trainable=not frozen)
    head = keras.layers.Dense(classes, name="head")
    model = keras.Sequential([keras.Input([3]), base, head])
    model.set_weights([np.full(weight.shape, value) for weight in model.get_weights()])
    optimizer = keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)
    items = checkpoint_fit.model_items(model)
    return model, tf.train.Checkpoint(**items, optimizer=optimizer)


@pytest.fixture
def path(tmp_path):
    return build(value=1.0)[1].write(str(tmp_path / "ckpt-20"))


def read_values(model):
    return {weight.path.split("/", 1)[1]: weight.numpy().ravel()[0] for weight in model.weights}


def test_a_head_of_another_shape_is_named_and_nothing_else(path):
    model, checkpoint = build(classes=3)
    message = (
        r"model:\n  head/kernel: in the model \[4, 3\], in the checkpoint \[4, 10\]\n"
        r"  head/bias: in the model \[3\], in the checkpoint \[10\]\n"
    )

    with pytest.raises(errors.CheckpointError, match=f"{message}.*init_exclude"):
        checkpoint_fit.restore_newest(model, path, FIELD)
    with pytest.raises(errors.CheckpointError, match=f"{message}.*settings"):
        checkpoint_fit.check_fit(checkpoint, path)


@pytest.mark.parametrize(
    ("was_frozen", "change"),
    [
        (True, "trainable now, frozen when the checkpoint was written"),
        (False, "frozen now, trainable when the checkpoint was written"),
    ],
)
def test_a_run_whose_layers_are_frozen_otherwise_says_so_and_what_to_do(
    tmp_path, was_frozen, change
):
    path = build(frozen=was_frozen)[1].write(str(tmp_path / "c"))
    _, checkpoint = build(frozen=not was_frozen)

    with pytest.raises(errors.CheckpointError) as caught:
        checkpoint_fit.check_fit(checkpoint, path)

    _, *differences, advice = str(caught.value).splitlines()
    assert differences == [f"  base/kernel: {change}", f"  base/bias: {change}"]
    assert "as init_checkpoint" in advice


def test_another_order_of_the_trained_variables_does_not_fit(tmp_path):
    def build_pair(order):
        layer = keras.layers.Dense(1, name="layer")
        layer.build([None, 1])
        twin = keras.layers.Dense(1, name="twin")
        twin.build([None, 1])
        optimizer = keras.optimizers.SGD()
        optimizer.build([(layer, twin)[index].bias for index in order])
        return tf.train.Checkpoint(layer=layer, twin=twin, optimizer=optimizer)

    path = build_pair([0, 1]).write(str(tmp_path / "c"))

    with pytest.raises(errors.CheckpointError, match="another order"):
        checkpoint_fit.check_fit(build_pair([1, 0]), path)


def test_excluded_variables_stay_new_and_all_others_are_restored(path):
    model, _ = build(classes=3)

    checkpoint_fit.restore_newest(model, path, FIELD, ["head/*"])

    assert read_values(model) == {
        "base/kernel": 1.0,
        "base/bias": 1.0,
        "head/kernel": 0.0,
        "head/bias": 0.0,
    }


class Table(keras.layers.Layer):
    """Holds a value that is no variable."""

    def __init__(self):
        super().__init__()
        self.table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)

    def call(self, inputs):
        return inputs


def test_tables_are_restored_beside_excluded_variables(tmp_path):
    def build_model(units, words):
        model = keras.Sequential([keras.Input([2]), Table(), keras.layers.Dense(units, name="d")])
        model.layers[0].table.insert(words, tf.range(len(words), dtype=tf.int64))
        return model

    path = tf.train.Checkpoint(model=build_model(2, ["a", "b"])).write(str(tmp_path / "c"))
    model = build_model(3, ["c"])

    checkpoint_fit.restore_model(model, path, exclude=["d/*"])

    assert model.layers[0].table.lookup(tf.constant(["a", "b", "c"])).numpy().tolist() == [0, 1, -1]


def test_a_pattern_that_matches_nothing_is_an_error_with_the_nearest(path):
    with pytest.raises(errors.ConfigError, match=r"task.init_exclude: 'haed/\*'.*mean 'head/\*'"):
        checkpoint_fit.restore_newest(build()[0], path, FIELD, ["head/*", "haed/*"])


def test_a_checkpoint_that_is_not_there_is_an_error_that_names_the_nearest(path, tmp_path):
    build()[1].write(str(tmp_path / "ckpt-100"))
    nearest = r"ckpt-99', which is no .*holds ckpt-20, ckpt-100\. The nearest one is .*ckpt-100'"

    for name, message in [
        ("ckpt-99", f"^{FIELD}: got .*{nearest}"),
        ("nowhere/ckpt-1", "there is no directory '.*nowhere'"),
    ]:
        with pytest.raises(errors.CheckpointError, match=message):
            checkpoint_fit.restore_newest(build()[0], str(tmp_path / name), FIELD)
    (tmp_path / "runs" / "first").mkdir(parents=True)
    with pytest.raises(errors.CheckpointError, match=r"nothing of that name.*mean 'first'"):
        checkpoint_fit.find_newest(str(tmp_path / "runs" / "frist"), FIELD)
