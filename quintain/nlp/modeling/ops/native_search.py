"""Adapter from a `Seq2SeqTransformer` to the native beam search, where that can run it."""

from typing import Any, Final

import keras
import numpy as np

from quintain.kernels import library, translation
from quintain.modeling import activations
from quintain.nlp.modeling import int8_weights
from quintain.nlp.modeling.layers import own_classes
from quintain.nlp.modeling.ops import decoding

_ACTIVATIONS: Final = {
    keras.activations.relu: "relu",
    keras.activations.linear: "linear",
    activations.swiglu: "swiglu",
}


def find_precision(model: Any, options: decoding.DecodingOptions) -> str:
    """Returns the type that a model's decoder computes in."""
    return options.precision or str(model.compute_dtype)


def find_reason(model: Any, options: decoding.DecodingOptions) -> str | None:
    """Returns why a model can't be run by native code; None if it can."""
    if options.sampling_temperature is not None:
        return "samples are drawn by TensorFlow"
    if find_precision(model, options) not in translation.PRECISIONS:
        return f"it computes in {find_precision(model, options)}"
    if not own_classes.decodes_as_known(model) or own_classes.has_own(model.encoder):
        return "a part of it is of a class of its own"
    stacks = (model.encoder, model.decoder)
    if not all(block.takes_rows for stack in stacks for block in stack.blocks):
        return "its attention is of a class of its own"
    width, heads = model.embedding_width, model.decoder.num_attention_heads
    if model.encoder.num_attention_heads != heads or width % (8 * heads):
        return "its attention heads are no multiple of 8 wide"
    for stack in stacks:
        for block in stack.blocks:
            if block.feed_forward.activation not in _ACTIVATIONS:
                return "its activation is neither relu nor swiglu"
            if block.feed_forward.intermediate_size % 4:
                return "its inner width is no multiple of 4"
    return library.find_reason()


def read(model: Any, options: decoding.DecodingOptions) -> translation.Model:
    """Packs a model's weights.

    bfloat16 is for the decoder's layers, and its logits stay float32, as in TensorFlow's decoder;
    int8 is for all products of encoder and decoder.
    """
    precision = find_precision(model, options)
    encoder, decoder = model.encoder, model.decoder
    is_int8 = precision == "int8"
    outer = "int8" if is_int8 else "float32"
    matrices, norms = [], []
    for block in encoder.blocks:
        own, inner = block.self_attention, block.feed_forward
        layers = [own.query_key_value, own.output_projection, inner.expand, inner.contract]
        matrices += [_read_matrix(layer, outer) for layer in layers]
        norms += [_read_norm(block.self_attention_norm), _read_norm(block.feed_forward_norm)]
    norms.append(_read_norm(encoder.output_normalization))
    for block in decoder.blocks:
        own, source, inner = block.self_attention, block.cross_attention, block.feed_forward
        layers = [
            *(own.query_key_value, own.output_projection, source.query, source.key_value),
            *(source.output_projection, inner.expand, inner.contract),
        ]
        matrices += [_read_matrix(layer, precision) for layer in layers]
        norms += [_read_norm(block.self_attention_norm), _read_norm(block.cross_attention_norm)]
        norms.append(_read_norm(block.feed_forward_norm))
    norms.append(_read_norm(decoder.output_normalization))
    source_table, target_table = map(_read_array, (model.embedding, model.output_embedding))
    if is_int8:
        source_table = int8_weights.quantize(source_table, 0).restore().numpy()
        logits = int8_weights.quantize(target_table, 0)
        target_table = logits.restore().numpy()
        matrices.append(_to_matrix(logits.values.numpy().T, logits))
    else:
        matrices.append(translation.Matrix(target_table.T, "float32"))
    return translation.Model(
        translation.Weights(
            source_table=source_table,
            target_table=target_table,
            matrices=matrices,
            norms=norms,
            num_heads=decoder.num_attention_heads,
            num_layers=(len(encoder.blocks), len(decoder.blocks)),
            norm_first=(_is_norm_first(encoder), _is_norm_first(decoder)),
            activations=(_name_activation(encoder), _name_activation(decoder)),
            epsilons=(
                encoder.output_normalization.epsilon,
                decoder.output_normalization.epsilon,
            ),
            position_repeats=model.position_repeats,
            embed_start=model.embed_start,
        )
    )


def build_search(
    native: translation.Model, model: Any, options: decoding.DecodingOptions
) -> translation.Search:
    """Returns a search as `options` has it."""
    ends = (model.eos_id,) if isinstance(model.eos_id, int) else tuple(model.eos_id)
    return translation.Search(
        native,
        beam_size=options.beam_size,
        num_outputs=options.num_outputs,
        alpha=options.alpha,
        end_ids=ends,
        min_length=options.min_length,
        no_repeat_ngram_size=options.no_repeat_ngram_size,
    )


def limit_length(model: Any, source: np.ndarray, prefix: np.ndarray | None) -> int:
    """Returns how many ids an output of a source may have."""
    limit = model.decode_max_length
    if limit is None:
        limit = len(source) + model.extra_decode_length
    if model.padded_decode or prefix is None:
        return limit
    return max(limit, len(prefix) + 1)


def _read_array(variable: Any) -> np.ndarray:
    return np.asarray(keras.ops.convert_to_numpy(variable), np.float32)


def _read_matrix(layer: Any, precision: str) -> translation.Matrix:
    kernel = _read_array(layer.kernel)
    bias = None if layer.bias is None else _read_array(layer.bias)
    if precision != "int8":
        return translation.Matrix(kernel, precision, bias)
    found = int8_weights.quantize(kernel, 1)
    return _to_matrix(found.values.numpy(), found, bias)


def _to_matrix(
    kernel: np.ndarray, found: int8_weights.Quantized, bias: np.ndarray | None = None
) -> translation.Matrix:
    return translation.Matrix(kernel, "int8", bias, found.scales.numpy().reshape(-1))


def _read_norm(layer: Any) -> tuple[np.ndarray, np.ndarray]:
    return _read_array(layer.gamma), _read_array(layer.beta)


def _is_norm_first(stack: Any) -> bool:
    return stack.blocks[0].norm_first


def _name_activation(stack: Any) -> str:
    return _ACTIVATIONS[stack.blocks[0].feed_forward.activation]
