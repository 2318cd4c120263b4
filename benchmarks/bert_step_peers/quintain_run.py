"""Pretrains the BERT of `batches.py` with Quintain's trainer and prints what was measured.

python quintain_run.py --precision=bfloat16 --steps=10
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
from quintain.nlp.configs import bert, encoders
from quintain.nlp.tasks import masked_lm
from quintain.settings import config_definitions as cfg

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


def name_weights(model: keras.Model) -> quintain_peer.Parts:
    """Returns the weights by the names that all peers use."""
    parts, encoder = quintain_peer.Parts(), model.encoder_network
    parts.add(encoder.get_embedding_table(), "words/embeddings")
    parts.add(encoder._position_embedding_layer.embeddings, "positions/embeddings")
    parts.add(encoder._type_embedding_layer.embeddings, "types/embeddings")
    parts.add_norm(encoder._embedding_norm_layer, "embedding_norm")
    for number, block in enumerate(encoder.transformer_layers):
        attention, part = block.self_attention, f"block_{number}"
        inputs = (f"{part}_attention/{name}" for name in ("query", "key", "value"))
        parts.add_dense(attention.query_key_value, *inputs)
        parts.add_dense(attention.output_projection, f"{part}_attention/attention_output")
        parts.add_norm(block.self_attention_norm, f"{part}_attention_norm")
        parts.add_dense(block.feed_forward.expand, f"{part}_expand")
        parts.add_dense(block.feed_forward.contract, f"{part}_contract")
        parts.add_norm(block.feed_forward_norm, f"{part}_feed_forward_norm")
    parts.add_dense(encoder.pooler_layer, "pooler")
    parts.add_dense(model.masked_lm.dense, "transform")
    parts.add_norm(model.masked_lm.layer_norm, "transform_norm")
    parts.add(model.masked_lm.bias, "masked_lm/bias")
    parts.add_dense(model.next_sentence_head.out_proj, "next_sentence")
    return parts


def build(options: argparse.Namespace) -> quintain_peer.QuintainPeer:
    """Returns the model with its trainer."""
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
    optimizer = {
        "type": "adamw",
        "adamw": {
            "weight_decay_rate": SIZES.weight_decay,
            "exclude_from_weight_decay": ["gamma", "beta", "bias"],
            "epsilon": SIZES.epsilon,
            "gradient_clip_norm": 0.0,
        },
    }
    trainer = quintain_peer.build_trainer(
        StepTask, task_config, optimizer, SIZES.learning_rate, options
    )
    return quintain_peer.QuintainPeer(trainer, name_weights, evaluate, options)


def evaluate(trainer: base_trainer.Trainer) -> float:
    """Returns the loss of the batch held out."""
    _, held_out = batches.build()
    tensors = {name: tf.constant(value) for name, value in held_out.items()}
    return float(trainer.task.build_losses(tensors, trainer.model(tensors, training=False)))


if __name__ == "__main__":
    measuring.main(
        build, tokens_per_step=batches.count_tokens(), add_options=quintain_peer.add_options
    )
