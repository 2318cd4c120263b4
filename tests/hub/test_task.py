import json
import pathlib
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.checkpoints import task_state
from quintain.cli import main
from quintain.core import exp_factory
from quintain.hub import configs, heads, presets
from quintain.hub import task as task_lib
from quintain.kernels import modes, selection
from quintain.run import experiment_parser
from quintain.serving import classifier, exporter, signature_model, trained_run
from tests.hub import tiny_presets
from tests.kernels import native_steps

HEADS = {
    "bert": "text_classification",
    "roberta": "text_classification",
    "distil_bert": "masked_lm",
    "albert": "token_classification",
    "deberta_v3": "text_classification",
    "gpt2": "causal_lm",
    "gemma": "causal_lm",
    "llama3": "causal_lm",
    "qwen": "causal_lm",
    "mistral": "causal_lm",
    "vit": "image_classification",
    "resnet": "image_classification",
}

FORM = """
task:
  model: {{preset: '{preset}', sequence_length: 12, num_classes: {classes}, lora: {{rank: {rank}}}}}
  train_data: {{input_path: '{path}', global_batch_size: 2}}
"""


def build_task(head, preset, path, **model):
    config = exp_factory.get_exp_config(f"hub/{head}").task
    config.override(
        {
            "model": {"preset": preset, "sequence_length": 12, **model},
            "train_data": {"input_path": path, "global_batch_size": 2},
        }
    )
    return task_lib.HubTask(config)


def list_values(path):
    reader = tf.train.load_checkpoint(str(path))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


# KerasHub 0.32 leaves the file of a SentencePiece vocabulary open.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.long("Families differ little", but=["bert", "vit"])
@pytest.mark.slow
@pytest.mark.parametrize("family", HEADS)
def test_a_family_learns_from_one_form_by_adapters_that_can_be_merged(family, hub_data, tmp_path):
    head, path = HEADS[family], hub_data
    if head == "image_classification":
        path = str(tmp_path / "images")
        for label, value in {"0": 0.1, "1": 0.9}.items():
            (tmp_path / "images" / label).mkdir(parents=True)
            keras.utils.save_img(
                f"{path}/{label}/a.png", np.full([20, 24, 3], 255 * value), scale=False
            )
    rows = [json.loads(line) for line in pathlib.Path(hub_data).read_text().splitlines()]
    if head == "text_classification":
        path = str(tmp_path / "numbered.jsonl")
        lines = [json.dumps({**row, "label": int(row["label"] == "good")}) for row in rows]
        pathlib.Path(path).write_text("\n".join(lines))
    preset, rank = tiny_presets.make(family, tmp_path), 0 if family == "resnet" else 2
    classes = 2 if head.endswith("classification") else 0
    form = tmp_path / "form.yaml"
    form.write_text(FORM.format(preset=preset, path=path, classes=classes, rank=rank))
    options = experiment_parser.ParseConfigOptions(
        experiment=f"hub/{head}", config_file=[str(form)]
    )
    task = task_lib.HubTask(experiment_parser.parse(options).params.task)
    model = task.build_model()
    batch = next(iter(task.build_inputs(task.task_config.train_data)))
    optimizer, metrics = keras.optimizers.Adam(0.02), task.build_metrics()

    step = tf.function(lambda: task.train_step(batch, model, optimizer, metrics)["loss"])
    losses = [float(step()) for _ in range(15)]

    assert losses[-1] < losses[0]
    merged = task.build_merged(model)
    expected = model(batch[0], training=False)
    np.testing.assert_allclose(merged(batch[0], training=False), expected, atol=1e-5)
    if rank:
        assert len(merged.variables) < len(model.variables)


@pytest.mark.slow
def test_checkpoints_hold_adapters_and_head_only(adapted_run):
    values = list_values(adapted_run / "ckpt-6")

    model = {name for name in values if name.startswith("model/") and "VARIABLE" in name}
    assert len(model) == 2 * 2 * 2 + 2
    assert all("lora" in name or "head" in name for name in model)
    assert not [name for name in values if "embedding" in name]
    assert len(values["model/preset/.ATTRIBUTES/py_state"]) == 64


@pytest.mark.slow
def test_a_run_that_goes_on_ends_the_same_to_the_bit(adapted_run, train, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(adapted_run, copy)
    for file in [*copy.glob("ckpt-6*"), copy / "checkpoint"]:
        file.unlink()

    assert train(copy) == 0

    expected, found = list_values(adapted_run / "ckpt-6"), list_values(copy / "ckpt-6")
    for name in (name for name in expected if "VARIABLE" in name and "secs" not in name):
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


@pytest.mark.slow
def test_a_preset_that_has_changed_is_refused(adapted_run, tmp_path):
    other = tiny_presets.make("bert", tmp_path, seed=2)
    model = experiment_parser.load_params(str(adapted_run)).task.model

    with pytest.raises(errors.CheckpointError, match="has other weights than when the checkpoint"):
        trained_run.load(str(adapted_run), overrides={"model": model.replace(preset=other)})


@pytest.mark.slow
def test_an_export_predicts_as_the_run_does(adapted_run, tmp_path, capsys):
    expected = classifier.Classifier.load(str(adapted_run)).classify(tiny_presets.SENTENCES)

    directory = exporter.export_run(str(adapted_run), str(tmp_path / "export"))

    found = classifier.Classifier.load(directory).classify(tiny_presets.SENTENCES)
    assert [one.label for one in found] == [one.label for one in expected]
    assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=1e-6)
    assert main.run(["predict", f"--model-dir={adapted_run}", "a good movie"]) == 0
    assert capsys.readouterr().out.split("\t")[0] in ("good", "bad")


@pytest.mark.slow
def test_a_merged_model_is_a_preset_to_start_from(adapted_run, tmp_path):
    run = trained_run.load(str(adapted_run))
    features, _ = next(iter(run.task.build_inputs(run.task.task_config.validation_data)))

    run.task.save(run.model, str(tmp_path / "merged"), "preset")

    config = run.task.task_config.replace(label_names=None)
    config = config.replace(
        model=config.model.replace(preset=str(tmp_path / "merged"), lora={"rank": 0})
    )
    again = task_lib.HubTask(config)
    found = again.build_model()(features, training=False)
    np.testing.assert_allclose(found, run.model(features, training=False), atol=1e-6)

    taught = task_lib.HubTask(
        config.replace(
            label_names=["good", "bad"], distillation={"teacher": str(tmp_path / "merged")}
        )
    )
    student = taught.build_model()
    batch = next(iter(taught.build_inputs(config.validation_data)))
    loss = taught.train_step(batch, student, keras.optimizers.SGD(0.1))["loss"]
    assert np.isfinite(float(loss))
    assert not task_state.find({"": taught}, student.variables)[0]


@pytest.mark.slow
def test_a_base_in_int8_is_trained_by_adapters(bert_preset, hub_data):
    task = build_task("masked_lm", bert_preset, hub_data, lora={"rank": 2}, quantization="int8")
    model = task.build_model()
    batch = next(iter(task.build_inputs(task.task_config.train_data)))
    optimizer = keras.optimizers.Adam(0.02)

    step = tf.function(lambda: task.train_step(batch, model, optimizer)["loss"])
    losses = [float(step()) for _ in range(10)]

    assert losses[-1] < losses[0]
    kinds = {one.dtype for one in model.variables if "query/kernel" in one.path}
    assert "int8" in kinds
    merged = task.build_merged(model)(batch[0], training=False)
    np.testing.assert_allclose(merged, model(batch[0], training=False), atol=0.05)


@pytest.mark.slow
def test_masks_are_drawn_by_seed_and_place(bert_preset, hub_data):
    task = build_task("masked_lm", bert_preset, hub_data)
    features, labels = zip(*task.build_inputs(task.task_config.train_data).take(6), strict=True)
    again, _ = next(iter(task.build_inputs(task.task_config.train_data)))

    assert all(int(tf.reduce_sum(one["weight"])) == 2 for one in labels)
    np.testing.assert_array_equal(again["token_ids"], features[0]["token_ids"])
    assert len({one["mask_positions"].numpy().tobytes() for one in features}) > 1


@pytest.mark.parametrize("mode", [modes.KernelMode.NATIVE, modes.KernelMode.TENSORFLOW])
def test_loss_gradient_and_accuracy_are_those_of_keras(mode):
    logits = tf.random.stateless_normal([2, 5, 7], [0, 1])
    labels = tf.random.stateless_uniform([2, 5], [0, 2], 0, 7, tf.int32)
    weights = tf.constant([[1.0, 1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 1.0, 0.0]])
    task = task_lib.HubTask(configs.HubConfig())
    (accuracy,) = task.build_metrics()

    def compute(logits):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            loss = task.build_losses({"label": labels, "weight": weights}, logits)
        task.process_metrics([accuracy], {"label": labels, "weight": weights}, logits)
        return loss, tape.gradient(loss, logits)

    loss, gradient = native_steps.trace(compute, mode)(logits)

    with tf.GradientTape() as tape:
        tape.watch(logits)
        each = keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
        expected = tf.reduce_sum(each * weights) / tf.reduce_sum(weights)
    theirs = keras.metrics.SparseCategoricalAccuracy()
    theirs.update_state(labels, logits, weights)
    assert float(loss) == pytest.approx(float(expected), rel=1e-6)
    np.testing.assert_allclose(gradient, tape.gradient(expected, logits), atol=1e-7)
    assert float(accuracy.result()) == pytest.approx(float(theirs.result()), rel=1e-6)


def test_the_loss_of_a_teacher_is_least_where_both_say_the_same():
    logits = tf.constant([[1.0, 2.0, -1.0]])

    same = task_lib.distil(logits, logits, 2.0)
    other = task_lib.distil(logits, tf.constant([[2.0, 1.0, -1.0]]), 2.0)

    halves = np.exp([0.5, 1.0, -0.5]) / np.exp([0.5, 1.0, -0.5]).sum()
    assert float(same[0]) == pytest.approx(4.0 * -(halves * np.log(halves)).sum(), rel=1e-6)
    assert float(other[0]) > float(same[0])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": "a", "label": "god"}, "texts.jsonl:2: label: got 'god', expected one of good"),
        ({"text": 1, "label": "good"}, "texts.jsonl:2: text: got 1, expected a text"),
        ("{", "texts.jsonl:2: got '{', expected a JSON object on each line"),
        ([], "texts.jsonl:2: got '[]', expected a JSON object with the fields"),
    ],
)
def test_a_bad_line_is_named_before_the_first_step(row, message, tmp_path):
    path = tmp_path / "texts.jsonl"
    line = row if isinstance(row, str) else json.dumps(row)
    path.write_text(f'{{"text": "a", "label": "good"}}\n{line}\n')
    task = build_task("text_classification", "unused", str(path))
    task.task_config.label_names = ["good", "bad"]

    with pytest.raises(errors.DataError) as found:
        task.build_inputs(task.task_config.train_data)

    assert message in str(found.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "model", "message"),
    [
        ("causal_lm", {}, "is a BertBackbone, for which KerasHub has MaskedLM, TextClassifier"),
        ("masked_lm", {"frozen": ["no/*"]}, "task.model.frozen: 'no/*' matches no variable"),
        ("masked_lm", {"lora": {"rank": 1, "layers": ["x"]}}, "'x' matches no layer that takes"),
        ("masked_lm", {"sequence_length": 65}, "task.model.sequence_length: got 65, but "),
        ("masked_lm", {"preset": "/none"}, "task.model.preset: '/none' can't be loaded"),
        ("text_classification", {}, "task.label_names: got none, but "),
    ],
)
def test_what_does_not_fit_the_preset_is_named(head, model, message, bert_preset):
    task = build_task(head, **({"preset": bert_preset, "path": ""} | model))

    with pytest.raises(errors.ConfigError) as found:
        task.build_model()

    assert message in str(found.value)


@pytest.mark.slow
def test_a_preset_of_another_keras_says_so(bert_preset, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(bert_preset, broken)
    (broken / "model.weights.h5").write_bytes(b"no weights")
    (broken / "metadata.json").write_text('{"keras_version": "3.0.1", "keras_hub_version": "0.1"}')

    with pytest.raises(errors.ConfigError) as found:
        build_task("masked_lm", str(broken), "").build_model()

    assert "It was written by Keras 3.0.1 with KerasHub 0.1" in str(found.value)


def test_experiments_are_parsed_without_keras_hub():
    options = experiment_parser.ParseConfigOptions(
        experiment="hub/text_classification",
        set=["task.model.preset=x", "task.train_data.input_path=y"],
    )

    assert experiment_parser.parse(options).params.task.model.lora.rank == 0


@pytest.mark.slow
def test_an_image_classifier_is_asked_by_files(tmp_path):
    task = build_task("image_classification", tiny_presets.make("vit", tmp_path), "", num_classes=2)

    model = signature_model.SignatureModel.from_module(task.build_export_module(task.build_model()))

    assert model.image_input == "image_bytes"
    assert model.run(model.check([model.example]), 1)[0]["labels"] in ("0", "1")


def test_images_are_not_read_from_entries():
    config = exp_factory.get_exp_config("hub/image_classification").task
    config.train_data.tfds_name = "mnist"

    assert [field for field, _ in config.check()] == ["train_data.tfds_name"]


# KerasHub's classes compile themselves.
@pytest.mark.filterwarnings("ignore:`compile.*was not called as part of model loading")
@pytest.mark.slow
def test_a_classifier_is_a_keras_file_but_nothing_for_transformers(adapted_run, tmp_path):
    run = trained_run.load(str(adapted_run))
    features, _ = next(iter(run.task.build_inputs(run.task.task_config.validation_data)))

    run.task.save(run.model, str(tmp_path), "keras")

    found = keras.saving.load_model(tmp_path / "model.keras")(features, training=False)
    np.testing.assert_allclose(found, run.model(features, training=False), atol=1e-6)
    with pytest.raises(errors.ConfigError, match=r"\(only causal models are written\)"):
        run.task.save(run.model, str(tmp_path), "transformers")


@pytest.mark.slow
def test_ten_steps_of_adapters_have_the_losses_of_keras_hub(hub_data, tmp_path):
    preset = tiny_presets.make("gpt2", tmp_path)
    task = build_task("causal_lm", preset, hub_data, lora={"rank": 2})
    ours = task.build_model()
    theirs = presets.load_model(configs.ModelConfig(preset=preset), "CausalLM", 0)
    theirs.backbone.enable_lora(2)
    for model in (ours, theirs):
        for layer in model._flatten_layers():
            layer.rate = 0.0  # Of dropout; it is drawn otherwise.
    for one, other in zip(ours.variables, theirs.variables, strict=True):
        other.assign(one)
        other.trainable = one.trainable
    ids = np.random.default_rng(1).integers(5, 35, [10, 2, 12]).astype(np.int32)
    mask = np.ones([2, 12], np.int32)
    optimizer = keras.optimizers.Adam(0.01)
    theirs.compile(
        keras.optimizers.Adam(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )

    @tf.function(autograph=False)
    def step(features, labels):
        with selection.training_scope(modes.KernelMode.AUTO):
            return task.train_step((features, labels), ours, optimizer)["loss"]

    found, expected = [], []
    for batch in ids:
        features = {"token_ids": batch, "padding_mask": mask}
        labels = {"label": np.roll(batch, -1, 1), "weight": mask.astype(np.float32)}
        found.append(step(features, labels))
        expected.append(theirs.train_on_batch(features, labels["label"])[0])

    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert len(ours.trainable_variables) == len(theirs.trainable_variables) == 8


def test_broken_images_are_named_or_left_out_and_counted(tmp_path, caplog):
    (tmp_path / "good").mkdir()
    keras.utils.save_img(str(tmp_path / "good" / "a.png"), np.zeros([4, 4, 3]))
    (tmp_path / "good" / "b.png").write_bytes(b"GIF8")
    config = exp_factory.get_exp_config("hub/image_classification").task
    head = heads.ImageClassification(config.replace(label_names=["good", "bad"]))
    params = config.train_data.replace(input_path=str(tmp_path))

    with pytest.raises(errors.DataError, match=r"good/b.png: can't be decoded: .* corrupt_records"):
        head.read(params)
    found = head.read(params.replace(corrupt_records="skip"))

    assert found == {"image": [str(tmp_path / "good" / "a.png")], "label": [0]}
    assert "good/b.png: can't be decoded" in caplog.text
    assert "The first of 1 of 2 images that are left out." in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "size", "task_name"),
    [("deeplab_v3", 32, "ImageSegmenter"), ("vit", 16, "ImageClassifier")],
)
def test_a_preset_with_probabilities_is_loaded_with_logits(family, size, task_name, tmp_path):
    import keras_hub  # noqa: PLC0415 - so that collecting tests does not wait for it

    theirs = getattr(keras_hub.models, task_name).from_preset(
        tiny_presets.make(family, tmp_path), num_classes=3, activation="softmax"
    )
    theirs.save_to_preset(str(tmp_path / "saved"))
    images = tf.random.stateless_uniform([2, size, size, 3], [1, 2])

    config = configs.ModelConfig(preset=str(tmp_path / "saved"))
    ours = presets.load_model(config, task_name, 0)

    logits = ours(images)
    np.testing.assert_allclose(tf.nn.softmax(logits), theirs(images), atol=1e-5)
    assert float(tf.reduce_max(tf.abs(tf.reduce_sum(logits, axis=-1) - 1.0))) > 0.01
