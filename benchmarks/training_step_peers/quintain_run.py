"""Trains the Transformer of `batches.py` with Quintain's trainer and prints what was measured.

python quintain_run.py --precision=bfloat16 --steps=30
"""

import argparse
import dataclasses
from typing import Any

from quintain.process import start_up

# Before Keras, as every command of ours: parts of TensorFlow that nothing asks for stay away.
start_up.prepare()

# isort: split
import batches
import keras
import measuring
import quintain_peer
import tensorflow as tf

from quintain.core import base_trainer
from quintain.modeling import token_losses
from quintain.nlp.modeling.models import seq2seq_transformer, transformer_stacks
from quintain.nlp.tasks import translation
from quintain.settings import config_definitions as cfg

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
            embed_start=True,
        )

    def build_inputs(self, params: cfg.DataConfig, input_context: Any = None) -> tf.data.Dataset:
        """Repeats the batches."""
        sources, targets = map(list, zip(*batches.build(), strict=True))
        data = tf.data.Dataset.from_tensor_slices({"inputs": sources, "targets": targets})
        return data.repeat()


def name_weights(model: keras.Model) -> quintain_peer.Parts:
    """Returns the weights by the names that all peers use."""
    parts = quintain_peer.Parts()
    parts.add(model.embedding, "embedding/table")
    for side, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        parts.add_norm(stack.output_normalization, f"{side}_norm")
        for number, block in enumerate(stack.blocks):
            part = f"{side}_{number}"
            own = f"{part}_self"
            inputs = (f"{own}/{name}" for name in ("query", "key", "value"))
            parts.add_dense(block.self_attention.query_key_value, *inputs)
            parts.add_dense(block.self_attention.output_projection, f"{own}/attention_output")
            parts.add_norm(block.self_attention_norm, f"{own}_norm")
            if side == "decoder":
                cross, name = block.cross_attention, f"{part}_cross"
                parts.add_dense(cross.query, f"{name}/query")
                parts.add_dense(cross.key_value, f"{name}/key", f"{name}/value")
                parts.add_dense(cross.output_projection, f"{name}/attention_output")
                parts.add_norm(block.cross_attention_norm, f"{name}_norm")
            parts.add_dense(block.feed_forward.expand, f"{part}_expand")
            parts.add_dense(block.feed_forward.contract, f"{part}_contract")
            parts.add_norm(block.feed_forward_norm, f"{part}_feed_forward_norm")
    return parts


def build(options: argparse.Namespace) -> quintain_peer.QuintainPeer:
    """Returns the model with its trainer."""
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
    optimizer = {"type": "adam", "adam": {"beta_2": 0.98, "epsilon": SIZES.epsilon}}
    trainer = quintain_peer.build_trainer(
        StepTask, task_config, optimizer, SIZES.learning_rate, options
    )
    return quintain_peer.QuintainPeer(trainer, name_weights, evaluate, options)


def evaluate(trainer: base_trainer.Trainer) -> float:
    """Returns the loss of the first batch, without smoothing."""
    source, target = batches.build()[0]
    logits = trainer.model({"inputs": source, "targets": target}, training=False)
    losses, weights = token_losses.padded_cross_entropy(logits, target, smoothing=0.0)
    return float(tf.reduce_sum(losses) / tf.reduce_sum(weights))


if __name__ == "__main__":
    measuring.main(
        build, tokens_per_step=batches.count_tokens(), add_options=quintain_peer.add_options
    )
