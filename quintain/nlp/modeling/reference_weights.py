"""Conversion of the TensorFlow Model Garden's weights to ours.

The Garden keeps queries, keys and values apart and splits kernels by heads; here they lie side by
side in one matrix. Every weight of ours is one of theirs, or several joined along the last axis,
each reshaped.

Shapes:
    D  width of the model
    H  attention heads
    d  width of a head
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Final

import keras

from quintain import errors
from quintain.nlp.modeling import layers
from quintain.nlp.modeling.layers import encoder_block, feed_forward, fused_attention

_PROJECTIONS: Final = ("_query_dense", "_key_dense", "_value_dense")
_BLOCKS: Final = (
    encoder_block.EncoderBlock,
    layers.TransformerEncoderBlock,
    layers.Transformer,
    layers.TransformerScaffold,
)
_MIXERS: Final = (
    layers.FourierTransformLayer,
    layers.HartleyTransformLayer,
    layers.LinearTransformLayer,
)


@dataclasses.dataclass(frozen=True)
class Weight:
    """One of our weights, and those of the reference that it is made of."""

    variable: keras.Variable
    """Ours."""

    name: str
    """What reports call it."""

    sources: tuple[str, ...]
    """Paths of theirs below the root of the part; joined along the last axis."""

    source_shape: tuple[int, ...]
    """Shape of each of theirs."""

    @property
    def reshaped(self) -> tuple[int, ...]:
        """Shape of each of theirs before they are joined."""
        *first, last = self.variable.shape
        return (*first, last // len(self.sources))


def map_plain(variable: keras.Variable, name: str, path: str) -> Weight:
    """Returns a weight that is the same there."""
    return Weight(variable, name, (path,), tuple(variable.shape))


def map_dense(layer: Any, name: str, path: str) -> Iterator[Weight]:
    """Yields the weights of a dense layer."""
    yield map_plain(layer.kernel, f"{name}.kernel", f"{path}/kernel")
    if layer.bias is not None:
        yield map_plain(layer.bias, f"{name}.bias", f"{path}/bias")


def map_norm(layer: Any, name: str, path: str) -> Iterator[Weight]:
    """Yields the weights of a normalisation."""
    yield map_plain(layer.gamma, f"{name}.gamma", f"{path}/gamma")
    yield map_plain(layer.beta, f"{name}.beta", f"{path}/beta")


def map_encoder_block(block: Any, name: str, path: str) -> Iterator[Weight]:
    """Yields the weights of a block of an encoder.

    Raises:
        CheckpointError: If it is not made of the reference's parts.
    """
    parts = (getattr(block, "self_attention", None), getattr(block, "feed_forward", None))
    kinds = (fused_attention.SelfAttention, keras.layers.MultiHeadAttention, *_MIXERS)
    if (
        type(block) not in _BLOCKS
        or type(parts[0]) not in kinds
        or type(parts[1]) is not feed_forward.FeedForward
    ):
        raise errors.CheckpointError(
            f"{name} is made of {', '.join(type(part).__name__ for part in (block, *parts))}; of "
            "the reference's checkpoints only those of BERT's own blocks can be read "
            "(SelfAttention and FeedForward)."
        )
    label = f"{name}.self_attention"
    yield from _map_mixing(block.self_attention, label, f"{path}/_attention_layer")
    yield from map_norm(block.self_attention_norm, f"{label}_norm", f"{path}/_attention_layer_norm")
    yield from _map_feed_forward(block, name, path, "_")


def map_decoder_block(block: Any, name: str, path: str) -> Iterator[Weight]:
    """Yields the weights of a block of a decoder.

    Raises:
        CheckpointError: If its attention is of another class.
    """
    if not block.takes_rows:
        raise errors.CheckpointError(
            f"{name} has attention of a class of its own; of the reference's checkpoints only "
            "those of its own blocks can be read."
        )
    own, cross = f"{path}/self_attention", f"{path}/encdec_attention"
    label = f"{name}.self_attention"
    yield from _map_mixing(block.self_attention, label, own)
    yield from map_norm(block.self_attention_norm, f"{label}_norm", f"{own}_layer_norm")
    layer, label = block.cross_attention, f"{name}.cross_attention"
    query, *others = [f"{cross}/{one}" for one in _PROJECTIONS]
    yield from _split_heads(layer.query, f"{label}.query", [query], layer.num_heads)
    yield from _split_heads(layer.key_value, f"{label}.key_value", others, layer.num_heads)
    yield from _join_heads(layer, label, cross)
    yield from map_norm(block.cross_attention_norm, f"{label}_norm", f"{cross}_layer_norm")
    yield from _map_feed_forward(block, name, path, "")


def _map_feed_forward(block: Any, name: str, path: str, prefix: str) -> Iterator[Weight]:
    expand, contract = block.feed_forward.expand, block.feed_forward.contract
    label = f"{name}.feed_forward"
    yield from map_dense(expand, f"{label}.expand", f"{path}/{prefix}intermediate_dense")
    yield from map_dense(contract, f"{label}.contract", f"{path}/{prefix}output_dense")
    yield from map_norm(
        block.feed_forward_norm, f"{label}_norm", f"{path}/{prefix}output_layer_norm"
    )


def _map_mixing(layer: Any, name: str, path: str) -> Iterator[Weight]:
    if isinstance(layer, keras.layers.MultiHeadAttention):
        for part in (*_PROJECTIONS, "_output_dense"):
            yield from map_dense(getattr(layer, part), f"{name}.{part}", f"{path}/{part}")
    elif isinstance(layer, fused_attention.SelfAttention):
        sources, heads = [f"{path}/{one}" for one in _PROJECTIONS], layer.num_heads
        yield from _split_heads(layer.query_key_value, f"{name}.query_key_value", sources, heads)
        yield from _join_heads(layer, name, path)
    else:
        for weight in layer.weights:
            yield map_plain(weight, f"{name}.{weight.name}", f"{path}/{weight.name}")


def _split_heads(layer: Any, name: str, paths: Sequence[str], heads: int) -> Iterator[Weight]:
    """Yields kernel `[D, H, d]` and bias `[H, d]` of projections that lie side by side here."""
    head = (heads, layer.width // heads)
    kernels = tuple(f"{path}/kernel" for path in paths)
    yield Weight(layer.kernel, f"{name}.kernel", kernels, (int(layer.kernel.shape[0]), *head))
    if layer.bias is not None:
        biases = tuple(f"{path}/bias" for path in paths)
        yield Weight(layer.bias, f"{name}.bias", biases, head)


def _join_heads(layer: Any, name: str, path: str) -> Iterator[Weight]:
    """Yields kernel `[H, d, D]` and bias `[D]` of the projection after attention."""
    projection, label = layer.output_projection, f"{name}.output_projection"
    shape = (layer.num_heads, layer.width // layer.num_heads, layer.width)
    yield Weight(projection.kernel, f"{label}.kernel", (f"{path}/_output_dense/kernel",), shape)
    if projection.bias is not None:
        yield map_plain(projection.bias, f"{label}.bias", f"{path}/_output_dense/bias")
