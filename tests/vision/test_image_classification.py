import base64
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from fastapi import testclient

import quintain.registered_experiments  # noqa: F401 - registered before the tests make room
from quintain import errors, orbit
from quintain.checkpoints import task_state
from quintain.cli import main
from quintain.core import exp_factory, task_factory
from quintain.files import literal_paths
from quintain.run import run_files, train_lib
from quintain.serving import app, exporter, served_model
from quintain.trials import task_trial
from quintain.vision import backbones, image_classification, image_configs, shapes

SMALL = {
    "task": {
        "image_size": [8, 8],
        "model": {"resnet": {"width": 4, "num_stages": 1}, "dropout_rate": 0.1},
        "augmentation": {
            "flip": "horizontal", "crop_padding": 1, "rotation": 0.1, "contrast": 0.2,
            "mixup": 0.2,
        },
        "train_data": {"global_batch_size": 4},
    },
    "trainer": {
        "train_steps": 6, "steps_per_loop": 2, "summary_interval": 2, "checkpoint_interval": 2,
        "validation_interval": 6, "validation_steps": 1,
    },
}  # fmt: skip


def make_params(task=None):
    params = exp_factory.get_exp_config("image/local")
    params.override(SMALL)
    params.override({"task": task or {}})
    return params


def make_task(**task):
    return image_classification.ImageClassificationTask(make_params(task).task)


class Stop:
    """Train action that asks the run to stop."""

    def __init__(self, interruption):
        self.interruption = interruption

    def __call__(self, output):
        self.interruption.request("test")


def run(model_dir, **options):
    params = make_params()
    task = task_factory.get_task(params.task, logging_dir=str(model_dir))
    strategy = tf.distribute.get_strategy()
    train_lib.run_experiment(strategy, task, "train_and_eval", params, str(model_dir), **options)


def read_checkpoint(model_dir):
    reader = tf.train.load_checkpoint(literal_paths.checkpoint(f"{model_dir}/ckpt-6"))
    names = sorted(reader.get_variable_to_shape_map())
    return {name: reader.get_tensor(name) for name in names if name.endswith("VARIABLE_VALUE")}


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
    """A run that was never stopped."""
    directory = tmp_path_factory.mktemp("run") / "a [1] ü"
    run(directory)
    return directory


@pytest.fixture(scope="module")
def image_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("images") / "ü 1.png"
    path.write_bytes(shapes.draw("drawn:shapes/validation")[0][1])
    return path


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on_to_the_bit_with_all_augmentation(run_dir, tmp_path):
    with orbit.Interruption() as interruption, pytest.raises(orbit.Interrupted):
        run(tmp_path, interruption=interruption, train_actions=[Stop(interruption)])
    run(tmp_path)

    expected, found = read_checkpoint(run_dir), read_checkpoint(tmp_path)
    assert expected.keys() == found.keys()
    assert not [name for name in expected if not np.array_equal(expected[name], found[name])]
    assert (run_dir / "evaluations.jsonl").read_text() == (
        tmp_path / "evaluations.jsonl"
    ).read_text()
    assert json.loads((run_dir / "classes.json").read_text())["names"] == list(shapes.CLASSES)


@pytest.mark.slow
def test_an_export_answers_files_and_bytes_as_the_run_does(run_dir, image_file, tmp_path, capsys):
    (tmp_path / "broken.png").write_bytes(image_file.read_bytes()[:40])
    target = str(tmp_path / "export")
    params = make_params()
    run_files.serialize_config(params, str(run_dir), experiment="image/local")
    exporter.export_run(str(run_dir), target)
    files = [str(image_file), str(tmp_path / "broken.png")]
    found = {}
    for directory in (str(run_dir), target):
        assert main.run(["predict", f"--model-dir={directory}", "--skip-bad", *files]) == 0
        found[directory] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    answer, broken = found[target]
    assert answer["file"] == files[0]
    assert answer["label"] in shapes.CLASSES
    assert answer["label"] == answer["top_labels"][0] == found[str(run_dir)][0]["label"]
    assert answer["top_scores"] == pytest.approx(found[str(run_dir)][0]["top_scores"])
    assert "broken.png: image_bytes: can't be decoded: Invalid PNG" in broken["error"]

    client = testclient.TestClient(app.build_app(served_model.load(target)))
    encoded = base64.b64encode(image_file.read_bytes()).decode()
    (served,) = client.post("/predict", json={"instances": [{"b64": encoded}]}).json()[
        "predictions"
    ]
    assert served["label"] == answer["label"]
    refused = client.post("/predict", json={"instances": [{"b64": encoded[:40]}]})
    assert (refused.status_code, "can't be decoded" in refused.json()["detail"]) == (422, True)
    shown = client.get("/").json()["example"]
    assert client.post("/predict", json=shown).status_code == 200


def test_the_loss_is_the_smoothed_and_weighted_cross_entropy():
    task = make_task(label_smoothing=0.3, class_weights={"circle": 2.0})
    logits = np.array([[1.0, 0, 0, 0, 0, 0], [0, 3.0, 0, 0, 0, 0]], np.float32)

    loss = task.build_losses(tf.constant([0, 1]), tf.constant(logits), [tf.constant(1.0)])

    soft = 0.7 * np.eye(6)[[0, 1]] + 0.05
    logs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    assert float(loss) == pytest.approx((-(soft * logs).sum(1) * [1, 2]).mean() + 1.0, rel=1e-5)
    assert float(task.build_losses(tf.zeros([0], tf.int32), tf.zeros([0, 6]))) == 0.0


def test_mixup_mixes_images_and_labels_by_the_same_shares():
    task = make_task()
    task.build_model()
    images = tf.reshape(tf.constant([0.0, 100.0, 0.0, 0.0]), [4, 1, 1, 1])

    mixed, soft = task._mix(images, tf.constant([0, 1, 2, 3]))

    assert np.allclose(mixed[:, 0, 0, 0] / 100.0, soft[:, 1], atol=1e-5)
    assert np.allclose(np.sum(soft, axis=1), 1.0)
    assert 0.0 < float(soft[1, 1]) < 1.0


@pytest.mark.slow
def test_every_augmentation_of_keras_has_its_random_state_in_checkpoints():
    names = {"flip": "vertical", "rotation": 0.1, "contrast": 0.1, "rand_augment": 2, "mixup": 0.1}
    task = make_task(augmentation=names)
    task.build_model()

    _, states = task_state.find({"": task}, [])

    seeds = ".".join(states)
    assert len(task._augmentation) == 5
    assert all(f"_augmentation.{place}.seed" in seeds for place in range(5))
    assert "_mixup_seed" in seeds
    assert task._augmentation[4](tf.ones([1, 8, 8, 3])).shape == (1, 8, 8, 3)


@pytest.mark.slow
@pytest.mark.parametrize("backbone", ["vit", "resnet"])
def test_new_models_give_equal_probabilities_and_learn_in_all_parts(backbone):
    task = make_task(model={"backbone": backbone, "vit": {"width": 8, "num_layers": 1}})
    model = task.build_model()
    images = tf.random.stateless_uniform([4, 8, 8, 3], [0, 1], 0, 255)

    assert np.array_equal(task.inference_step(images, model), np.zeros([4, 6]))
    model.get_layer("logits").kernel.assign(tf.ones([model.get_layer("logits").kernel.shape[0], 6]))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(images, training=True) * tf.range(6.0))
    gradients = tape.gradient(loss, [one.value for one in model.trainable_variables])
    assert not [gradient for gradient in gradients if gradient is None]


def build_backbone(input_shape, units=3):
    return keras.Sequential([keras.Input(input_shape), keras.layers.Conv2D(units, 3)])


def test_a_function_of_ones_own_is_a_backbone_whose_weights_come_from_a_file(tmp_path):
    name = f"{__name__}:build_backbone"
    path = str(tmp_path / "own.weights.h5")
    own = build_backbone((8, 8, 3), units=5)
    own.save_weights(path)
    task = make_task(
        model={"backbone": name, "arguments": {"units": 5}, "weights": path, "is_frozen": True}
    )

    model = task.build_model()
    task.initialize(model)

    assert len(model.trainable_variables) == 2
    assert np.array_equal(model.get_layer("backbone").get_weights()[0], own.get_weights()[0])


@pytest.mark.slow
def test_an_application_of_keras_is_a_backbone_with_its_own_preprocessing():
    config = image_configs.ImageModelConfig(
        backbone="keras.applications:MobileNetV2", arguments={"alpha": 0.35}
    )

    model = backbones.build(config, (32, 32, 3))

    images = tf.fill([1, 32, 32, 3], 255.0)
    assert np.allclose(model(images), keras.ops.mean(model.layers[-2](images / 127.5 - 1), [1, 2]))


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ({"model": {"backbone": "keras.applications:MobileNetV9"}}, "Did you mean 'MobileNetV"),
        ({"model": {"backbone": "resnett"}}, "Did you mean 'resnet'"),
        ({"model": {"backbone": "keras.applications:VGG16"}}, r"can't be built with .*\[8, 8, 3\]"),
        ({"class_weights": {"circel": 2.0}}, "class_weights.circel: there is no such class"),
        ({"train_data": {"input_path": "drawn:shape/train"}}, None),
    ],
)
def test_configs_that_cant_be_built_say_what_to_give(task, words):
    if words is None:
        with pytest.raises(errors.ConfigError, match="Did you mean 'drawn:shapes/train'"):
            make_task(**task).build_inputs(make_task(**task).task_config.train_data)
    else:
        with pytest.raises(errors.ConfigError, match=words):
            make_task(**task).build_model()


def test_weights_that_are_no_file_are_refused():
    task = make_task(model={"weights": "imagenet"})

    with pytest.raises(errors.ConfigError, match="'imagenet', but there is no such file"):
        task.initialize(task.build_model())


def test_a_search_needs_no_code():
    config = {
        "entrypoint": "experiment:image/local",
        "hyperparameters": {
            "task.model.backbone": {"type": "categorical", "vals": ["resnet", "vit"]},
            "task.augmentation.rotation": {"type": "double", "minval": 0.0, "maxval": 0.2},
            "task.model.resnet.width": {"type": "int", "minval": 8, "maxval": 32},
        },
    }

    assert task_trial.check(config)["accuracy"].best == "max"
