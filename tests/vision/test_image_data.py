import importlib
import logging
import pathlib

import datasets
import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.vision import image_configs, image_data

FORMAT = image_data.Format(4, 6, 3, "stretch")
NAMES = ["cat", "dög"]


def encode(value, height=4, width=6, kind=tf.io.encode_png):
    return kind(np.full([height, width, 3], value, np.uint8)).numpy()


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "a [1] ü"
    for label, name in enumerate(NAMES):
        (root / name).mkdir(parents=True)
        for number in range(3):
            value = 100 * label + number
            (root / name / f"{number}.png").write_bytes(encode(value))
    (root / "cat" / ".hidden").write_text("")
    return root


def make_params(path, **fields):
    given = {"global_batch_size": 4, "is_training": False} | fields
    return image_configs.ImageDataConfig(input_path=str(path), **given)


def read(params, image_format=FORMAT, names=NAMES):
    return list(image_data.build(params, image_format, names).as_numpy_iterator())


def test_folders_give_every_image_once_with_the_class_of_its_folder(folder):
    params = make_params(folder)

    (images, labels), (rest, _) = read(params)

    assert image_data.find_class_names(params, None) == NAMES
    assert (images.shape, images.dtype, len(rest)) == ((4, 4, 6, 3), np.uint8, 2)
    assert images[:, 0, 0, 0].tolist() == [0, 1, 2, 100]
    assert labels.tolist() == [0, 0, 0, 1]


def test_training_sees_all_images_in_a_new_order_every_epoch(folder):
    params = make_params(folder, is_training=True, global_batch_size=6, seed=3)

    batches = [
        images[:, 0, 0, 0].tolist()
        for images, _ in image_data.build(params, FORMAT, NAMES).take(3).as_numpy_iterator()
    ]

    assert all(sorted(batch) == [0, 1, 2, 100, 101, 102] for batch in batches)
    assert len({tuple(batch) for batch in batches}) > 1


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (lambda root: (root / "cat" / "1.png").write_bytes(b"GIF8"), r"1.png: can't be decoded"),
        (lambda root: (root / "cat" / "1.png").write_bytes(encode(0)[:-20]), "1.png: .* of 6 ima"),
        (lambda root: (root / "cat" / "more").mkdir(), "more: is a folder within that of a class"),
        (lambda root: (root / "bird").mkdir(), "bird: there is no class of this name, only cat"),
        (lambda root: [one.unlink() for one in root.glob("dög/*")], "dög: there is no image of"),
    ],
)
def test_folders_that_cant_be_used_are_refused_by_the_name_of_the_file(folder, break_it, words):
    break_it(folder)

    with pytest.raises(errors.DataError, match=words):
        read(make_params(folder, is_training=True))


def test_broken_images_are_left_out_and_counted_if_the_config_says_so(folder, caplog):
    (folder / "cat" / "1.png").write_bytes(b"")

    with caplog.at_level(logging.WARNING):
        batches = read(make_params(folder, corrupt_records="skip"))

    assert [len(labels) for _, labels in batches] == [4, 1]
    assert "cat/1.png: can't be decoded: Input is empty. The first of 1 of 6" in caplog.text


def test_classes_that_the_evaluation_lacks_are_warned_of(folder, caplog):
    for path in folder.glob("cat/*"):
        path.unlink()

    assert len(read(make_params(folder))) == 1
    assert "there are no images of the classes cat," in caplog.text


def test_an_image_of_a_wrong_size_is_named_where_none_is_resized(folder):
    (folder / "dög" / "0.png").write_bytes(encode(1, height=5))
    exact = image_data.Format(4, 6, 3, "refuse")

    with pytest.raises(errors.DataError, match=r"dög/0.png: has 5 by 6 pixels, expected 4 by 6"):
        read(make_params(folder), exact)


@pytest.mark.parametrize(
    ("resize", "expected"), [("stretch", [90] * 4), ("crop", [90] * 4), ("pad", [0, 90, 90, 0])]
)
def test_images_are_brought_to_size_in_several_ways(resize, expected):
    image_format = image_data.Format(4, 4, 3, resize)

    image = image_format.decode(encode(90, height=8, width=16)).numpy()

    assert image[:, 2, 0].tolist() == expected


@pytest.mark.parametrize("resize", ["stretch", "crop", "pad"])
def test_images_that_have_the_size_stay_what_they_are(resize):
    image = np.random.default_rng(0).integers(0, 256, [5, 4, 3], np.uint8)

    found = image_data.Format(5, 4, 3, resize).decode(tf.io.encode_png(image))

    np.testing.assert_array_equal(found, image)


@pytest.mark.parametrize("kind", [tf.io.encode_png, tf.io.encode_jpeg])
def test_grey_images_are_decoded(kind):
    image = image_data.Format(4, 6, 1, "refuse").decode(encode(90, kind=kind))

    assert image.shape == (4, 6, 1)
    assert abs(int(image[0, 0, 0]) - 90) <= 1


@pytest.mark.parametrize("label", [1, 2])
def test_records_are_read_and_their_labels_checked(tmp_path, label):
    path = str(tmp_path / "images.tfrecord")
    feature = {
        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[encode(7)])),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    }
    with tf.io.TFRecordWriter(path) as writer:
        example = tf.train.Example(features=tf.train.Features(feature=feature))
        writer.write(example.SerializeToString())

    if label == 1:
        ((images, labels),) = read(make_params(path))
        assert (images[0, 0, 0, 0], labels.tolist()) == (7, [1])
    else:
        with pytest.raises(tf.errors.InvalidArgumentError, match="label is outside of 0 to 1"):
            read(make_params(path))


def test_a_saved_data_set_is_read_with_its_names(tmp_path):
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=NAMES)}
    )
    rows = {"image": [{"bytes": encode(7), "path": None}] * 2, "label": [1, 0]}
    datasets.Dataset.from_dict(rows, features).save_to_disk(str(tmp_path / "saved"))
    params = make_params(tmp_path / "saved")

    ((images, labels),) = read(params)

    assert image_data.find_class_names(params, None) == NAMES
    assert (images.shape, labels.tolist()) == ((2, 4, 6, 3), [1, 0])
    with pytest.raises(
        errors.ConfigError, match=r"label_field: got 'lable', .* Did you mean 'label"
    ):
        read(params.replace(label_field="lable"))


@pytest.mark.slow
def test_an_entry_of_tensorflow_datasets_is_read(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(pathlib.Path(__file__).parents[1] / "input")
    tiny = importlib.import_module("tiny_tfds")
    tiny.prepare(str(tmp_path))
    params = make_params(
        "", tfds_name="tiny_pairs", tfds_split="train", tfds_data_dir=str(tmp_path)
    )
    params = params.replace(label_field="number")

    batches = read(params, names=[str(number) for number in range(tiny.NUM_TRAIN)])

    assert batches[0][0].shape == (4, 4, 6, 3)
    assert sorted(label for _, labels in batches for label in labels) == [*range(tiny.NUM_TRAIN)]
    assert all((images[:, 0, 0, 0] == labels).all() for images, labels in batches)
    with pytest.raises(errors.ConfigError, match=r"label_field: got .numbre., .* .number"):
        image_data.find_class_names(params.replace(label_field="numbre"), None)


def test_names_that_nobody_knows_are_asked_for(tmp_path):
    path = tmp_path / "images.tfrecord"
    path.write_bytes(b"")

    with pytest.raises(errors.ConfigError, match=r"task.class_names: got null"):
        image_data.find_class_names(make_params(path), None)


def test_a_path_that_is_not_there_is_named_before_names_are_asked_for(tmp_path):
    with pytest.raises(errors.DataError, match=r"task.train_data.input_path: no file '.*nothing'"):
        image_data.find_class_names(make_params(tmp_path / "nothing"), None)
