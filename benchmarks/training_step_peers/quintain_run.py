"""Trains the Transformer of `batches.py` with Quintain's trainer and prints what was measured.

python quintain_run.py --precision=bfloat16 --steps=30
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
from quintain.nlp.losses import padded_cross_entropy
from quintain.nlp.modeling import seq2seq_transformer, transformer_stacks
from quintain.nlp.tasks import translation

SIZES = batches.SIZES


@dataclasses.dataclass
class StepConfig(translation.TranslationConfig):
    """The translation task on the benchmark's batches."""


class StepTask(translation.TranslationTask):
    """Trains as any translation does; model and data are those of the benchmark."""

    def build_model(self) -> keras.Model:
        """Creates the model without a vocabulary's file."""
        config = self.task_config.model
        return seq2seq_transformer.Seq2SeqTransformer(
            vocab_size=SIZES.vocab_size,
            embedding_width=SIZES.width,
            dropout_rate=SIZES.dropout_rate,
            encoder_layer=transformer_stacks.TransformerEncoder(**config.encoder.as_dict()),
            decoder_layer=transformer_stacks.TransformerDecoder(**config.decoder.as_dict()),
        )

    def build_inputs(self, params: cfg.DataConfig, input_context: Any = None) -> tf.data.Dataset:
        """Repeats the batches."""
        sources, targets = map(list, zip(*batches.build(), strict=True))
        data = tf.data.Dataset.from_tensor_slices({"inputs": sources, "targets": targets})
        return data.repeat()


def build_trainer(precision: str) -> base_trainer.Trainer:
    """Builds task, model, optimizer and trainer, as `quintain train` does."""
    layers = translation.EncDecoder(
        num_layers=SIZES.num_layers,
        num_attention_heads=SIZES.num_heads,
        intermediate_size=SIZES.intermediate_size,
        dropout_rate=SIZES.dropout_rate,
        attention_dropout_rate=SIZES.dropout_rate,
        intermediate_dropout=SIZES.dropout_rate,
        use_bias=True,
    )
    task_config = StepConfig(
        model=translation.ModelConfig(
            encoder=layers, decoder=layers, label_smoothing=SIZES.label_smoothing
        )
    )
    optimizer_config = optimization.OptimizationConfig(
        {
            "optimizer": {"type": "adam", "adam": {"beta_2": 0.98, "epsilon": 1e-9}},
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
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warmup", type=int, default=6)
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
    source, target = batches.build()[0]
    logits = trainer.model({"inputs": source, "targets": target}, training=False)
    losses, weights = padded_cross_entropy.padded_cross_entropy(logits, target, smoothing=0.0)
    loss = float(tf.reduce_sum(losses) / tf.reduce_sum(weights))
    tokens = options.steps * batches.count_tokens()
    print(json.dumps({"tokens_per_sec": tokens / secs, "loss": loss, "mib": memory}))


if __name__ == "__main__":
    main()
