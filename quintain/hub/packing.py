"""Sequences that several texts share, without attention or positions from one to the next.

Shapes:
    B  rows
    S  positions
"""

from typing import Any, Final

import keras
from keras import ops

from quintain import errors
from quintain.hub import adapters

FAMILIES: Final = ("GPT2", "Llama", "Llama3", "Mistral", "Qwen")
"""Families whose decoder layers take a mask of attention, and whose positions are relative or can
be given."""


def pack_model(model: keras.Model) -> keras.Model:
    """Returns a causal model whose `padding_mask` holds the number of the text at each place.

    Numbers count from 1 in each row; 0 is padding. The models share their layers.

    Raises:
        ConfigError: If its family has no place for masks and positions.
    """
    backbone = adapters.find_backbone(model)
    family = type(backbone).__name__.removesuffix("Backbone")
    if family not in FAMILIES:
        raise errors.ConfigError(
            f"task.packing: got true, but layers of {family} take no mask of attention. Set it to "
            f"false, or choose a preset of {', '.join(FAMILIES)}."
        )
    inputs = {
        name: keras.Input(batch_shape=part.shape, dtype=part.dtype, name=name)
        for name, part in backbone.input.items()
    }

    def call_layer(layer: Any, *args: Any, **kwargs: Any) -> Any:
        if "decoder_padding_mask" in kwargs:
            numbers = kwargs.pop("decoder_padding_mask")
            return layer(*args, decoder_attention_mask=mask_others(numbers), **kwargs)
        if type(layer).__name__ == "PositionEmbedding":
            return layer(*args, positions=count_positions(inputs["padding_mask"]), **kwargs)
        return layer(*args, **kwargs)

    packed = keras.models.clone_model(
        backbone,
        input_tensors=inputs,
        clone_function=lambda layer: layer,
        call_function=call_layer,
    )
    whole = keras.models.clone_model(
        model, clone_function=lambda layer: packed if layer is backbone else layer
    )
    whole.find_plain = lambda: model
    if find_kept := getattr(model, "find_kept_variables", None):
        whole.find_kept_variables = find_kept
    return whole


def find_plain(model: keras.Model) -> Any:
    """Returns the model of KerasHub that a packed one was made of, or the model itself."""
    find = getattr(model, "find_plain", None)
    return model if find is None else find()


def mask_others(documents: Any) -> Any:
    """Returns `[B, S, S]`, whether two places belong to the same text."""
    return ops.equal(documents[:, :, None], documents[:, None, :])


def count_positions(documents: Any) -> Any:
    """Returns the positions `[B, S]` int32 within the texts."""
    same = ops.tril(ops.cast(mask_others(documents), "int32"))
    return ops.sum(same, axis=-1) - 1
