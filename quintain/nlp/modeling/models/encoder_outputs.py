"""Adapters from any encoder's outputs to those that models read.

Shapes:
    B  examples in the batch
    S  positions
    D  width of the encoder
"""

from collections.abc import Mapping
from typing import Any

import keras

from quintain.nlp.modeling.networks import text_encoder


def run(network: Any, inputs: Any) -> dict[str, Any]:
    """Encodes a batch.

    The network's outputs are a dictionary, or a list of the sequence (or of those of all blocks)
    and the pooled output. A dictionary of inputs may hold others than the encoder's.

    Returns:
        `sequence_output` `[B, S, D]`, `pooled_output` `[B, D]`, and what else there is.
    """
    if isinstance(inputs, Mapping) and not isinstance(network, text_encoder.TextEncoder):
        wanted = name_inputs(network.inputs)
        inputs = {name: inputs[name] for name in wanted if name in inputs}
    return name_outputs(network(inputs))


def name_outputs(outputs: Any) -> dict[str, Any]:
    """Returns an encoder's outputs as a dictionary."""
    if isinstance(outputs, Mapping):
        return dict(outputs)
    if not isinstance(outputs, list | tuple):
        raise TypeError(
            f"network: its outputs are a {type(outputs).__name__}, expected a list or a dictionary."
        )
    sequence, pooled, *_ = outputs
    if isinstance(sequence, list | tuple):
        return {
            "sequence_output": sequence[-1],
            "pooled_output": pooled,
            "encoder_outputs": list(sequence),
        }
    return {"sequence_output": sequence, "pooled_output": pooled}


def name_inputs(inputs: Any) -> dict[str, Any]:
    """Returns Keras' inputs by their names."""
    if isinstance(inputs, Mapping):
        return dict(inputs)
    return {one.name: one for one in inputs}


def add_inputs(network: Any, *more: keras.KerasTensor) -> Any:
    """Returns Keras' inputs of an encoder and others, as a list or a dictionary."""
    inputs = network.inputs
    if isinstance(inputs, Mapping):
        return {**inputs, **{one.name: one for one in more}}
    return [*inputs, *more]


def get_widths(network: Any) -> tuple[int, int]:
    """Returns the widths of an encoder's sequence and of its pooled output; builds its weights."""
    if isinstance(network, text_encoder.TextEncoder):
        return network.hidden_size, network.pooler_layer.units
    outputs = name_outputs(network(network.inputs))
    return outputs["sequence_output"].shape[-1], outputs["pooled_output"].shape[-1]
