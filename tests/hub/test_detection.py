import base64
import json
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageDraw

from quintain import errors
from quintain.cli import main
from quintain.core import exp_factory
from quintain.hub import configs
from quintain.hub.images import detection_task
from quintain.serving import exporter, served_model
from tests.hub import tiny_presets
from tests.hub.test_task import list_values

NAMES = ["square", "circle"]


def write_drawn(directory, count=4, size=(48, 40)):
    directory.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    rows = []
    for number in range(count):
        image = Image.new("RGB", size)
        left, top, side = *rng.integers(1, 8, 2), rng.integers(28, 32)
        box = [int(part) for part in (left, top, left + side, top + side)]
        pen = ImageDraw.Draw(image)
        draw = pen.ellipse if number % 2 else pen.rectangle
        draw([*box[:2], box[2] - 1, box[3] - 1], fill=(250, 250, 250))
        image.save(directory / f"ä {number}.png")
        has_box = number or count == 1
        rows.append(
            {
                "image": f"ä {number}.png",
                "boxes": [box] if has_box else [],
                "labels": [NAMES[number % 2]] if has_box else [],
            }
        )
    return write_lines(directory, rows)


def write_lines(directory, rows):
    path = directory / "data.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_coco(path, *annotations, **parts):
    categories = [{"id": 5, "name": "circle"}, {"id": 7, "name": "square"}]
    images = [{"id": 3, "file_name": "a.png"}]
    content = {"images": images, "annotations": [*annotations], "categories": categories, **parts}
    path.write_text(json.dumps(content))
    return path


def annotate(number=1, **fields):
    return {"id": number, "image_id": 3, "category_id": 7, "bbox": [1, 2, 3, 4], **fields}


def build_task(path, preset="unused", **data):
    config = exp_factory.get_exp_config("hub/object_detection").task
    config.override(
        {
            "model": {"preset": preset},
            "label_names": NAMES,
            "train_data": {"input_path": str(path), "global_batch_size": 2, **data},
        }
    )
    return detection_task.DetectionTask(config)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    return write_drawn(tmp_path_factory.mktemp("drawn") / "Bilder ü")


@pytest.fixture(scope="module")
def retinanet(tmp_path_factory):
    return tiny_presets.make("retinanet", tmp_path_factory.mktemp("retinanet"))


@pytest.fixture(scope="module")
def run_dir(train, drawn, retinanet, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "Lauf ü"
    assert train_boxes(train, path, drawn, retinanet) == 0
    return path


def train_boxes(train, path, drawn, preset):
    return train(
        path,
        preset=preset,
        experiment="hub/object_detection",
        **{
            "task.model.lora.rank": 0,
            "task.label_names": "[square,circle]",
            "task.score_threshold": 0.001,
            "task.train_data.input_path": str(drawn),
            "task.validation_data.input_path": str(drawn),
        },
    )


@pytest.fixture
def picture(tmp_path):
    Image.new("RGB", (20, 10)).save(tmp_path / "a.png")
    return tmp_path


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"labels": ["rectangle"]}, r"data.jsonl:1: labels: got 'rectangle', expected one of"),
        ({"boxes": [[0, 0, 9, 9]] * 2}, r"data.jsonl:1: boxes, labels: .* of the same length"),
        ({"boxes": [[0, 0, 9]]}, r"data.jsonl:1: boxes: got \[0, 0, 9\], expected \[left, top"),
        ({"boxes": [[0, 0, 9, "9"]]}, r"data.jsonl:1: boxes: got .* in pixels"),
        ({"boxes": [[0, 0, 22, 9]]}, r"data.jsonl:1: got a box .* to \(22, 9\).* the 20 by 10 "),
        ({"boxes": [[5, 5, 5, 9]]}, r"data.jsonl:1: got a box .* expected one with an area"),
        ({"boxes": [], "labels": []}, r"data.jsonl: no image has a box"),
        ({"image": "b.png"}, r"data.jsonl:1: image: no file"),
    ],
)
def test_a_line_that_is_wrong_is_named(row, message, picture):
    row = {"image": "a.png", "boxes": [[0, 0, 9, 9]], "labels": ["square"], **row}
    task = build_task(write_lines(picture, [row]))

    with pytest.raises(errors.DataError, match=message):
        task.head.read(task.task_config.train_data)


def test_boxes_are_padded_to_those_of_the_fullest_image_and_cut_at_edges(picture):
    full = {"boxes": [[0, 0, 9, 9], [5, 5, 20.5, 10]], "labels": ["square", "circle"]}
    rows = [{"image": "a.png", **one} for one in (full, {"boxes": [], "labels": []})]
    task = build_task(write_lines(picture, rows))

    found = task.head.read(task.task_config.train_data)

    assert found["boxes"].tolist() == [[[0, 0, 9, 9], [5, 5, 20, 10]], [[-1] * 4] * 2]
    assert found["label"].tolist() == [[0, 1], [-1, -1]]


def test_what_can_not_be_used_is_left_out_if_the_config_says_so(picture, caplog):
    (picture / "b.png").write_bytes(b"GIF8")
    box = {"boxes": [[0, 0, 9, 9]], "labels": ["square"]}
    bad = {"boxes": [[0, 0, 9, 9], [9, 9, 9, 9]], "labels": ["circle", "square"]}
    rows = [{"image": "b.png", **box}, {"image": "a.png", **bad}]
    path = write_lines(picture, rows)

    task = build_task(path)
    with pytest.raises(errors.DataError, match=r"b.png: can't be decoded"):
        task.head.read(task.task_config.train_data)

    task = build_task(path, corrupt_records="skip")
    assert task.head.read(task.task_config.train_data)["label"].tolist() == [[1]]
    assert "data.jsonl:2: got a box" in caplog.text
    assert "The first of 1 boxes that are left out." in caplog.text


def test_annotations_of_coco_are_read(picture):
    annotations = [annotate(), annotate(2, category_id=5, iscrowd=1)]
    path = write_coco(picture / "annotations.json", *annotations)
    task = build_task(path)

    trained, evaluated = (
        task.head.read(task.task_config.train_data.replace(is_training=is_training))
        for is_training in (True, False)
    )

    assert trained["image"] == [str(picture / "a.png")]
    assert trained["boxes"].tolist() == [[[1, 2, 4, 6]]]
    assert trained["label"].tolist() == [[0]]
    assert evaluated["label"].tolist() == [[0, 1]]
    assert evaluated["crowd"].tolist() == [[False, True]]


def test_images_may_lie_elsewhere_and_classes_have_the_ids_of_coco(picture, tmp_path_factory):
    path = write_coco(tmp_path_factory.mktemp("annotations") / "a.json", annotate())
    task = build_task(path, image_dir=str(picture))
    task.head.label_names, task.head.num_classes = None, 8

    found = task.head.read(task.task_config.train_data)

    assert found["image"] == [str(picture / "a.png")]
    assert found["label"].tolist() == [[7]]


@pytest.mark.parametrize(
    ("annotations", "parts", "message"),
    [
        ([annotate(8, image_id=4)], {}, "annotation 8: image_id: got 4, which the file does not"),
        ([annotate(8, category_id=1)], {}, "annotation 8: category_id: got 1, which the file"),
        ([annotate(8, bbox=[1, 2, 3])], {}, r"annotation 8: bbox: .*\[left, top, width, height\]"),
        ([annotate(8, bbox=[1, 2, 30, 4])], {}, r"annotation 8: got a box .* to \(31, 6\)"),
        ([{"id": 8}], {}, "no annotation file of COCO: KeyError: 'image_id'"),
        ([], {"images": [{"id": 1, "file_name": "b.png"}]}, "image 1: file_name: no file"),
        ([], {"images": None}, "expected an annotation file of COCO, with lists of images"),
        (
            [annotate(8)],
            {"categories": [{"id": 7, "name": "star"}]},
            "annotation 8: labels: got 'star', expected one of",
        ),
    ],
)
def test_an_annotation_that_is_wrong_is_named(annotations, parts, message, picture):
    task = build_task(write_coco(picture / "annotations.json", *annotations, **parts))

    with pytest.raises(errors.DataError, match=message):
        task.head.read(task.task_config.train_data)


def test_configs_that_can_not_be_are_refused():
    config = build_task("unused").task_config
    plain = configs.HubConfig(model=configs.ModelConfig(head="object_detection"))

    assert [*config.check()] == []
    assert [field for field, _ in plain.check()] == ["model.head"]
    config.model.head = "causal_lm"
    config.distillation.teacher = "other"
    assert [field for field, _ in config.check()] == ["model.head", "distillation.teacher"]


@pytest.mark.slow
@pytest.mark.parametrize("pads", [True, False])
@pytest.mark.parametrize("size", [(48, 40), (40, 48)])
def test_boxes_go_where_their_images_go_and_come_back(pads, size, retinanet, tmp_path):
    task = build_task(write_drawn(tmp_path, 1, size), retinanet, global_batch_size=1)
    converter = task.head.preprocessor.image_converter
    converter.pad_to_aspect_ratio = converter.resizing.pad_to_aspect_ratio = pads

    images, labels = next(iter(task.build_inputs(task.task_config.train_data)))

    rows, columns = np.nonzero(images[0, ..., 0] > 0.5)
    edges = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
    np.testing.assert_allclose(labels["boxes"][0, 0], edges, atol=1.0)
    found = task.head.place_back(labels["boxes"], tf.constant([size[::-1]]))
    (expected,) = json.loads((tmp_path / "data.jsonl").read_text())["boxes"]
    np.testing.assert_allclose(found[0, 0], expected, atol=1e-3)


@pytest.mark.slow
def test_losses_are_those_of_keras_hub_and_training_lowers_them(drawn, retinanet):
    task = build_task(drawn, retinanet)
    model = task.build_model()
    images, labels = next(iter(task.build_inputs(task.task_config.train_data)))
    outputs = model(images)
    prior = tf.reduce_mean(tf.sigmoid(outputs["cls_logits"]))

    found = float(task.build_losses(task.head.match(model, labels), outputs))
    model.compile()
    theirs = {
        "boxes": tf.gather(labels["boxes"], [1, 0, 3, 2], axis=-1),
        "labels": labels["label"],
    }
    expected = float(model.compute_loss(images, theirs, outputs, None))
    assert found == pytest.approx(expected, rel=1e-5)
    assert float(prior) == pytest.approx(0.01, abs=0.01)

    model = task.build_model()
    optimizer = keras.optimizers.Adam(0.001)
    step = tf.function(lambda: task.train_step((images, labels), model, optimizer)["loss"])
    losses = [float(step()) for _ in range(10)]
    assert losses[-1] < losses[0]


@pytest.mark.slow
def test_detections_are_those_of_keras_hub(drawn, retinanet):
    task = build_task(drawn, retinanet)
    model = task.build_model()
    keras.utils.set_random_seed(2)
    shapes = {name: value.shape[1:] for name, value in model.output.items()}
    outputs = {name: tf.random.normal([2, *shape]) for name, shape in shapes.items()}
    suppression = model.prediction_decoder
    suppression.confidence_threshold = 0.9
    images = tf.zeros([2, *task.head.image_shape])
    # It knows no classes in the suppression.
    outputs["cls_logits"] += [0.0, -1e9]

    expected = model.decode_predictions(outputs, images)
    found = task.head.decode(model, outputs, 0.9)

    counts = found["num_boxes"].numpy().tolist()
    assert counts == expected["num_detections"].numpy().tolist()
    assert min(counts) > 3
    for row, count in enumerate(counts):
        np.testing.assert_allclose(
            found["scores"][row, :count], expected["confidence"][row, :count], rtol=1e-5
        )
        theirs = tf.gather(expected["boxes"], [1, 0, 3, 2], axis=-1)[row, :count]
        np.testing.assert_allclose(
            found["boxes"][row, :count], tf.clip_by_value(theirs, 0, 32), atol=1e-3
        )
    assert not found["classes"].numpy().any()


@pytest.mark.slow
def test_a_perfect_detector_has_the_precision_1(drawn, retinanet, monkeypatch):
    task = build_task(drawn, retinanet, is_training=False)
    model = task.build_model()
    state = None
    for images, labels in task.build_inputs(task.task_config.train_data):
        true = {
            "boxes": labels["boxes"],
            "classes": labels["label"],
            "scores": tf.ones(labels["label"].shape),
            "num_boxes": tf.reduce_sum(tf.cast(labels["label"] >= 0, tf.int32), axis=1),
        }
        monkeypatch.setattr(task.head, "decode", lambda *_, true=true: true)
        logs = task.validation_step((images, labels), model)
        state = task.aggregate_logs(state, logs)

    assert len(state) == 4
    assert task.reduce_aggregated_logs(state) == pytest.approx({"map": 1.0, "map_50": 1.0})
    assert task.reduce_aggregated_logs(state[:1]) == {}


@pytest.mark.slow
def test_a_run_that_goes_on_ends_the_same_to_the_bit(run_dir, train, drawn, retinanet, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run_dir, copy)
    for file in [*copy.glob("ckpt-6*"), copy / "checkpoint"]:
        file.unlink()

    assert train_boxes(train, copy, drawn, retinanet) == 0

    expected, found = list_values(run_dir / "ckpt-6"), list_values(copy / "ckpt-6")
    for name in (name for name in expected if "VARIABLE" in name and "secs" not in name):
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


@pytest.mark.slow
def test_predictions_are_boxes_of_files_and_exports_give_them_too(run_dir, drawn, tmp_path, capsys):
    image = drawn.parent / "ä 1.png"

    assert main.run(["predict", f"--model-dir={run_dir}", str(image)]) == 0

    answer = json.loads(capsys.readouterr().out)
    assert [*answer] == ["file", "boxes", "labels", "scores"]
    assert len(answer["boxes"]) == len(answer["labels"]) == len(answer["scores"]) > 0
    assert answer["scores"] == sorted(answer["scores"], reverse=True)
    assert {*answer["labels"]} <= {*NAMES}
    boxes = np.array(answer["boxes"])
    assert (boxes >= 0).all()
    assert (boxes[:, 2:] <= [48, 40]).all()

    exported = exporter.export_run(str(run_dir), str(tmp_path / "export"))
    served = served_model.load(exported)
    given = {"b64": base64.b64encode(image.read_bytes()).decode()}
    (found,) = served.run(served.check([given]))
    np.testing.assert_allclose(found["boxes"], boxes, atol=1e-3)


@pytest.mark.slow
def test_a_trained_model_is_written_as_a_preset_and_as_a_keras_file(drawn, retinanet, tmp_path):
    task = build_task(drawn, retinanet)
    model = task.build_model()
    images, _ = next(iter(task.build_inputs(task.task_config.train_data)))
    expected = model(images)["cls_logits"]

    task.save(model, str(tmp_path), "keras")
    task.save(model, str(tmp_path / "preset"), "preset")

    with pytest.warns(UserWarning, match="`compile\\(\\)` method is custom"):  # KerasHub's.
        loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded(images)["cls_logits"], expected, atol=1e-5)
    again = build_task(drawn, str(tmp_path / "preset"))
    again.head.num_classes = 0
    np.testing.assert_allclose(again.build_model()(images)["cls_logits"], expected, atol=1e-5)
