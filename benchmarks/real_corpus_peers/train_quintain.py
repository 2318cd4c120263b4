"""Trains on a corpus as `quintain train` does.

`translation/small` has the benchmark's sizes and learning rates. With `--fast` it is
`translation/fast` with its own, and the rate falls to 0 at the end of the time.
"""

import argparse
import os
import tempfile
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import batches
import corpus
import keras
import numpy as np
import tensorflow as tf

from quintain import optimization
from quintain.core import base_trainer, exp_factory, task_factory
from quintain.distribute import distribution, runtime_environment
from quintain.garden.core import train_utils
from quintain.modeling import token_losses
from quintain.nlp.experiments import translation as _experiments  # noqa: F401, registers
from quintain.nlp.modeling.ops import decoding
from quintain.optimization.schedules import learning_rate_scale
from quintain.settings import config_definitions as cfg

SIZES = batches.SIZES
STEPS_PER_LOOP = 5
FAST_WARMUP = 0.1
"""Share of the time in which the rate rises with `--fast`."""


def build_params(options: argparse.Namespace) -> cfg.ExperimentConfig:
    """Returns the experiment; each field could be given with `--set`."""
    shared = {
        "task": {
            "model": {"extra_decode_length": corpus.EXTRA_LENGTH},
            "train_data": {
                "input_path": str(options.corpus / "train.tsv"),
                "max_seq_length": corpus.MAX_LENGTH,
            },
            "validation_data": {"input_path": str(options.corpus / "valid.tsv")},
            "sentencepiece_model_path": options.vocabulary,
        },
        "runtime": {
            "seed": options.seed,
            "mixed_precision_dtype": None if options.precision == "float32" else options.precision,
        },
    }
    if options.fast:
        params = exp_factory.get_exp_config("translation/fast")
        params.override(shared)
        schedule = params.trainer.optimizer_config.learning_rate
        rate = schedule.cosine.initial_learning_rate
        schedule.override({"type": "constant", "constant": {"learning_rate": rate}})
        params.trainer.optimizer_config.warmup.override({"type": None})
        params.validate()
        return params
    side = {
        "num_layers": SIZES.num_layers,
        "num_attention_heads": SIZES.num_heads,
        "intermediate_size": SIZES.intermediate_size,
        "dropout_rate": SIZES.dropout_rate,
        "attention_dropout_rate": SIZES.dropout_rate,
        "intermediate_dropout": SIZES.dropout_rate,
        "use_bias": True,
    }
    params = exp_factory.get_exp_config("translation/small")
    params.override(
        {
            "task": {
                "model": {
                    "encoder": side,
                    "decoder": side,
                    "embedding_width": SIZES.width,
                    "dropout_rate": SIZES.dropout_rate,
                    "label_smoothing": SIZES.label_smoothing,
                },
                "train_data": {"global_batch_size": options.batch_tokens // 2},
            }
        }
    )
    params.override(shared)
    rate = corpus.PEAK_LEARNING_RATE * corpus.WARMUP_STEPS**0.5
    params.trainer.optimizer_config = optimization.OptimizationConfig(
        {
            "optimizer": {
                "type": "adam",
                "adam": {"beta_2": 0.98, "epsilon": 1e-9, "global_clipnorm": corpus.CLIP_NORM},
            },
            "learning_rate": {
                "type": "power",
                "power": {"initial_learning_rate": rate, "power": -0.5},
            },
            "warmup": {
                "type": "linear",
                "linear": {"warmup_steps": corpus.WARMUP_STEPS, "warmup_learning_rate": 0.0},
            },
        }
    )
    params.validate()
    return params


def build_trainer(params: cfg.ExperimentConfig) -> base_trainer.Trainer:
    """Builds task, model, optimizer and trainer, as `quintain train` does."""
    keras.utils.set_random_seed(params.runtime.seed)
    runtime_environment.prepare(params.runtime)
    strategy = distribution.build_strategy(params.runtime)
    with distribution.precision(params.runtime), strategy.scope():
        task = task_factory.get_task(params.task, logging_dir=tempfile.mkdtemp())
        return train_utils.create_trainer(params, task, train=True, evaluate=False)


def build_run(options: argparse.Namespace, model: Any) -> corpus.Run:
    """Returns the run, which evaluates the model."""
    shape = tf.TensorSpec([None, None], tf.int32)
    greedy = decoding.DecodingOptions(sampling_temperature=0.0)

    @tf.function(input_signature=[shape, shape])
    def evaluate(sources: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        logits = model({"inputs": sources, "targets": targets}, training=False)
        losses, _ = token_losses.padded_cross_entropy(logits, targets, smoothing=0.0)
        return tf.reduce_sum(losses)

    @tf.function(input_signature=[shape])
    def translate(sources: tf.Tensor) -> tf.Tensor:
        return model.decode(sources, greedy)["outputs"][:, 0]

    return corpus.Run(
        options,
        lambda sources, targets: float(evaluate(sources.astype("int32"), targets.astype("int32"))),
        lambda sources, limits: np.asarray(translate(sources.astype("int32"))),
    )


def main() -> None:
    """Trains until the time is over."""
    options = corpus.parse_options()
    trainer = build_trainer(build_params(options))
    run = build_run(options, trainer.model)
    num_steps, factor = 1, 1.0
    while True:
        if options.fast:
            previous = factor
            factor = corpus.scale_rate(min(run.elapsed() / options.secs, 0.999), FAST_WARMUP)
            learning_rate_scale.scale(trainer.optimizer, factor=factor, previous=previous)
        logs = trainer.train(tf.constant(num_steps))
        loop_secs = logs["step_ms"] * num_steps / 1000
        if run.count(round(logs["tokens_per_second"] * loop_secs), num_steps):
            return
        num_steps = STEPS_PER_LOOP  # The time of the first step is told alone.


if __name__ == "__main__":
    main()
