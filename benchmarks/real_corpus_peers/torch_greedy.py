"""Greedy translation by `nn.Transformer`, which has no cache of its own."""

from typing import Any

import batches
import numpy as np
import torch
from torch import nn
from torch.nn import functional

SIZES = batches.SIZES
PAD_ID, EOS_ID = batches.PAD_ID, batches.EOS_ID


def project(attention: nn.MultiheadAttention, x: torch.Tensor, parts: slice) -> list[torch.Tensor]:
    """Returns some of queries, keys and values of `x`, `[B, heads, L, width / heads]` each."""
    rows = slice(parts.start * SIZES.width, parts.stop * SIZES.width)
    found = functional.linear(x, attention.in_proj_weight[rows], attention.in_proj_bias[rows])
    return [
        part.unflatten(-1, (SIZES.num_heads, -1)).transpose(1, 2)
        for part in found.split(SIZES.width, dim=-1)
    ]


def attend(attention: nn.MultiheadAttention, query: Any, keys: Any, values: Any, mask: Any) -> Any:
    """Returns what is attended to, `[B, L, width]`."""
    found = functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
    return attention.out_proj(found.transpose(1, 2).flatten(2))


def decode_next(layer: Any, x: torch.Tensor, cache: list[Any], mask: torch.Tensor) -> torch.Tensor:
    """Returns the outputs of a pre-norm decoder layer for the next place, `[B, 1, width]`.

    Args:
        layer: The layer.
        x: Its inputs at this place.
        cache: Keys and values of the places before, which it extends, and those of the source.
        mask: `[B, 1, 1, S]`, True at the tokens of the source.
    """
    query, key, value = project(layer.self_attn, layer.norm1(x), slice(0, 3))
    if cache[0] is not None:
        key, value = torch.cat([cache[0], key], 2), torch.cat([cache[1], value], 2)
    cache[:2] = key, value
    x = x + attend(layer.self_attn, query, key, value, None)
    (query,) = project(layer.multihead_attn, layer.norm2(x), slice(0, 1))
    x = x + attend(layer.multihead_attn, query, *cache[2:], mask)
    return x + layer.linear2(functional.relu(layer.linear1(layer.norm3(x))))


def translate(model: Any, sources: torch.Tensor, limits: np.ndarray) -> np.ndarray:
    """Returns greedy translations, `[B, L]` ids; those that are complete leave the batch."""
    padding = sources == PAD_ID
    memory = model.transformer.encoder(model.embed(sources), src_key_padding_mask=padding)
    decoder = model.transformer.decoder
    caches = [
        [None, None, *project(layer.multihead_attn, memory, slice(1, 3))]
        for layer in decoder.layers
    ]
    mask = ~padding[:, None, None]
    found = torch.zeros(len(sources), int(limits.max()), dtype=torch.int64)
    last = torch.from_numpy(limits) - 1
    rows = torch.arange(len(sources))
    ids = torch.zeros(len(sources), dtype=torch.int64)
    for place in range(found.shape[1]):
        x = (model.embedding(ids) * SIZES.width**0.5 + model.positions[place])[:, None]
        for layer, cache in zip(decoder.layers, caches, strict=True):
            x = decode_next(layer, x, cache, mask)
        outputs = decoder.norm(x)[:, 0]
        ids = functional.linear(outputs, model.embedding.weight).argmax(-1)
        found[rows, place] = ids
        is_open = (ids != EOS_ID) & (last[rows] > place)
        if not is_open.any():
            break
        ids, rows, mask = ids[is_open], rows[is_open], mask[is_open]
        caches = [[part[is_open] for part in cache] for cache in caches]
    return found.numpy()
