"""Fine-tunes a BERT by the task of sentence prediction, and prints what was measured."""

import argparse
import pathlib
import tempfile

from quintain.process import start_up

# Before Keras, as every command of ours: parts of TensorFlow that nothing asks for stay away.
start_up.prepare()

# isort: split
import tensorflow as tf
import texts

# isort: split
import quintain_peer

from quintain.nlp.configs import encoders, sentence_prediction
from quintain.nlp.data import sentence_prediction_dataloader
from quintain.nlp.tasks import sentence_prediction as task_module


def write(path: pathlib.Path, count: int) -> int:
    """Writes the texts as records, and returns their tokens."""
    rows, classes = texts.draw(count)

    def make(values: list[int]) -> tf.train.Feature:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    with tf.io.TFRecordWriter(str(path)) as writer:
        for row, label in zip(rows, classes, strict=True):
            padding = [0] * (texts.SEQ_LENGTH - len(row))
            feature = {
                "input_ids": make([*row.tolist(), *padding]),
                "input_mask": make([1] * len(row) + padding),
                "segment_ids": make([0] * texts.SEQ_LENGTH),
                "label_ids": make([int(label)]),
            }
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())
    return sum(map(len, rows))


def run(options: argparse.Namespace) -> None:
    """Trains, and prints what was measured."""
    path = pathlib.Path(tempfile.mkdtemp()) / "train.tfrecord"
    tokens = write(path, (options.warmup + options.steps) * texts.BATCH_SIZE)
    config = task_module.SentencePredictionConfig(
        model=sentence_prediction.ModelConfig(
            num_classes=texts.NUM_CLASSES,
            encoder=encoders.EncoderConfig(
                bert=encoders.BertEncoderConfig(
                    vocab_size=texts.VOCAB_SIZE,
                    hidden_size=texts.WIDTH,
                    num_layers=texts.NUM_LAYERS,
                    num_attention_heads=texts.NUM_HEADS,
                    intermediate_size=texts.INTERMEDIATE,
                    max_position_embeddings=texts.NUM_POSITIONS,
                )
            ),
        ),
        train_data=sentence_prediction_dataloader.SentencePredictionDataConfig(
            input_path=str(path),
            seq_length=texts.SEQ_LENGTH,
            global_batch_size=texts.BATCH_SIZE,
        ),
    )
    optimizer = {
        "type": "adamw",
        "adamw": {
            "weight_decay_rate": texts.WEIGHT_DECAY,
            "exclude_from_weight_decay": ["gamma", "beta", "bias"],
            "gradient_clip_norm": 1.0,
        },
    }
    trainer = quintain_peer.build_trainer(
        task_module.SentencePredictionTask,
        config,
        optimizer,
        texts.LEARNING_RATE,
        argparse.Namespace(precision="float32", kernels="auto"),
    )
    trainer.train(tf.constant(options.warmup))
    clock = texts.Clock()
    trainer.train(tf.constant(options.steps))
    clock.report("tokens", tokens * options.steps / (options.warmup + options.steps))


if __name__ == "__main__":
    run(texts.parse())
