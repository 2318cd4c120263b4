"""A tiny model on a tiny corpus; one task serves most tests, because building is slow."""

import json
import logging

import keras
import numpy as np
import pytest
import sentencepiece
import tensorflow as tf

from quintain import errors
from quintain.checkpoints import checkpoint_fit
from quintain.core import task_factory
from quintain.nlp.data import wmt_dataloader
from quintain.nlp.tasks import translation
from quintain.optimization.configs import optimization_config
from quintain.settings import config_definitions as cfg

_WORDS = {"red": "rot", "green": "grün", "blue": "blau", "house": "Haus", "tree": "Baum"}
_PAIRS = [
    (f"the {a} {b} and the {c}", f"{_WORDS[a]} {_WORDS[b]} und {_WORDS[c]}")
    for a in _WORDS
    for b in _WORDS
    for c in _WORDS
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    directory = tmp_path_factory.mktemp("corpus")
    for name, pairs in (("train", _PAIRS[:100]), ("valid", _PAIRS[100:])):
        text = "".join(f"{source}\t{target}\n" for source, target in pairs)
        (directory / f"{name}.tsv").write_text(text, encoding="utf-8")
    return directory


@pytest.fixture(scope="module")
def config(corpus):
    layers = translation.EncDecoder(
        num_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        dropout_rate=0.0,
        attention_dropout_rate=0.0,
        intermediate_dropout=0.0,
    )
    return translation.TranslationConfig(
        model=translation.ModelConfig(
            encoder=layers, decoder=layers, embedding_width=16, dropout_rate=0.0, beam_size=2
        ),
        train_data=wmt_dataloader.WMTDataConfig(
            input_path=str(corpus / "train.tsv"), is_training=True, global_batch_size=400, seed=1
        ),
        validation_data=wmt_dataloader.WMTDataConfig(
            input_path=str(corpus / "valid.tsv"), is_training=False, global_batch_size=10
        ),
        vocab_size=60,
    )


@pytest.fixture(scope="module")
def task(config, tmp_path_factory):
    return translation.TranslationTask(config, logging_dir=str(tmp_path_factory.mktemp("run")))


@pytest.fixture(scope="module")
def batch(task):
    return next(iter(task.build_inputs(task.task_config.train_data)))


@pytest.fixture
def model(task, batch):
    model = task.build_model()
    model(batch)
    return model


@pytest.fixture(scope="module")
def validation_batches(task):
    return list(task.build_inputs(task.task_config.validation_data))


def _perfect_logs(task, batches):
    """Logs of a model that translates `batches` without a mistake."""
    return [
        {
            "unique_ids": (batch["unique_id"],),
            "inputs": (batch["inputs"],),
            "outputs": (batch["targets"],),
        }
        for batch in batches
    ]


def _aggregate(task, logs):
    state = None
    for step_logs in logs:
        state = task.aggregate_logs(state, step_logs)
    return state


def test_the_registered_config_builds_the_task(config, tmp_path):
    task = task_factory.get_task(config, logging_dir=str(tmp_path))

    assert isinstance(task, translation.TranslationTask)
    assert list(tmp_path.iterdir()) == []  # Nothing is written before it is needed.


def test_defaults_are_those_of_the_reference():
    model = translation.TranslationConfig().model

    assert (model.encoder.num_layers, model.encoder.num_attention_heads) == (6, 8)
    assert model.encoder.intermediate_size == 2048
    assert model.embedding_width == 512
    assert (model.beam_size, model.alpha, model.label_smoothing) == (4, 0.6, 0.1)


def test_encoder_and_decoder_defaults_are_not_shared():
    config = translation.ModelConfig()
    config.encoder.num_layers = 3

    assert config.decoder.num_layers == 6
    assert translation.ModelConfig().encoder.num_layers == 6


def test_loss_is_the_mean_over_target_tokens_without_padding(config, task):
    task = translation.TranslationTask(
        config.replace(model={"label_smoothing": 0.0}), logging_dir=task.logging_dir
    )
    logits = tf.zeros([2, 3, 4])
    labels = tf.constant([[1, 2, 3], [1, 0, 0]])

    assert task.build_losses(labels, logits).numpy() == pytest.approx(np.log(4.0))


def test_loss_of_a_batch_without_tokens_is_zero_and_not_nan(task):
    loss = task.build_losses(tf.zeros([0, 3], tf.int32), tf.zeros([0, 3, 8]))

    assert loss.numpy() == 0.0


def test_auxiliary_losses_are_added(task):
    labels, logits = tf.constant([[1, 2]]), tf.zeros([1, 2, 8])

    with_aux = task.build_losses(labels, logits, aux_losses=[tf.constant(2.0), tf.constant(0.5)])

    assert float(with_aux - task.build_losses(labels, logits)) == pytest.approx(2.5)


@pytest.mark.slow
def test_train_step_equals_the_steps_written_out_by_hand(task, model, batch):
    twin = task.build_model()
    twin(batch)
    twin.set_weights(model.get_weights())
    with tf.GradientTape() as tape:
        logits = twin(batch, training=True)
        loss = task.build_losses(batch["targets"], logits, aux_losses=twin.losses)
    weights = [variable.value for variable in twin.trainable_variables]
    gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, weights)]
    expected = [w - 0.1 * g for w, g in zip(weights, gradients, strict=True)]

    logs = task.train_step(batch, model, keras.optimizers.SGD(0.1))

    assert logs["loss"].numpy() == pytest.approx(loss.numpy(), rel=1e-6)
    for actual, wanted in zip(model.trainable_variables, expected, strict=True):
        np.testing.assert_allclose(actual.numpy(), wanted.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_train_steps_learn_a_batch_by_heart(task, model, batch):
    optimizer = keras.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)
    metrics = task.build_metrics(training=True)
    step = tf.function(lambda: task.train_step(batch, model, optimizer, metrics=metrics)["loss"])

    losses = [float(step()) for _ in range(60)]

    assert losses[-1] < 0.5 * losses[0]
    assert 0.0 < float(metrics[0].result()) <= 1.0


def test_token_accuracy_ignores_padding(task):
    (metric,) = task.build_metrics()
    labels = tf.constant([[2, 3, 0, 0]])
    logits = tf.one_hot([[2, 1, 0, 0]], 5)

    task.process_metrics([metric], labels, logits)

    assert float(metric.result()) == 0.5


def test_items_are_pairs_and_tokens_without_padding(task):
    counts = task.count_items(
        {"inputs": tf.constant([[5, 1, 0], [6, 7, 1]]), "targets": tf.constant([[5, 1], [1, 0]])}
    )

    assert {name: int(count) for name, count in counts.items()} == {"examples": 2, "tokens": 8}


@pytest.mark.slow
def test_validation_step_reports_loss_and_translations_and_leaves_its_inputs_alone(
    task, model, validation_batches
):
    inputs = dict(validation_batches[0])

    logs = task.validation_step(inputs, model, metrics=task.build_metrics(training=False))

    num_pairs = inputs["inputs"].shape[0]
    assert set(inputs) == {"inputs", "targets", "unique_id"}
    assert logs["loss"].shape == ()
    assert np.isfinite(logs["loss"])
    assert logs["outputs"].shape[0] == logs["scores"].shape[0] == num_pairs
    np.testing.assert_array_equal(logs["unique_ids"], inputs["unique_id"])


@pytest.mark.slow
def test_validation_step_finds_the_translations_that_inference_finds(
    task, model, validation_batches
):
    inputs = validation_batches[0]

    logs = task.validation_step(inputs, model)
    decoded = task.inference_step({"inputs": inputs["inputs"]}, model)

    np.testing.assert_array_equal(logs["outputs"], decoded["outputs"])
    np.testing.assert_allclose(logs["scores"], decoded["scores"], rtol=1e-5)


def test_validation_data_covers_every_pair_once(validation_batches):
    unique_ids = np.concatenate([batch["unique_id"] for batch in validation_batches])

    assert sorted(unique_ids) == list(range(25))


def test_data_of_another_kind_is_an_error(task):
    with pytest.raises(errors.ConfigError, match="WMTDataConfig"):
        task.build_inputs(cfg.DataConfig(input_path="x.tsv"))


def test_perfect_translations_score_100(task, validation_batches):
    state = _aggregate(task, _perfect_logs(task, validation_batches))

    scores = task.reduce_aggregated_logs(state)

    assert scores == {
        "sacrebleu_score": pytest.approx(100.0),
        "bleu_score": pytest.approx(100.0),
        "chrf_score": pytest.approx(100.0),
        "exact_match": 1.0,
    }


def test_a_part_of_the_data_is_scored_by_itself_and_the_log_says_how_large_it_is(
    task, validation_batches, caplog
):
    num_pairs = validation_batches[0]["inputs"].shape[0]
    state = _aggregate(task, _perfect_logs(task, validation_batches[:1]))

    with caplog.at_level(logging.INFO):
        scores = task.reduce_aggregated_logs(state)

    assert scores["exact_match"] == 1.0
    assert f"Scored {num_pairs} of 25 validation pairs" in caplog.text


def test_tokens_after_the_first_eos_do_not_count(task, validation_batches):
    (logs,) = _perfect_logs(task, validation_batches[:1])
    outputs = logs["outputs"][0]
    garbage = tf.fill([outputs.shape[0], 3], tf.cast(5, outputs.dtype))
    eos = tf.fill([outputs.shape[0], 1], tf.cast(task.tokenizer.eos_id, outputs.dtype))
    logs["outputs"] = (tf.concat([outputs, eos, garbage], axis=1),)

    scores = task.reduce_aggregated_logs(task.aggregate_logs(None, logs))

    assert scores["exact_match"] == 1.0


def test_outputs_of_all_replicas_are_gathered_and_repeats_kept_once(task):
    logs = {
        "unique_ids": (tf.constant([3, 4]), tf.constant([4])),
        "inputs": (tf.constant([[5, 1], [6, 1]]), tf.constant([[6, 1]])),
        "outputs": (tf.constant([[7, 1], [8, 1]]), tf.constant([[8, 1]])),
    }

    state = task.aggregate_logs(None, logs)

    assert sorted(state) == [3, 4]
    np.testing.assert_array_equal(state[4][1], [8, 1])


@pytest.mark.parametrize(("setting", "is_shown"), [(None, True), (True, True), (False, False)])
def test_three_translations_are_shown_the_same_every_time(
    config, task, validation_batches, caplog, setting, is_shown
):
    printing = translation.TranslationTask(
        config.replace(print_translations=setting), logging_dir=task.logging_dir
    )
    state = _aggregate(task, _perfect_logs(task, validation_batches))

    with caplog.at_level(logging.INFO, logger="quintain.samples"):
        printing.reduce_aggregated_logs(state)
        printing.reduce_aggregated_logs(dict(reversed(state.items())))

    shown = [record.getMessage() for record in caplog.records if record.name == "quintain.samples"]
    assert len(shown) == 2 * is_shown
    if is_shown:
        assert shown[0] == shown[1]
        assert shown[0].count("  hypothesis  ") == 3
        for source, _ in (_PAIRS[100], _PAIRS[108], _PAIRS[116]):
            assert f"  source      {source}\n" in shown[0]
        assert "nrefs:1|case:mixed" in shown[0]


def test_translations_are_written_with_their_scores(config, task, validation_batches, tmp_path):
    writing = translation.TranslationTask(
        config.replace(sentencepiece_model_path=task.vocabulary_path), logging_dir=str(tmp_path)
    )
    state = _aggregate(writing, _perfect_logs(writing, validation_batches))

    logs = writing.reduce_aggregated_logs(state, global_step=tf.Variable(70))

    path = tmp_path / "translations" / "step-70.tsv"
    expected = "source\treference\thypothesis\n"
    expected += "".join(f"{source}\t{target}\t{target}\n" for source, target in _PAIRS[100:])
    assert path.read_text(encoding="utf-8") == expected
    scores = json.loads(path.with_suffix(".json").read_text())
    assert logs.items() <= scores.items()
    assert (scores["step"], scores["num_pairs"]) == (70, 25)
    assert "tok:13a" in scores["sacrebleu_signature"]
    assert sorted(path.name for path in path.parent.iterdir()) == ["step-70.json", "step-70.tsv"]


def test_a_task_with_a_name_has_a_directory_of_its_own(config, task, validation_batches, tmp_path):
    named = translation.TranslationTask(
        config.replace(sentencepiece_model_path=task.vocabulary_path),
        logging_dir=str(tmp_path),
        name="german",
    )
    state = _aggregate(named, _perfect_logs(named, validation_batches))

    named.reduce_aggregated_logs(state, global_step=tf.Variable(1))

    assert (tmp_path / "translations" / "german" / "step-1.tsv").exists()


def test_perplexity_is_that_of_all_tokens_without_smoothing(task):
    generator = np.random.default_rng(0)
    logits = generator.normal(size=[3, 4, 8]).astype(np.float32)
    labels = np.array([[1, 2, 3, 4], [5, 0, 0, 0], [6, 7, 0, 0]])
    accuracy, found = task.build_metrics(training=False)

    for row in range(3):
        task.process_metrics([found], labels[row : row + 1], logits[row : row + 1])

    log_probabilities = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    taken = np.take_along_axis(log_probabilities, labels[..., np.newaxis], axis=-1)[..., 0]
    assert float(found.result()) == pytest.approx(np.exp(-taken[labels != 0].mean()), rel=1e-6)
    assert accuracy.name == "token_accuracy"
    assert [metric.name for metric in task.build_metrics(training=True)] == ["token_accuracy"]


def test_without_vocabulary_or_directory_the_error_names_both_remedies(config, task):
    with pytest.raises(errors.ConfigError, match=r"sentencepiece_model_path.*model directory"):
        translation.TranslationTask(config.replace(sentencepiece_model_path=None))
    with pytest.raises(errors.ConfigError, match=r"task\.target_sentencepiece_model_path: got ''"):
        translation.TranslationTask(
            config.replace(share_vocabulary=False, sentencepiece_model_path=task.vocabulary_path)
        )


@pytest.mark.parametrize("share_vocabulary", [True, False])
def test_a_task_with_a_vocabulary_without_an_end_is_not_built(config, tmp_path, share_vocabulary):
    path = str(tmp_path / "endless")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["ein Haus"] * 9),
        model_prefix=path,
        vocab_size=10,
        pad_id=0, eos_id=-1, bos_id=-1, unk_id=2, minloglevel=2,
    )  # fmt: skip

    with pytest.raises(errors.ConfigError, match=r"endless\.model: the vocabulary has no EOS"):
        translation.TranslationTask(
            config.replace(
                share_vocabulary=share_vocabulary, sentencepiece_model_path=f"{path}.model"
            )
        )


@pytest.mark.long("tests/core/privacy clips each example in every run")
@pytest.mark.slow
def test_private_step_clips_each_pair_whatever_the_bucket(config, task, batch):
    private = config.replace()
    private.differential_privacy_config = cfg.DifferentialPrivacyConfig(clipping_norm=0.01)
    private_task = translation.TranslationTask(private, logging_dir=task.logging_dir)
    keras.utils.set_random_seed(5)
    model = private_task.build_model()
    model(batch, training=False)
    optimizer = private_task.create_optimizer(
        optimization_config.OptimizationConfig(
            {
                "optimizer": {"type": "sgd"},
                "learning_rate": {"type": "constant", "constant": {"learning_rate": 1.0}},
            }
        ),
        dp_config=private.differential_privacy_config,
    )
    before = model.get_weights()
    pairs = {name: part[:6] for name, part in batch.items()}

    expected = [np.zeros_like(part) for part in before]
    losses = []
    for row in range(6):
        pair = {name: part[row : row + 1] for name, part in pairs.items()}
        with tf.GradientTape() as tape:
            loss = private_task.build_losses(pair["targets"], model(pair, training=True))
        variables = [variable.value for variable in model.trainable_variables]
        gradients = [tf.convert_to_tensor(part) for part in tape.gradient(loss, variables)]
        clipped, norm = tf.clip_by_global_norm(gradients, 0.01)
        assert norm > 0.01
        expected = [a + b.numpy() / 6 for a, b in zip(expected, clipped, strict=True)]
        losses.append(float(loss))
    logs = tf.function(private_task.train_step)(pairs, model, optimizer, None)

    assert float(logs["loss"]) == pytest.approx(np.mean(losses), rel=1e-5)
    for old, new, wanted in zip(before, model.get_weights(), expected, strict=True):
        np.testing.assert_allclose(old - new, wanted, atol=2e-6)


def test_largest_number_of_pairs_in_a_batch_is_that_of_the_shortest(task):
    assert task.count_batch_examples(task.task_config.train_data) == 400 // 8


@pytest.fixture(scope="module")
def parted(config, tmp_path_factory):
    """A task whose languages have vocabularies of different sizes."""
    directory = str(tmp_path_factory.mktemp("parted"))
    parted = config.replace(share_vocabulary=False, vocab_size=48)
    task = translation.TranslationTask(parted, logging_dir=directory)
    assert task.tokenizer.vocab_size != task.target_tokenizer.vocab_size
    return task


def test_separate_vocabularies_have_embeddings_of_their_own(parted):
    model = parted.build_model()
    batch = next(iter(parted.build_inputs(parted.task_config.train_data)))

    logits = model(batch, training=False)

    assert model.embedding.shape == (parted.tokenizer.vocab_size, 16)
    assert model.target_embedding.shape == (parted.target_tokenizer.vocab_size, 16)
    assert logits.shape[-1] == parted.target_tokenizer.vocab_size
    sources = parted.tokenizer.detokenize(batch["inputs"]).numpy()
    targets = parted.target_tokenizer.detokenize(batch["targets"]).numpy()
    pairs = {
        (source.decode(), target.decode()) for source, target in zip(sources, targets, strict=True)
    }
    assert pairs <= set(_PAIRS)


def test_logits_of_separate_vocabularies_come_from_the_targets_embedding(parted):
    model = parted.build_model()
    batch = next(iter(parted.build_inputs(parted.task_config.train_data)))
    before = model(batch, training=False)

    model.target_embedding.assign(tf.concat([model.target_embedding[:-1], tf.zeros([1, 16])], 0))
    after = model(batch, training=False)

    assert tf.reduce_max(tf.abs(after[..., -1])) == 0.0
    assert tf.reduce_max(tf.abs(before[..., -1])) > 0.0


@pytest.mark.slow
def test_evaluation_and_training_of_separate_vocabularies_work(parted):
    model = parted.build_model()
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build(model.trainable_variables)
    batch = next(iter(parted.build_inputs(parted.task_config.train_data)))
    before = model.target_embedding.numpy(), model.embedding.numpy()

    logs = parted.train_step(batch, model, optimizer)

    assert np.isfinite(float(logs["loss"]))
    for old, new in zip(before, (model.target_embedding, model.embedding), strict=True):
        assert np.abs(new.numpy() - old).max() > 0
    validation = list(parted.build_inputs(parted.task_config.validation_data))
    scores = parted.reduce_aggregated_logs(_aggregate(parted, _perfect_logs(parted, validation)))
    assert scores["exact_match"] == 1.0
    found = parted.validation_step(validation[0], model)
    assert int(tf.reduce_max(found["outputs"])) < parted.target_tokenizer.vocab_size


def test_a_target_vocabulary_beside_a_shared_one_is_an_error(config):
    wrong = config.replace(target_sentencepiece_model_path="de.model")

    with pytest.raises(
        errors.ConfigError, match=r"target_sentencepiece_model_path: got 'de.model'"
    ):
        wrong.validate()


def test_a_checkpoint_with_another_vocabulary_is_not_started_from(parted, task, tmp_path):
    path = tf.train.Checkpoint(model=parted.build_model()).write(f"{parted.logging_dir}/ckpt-1")
    config = parted.task_config.replace(init_checkpoint=path)
    other = translation.TranslationTask(
        config.replace(target_sentencepiece_model_path=task.vocabulary_path),
        logging_dir=str(tmp_path),
    )

    with pytest.raises(errors.ConfigError, match=r"task\.init_checkpoint: got .* another one"):
        other.initialize(other.build_model())


def test_a_checkpoint_of_another_architecture_names_what_differs(parted, task, tmp_path):
    path = tf.train.Checkpoint(model=parted.build_model()).write(str(tmp_path / "ckpt-1"))

    with pytest.raises(
        errors.CheckpointError, match=r"embeddings: in the model \[\d+, 16\], in the"
    ):
        checkpoint_fit.restore_model(task.build_model(), path)
