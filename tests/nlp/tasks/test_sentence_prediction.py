import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from sklearn import metrics as sklearn_metrics

from quintain import errors
from quintain.cli import main
from quintain.nlp.configs import encoders
from quintain.nlp.data import sentence_prediction_dataloader, tokenizers
from quintain.nlp.data.masked import bert_vocabulary
from quintain.nlp.modeling.layers import cls_head
from quintain.nlp.modeling.models import bert_pretrainer
from quintain.nlp.tasks import pretrained, sentence_prediction

TINY = {
    "vocab_size": 64,
    "hidden_size": 8,
    "num_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 16,
}
TEXTS = ["ein Haus am See", "a house by the lake", "une maison au bord du lac"]
LANGUAGES = ["de", "en", "fr"]


def make_encoder(**sizes):
    return encoders.EncoderConfig(type="bert", bert=encoders.BertEncoderConfig(**(TINY | sizes)))


def make_task(num_classes=2, *, model_fields=None, logging_dir=None, **fields):
    data = sentence_prediction_dataloader.SentencePredictionDataConfig(
        input_path="dummy", seq_length=8, global_batch_size=1
    )
    model = sentence_prediction.ModelConfig(
        num_classes=num_classes, encoder=make_encoder(), **(model_fields or {})
    )
    config = sentence_prediction.SentencePredictionConfig(
        **({"model": model, "train_data": data, "validation_data": data} | fields)
    )
    return sentence_prediction.SentencePredictionTask(config, logging_dir=logging_dir)


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("vocabulary") / "v.model")
    tokenizers.train_sentencepiece(
        TEXTS * 10, path, vocab_size=60, control_symbols=bert_vocabulary.SPECIAL_TOKENS
    )
    return path


def make_text_config(vocab_file, **fields):
    defaults = {
        "seq_length": 12,
        "text_fields": ["text"],
        "label_field": "language",
        "tokenization": "SentencePiece",
        "vocab_file": vocab_file,
        "global_batch_size": 3,
        "is_training": False,
    }
    return sentence_prediction_dataloader.SentencePredictionTextDataConfig(**(defaults | fields))


@pytest.mark.parametrize(("num_classes", "name"), [(1, "mean_squared_error"), (3, "cls_accuracy")])
def test_a_model_is_trained_and_evaluated(num_classes, name):
    task = make_task(num_classes)
    model = task.build_model()
    metrics = task.build_metrics()
    batch = next(iter(task.build_inputs(task.task_config.train_data)))
    batch["label_ids"] += 1
    optimizer = keras.optimizers.SGD(0.1)

    before = float(task.train_step(batch, model, optimizer, metrics)["loss"])
    logs = task.validation_step(batch, model, metrics)

    assert float(logs["loss"]) < before
    assert logs["sentence_prediction"].shape == (1, num_classes)
    assert metrics[0].name == name
    assert task.aggregate_logs(None, logs) is None


def test_the_loss_of_classes_is_the_mean_cross_entropy():
    logits = tf.constant([[1.0, 0.0], [0.0, 3.0]])

    loss = make_task().build_losses(
        {"label_ids": tf.constant([[0], [0]])}, logits, [tf.constant(2.0)]
    )

    expected = (np.log(1 + np.exp(-1.0)) + np.log(1 + np.exp(3.0))) / 2 + 2.0
    assert float(loss) == pytest.approx(expected, rel=1e-6)


def test_the_loss_of_numbers_is_the_mean_squared_error():
    outputs = tf.constant([[1.0], [2.0]])

    loss = make_task(1).build_losses({"label_ids": tf.constant([0.0, 4.0])}, outputs)

    assert float(loss) == pytest.approx((1.0 + 4.0) / 2)


def test_an_empty_share_of_a_batch_has_no_loss():
    loss = make_task().build_losses({"label_ids": tf.zeros([0], tf.int32)}, tf.zeros([0, 2]))

    assert float(loss) == 0.0


@pytest.mark.parametrize(
    ("metric_type", "num_classes", "expected"),
    [
        ("f1", 2, sklearn_metrics.f1_score([1, 0, 1, 1], [1, 1, 0, 1])),
        ("matthews_corrcoef", 2, sklearn_metrics.matthews_corrcoef([1, 0, 1, 1], [1, 1, 0, 1])),
        ("matthews", 2, sklearn_metrics.matthews_corrcoef([1, 0, 1, 1], [1, 1, 0, 1])),
        ("f1", 3, sklearn_metrics.f1_score([1, 0, 1, 1], [1, 1, 0, 1], average="macro")),
    ],
)
def test_scores_of_classes_count_all_steps_and_replicas(metric_type, num_classes, expected):
    task = make_task(num_classes, metric_type=metric_type)
    as_logits = functools.partial(tf.one_hot, depth=num_classes)
    if metric_type.startswith("matthews"):
        as_logits = functools.partial(tf.reshape, shape=[-1, 1])
    first = {
        "sentence_prediction": (as_logits(tf.constant([1])), as_logits(tf.constant([1]))),
        "labels": (tf.constant([1]), tf.constant([0])),
    }
    second = {
        "sentence_prediction": (as_logits(tf.constant([0, 1])),),
        "labels": (tf.constant([1, 1]),),
    }

    state = task.aggregate_logs(task.aggregate_logs(None, first), second)
    scores = task.reduce_aggregated_logs(state)

    assert scores == {metric_type: pytest.approx(expected, abs=1e-12)}


def test_scores_of_numbers_are_correlations():
    task = make_task(1, metric_type="pearson_spearman_corr")
    outputs = {
        "sentence_prediction": (tf.constant([[1.0], [2.0], [4.0]]),),
        "labels": (tf.constant([1.0, 2.0, 3.0]),),
    }

    scores = task.reduce_aggregated_logs(task.aggregate_logs(None, outputs))

    assert scores["spearman"] == pytest.approx(1.0, abs=1e-12)
    assert scores["pearson"] == pytest.approx(0.98198, abs=1e-5)
    assert scores["pearson_spearman_corr"] == pytest.approx((1.0 + scores["pearson"]) / 2)


def save_pretraining(directory, *, inner_dim=0, **sizes):
    heads = [cls_head.ClassificationHead(inner_dim, 2, name="next_sentence")]
    encoder = encoders.build_encoder(make_encoder(**sizes))
    model = bert_pretrainer.BertPretrainerV2(encoder, classification_heads=heads)
    checkpoint = tf.train.Checkpoint(model=model, **model.checkpoint_items)
    return model, checkpoint.save(str(directory / "ckpt"))


def test_the_encoder_starts_from_a_pretraining(tmp_path):
    source, _ = save_pretraining(tmp_path)
    task = make_task(init_checkpoint=str(tmp_path))
    model = task.build_model()

    task.initialize(model)

    for ours, theirs in zip(model.encoder.weights, source.encoder_network.weights, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_the_dense_layer_of_the_classifier_can_start_from_a_pretraining(tmp_path):
    source, path = save_pretraining(tmp_path, inner_dim=8)
    task = make_task(init_checkpoint=path, init_cls_pooler=True)
    model = task.build_model()

    task.initialize(model)

    expected = source.classification_heads[0].dense.kernel.numpy()
    np.testing.assert_array_equal(model.classifier.dense.kernel.numpy(), expected)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"vocab_size": 70}, r"embeddings: in the model \[64, 8\], in the checkpoint \[70, 8\]"),
        ({"num_layers": 2}, r"block_1.*: in the checkpoint .* not in the model"),
    ],
)
def test_a_checkpoint_of_another_encoder_is_an_error(tmp_path, sizes, message):
    save_pretraining(tmp_path, **sizes)
    task = make_task(init_checkpoint=str(tmp_path))

    with pytest.raises(errors.CheckpointError, match=message):
        task.initialize(task.build_model())


def test_an_encoder_without_its_excluded_variables_starts_from_a_pretraining(tmp_path):
    source, path = save_pretraining(tmp_path, vocab_size=70)
    task = make_task(init_checkpoint=path, init_exclude=("word_embeddings/*",))
    model = task.build_model()

    task.initialize(model)

    ours, theirs = (
        {weight.path: weight.numpy() for weight in encoder.weights}
        for encoder in (model.encoder, source.encoder_network)
    )
    assert ours["word_embeddings/embeddings"].shape == (64, 8)
    block = "block_0/self_attention/output/kernel"
    np.testing.assert_array_equal(ours[block], theirs[block])


def test_checkpoints_without_what_is_needed_are_errors(tmp_path):
    (tmp_path / "empty").mkdir()
    _, path = save_pretraining(tmp_path)
    empty = make_task(init_checkpoint=str(tmp_path / "empty"))
    absent = make_task(init_checkpoint=str(tmp_path / "nothing"))
    headless = make_task(init_checkpoint=path, init_cls_pooler=True)
    model = empty.build_model()

    with pytest.raises(errors.CheckpointError, match="a directory without a checkpoint"):
        empty.initialize(model)
    with pytest.raises(errors.CheckpointError, match="is no checkpoint"):
        absent.initialize(model)
    with pytest.raises(errors.CheckpointError, match=r"next_sentence\.pooler_dense.*inner_dim"):
        headless.initialize(model)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_classes": 0}, "task.model.num_classes: got 0"),
        ({"num_classes": 3, "label_names": ["a", "b"]}, "task.label_names: got 2 names"),
        ({"num_classes": 1, "metric_type": "f1"}, "task.metric_type: got 'f1' with 1 classes"),
        ({"metric_type": "pearson_spearman"}, "correlations are for numbers"),
        (
            {"init_cls_pooler": True, "model_fields": {"use_encoder_pooler": True}},
            "task.init_cls_pooler: got true",
        ),
    ],
)
def test_settings_that_do_not_go_together_are_errors(fields, message):
    with pytest.raises(errors.ConfigError, match=message):
        make_task(**fields)


def test_an_unknown_metric_is_an_error():
    with pytest.raises(errors.ConfigError, match="metric_type"):
        make_task(metric_type="f2")


@pytest.fixture
def text_task(tmp_path, vocab_file):
    path = tmp_path / "train.tsv"
    rows = zip(TEXTS, LANGUAGES, strict=True)
    path.write_text("text\tlanguage\n" + "".join(f"{text}\t{name}\n" for text, name in rows))
    data = make_text_config(vocab_file, input_path=str(path))
    return make_task(
        0,
        label_names=LANGUAGES,
        train_data=data,
        validation_data=data,
        logging_dir=str(tmp_path / "run"),
    )


@pytest.mark.slow
def test_text_is_predicted_as_data_is(text_task, tmp_path):
    model = text_task.build_model()
    (batch,) = text_task.build_inputs(text_task.task_config.train_data)

    predicted = text_task.build_predictor(model)(tf.constant(TEXTS))

    np.testing.assert_allclose(
        predicted["logits"], text_task.inference_step(batch, model), rtol=1e-5, atol=1e-6
    )
    assert batch["language"].numpy().tolist() == [0, 1, 2]
    classes = predicted["classes"].numpy()
    assert [LANGUAGES[index] for index in classes] == [
        name.decode() for name in predicted["labels"].numpy()
    ]
    np.testing.assert_allclose(predicted["probabilities"].numpy().sum(axis=1), 1.0, rtol=1e-6)
    assert (tmp_path / "run" / "vocabulary.model").exists()


@pytest.mark.long("Further cases of a test of which some run every time")
@pytest.mark.slow
def test_data_sets_are_predicted_in_the_order_of_their_ids(tmp_path, vocab_file):
    rows = ["text\tlanguage\texample_id", *(f"{text}\t0\t{2 - i}" for i, text in enumerate(TEXTS))]
    (tmp_path / "a.tsv").write_text("\n".join(rows))
    params = make_text_config(
        vocab_file, input_path=str(tmp_path / "a.tsv"), include_example_id=True, global_batch_size=2
    )
    task = make_task(1, train_data=params)
    model = task.build_model()

    outputs = sentence_prediction.predict(task, params, model, params_aug=params)

    expected = task.build_predictor(model)(tf.constant(TEXTS[::-1]))["scores"]
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("num_classes", "kind"), [(1, np.float32), (3, np.int64)])
def test_predictions_are_numpy_scalars(num_classes, kind):
    task = make_task(num_classes)

    predictions = sentence_prediction.predict(
        task, task.task_config.validation_data, task.build_model()
    )

    assert {type(prediction) for prediction in predictions} == {kind}


def test_an_encoder_too_small_for_the_vocabulary_is_an_error(text_task, vocab_file):
    data = make_text_config(vocab_file)
    model = sentence_prediction.ModelConfig(num_classes=2, encoder=make_encoder(vocab_size=20))
    task = make_task(train_data=data, model=model)

    with pytest.raises(errors.ConfigError, match=r"encoder\.bert\.vocab_size: got 20, but"):
        task.build_model()


def test_labels_without_files_are_guarded_before_the_loss():
    task = make_task(2)
    batches = tf.data.Dataset.from_tensors({"label_ids": tf.constant([0, 5])})

    with pytest.raises(tf.errors.InvalidArgumentError, match="a label is outside of 0 to 1"):
        next(iter(batches.map(task._assert_labels)))


class ListEncoder(keras.Model):
    def __init__(self):
        super().__init__()
        self.parts = [keras.layers.Dense(2)]

    def build(self, input_shape=None):
        self.parts[0].build((None, 2))
        self.built = True


def test_weights_that_a_checkpoint_does_not_see_are_an_error(tmp_path):
    encoder = ListEncoder()
    encoder.build()
    path = tf.train.Checkpoint(encoder=encoder).save(str(tmp_path / "ckpt"))

    with pytest.raises(errors.CheckpointError, match="2 weights of encoder are in no checkpoint"):
        pretrained.restore_parts({"encoder": encoder}, path, "task.init_checkpoint")


def test_a_pretraining_with_another_vocabulary_is_an_error(tmp_path, vocab_file):
    save_pretraining(tmp_path)
    (tmp_path / "vocabulary.model").write_bytes(b"another one")
    data = make_text_config(vocab_file)
    task = make_task(train_data=data, init_checkpoint=str(tmp_path))

    with pytest.raises(errors.ConfigError, match=r"was trained with the vocabulary '.*\.model'"):
        task.initialize(task.build_model())


def test_a_run_keeps_to_its_vocabulary(tmp_path, vocab_file):
    run = str(tmp_path / "run")
    other = str(tmp_path / "other.model")
    tokenizers.train_sentencepiece(
        TEXTS * 3, other, vocab_size=50, control_symbols=bert_vocabulary.SPECIAL_TOKENS
    )
    kept = make_task(train_data=make_text_config(vocab_file), logging_dir=run).vocabulary_path
    gone = make_task(train_data=make_text_config("/gone.model"), logging_dir=run)

    assert gone.vocabulary_path == kept
    with pytest.raises(errors.ConfigError, match="was started with another vocabulary"):
        _ = make_task(train_data=make_text_config(other), logging_dir=run).vocabulary_path


def test_a_label_outside_the_range_stops_a_run_before_it_starts(tmp_path, vocab_file, capsys):
    rows = ["text\tlanguage", "ein Haus\t0", "a house\t2"]
    (tmp_path / "train.tsv").write_text("\n".join(rows))
    data = "text_fields: [text], label_field: language, tokenization: SentencePiece"
    data = f"{{input_path: {tmp_path}/train.tsv, vocab_file: {vocab_file}, {data}}}"
    (tmp_path / "a.yaml").write_text(
        "task:\n"
        "  model: {num_classes: 2, encoder: {bert: {hidden_size: 8, num_layers: 1, "
        "num_attention_heads: 2, intermediate_size: 8}}}\n"
        f"  train_data: {data}\n  validation_data: {data}\n"
    )

    code = main.run(
        [
            "train",
            "--experiment=bert/sentence_prediction_text",
            f"--model_dir={tmp_path / 'run'}",
            f"--config_file={tmp_path / 'a.yaml'}",
            "--quiet",
        ]
    )

    assert code == main.EXIT_BAD_INPUT
    assert "train.tsv:3: language: got 2, expected a class from 0 to 1" in capsys.readouterr().err
