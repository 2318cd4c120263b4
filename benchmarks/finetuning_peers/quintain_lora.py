"""Teaches adapters of a causal model by the task of conversations, packed in rows."""

import argparse
from collections.abc import Iterator

from quintain.process import start_up

# Before Keras, as every command of ours: parts of TensorFlow that nothing asks for stay away.
start_up.prepare()

# isort: split
import talks
import tensorflow as tf
import texts as measured

# isort: split
import quintain_peer

from quintain.hub import configs, sft


def run(options: argparse.Namespace) -> None:
    """Trains, and prints what was measured."""
    steps = options.warmup + options.steps
    path, conversations = talks.write_conversations(steps * talks.CONVERSATIONS_PER_STEP)
    tokens = sum(map(len, conversations))
    # As many conversations a step as the peer has, in as many rows as they fill.
    rows = max(1, round(tokens / steps / talks.SEQ_LENGTH))
    data = configs.HubDataConfig(
        input_path=path, fields=("messages",), global_batch_size=rows, drop_remainder=True
    )
    config = configs.SftConfig(
        model=configs.ModelConfig(
            preset=talks.write_preset(),
            head="causal_lm",
            sequence_length=talks.SEQ_LENGTH,
            lora=configs.LoraConfig(rank=talks.RANK),
        ),
        template=configs.TemplateConfig(name="plain"),
        train_data=data,
        validation_data=data.replace(is_training=False),
    )
    trainer = quintain_peer.build_trainer(
        sft.SftTask,
        config,
        {"type": "adamw", "adamw": {"weight_decay_rate": 0.01, "gradient_clip_norm": 0.0}},
        talks.LEARNING_RATE,
        argparse.Namespace(precision="float32", kernels="auto"),
    )
    trainer.train(tf.constant(options.warmup))
    counted = sum(count_tokens(trainer.task, data, options))
    clock = measured.Clock()
    trainer.train(tf.constant(options.steps))
    clock.report("tokens", counted)


def count_tokens(
    task: sft.SftTask, data: configs.HubDataConfig, options: argparse.Namespace
) -> Iterator[int]:
    """Yields the tokens of each of as many steps, without padding."""
    for features, _ in task.build_inputs(data).take(options.steps):
        yield int(tf.math.count_nonzero(features["padding_mask"]))


if __name__ == "__main__":
    run(measured.parse())
