"""Base class of encoder and decoder blocks: sub-layers with residual connections.

Shapes:
    B  examples in the batch
    S  positions
    D  width of the model
"""

import dataclasses
import operator
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from quintain.kernels import residual_norm
from quintain.modeling import tf_utils
from quintain.nlp.modeling.layers import dropout, feed_forward, own_classes
from quintain.nlp.modeling.layers.layer_normalization import LayerNormalization


class ResidualBlock(keras.layers.Layer):
    """Residual sub-layers with normalisation before (pre-norm) or after each (post-norm).

    Sub-layers are made by `build`: `self_attention`, `feed_forward`, their `_norm` and `dropout`.
    """

    self_attention: Any
    self_attention_norm: Any
    feed_forward: Any
    feed_forward_norm: Any
    dropout: Any

    def __init__(self, norm_first: bool, norm_epsilon: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.norm_first = norm_first
        self.norm_epsilon = norm_epsilon

    def build_norm(self, name: str, shape: Any) -> LayerNormalization:
        """Returns a normalisation in float32 whatever the precision policy."""
        norm = LayerNormalization(self.norm_epsilon, dtype="float32", name=name)
        norm.build(shape)
        return norm

    def enter(self, x: tf.Tensor, norm: Any) -> tf.Tensor:
        """Returns the input of a sub-layer."""
        if not self.norm_first:
            return x
        if self._can_fuse(norm, x):
            return norm.normalise(x, self._part_dtype)  # Which the sub-layer would cast it to.
        return norm(x)

    def leave(
        self,
        x: tf.Tensor | None,
        output: tf.Tensor,
        norm: Any,
        training: bool | None,
    ) -> tf.Tensor:
        """Adds a sub-layer's output to its input; to nothing if that is None."""
        if not self.norm_first and x is not None and self._can_fuse(norm, x, output):
            options = self._fuse(x, norm, training, norm.compute_dtype)
            return residual_norm.normalise(output, **options)
        if x is None:
            total = self.dropout(output, training=training)
        else:
            total = self.dropout.add(x, output, training)
        return total if self.norm_first else norm(total)

    def go_on(
        self, x: tf.Tensor | None, output: tf.Tensor, norms: tuple[Any, Any], training: bool | None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Leaves a sub-layer and enters the next: returns what that adds to, and its input.

        Args:
            x: The first's input; None to add its output to nothing.
            output: The first's output.
            norms: The normalisations of both.
            training: Whether to apply dropout.
        """
        norm, next_norm = norms
        if self.norm_first and x is not None and self._can_fuse(next_norm, x, output):
            options = self._fuse(x, next_norm, training, self._part_dtype)
            return residual_norm.add_and_normalise(output, **options)
        x = self.leave(x, output, norm, training)
        return x, self.enter(x, next_norm)

    @property
    def _part_dtype(self) -> Any:
        """Type of the sub-layers' inputs: theirs, which need not be that of the block."""
        return self.feed_forward.compute_dtype

    def _can_fuse(self, norm: Any, *tensors: tf.Tensor) -> bool:
        """Returns whether a normalisation can be computed with what comes before it."""
        is_known = not own_classes.is_changed(norm, LayerNormalization)
        return is_known and dropout.can_be_native(*tensors)

    def _fuse(
        self, x: tf.Tensor, norm: LayerNormalization, training: bool | None, dtype: Any
    ) -> dict[str, Any]:
        """Returns how dropout, the sum with `x` and a normalisation are computed at once."""
        gamma, beta = norm.read_weights()
        return {
            "gamma": gamma,
            "beta": beta,
            "epsilon": norm.epsilon,
            "dtype": tf.as_dtype(dtype),
            "residual": x,
            "draw": self.dropout.draw(training),
        }

    def add_feed_forward(
        self, x: tf.Tensor, training: bool | None, entered: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Runs the feed-forward part, the last of each block; its input may be there already."""
        norm = self.feed_forward_norm
        entered = self.enter(x, norm) if entered is None else entered
        return self.leave(x, self.feed_forward(entered, training=training), norm, training)

    # The names that the reference has for the parts.
    _attention_layer = property(operator.attrgetter("self_attention"))
    _attention_layer_norm = property(operator.attrgetter("self_attention_norm"))
    _intermediate_dense = property(operator.attrgetter("feed_forward.expand"))
    _output_dense = property(operator.attrgetter("feed_forward.contract"))
    _output_layer_norm = property(operator.attrgetter("feed_forward_norm"))


class DropoutRates(NamedTuple):
    """Shares of values that training drops."""

    output: float = 0.0
    """Of each part's output."""

    attention: float = 0.0
    """Of the attention weights."""

    inner: float = 0.0
    """Of what is inside the feed-forward part."""


class Initializers(NamedTuple):
    """Keras' initializers of a block."""

    kernel: Any
    """Of kernels."""

    bias: Any = "zeros"
    """Of biases."""

    attention: Any = None
    """Of attention's kernels; None for the others'."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BlockOptions:
    """Options of a Transformer's block."""

    num_heads: int
    """Attention heads."""

    inner_width: int
    """Width inside the feed-forward part."""

    activation: Any
    """Keras' name of its activation, or a function."""

    dropout_rates: DropoutRates
    """Rates of dropout."""

    initializers: Initializers
    """Initializers of the weights."""

    use_bias: bool = True
    """Whether the projections of attention have biases."""

    norm_first: bool = False
    """Whether inputs of the parts are normalised, instead of outputs."""

    norm_epsilon: float = 1e-12
    """Added to the variance in normalisation."""


class TransformerBlock(ResidualBlock):
    """A residual block with the options of the Transformer's, and the parts that follow of them."""

    def __init__(self, options: BlockOptions, **kwargs: Any) -> None:
        super().__init__(options.norm_first, options.norm_epsilon, **kwargs)
        self.options = options

    @property
    def takes_rows(self) -> bool:
        """True if the block can compute tokens alone: where attention is computed fused."""
        return True

    def list_attention_options(self, width: int) -> dict[str, Any]:
        """Returns what attention with fused projections is made with."""
        options = self.options
        return {
            "num_heads": options.num_heads,
            "width": width,
            "dropout_rate": options.dropout_rates.attention,
            "use_bias": options.use_bias,
            "kernel_initializer": options.initializers.attention or options.initializers.kernel,
            "bias_initializer": options.initializers.bias,
        }

    def list_dense_options(self) -> dict[str, Any]:
        """Returns what a dense layer of the feed-forward part is made with."""
        initializers = self.options.initializers
        return {
            "kernel_initializer": tf_utils.clone_initializer(initializers.kernel),
            "bias_initializer": tf_utils.clone_initializer(initializers.bias),
        }

    def build_feed_forward(self, shape: Any) -> feed_forward.FeedForward:
        """Returns the feed-forward part, whose inputs and outputs have this shape."""
        options = self.options
        layer = feed_forward.FeedForward(
            shape[-1],
            options.inner_width,
            activation=options.activation,
            dropout_rate=options.dropout_rates.inner,
            dense_options=self.list_dense_options,
        )
        layer.build(shape)
        return layer
