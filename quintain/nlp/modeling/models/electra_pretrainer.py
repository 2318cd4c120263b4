"""ELECTRA pretraining: a generator replaces words, a discriminator finds which.

Shapes:
    B  examples in the batch
    S  positions
    M  masked positions
    V  vocabulary size
    C  classes
"""

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.modeling import tf_utils
from quintain.nlp.modeling import constructed_model, layers
from quintain.nlp.modeling.models import encoder_outputs

_DISALLOWED = 1000.0
_TINY = 1e-9


@keras.saving.register_keras_serializable("Text")
class ElectraPretrainer(constructed_model.ConstructorConfig, keras.Model):
    """Two encoders: one predicts masked words, the other which words were replaced by these.

    Source:
        Clark et al., 2020 (https://arxiv.org/abs/2003.10555).
    """

    def __init__(
        self,
        generator_network: Any,
        discriminator_network: Any,
        vocab_size: int,
        num_classes: int,
        num_token_predictions: int,
        mlm_activation: Any = None,
        mlm_initializer: Any = "glorot_uniform",
        output_type: str = "logits",
        disallow_correct: bool = False,
        temperature: float = 1.0,
        **kwargs: Any,
    ) -> None:
        given = constructed_model.arguments(locals())
        super().__init__(**kwargs)
        self._keep_config(**given)
        self.generator_network = generator_network
        self.discriminator_network = discriminator_network
        self.vocab_size = vocab_size
        self.num_classes = num_classes
        self.num_token_predictions = num_token_predictions
        self.mlm_activation = mlm_activation
        self.mlm_initializer = mlm_initializer
        self.output_type = output_type
        self.disallow_correct = disallow_correct
        self.temperature = temperature
        self.seed_generator = keras.random.SeedGenerator()
        width, _ = encoder_outputs.get_widths(generator_network)
        self.masked_lm = layers.MaskedLM(
            generator_network.get_embedding_table(),
            activation=mlm_activation,
            initializer=tf_utils.clone_initializer(mlm_initializer),
            output=output_type,
            name="generator_masked_lm",
        )
        self.classification = layers.ClassificationHead(
            inner_dim=width,
            num_classes=num_classes,
            initializer=tf_utils.clone_initializer(mlm_initializer),
            name="generator_classification_head",
        )
        discriminator_width, _ = encoder_outputs.get_widths(discriminator_network)
        self.discriminator_projection = keras.layers.Dense(
            discriminator_width,
            mlm_activation,
            kernel_initializer=tf_utils.clone_initializer(mlm_initializer),
            name="discriminator_projection_head",
        )
        self.discriminator_head = keras.layers.Dense(
            1, kernel_initializer=tf_utils.clone_initializer(mlm_initializer)
        )
        for layer in (self.masked_lm, self.classification):
            layer.build((None, None, width))
        for layer in (self.discriminator_projection, self.discriminator_head):
            layer.build((None, None, discriminator_width))
        self.built = True

    @property
    def inputs(self) -> dict[str, keras.KerasTensor]:
        """Keras' inputs of the model."""
        shape = (self.num_token_predictions,)
        masked = ("masked_lm_positions", "masked_lm_ids")
        more = {name: keras.Input(shape, dtype="int32", name=name) for name in masked}
        return encoder_outputs.name_inputs(self.generator_network.inputs) | more

    @property
    def checkpoint_items(self) -> dict[str, Any]:
        """The parts of checkpoints that other tasks start from."""
        return {"encoder": self.discriminator_network}

    @override
    def build(self, input_shape: Any = None) -> None:
        """Does nothing: all weights were made by the constructor."""

    @override
    def call(self, inputs: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, tf.Tensor]:
        """Predicts.

        Args:
            inputs: `input_word_ids`, `input_mask`, `input_type_ids` `[B, S]`, and
                `masked_lm_positions` and `masked_lm_ids` `[B, M]`.
            training: Whether to apply dropout, and to draw other words each time. Otherwise the
                same batch always gets the same words.

        Returns:
            `lm_outputs` `[B, M, V]` and `sentence_outputs` `[B, C]` of the generator; `disc_logits`
            `[B, S]` of the discriminator, and `disc_label` `[B, S]` int32, 1 where a word was
            replaced by another.
        """
        sequence = encoder_outputs.run(self.generator_network, inputs)["sequence_output"]
        lm_outputs = self.masked_lm(sequence, masked_positions=inputs["masked_lm_positions"])
        fake = self._replace_words(inputs, lm_outputs, training)
        found = encoder_outputs.run(
            self.discriminator_network, {**inputs, "input_word_ids": fake["ids"]}
        )
        projected = self.discriminator_projection(found["sequence_output"])
        return {
            "lm_outputs": lm_outputs,
            "sentence_outputs": self.classification(sequence),
            "disc_logits": tf.squeeze(self.discriminator_head(projected), -1),
            "disc_label": fake["is_replaced"],
        }

    def _replace_words(
        self, inputs: Mapping[str, tf.Tensor], logits: tf.Tensor, training: bool
    ) -> dict[str, tf.Tensor]:
        """Returns ids in which the generator chose the masked words, and where it was wrong."""
        positions, right = inputs["masked_lm_positions"], inputs["masked_lm_ids"]
        ids = unmask(inputs, duplicate=True)["input_word_ids"]
        disallowed = tf.one_hot(right, self.vocab_size) if self.disallow_correct else None
        seed = self.seed_generator.next() if training else tf.stack([0, tf.reduce_sum(ids)])
        noise = tf.random.stateless_uniform(tf.shape(logits), tf.cast(seed, tf.int32))
        chosen = _choose(logits / self.temperature, disallowed, noise)
        fake, is_masked = scatter_update(ids, chosen, positions)
        return {"ids": fake, "is_replaced": is_masked * tf.cast(tf.not_equal(fake, ids), tf.int32)}


def get_updated_inputs(inputs: Any, duplicate: bool, **updates: Any) -> Any:
    """Returns a batch with some of its tensors replaced: a copy, or the batch itself."""
    updated = dict(inputs) if duplicate else inputs
    updated.update(updates)
    return updated


def unmask(inputs: Any, duplicate: bool) -> Any:
    """Returns a batch with the right words in place of the masks: a copy, or the batch itself."""
    words, positions = inputs["masked_lm_ids"], inputs["masked_lm_positions"]
    ids, _ = scatter_update(inputs["input_word_ids"], words, positions)
    return get_updated_inputs(inputs, duplicate, input_word_ids=ids)


def scatter_update(
    sequence: tf.Tensor, updates: tf.Tensor, positions: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Replaces values of sequences.

    Args:
        sequence: `[B, S]` or `[B, S, D]`, int32 or float32.
        updates: `[B, M]` or `[B, M, D]`.
        positions: `[B, M]` int32. The first position is never replaced; one that is named several
            times gets the mean of its updates.

    Returns:
        The sequence, and `[B, S]` int32, 1 where it was replaced.
    """
    shape = tf.shape(sequence)
    batch = tf.broadcast_to(tf.range(shape[0])[:, tf.newaxis], tf.shape(positions))
    places = tf.stack([batch, positions], axis=-1)  # [B, M, 2]
    count = tf.scatter_nd(places, tf.ones_like(positions), shape[:2])  # [B, S]
    count *= tf.cast(tf.range(shape[1]) > 0, tf.int32)
    updates = tf.reshape(updates, tf.concat([tf.shape(positions), shape[2:]], axis=0))
    total = tf.scatter_nd(places, tf.cast(updates, sequence.dtype), shape)
    times = tf.reshape(count, tf.concat([shape[:2], tf.ones_like(shape[2:])], axis=0))
    mean = total // tf.cast(tf.maximum(times, 1), sequence.dtype)
    if sequence.dtype.is_floating:
        mean = total / tf.cast(tf.maximum(times, 1), sequence.dtype)
    return tf.where(times > 0, mean, sequence), tf.minimum(count, 1)


def sample_from_softmax(logits: tf.Tensor, disallow: tf.Tensor | None = None) -> tf.Tensor:
    """Draws ids with their probabilities, as one-hot vectors.

    Args:
        logits: `[B, M, V]`.
        disallow: `[B, M, V]`, 1 at ids that are not drawn; None draws from all.
    """
    chosen = _choose(logits, disallow, tf.random.uniform(tf.shape(logits)))
    return tf.one_hot(chosen, logits.shape[-1])


def _choose(logits: tf.Tensor, disallowed: tf.Tensor | None, uniform: tf.Tensor) -> tf.Tensor:
    """Returns the ids `[B, M]` int32 that uniform numbers `[B, M, V]` choose."""
    if disallowed is not None:
        logits -= _DISALLOWED * disallowed
    gumbel = -tf.math.log(-tf.math.log(uniform + _TINY) + _TINY)
    return tf.argmax(logits + gumbel, -1, output_type=tf.int32)
