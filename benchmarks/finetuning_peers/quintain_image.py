"""Trains an image classifier by its task, from a folder, and prints what was measured."""

import argparse

from quintain.process import start_up

# Before Keras, as every command of ours: parts of TensorFlow that nothing asks for stay away.
start_up.prepare()

# isort: split
import pictures
import tensorflow as tf
import texts as measured

# isort: split
import quintain_peer

from quintain.vision import image_classification, image_configs


def run(options: argparse.Namespace) -> None:
    """Trains, and prints what was measured."""
    data = image_configs.ImageDataConfig(
        input_path=pictures.write(), global_batch_size=pictures.BATCH_SIZE
    )
    config = image_configs.ImageClassificationConfig(
        image_size=(pictures.SIZE, pictures.SIZE),
        model=image_configs.ImageModelConfig(
            resnet=image_configs.ResNetConfig(
                width=pictures.WIDTH,
                num_stages=pictures.NUM_STAGES,
                blocks_per_stage=pictures.BLOCKS_PER_STAGE,
            )
        ),
        augmentation=image_configs.AugmentationConfig(flip="horizontal"),
        train_data=data,
        validation_data=data.replace(is_training=False),
    )
    trainer = quintain_peer.build_trainer(
        image_classification.ImageClassificationTask,
        config,
        {"type": "adam", "adam": {}},
        pictures.LEARNING_RATE,
        argparse.Namespace(precision="float32", kernels="auto"),
    )
    trainer.train(tf.constant(options.warmup))
    clock = measured.Clock()
    trainer.train(tf.constant(options.steps))
    clock.report("images", options.steps * pictures.BATCH_SIZE)


if __name__ == "__main__":
    run(measured.parse())
