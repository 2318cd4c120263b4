"""Growth of a trained Transformer in width and depth that leaves its function as it is.

Shapes:
    D  width of the former model
    F  factor by which the width grows
    V  vocabulary size

Width: every value `x` of the former model becomes F equal values, side by side: `[x, x, ...]`. A
matrix that reads them holds its former weights F times below each other, divided by F, plus noise
that sums to zero over the copies: the result is the same, but the copies have different gradients
and part ways. There are F times as many heads, of the same size. The embedding is both read and
multiplied with, so that it is divided by the square root of F; so is the normalisation before the
logits.

Depth: new blocks start as copies of those before them, with output projections of zero, so that
their residual connections pass on what they get.

Source:
    Chen et al., 2016, Net2Net (https://arxiv.org/abs/1511.05641), for the principle.
"""

import dataclasses
from typing import Any, Final

import numpy as np

from quintain import errors
from quintain.nlp.modeling.layers import projection
from quintain.nlp.modeling.layers.layer_normalization import LayerNormalization
from quintain.nlp.modeling.models import seq2seq_transformer, transformer_stacks

NOISE: Final = 0.1
"""Standard deviation of the noise, as a multiple of that of the weights it is added to."""


def grow(
    old: seq2seq_transformer.Seq2SeqTransformer,
    new: seq2seq_transformer.Seq2SeqTransformer,
    *,
    noise: float = NOISE,
    seed: int = 0,
) -> None:
    """Gives a new model the function of a trained one of the same or smaller width and depth.

    Width, heads and `position_repeats` of the new one are those of the old times the same integer,
    the inner width of its feed-forward parts is a multiple, and it has at least as many layers.
    The noise makes copies part ways; its standard deviation is a multiple of that of the weights.

    Raises:
        ConfigError: If `new` can't compute what `old` does, naming the field.
    """
    factor = _check_width(old, new)
    grower = _Grower(factor, noise, np.random.default_rng(seed))
    grown = [(old.embedding, new.embedding)]
    if old.target_embedding is not None:
        grown.append((old.target_embedding, new.target_embedding))
    for old_table, new_table in grown:  # [V, D]
        new_table.assign(np.tile(old_table.numpy(), (1, factor)) / factor**0.5)
    grower.write_stack(old.encoder, new.encoder, "encoder")
    grower.write_stack(old.decoder, new.decoder, "decoder")
    last = new.decoder.output_normalization
    for variable in (last.gamma, last.beta):
        variable.assign(variable.numpy() / factor**0.5)


def _check_width(
    old: seq2seq_transformer.Seq2SeqTransformer, new: seq2seq_transformer.Seq2SeqTransformer
) -> int:
    """Returns the factor by which the width grows."""
    if old.vocab_size != new.vocab_size:
        raise errors.ConfigError(
            f"vocab_size: got {new.vocab_size} after {old.vocab_size}; a vocabulary can't grow."
        )
    has_own = [model.target_embedding is not None for model in (old, new)]
    if has_own[0] != has_own[1] or old.target_vocab_size != new.target_vocab_size:
        raise errors.ConfigError(
            f"target_vocab_size: got {new.target_vocab_size} after {old.target_vocab_size}; the "
            "target's vocabulary can't grow, be parted from the source's or be joined with it."
        )
    factor, rest = divmod(new.embedding_width, old.embedding_width)
    if rest or not factor:
        raise errors.ConfigError(
            f"embedding_width: got {new.embedding_width} after {old.embedding_width}, expected a "
            "multiple."
        )
    if new.position_repeats != old.position_repeats * factor:
        raise errors.ConfigError(
            f"position_repeats: got {new.position_repeats} after {old.position_repeats}, expected "
            f"{old.position_repeats * factor}, because the width grows {factor}-fold."
        )
    return factor


@dataclasses.dataclass
class _Grower:
    """Writes the grown weights of layers."""

    factor: int
    noise: float
    generator: np.random.Generator

    def write_stack(
        self,
        old: transformer_stacks.TransformerStack,
        new: transformer_stacks.TransformerStack,
        name: str,
    ) -> None:
        """Writes an encoder or a decoder."""
        self._check_stack(old, new, name)
        former = -1
        for index, block in enumerate(new.blocks):
            source = index * old.num_layers // new.num_layers
            self._write_block(old.blocks[source], block)
            if source == former:
                _silence(block)
            former = source
        self._write_norm(old.output_normalization, new.output_normalization)

    def _check_stack(self, old: Any, new: Any, name: str) -> None:
        before, after = old.block_arguments, new.block_arguments
        for field in ("activation", "use_bias", "norm_first", "norm_epsilon"):
            if before[field] != after[field]:
                raise errors.ConfigError(
                    f"{name}.{field}: got {after[field]!r} after {before[field]!r}; it has to stay "
                    "the same."
                )
        heads = before["num_attention_heads"] * self.factor
        if after["num_attention_heads"] != heads:
            raise errors.ConfigError(
                f"{name}.num_attention_heads: got {after['num_attention_heads']} after "
                f"{before['num_attention_heads']}, expected {heads}, because the width grows "
                f"{self.factor}-fold."
            )
        if after["intermediate_size"] % before["intermediate_size"]:
            raise errors.ConfigError(
                f"{name}.intermediate_size: got {after['intermediate_size']} after "
                f"{before['intermediate_size']}, expected a multiple."
            )
        if new.num_layers < old.num_layers:
            raise errors.ConfigError(
                f"{name}.num_layers: got {new.num_layers} after {old.num_layers}, expected at "
                "least as many."
            )
        if new.num_layers > old.num_layers and not before["norm_first"]:
            raise errors.ConfigError(
                f"{name}.num_layers: got {new.num_layers} after {old.num_layers} with "
                "norm_first=False; a block that normalises its output can't pass it on unchanged, "
                "so that depth grows under pre-norm only."
            )

    def _write_block(self, old: Any, new: Any) -> None:
        inner = new.feed_forward.intermediate_size // old.feed_forward.intermediate_size
        self._write_projection(old.feed_forward.expand, new.feed_forward.expand, columns=inner)
        self._write_projection(old.feed_forward.contract, new.feed_forward.contract, rows=inner)
        self._write_norm(old.feed_forward_norm, new.feed_forward_norm)
        self._write_attention(old.self_attention, new.self_attention, ["query_key_value"])
        self._write_norm(old.self_attention_norm, new.self_attention_norm)
        if hasattr(old, "cross_attention"):
            self._write_attention(old.cross_attention, new.cross_attention, ["query", "key_value"])
            self._write_norm(old.cross_attention_norm, new.cross_attention_norm)

    def _write_attention(self, old: Any, new: Any, names: list[str]) -> None:
        for name in [*names, "output_projection"]:
            self._write_projection(getattr(old, name), getattr(new, name))

    def _write_projection(
        self,
        old: projection.Projection,
        new: Any,
        *,
        rows: int | None = None,
        columns: int | None = None,
    ) -> None:
        """Writes a dense layer whose inputs and outputs are repeated so many times."""
        rows, columns = rows or self.factor, columns or self.factor
        kernel = _repeat(old.kernel.numpy(), columns, old.num_parts)
        kernel = np.tile(kernel[np.newaxis] / rows, (rows, 1, 1))  # [rows, inputs, outputs]
        if rows > 1:
            noise = self.generator.normal(size=kernel.shape)
            kernel += (noise - noise.mean(axis=0)) * self.noise * kernel.std()
        new.kernel.assign(kernel.reshape(-1, kernel.shape[-1]))
        if old.bias is not None:
            new.bias.assign(_repeat(old.bias.numpy(), columns, old.num_parts))

    def _write_norm(self, old: LayerNormalization, new: Any) -> None:
        new.gamma.assign(np.tile(old.gamma.numpy(), self.factor))
        new.beta.assign(np.tile(old.beta.numpy(), self.factor))


def _repeat(values: np.ndarray, times: int, num_parts: int) -> np.ndarray:
    """Repeats each of the parts that lie side by side in the last dimension."""
    parts = np.split(values, num_parts, axis=-1)
    return np.concatenate([np.concatenate([part] * times, axis=-1) for part in parts], axis=-1)


def _silence(block: Any) -> None:
    """Makes a block pass on its input, by output projections of zero."""
    outputs = [block.self_attention.output_projection, block.feed_forward.contract]
    if hasattr(block, "cross_attention"):
        outputs.append(block.cross_attention.output_projection)
    for layer in outputs:
        for variable in (layer.kernel, layer.bias):
            if variable is not None:
                variable.assign(np.zeros(variable.shape, variable.dtype))
