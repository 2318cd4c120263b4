"""Writes the checkpoints and outputs beside this file with the reference's own code.

Needs tf-models-official 2.20, which the tests do not: they read what this script has written.

    python make_reference_checkpoints.py reference/
"""

import pathlib
import sys

import numpy as np
import tensorflow as tf
import tf_keras
from official.modeling import tf_utils
from official.nlp.modeling import layers, models, networks

VOCAB_SIZE, WIDTH, HEADS, LAYERS, INNER, POSITIONS = 24, 16, 4, 2, 24, 10


def randomise(model, seed):
    """Gives every weight other values than those of a new model, the biases too."""
    generator = np.random.default_rng(seed)
    for weight in model.weights:
        values = generator.normal(scale=0.3, size=weight.shape)
        weight.assign(values + 1 if "gamma" in weight.name else values)


def make_bert_batch():
    generator = np.random.default_rng(1)
    mask = np.array([[1] * 8, [1] * 5 + [0] * 3, [1] * 7 + [0]])
    return {
        "input_word_ids": generator.integers(1, VOCAB_SIZE, mask.shape) * mask,
        "input_mask": mask,
        "input_type_ids": generator.integers(0, 2, mask.shape) * mask,
        "masked_lm_positions": np.array([[1, 3], [2, 4], [6, 0]]),
    }


def build_encoder(encoder_cls, norm_first=False, dict_outputs=True):
    options = {"dict_outputs": dict_outputs} if encoder_cls is networks.BertEncoder else {}
    return encoder_cls(
        vocab_size=VOCAB_SIZE,
        hidden_size=WIDTH,
        num_layers=LAYERS,
        num_attention_heads=HEADS,
        max_sequence_length=POSITIONS,
        type_vocab_size=2,
        norm_first=norm_first,
        inner_dim=INNER,
        inner_activation=tf_utils.get_activation("gelu"),
        **options,
    )


def make_tensors(batch):
    return {name: tf.constant(value, tf.int32) for name, value in batch.items()}


def write_pretrainer(directory, name, encoder_cls, norm_first=False):
    encoder = build_encoder(encoder_cls, norm_first)
    head = layers.ClassificationHead(
        inner_dim=WIDTH, num_classes=2, dropout_rate=0.1, name="next_sentence"
    )
    model = models.BertPretrainerV2(
        encoder_network=encoder,
        mlm_activation=tf_utils.get_activation("gelu"),
        classification_heads=[head],
    )
    batch = make_bert_batch()
    model(make_tensors(batch), training=False)
    randomise(model, seed=2)
    outputs = model(make_tensors(batch), training=False)
    wanted = ("sequence_output", "pooled_output", "mlm_logits", "next_sentence")
    np.savez(directory / f"{name}.npz", **batch, **{key: outputs[key].numpy() for key in wanted})
    # As the reference's trainer does, and as its encoders are published.
    tf.train.Checkpoint(
        model=model, global_step=tf.Variable(7, dtype=tf.int64), **model.checkpoint_items
    ).write(str(directory / name))
    if not norm_first:
        tf.train.Checkpoint(encoder=encoder).write(str(directory / f"{name}_encoder"))


def write_encoder(directory, name, encoder, takes_dictionary):
    batch = make_bert_batch()
    del batch["masked_lm_positions"]
    tensors = make_tensors(batch)
    inputs = tensors if takes_dictionary else list(tensors.values())
    encoder(inputs, training=False)
    randomise(encoder, seed=5)
    outputs = encoder(inputs, training=False)
    results = {key: outputs[key].numpy() for key in ("sequence_output", "pooled_output")}
    np.savez(directory / f"{name}.npz", **batch, **results)
    tf.train.Checkpoint(encoder=encoder).write(str(directory / name))


def write_encoders(directory):
    sizes = {
        "vocab_size": VOCAB_SIZE,
        "hidden_size": WIDTH,
        "num_layers": LAYERS,
        "num_attention_heads": HEADS,
        "type_vocab_size": 2,
    }
    gelu = tf_utils.get_activation("gelu")
    albert = networks.AlbertEncoder(
        **sizes,
        embedding_width=6,
        max_sequence_length=POSITIONS,
        intermediate_size=INNER,
        activation=gelu,
        dict_outputs=True,
    )
    write_encoder(directory, "albert", albert, takes_dictionary=False)
    for name, options in {
        "fnet": {"attention_layers": [1]},
        "fnet_linear": {"mixing_mechanism": layers.MixingMechanism.LINEAR, "norm_first": True},
    }.items():
        fnet = networks.FNet(
            **sizes, max_sequence_length=8, inner_dim=INNER, inner_activation=gelu, **options
        )
        write_encoder(directory, name, fnet, takes_dictionary=True)
    bert = networks.BertEncoderV2(
        **sizes,
        embedding_width=6,
        max_sequence_length=POSITIONS,
        inner_dim=INNER,
        inner_activation="relu",
    )
    write_encoder(directory, "bert_factorized", bert, takes_dictionary=True)


def write_heads(directory):
    encoder = build_encoder(networks.BertEncoder)
    batch = make_bert_batch()
    positions = batch.pop("masked_lm_positions")
    for name, model in {
        "token_classifier": models.BertTokenClassifier(encoder, 3, output="predictions"),
        "span_labeler": models.BertSpanLabeler(encoder),
    }.items():
        randomise(model, seed=6)
        outputs = tf.nest.flatten(model(make_tensors(batch), training=False))
        np.savez(directory / f"{name}.npz", **batch, outputs=np.stack(outputs))
        tf.train.Checkpoint(model=model).write(str(directory / name))
    plain = build_encoder(networks.BertEncoder, dict_outputs=False)
    model = models.BertPretrainer(plain, 2, positions.shape[1], output="predictions")
    inputs = [*make_tensors(batch).values(), tf.constant(positions, tf.int32)]
    randomise(model, seed=7)
    results = {key: value.numpy() for key, value in model(inputs, training=False).items()}
    np.savez(directory / "pretrainer_model_v1.npz", **make_bert_batch(), **results)
    tf.train.Checkpoint(model=model).write(str(directory / "pretrainer_model_v1"))


def write_classifier(directory, name, encoder_cls, **options):
    model = models.BertClassifier(build_encoder(encoder_cls), num_classes=3, **options)
    batch = make_bert_batch()
    del batch["masked_lm_positions"]
    randomise(model, seed=3)
    logits = model(make_tensors(batch), training=False)
    np.savez(directory / f"{name}.npz", **batch, logits=logits.numpy())
    tf.train.Checkpoint(model=model, global_step=tf.Variable(7, dtype=tf.int64)).write(
        str(directory / name)
    )


def write_translation(directory, name, *, use_bias):
    sizes = {"num_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": INNER}
    options = {"use_bias": use_bias, "dropout_rate": 0.1, "norm_first": True}

    def build(beam_size):
        return models.Seq2SeqTransformer(
            vocab_size=VOCAB_SIZE,
            embedding_width=WIDTH,
            dropout_rate=0.1,
            decode_max_length=9,
            beam_size=beam_size,
            alpha=0.6,
            encoder_layer=models.TransformerEncoder(**sizes, **options),
            decoder_layer=models.TransformerDecoder(**sizes, **options),
            eos_id=1,
        )

    source = np.array([[5, 9, 3, 7, 1, 0], [4, 4, 8, 1, 0, 0], [20, 11, 2, 13, 6, 1]])
    targets = np.array([[6, 2, 9, 1, 0], [3, 1, 0, 0, 0], [15, 16, 17, 18, 1]])
    tensors = make_tensors({"inputs": source, "targets": targets})
    model = build(beam_size=4)
    optimizer = tf_keras.optimizers.SGD(1e-9)
    model(tensors, training=False)
    randomise(model, seed=4)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(tensors, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    path = str(directory / name)
    tf.train.Checkpoint(
        model=model, optimizer=optimizer, global_step=tf.Variable(7, dtype=tf.int64)
    ).write(path)
    results = {"logits": model(tensors, training=False).numpy()}
    for beam_size in (1, 4):
        other = build(beam_size)
        other(tensors, training=False)
        other.set_weights(model.get_weights())
        found = other({"inputs": tensors["inputs"]}, training=False)
        results[f"ids_{beam_size}"] = found["outputs"].numpy()
        results[f"scores_{beam_size}"] = found["scores"].numpy()
    np.savez(directory / f"{name}.npz", inputs=source, targets=targets, **results)


def main(directory):
    directory.mkdir(parents=True, exist_ok=True)
    write_pretrainer(directory, "pretrainer_v1", networks.BertEncoder)
    write_pretrainer(directory, "pretrainer_v2", networks.BertEncoderV2)
    write_pretrainer(directory, "pretrainer_norm_first", networks.BertEncoderV2, norm_first=True)
    write_classifier(directory, "classifier_v1", networks.BertEncoder)
    write_classifier(directory, "classifier_v2", networks.BertEncoderV2, use_encoder_pooler=False)
    write_encoders(directory)
    write_heads(directory)
    write_translation(directory, "translation", use_bias=False)
    write_translation(directory, "translation_bias", use_bias=True)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
