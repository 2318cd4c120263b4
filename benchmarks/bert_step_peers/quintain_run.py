"""Pretrains the BERT of `batches.py` with Quintain's trainer and prints what was measured.

python quintain_run.py --precision=bfloat16 --steps=10
"""

import argparse
import dataclasses
import json
import os
import tempfile
import time
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import batches
import keras
import tensorflow as tf

from quintain import optimization
from quintain.core import base_trainer, distribution, experiment_runner, runtime_environment
from quintain.core import config_definitions as cfg
from quintain.nlp.configs import bert, encoders
from quintain.nlp.tasks import masked_lm

SIZES = batches.SIZES


@dataclasses.dataclass
class StepConfig(masked_lm.MaskedLMConfig):
    """Masked language modelling on the benchmark's batches."""


class StepTask(masked_lm.MaskedLMTask):
    """Trains as any pretraining does; the data are those of the benchmark."""

    def build_inputs(self, params: cfg.DataConfig, input_context: Any = None) -> tf.data.Dataset:
        """Repeats the batches."""
        trained, _ = batches.build()
        stacked = {name: [batch[name] for batch in trained] for name in trained[0]}
        return tf.data.Dataset.from_tensor_slices(stacked).repeat()


def build_trainer(precision: str) -> base_trainer.Trainer:
    """Builds task, model, optimizer and trainer, as `quintain train` does."""
    encoder = encoders.BertEncoderConfig(
        vocab_size=SIZES.vocab_size,
        hidden_size=SIZES.width,
        num_layers=SIZES.num_layers,
        num_attention_heads=SIZES.num_heads,
        intermediate_size=SIZES.intermediate_size,
        dropout_rate=SIZES.dropout_rate,
        attention_dropout_rate=SIZES.dropout_rate,
        max_position_embeddings=SIZES.num_positions,
        initializer_range=SIZES.initializer_range,
    )
    task_config = StepConfig(
        model=bert.PretrainerConfig(
            encoder=encoders.EncoderConfig(bert=encoder),
            cls_heads=[bert.ClsHeadConfig(name="next_sentence")],
        )
    )
    optimizer_config = optimization.OptimizationConfig(
        {
            "optimizer": {
                "type": "adamw",
                "adamw": {
                    "weight_decay_rate": SIZES.weight_decay,
                    "exclude_from_weight_decay": ["gamma", "beta", "bias"],
                    "epsilon": SIZES.epsilon,
                    "gradient_clip_norm": 0.0,
                },
            },
            "learning_rate": {
                "type": "constant",
                "constant": {"learning_rate": SIZES.learning_rate},
            },
        }
    )
    params = cfg.ExperimentConfig(
        task=task_config,
        trainer=cfg.TrainerConfig(optimizer_config=optimizer_config),
        runtime=cfg.RuntimeConfig(
            distribution_strategy="one_device",
            mixed_precision_dtype=None if precision == "float32" else precision,
        ),
    )
    keras.utils.set_random_seed(0)
    runtime_environment.prepare(params.runtime)
    strategy = distribution.build_strategy(params.runtime)
    with distribution.precision(params.runtime), strategy.scope():
        task = StepTask(params.task, logging_dir=tempfile.mkdtemp())
        return experiment_runner.create_trainer(params, task, train=True, evaluate=False)


def main() -> None:
    """Trains, measures and prints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--precision", choices=["float32", "bfloat16"], required=True)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--profile", help="directory for a profile of the measured steps")
    options = parser.parse_args()
    trainer = build_trainer(options.precision)
    trainer.train(tf.constant(options.warmup))
    if options.profile:
        tf.profiler.experimental.start(options.profile)
    start = time.perf_counter()
    trainer.train(tf.constant(options.steps))
    secs = time.perf_counter() - start
    if options.profile:
        tf.profiler.experimental.stop()
    memory = batches.peak_memory()
    _, held_out = batches.build()
    tensors = {name: tf.constant(value) for name, value in held_out.items()}
    loss = float(trainer.task.build_losses(tensors, trainer.model(tensors, training=False)))
    tokens = options.steps * batches.count_tokens()
    print(json.dumps({"tokens_per_sec": tokens / secs, "loss": loss, "mib": memory}))


if __name__ == "__main__":
    main()
