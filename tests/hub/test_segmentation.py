import base64
import json
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from quintain import errors
from quintain.cli import main
from quintain.core import exp_factory
from quintain.hub import task as task_lib
from quintain.hub.images import masks, segmentation
from quintain.serving import exporter, served_model
from tests.hub import tiny_presets
from tests.hub.test_task import list_values


def write_pair(directory, name, mask, *, image_size=None, palette=True, bits=8):
    mask = np.asarray(mask, np.uint8)
    for part in ("images", "masks"):
        (directory / part).mkdir(parents=True, exist_ok=True)
    pixels = np.zeros([*(image_size or mask.shape), 3], np.uint8)
    if image_size is None:
        pixels[mask == 1] = 250
    Image.fromarray(pixels).save(directory / "images" / f"{name}.png")
    drawn = Image.fromarray(mask)
    if palette:
        drawn.putpalette([number for color in range(256) for number in (color, 9, 255 - color)])
    drawn.save(directory / "masks" / f"{name}.png", bits=bits)


def write_drawn(directory, count=4):
    rng = np.random.default_rng(1)
    for number in range(count):
        mask = np.zeros(rng.integers(34, 50, 2), np.uint8)
        top, left = rng.integers(2, 12, 2)
        mask[top : top + 20, left : left + 20] = 1
        mask[0] = 255
        write_pair(directory, f"ä {number}", mask)


def build_task(directory, preset="unused", **model):
    config = exp_factory.get_exp_config("hub/semantic_segmentation").task
    config.override(
        {
            "model": {"preset": preset, "num_classes": 2, **model},
            "train_data": {"input_path": str(directory), "global_batch_size": 2},
        }
    )
    return task_lib.HubTask(config)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    directory = tmp_path_factory.mktemp("drawn") / "Bilder ü"
    write_drawn(directory)
    return directory


@pytest.fixture(scope="module")
def segformer(tmp_path_factory):
    return tiny_presets.make("segformer", tmp_path_factory.mktemp("segformer"))


@pytest.fixture(scope="module")
def run_dir(train, drawn, segformer, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "Lauf ü"
    assert train_masks(train, path, drawn, segformer) == 0
    return path


def train_masks(train, path, drawn, preset):
    return train(
        path,
        preset=preset,
        experiment="hub/semantic_segmentation",
        **{
            "task.model.lora.rank": 0,
            "task.train_data.input_path": str(drawn),
            "task.validation_data.input_path": str(drawn),
        },
    )


@pytest.mark.parametrize(("palette", "bits"), [(True, 8), (True, 4), (True, 2), (False, 8)])
def test_pixels_of_masks_are_numbers_whatever_their_colours(palette, bits, tmp_path):
    expected = np.arange(12).reshape(3, 4) % min(2**bits, 12)
    write_pair(tmp_path, "a", expected, palette=palette, bits=bits)
    path = str(tmp_path / "masks" / "a.png")

    header = masks.read_header(path)

    assert header.size == (3, 4)
    np.testing.assert_array_equal(masks.decode(path, header.start, header.scale)[..., 0], expected)


def test_mean_iou_is_its_closed_form_over_pixels_that_count():
    labels = tf.constant([[[0, 0, 1, 1, 2, 0]]])
    weights = tf.constant([[[1.0, 1.0, 1.0, 1.0, 0.0, 0.0]]])
    metric = segmentation.MeanIou(4)

    metric.update_state(labels, tf.one_hot([[[0, 1, 1, 1, 0, 1]]], 4), weights)

    assert float(metric.result()) == pytest.approx((1 / 2 + 2 / 3) / 2, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["segformer", "deeplab_v3"])
def test_a_family_learns_masks_that_are_resized_with_their_images(family, drawn, tmp_path):
    task = build_task(drawn, tiny_presets.make(family, tmp_path))
    model = task.build_model()
    features, labels = next(iter(task.build_inputs(task.task_config.train_data)))
    optimizer, metrics = keras.optimizers.Adam(0.01), task.build_metrics()

    step = tf.function(
        lambda: task.train_step((features, labels), model, optimizer, metrics)["loss"]
    )
    losses = [float(step()) for _ in range(15)]

    assert losses[-1] < losses[0]
    assert {metric.name for metric in metrics} == {"accuracy", "mean_iou"}
    assert features.shape[1:] == (32, 32, 3)
    is_white = features[..., 0] > 0.5
    agreement = tf.reduce_mean(tf.cast(is_white == (labels["label"] == 1), tf.float32))
    assert float(agreement) > 0.95
    assert float(tf.reduce_min(labels["weight"])) == 0.0
    assert int(tf.reduce_max(labels["label"])) == 1


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ({"mask": [[0, 1]], "image_size": (2, 2)}, "b.png: has 1 by 2 pixels, but its image"),
        ({"mask": [[0, 7]]}, "b.png: got a pixel of the class 7, expected 0 to 1, or 255"),
    ],
)
def test_a_mask_that_does_not_fit_is_named(pair, message, tmp_path):
    write_pair(tmp_path, "a", [[0, 1]])
    write_pair(tmp_path, "b", **pair)
    task = build_task(tmp_path)

    with pytest.raises(errors.DataError, match=message):
        task.build_inputs(task.task_config.train_data)


def test_what_is_no_pair_of_image_and_mask_is_named(tmp_path, caplog):
    task = build_task(tmp_path)
    with pytest.raises(errors.DataError, match="has no images"):
        task.head.read(task.task_config.train_data)
    write_pair(tmp_path, "a", [[0, 1]])
    write_pair(tmp_path, "b", [[0, 1]])
    mask = tmp_path / "masks" / "b.png"

    Image.fromarray(np.zeros([1, 2, 3], np.uint8)).save(mask)
    with pytest.raises(errors.DataError, match=r"b.png: has colours or 16 bits"):
        task.head.read(task.task_config.train_data)
    Image.fromarray(np.zeros([1, 2], np.uint8)).save(mask, "BMP")
    with pytest.raises(errors.DataError, match=r"b.png: is no PNG file"):
        task.head.read(task.task_config.train_data)
    mask.write_bytes(b"GIF8")
    with pytest.raises(errors.DataError, match=r"masks/b.png: can't be decoded"):
        task.head.read(task.task_config.train_data)
    found = task.head.read(task.task_config.train_data.replace(corrupt_records="skip"))
    assert found["mask"] == [str(tmp_path / "masks" / "a.png")]
    assert "The first of 1 of 2 images that are left out." in caplog.text
    mask.unlink()
    with pytest.raises(errors.DataError, match=r"images/b.png: has no mask"):
        task.head.read(task.task_config.train_data)


def test_pairs_are_read_from_lines_too(tmp_path):
    write_pair(tmp_path, "a", [[0, 1]])
    lines = tmp_path / "data.jsonl"
    lines.write_text(json.dumps({"image": "images/a.png", "mask": "masks/a.png"}))
    task = build_task(lines)

    assert task.head.read(task.task_config.train_data)["mask"] == [str(tmp_path / "masks/a.png")]
    lines.write_text(json.dumps({"image": "images/a.png", "mask": "masks/b.png"}))
    with pytest.raises(errors.DataError, match=r"data.jsonl:1: mask: no file"):
        task.head.read(task.task_config.train_data)


def test_masks_have_no_more_classes_than_bytes_have_values():
    config = build_task("unused", num_classes=257).task_config

    assert [field for field, _ in config.check()] == ["model.num_classes"]


@pytest.mark.slow
def test_a_run_that_goes_on_ends_the_same_to_the_bit(run_dir, train, drawn, segformer, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run_dir, copy)
    for file in [*copy.glob("ckpt-6*"), copy / "checkpoint"]:
        file.unlink()

    assert train_masks(train, copy, drawn, segformer) == 0

    expected, found = list_values(run_dir / "ckpt-6"), list_values(copy / "ckpt-6")
    for name in (name for name in expected if "VARIABLE" in name and "secs" not in name):
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


@pytest.mark.slow
def test_masks_are_written_as_large_as_their_images(run_dir, drawn, tmp_path, capsys):
    image = drawn / "images" / "ä 0.png"
    options = [f"--model-dir={run_dir}", f"--masks={tmp_path / 'out'}"]

    assert main.run(["predict", *options, str(image)]) == 0

    answer = json.loads(capsys.readouterr().out)
    path = tmp_path / "out" / "ä 0.png"
    assert answer == {"file": str(image), "mask": str(path)}
    mask = tf.io.decode_png(path.read_bytes())
    assert mask.shape == (*tf.io.decode_png(image.read_bytes()).shape[:2], 1)
    assert set(np.unique(mask)) <= {0, 1}
    assert main.run(["predict", *options, str(image), str(image)]) == 2
    assert "--masks: two images have the mask 'ä 0.png'" in capsys.readouterr().err

    exported = exporter.export_run(str(run_dir), str(tmp_path / "export"))
    served = served_model.load(exported)
    given = {"b64": base64.b64encode(image.read_bytes()).decode()}
    (found,) = served.run(served.check([given]))
    assert base64.b64decode(found["b64"]) == path.read_bytes()
