"""Reuse attention: some heads take the weights of an earlier block.

Shapes:
    B  examples in the batch
    Q  query positions
    K  key positions
    H  attention heads
    R  heads whose weights are taken from an earlier block
"""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.garden.nlp.attention import einsum_attention
from quintain.nlp.modeling.layers import layer_arguments


@keras.saving.register_keras_serializable(package="Text")
class ReuseMultiHeadAttention(einsum_attention.EinsumAttention):
    """Keras' attention, of which some heads or all take weights that are given.

    Source:
        Bhojanapalli et al., 2021 (https://arxiv.org/abs/2110.06821).
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        reuse_attention: int = 0,
        use_relative_pe: bool = False,
        pe_max_seq_length: int = 512,
        use_bias: bool = True,
        output_shape: Any = None,
        attention_axes: int | Sequence[int] | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        """Checks the options.

        Raises:
            ConfigError: If `reuse_attention` is not from -1 to `num_heads`.
        """
        given = layer_arguments.LayerArguments(locals())
        if not -1 <= reuse_attention <= num_heads:
            raise errors.ConfigError(
                f"reuse_attention: got {reuse_attention}, but it should be between -1 and "
                f"num_heads={num_heads}."
            )
        own = ("reuse_attention", "use_relative_pe", "pe_max_seq_length")
        config = given.to_config()
        super().__init__(**{k: v for k, v in config.items() if k not in own}, **kwargs)
        self._own = {name: config[name] for name in own}
        self._reuse_heads = num_heads if reuse_attention == -1 else reuse_attention
        self._new_heads = num_heads - self._reuse_heads

    @override
    def build(self, query_shape: Any, value_shape: Any, key_shape: Any = None) -> None:
        self._build_attention(len(query_shape) + 1)
        self._query_dense: Any = None
        self._key_dense: Any = None
        if self._new_heads:
            self._query_dense = self._split("query", query_shape, self._new_heads, self._key_dim)
            self._key_dense = self._split(
                "key", key_shape or value_shape, self._new_heads, self._key_dim
            )
        widths = {"reuse": self._reuse_heads, "new": self._new_heads}
        self._value_dense, self._output_dense = [], []
        for name, heads in widths.items():
            if heads:
                value = self._split(f"value_{name}", value_shape, heads, self._value_dim)
                has_bias = name == "reuse" or not self._reuse_heads
                output = self._join(f"attention_output_{name}", query_shape, heads, has_bias)
                # Checkpoints follow attributes, and see no layers in lists.
                setattr(self, f"_value_dense_{name}", value)
                setattr(self, f"_output_dense_{name}", output)
                self._value_dense.append(value)
                self._output_dense.append(output)
        if self._own["use_relative_pe"] and self._new_heads:
            self._position_embeddings = self.add_weight(
                shape=(1, self._new_heads, 2 * self._own["pe_max_seq_length"] - 1),
                initializer=keras.initializers.TruncatedNormal(stddev=0.2),
                name="relative_position_embeddings",
            )
        self.built = True

    def _split(self, name: str, shape: Any, heads: int, width: int) -> keras.layers.EinsumDense:
        layer = keras.layers.EinsumDense(
            "...x,xhd->...hd",
            output_shape=(heads, width),
            bias_axes="hd" if self._use_bias else None,
            name=name,
            **self._get_common_kwargs_for_sublayer(),
        )
        layer.build(shape)
        return layer

    def _join(self, name: str, shape: Any, heads: int, has_bias: bool) -> keras.layers.EinsumDense:
        sizes = tuple(self._output_shape or shape[-1:])
        letters = "yzuvw"[: len(sizes)]
        layer = keras.layers.EinsumDense(
            f"...hd,hd{letters}->...{letters}",
            output_shape=sizes,
            bias_axes=letters if has_bias and self._use_bias else None,
            name=name,
            **self._get_common_kwargs_for_sublayer(),
        )
        layer.build((*shape[:-1], heads, self._value_dim))
        return layer

    @override
    def map_scores(self, scores: tf.Tensor) -> tf.Tensor:
        if not self._own["use_relative_pe"]:
            return scores
        longest = self._own["pe_max_seq_length"] - 1
        shape = tf.shape(scores)
        distance = tf.range(shape[-1])[tf.newaxis] - tf.range(shape[-2])[:, tf.newaxis]  # [Q, K]
        places = tf.clip_by_value(distance + longest, 0, 2 * longest)
        table = tf.convert_to_tensor(self._position_embeddings)
        return scores + tf.cast(tf.gather(table, places, axis=2), scores.dtype)

    @override
    def call(
        self,
        query: tf.Tensor,
        value: tf.Tensor,
        key: tf.Tensor | None = None,
        attention_mask: tf.Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        reuse_attention_scores: tf.Tensor | None = None,
    ) -> Any:
        """Attends.

        Args:
            query: `[B, Q, D]`.
            value: `[B, K, D]`.
            key: `[B, K, D]`; None for `value`.
            attention_mask: `[B, Q, K]`: 0 where attention is not allowed.
            return_attention_scores: Whether to return the attention's weights, too.
            training: Whether to apply dropout.
            reuse_attention_scores: Weights `[B, R or more, Q, K]` of an earlier block.

        Returns:
            `[B, Q, D]`; and the weights `[B, H, Q, K]`, new ones first, if they are asked for.

        Raises:
            ValueError: If weights are needed and not given.
        """
        if self._reuse_heads and reuse_attention_scores is None:
            raise ValueError(
                "reuse_attention_scores: got None, and it cannot be None when reuse_attention is "
                "not 0."
            )
        key = value if key is None else key
        values = [layer(value) for layer in self._value_dense]
        mixed = []
        weights: Any = reuse_attention_scores
        reused: Any = reuse_attention_scores
        if self._reuse_heads:
            if self._new_heads:
                reused = reused[:, : self._reuse_heads]
            dropped = self._dropout_layer(reused, training=training)
            mixed.append(tf.einsum(self._combine_equation, dropped, values[0]))
        if self._new_heads:
            found, weights = self._compute_attention(
                self._query_dense(query),
                self._key_dense(key),
                values[-1],
                attention_mask,
                training,
            )
            mixed.append(found)
            if self._reuse_heads:
                weights = tf.concat([weights, tf.cast(reused, weights.dtype)], axis=1)
        outputs = [layer(part) for layer, part in zip(self._output_dense, mixed, strict=True)]
        output = outputs[0] if len(outputs) == 1 else outputs[0] + outputs[1]
        return (output, weights) if return_attention_scores else output

    @override
    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self._own}

    @classmethod
    @override
    def from_config(cls, config: dict[str, Any]) -> "ReuseMultiHeadAttention":
        unknown = ("flash_attention", "seed", "sliding_window", "use_gate")
        return cls(**{name: value for name, value in config.items() if name not in unknown})
