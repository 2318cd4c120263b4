"""The decoder of a Transformer, one position at a time, with a cache that is never copied.

The candidates of an example share one pool of keys and values: what candidate j put there in step t
stays in place, and a table says which entries are a candidate's own past. All candidates of an
example attend to the whole pool in one matrix product, with the others' entries masked. When
candidates are replaced, the table changes and nothing else. The source's keys and values exist
once for each example too.

Shapes:
    b  examples in the batch
    K  candidates of each example
    T  steps that there is room for
    S  source positions
    H  attention heads
    D  width of the model
    N  width of a head
    V  vocabulary size
"""

from typing import Any, Final, NamedTuple

import tensorflow as tf
from typing_extensions import override

from quintain.nlp.modeling.layers import (
    decoder_block,
    fused_attention,
    layer_normalization,
    projection,
)
from quintain.nlp.modeling.ops import candidate_loop

_VOCAB_MULTIPLE: Final = 64
_IMPOSSIBLE: Final = -1e9
"""Logit of the ids that only fill the vocabulary up, and what is added to scores of the pasts of
other candidates: far below any, also those of weights that have grown large."""


class Cache(NamedTuple):
    """Decoder state that is kept from step to step."""

    keys: list[tf.Tensor]
    """Each block's pool `[b, H, T, K, D / H]`."""

    values: list[tf.Tensor]
    """Likewise."""

    ancestors: tf.Tensor
    """`[b, K, T]` int32: whose entry of step t is each candidate's own; -1 for none."""

    memories: list[tuple[tf.Tensor, tf.Tensor]]
    """Each block's keys and values of the source, `[b, H, S, D / H]`."""

    memory_bias: tf.Tensor
    """`[b, 1, 1, S]`, masking the source's padding."""


class Dense(NamedTuple):
    """A matrix and a bias, in the type to compute in."""

    kernel: tf.Tensor
    bias: tf.Tensor | None

    @classmethod
    def read(cls, layer: projection.Projection, dtype: tf.DType) -> "Dense":
        """Reads a layer's weights once, for all steps."""
        bias = None if layer.bias is None else tf.cast(tf.convert_to_tensor(layer.bias), dtype)
        return cls(tf.cast(tf.convert_to_tensor(layer.kernel), dtype), bias)

    def apply(self, x: tf.Tensor) -> tf.Tensor:
        """Projects `[N, D]`."""
        outputs = tf.matmul(tf.cast(x, self.kernel.dtype), self.kernel)  # [b * K, width]
        return outputs if self.bias is None else tf.nn.bias_add(outputs, self.bias)


class _Norm(NamedTuple):
    gamma: tf.Tensor
    beta: tf.Tensor
    epsilon: float

    @classmethod
    def read(cls, layer: layer_normalization.LayerNormalization) -> "_Norm":
        gamma, beta = tf.convert_to_tensor(layer.gamma), tf.convert_to_tensor(layer.beta)
        return cls(tf.cast(gamma, tf.float32), tf.cast(beta, tf.float32), layer.epsilon)

    def apply(self, x: tf.Tensor) -> tf.Tensor:
        """Normalises `[N, D]` float32."""
        standardised, _ = layer_normalization.standardise(x, self.epsilon)
        return standardised * self.gamma + self.beta


class _Block:
    """One block of the decoder, its weights read."""

    def __init__(
        self,
        block: decoder_block.DecoderBlock,
        dtype: tf.DType,
        *,
        is_compiled: bool,
    ) -> None:
        own, source, inner = block.self_attention, block.cross_attention, block.feed_forward
        self._num_heads, self._width = own.num_heads, own.width
        self._query_key_value = Dense.read(own.query_key_value, dtype)
        self._output = Dense.read(own.output_projection, dtype)
        self._source_query = Dense.read(source.query, dtype)
        self._source_output = Dense.read(source.output_projection, dtype)
        self._expand = Dense.read(inner.expand, dtype)
        self._contract = Dense.read(inner.contract, dtype)
        self._activation = inner.activation
        self._norms = [
            _Norm.read(layer)
            for layer in (
                block.self_attention_norm,
                block.cross_attention_norm,
                block.feed_forward_norm,
            )
        ]
        self._norm_first = block.norm_first
        self._is_compiled = is_compiled

    def step(
        self, x: tf.Tensor, index: tf.Tensor, bias: tf.Tensor, cache: Cache, number: int
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Decodes one position `[b * K, D]`; returns it and the pools with its entries."""
        num_candidates = cache.ancestors.shape[1]
        joint = self._query_key_value.apply(self._enter(x, 0))
        queries, keys, values = self._split(joint, num_candidates, 3)  # [b, H, K, N]
        keys = _put(cache.keys[number], keys, index, is_compiled=self._is_compiled)
        values = _put(cache.values[number], values, index, is_compiled=self._is_compiled)
        mixed = fused_attention.mix(queries, _merge_steps(keys), _merge_steps(values), bias)
        x = self._leave(x, self._output.apply(self._merge(mixed)), 0)

        (queries,) = self._split(self._source_query.apply(self._enter(x, 1)), num_candidates, 1)
        mixed = fused_attention.mix(queries, *cache.memories[number], cache.memory_bias)
        x = self._leave(x, self._source_output.apply(self._merge(mixed)), 1)

        inner = self._activation(self._expand.apply(self._enter(x, 2)))
        return self._leave(x, self._contract.apply(inner), 2), keys, values

    def _split(self, x: tf.Tensor, num_candidates: int, num_parts: int) -> list[tf.Tensor]:
        return fused_attention.split_heads(x, (-1, num_candidates), self._num_heads, num_parts)

    def _merge(self, mixed: tf.Tensor) -> tf.Tensor:
        """Turns `[b, H, K, N]` into `[b * K, D]`."""
        return tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [-1, self._width])

    def _enter(self, x: tf.Tensor, number: int) -> tf.Tensor:
        return self._norms[number].apply(x) if self._norm_first else x

    def _leave(self, x: tf.Tensor, output: tf.Tensor, number: int) -> tf.Tensor:
        total = x + tf.cast(output, x.dtype)
        return total if self._norm_first else self._norms[number].apply(total)


class CachedDecoder(candidate_loop.Predictor):
    """Predicts the next ids with a decoder whose weights are read, and cast, once."""

    def __init__(self, model: Any, precision: str | None = None) -> None:
        """Reads the weights of a `Seq2SeqTransformer`.

        `precision` is the float type of the layers, None for the model's own. What is between them
        and the logits are float32.
        """
        self._model = model
        self._dtype = tf.as_dtype(precision or model.compute_dtype)
        decoder = model.decoder
        self._blocks = [
            _Block(block, self._dtype, is_compiled=model.padded_decode) for block in decoder.blocks
        ]
        self._norm = _Norm.read(decoder.output_normalization)
        self._logits = _read_logits(model.output_embedding)

    @override
    def start(self, cache: Any, num_candidates: int) -> Cache:
        """Returns empty pools.

        The cache that is given is the encoder's output `[b, S, D]` and the mask of its padding
        `[b, 1, S]`.
        """
        memory, memory_mask = cache
        memories = [
            tuple(tf.cast(part, self._dtype) for part in pair)
            for pair in self._model.decoder.start(memory)
        ]
        size, blocks = tf.shape(memory)[0], self._model.decoder.blocks
        heads = blocks[0].self_attention.num_heads
        width = self._model.embedding_width // heads
        shape = [size, heads, 0, num_candidates, width]
        empty = tf.zeros(shape, self._dtype)  # [b, H, 0, K, N]
        return Cache(
            keys=[empty for _ in blocks],
            values=[empty for _ in blocks],
            ancestors=tf.zeros([size, num_candidates, 0], tf.int32),
            memories=memories,
            memory_bias=fused_attention.to_bias(memory_mask, tf.float32),
        )

    @override
    def grow(self, cache: Cache, num_steps: int | tf.Tensor) -> Cache:
        """Copies the pools into larger ones."""

        def pad(pool: tf.Tensor) -> tf.Tensor:
            return tf.pad(pool, [[0, 0], [0, 0], [0, num_steps], [0, 0], [0, 0]])

        ancestors = tf.pad(cache.ancestors, [[0, 0], [0, 0], [0, num_steps]], constant_values=-1)
        return cache._replace(
            keys=[pad(pool) for pool in cache.keys],
            values=[pad(pool) for pool in cache.values],
            ancestors=ancestors,
        )

    @override
    def relax_shape(self, part: tf.Tensor) -> tf.TensorShape:
        """Leaves open the numbers of examples and of steps, and of source positions."""
        return tf.TensorShape(
            [None if axis in (0, 2) else size for axis, size in enumerate(part.shape)]
        )

    @override
    def reorder(self, cache: Cache, candidates: tf.Tensor) -> Cache:
        """Says whose past the candidates have now; nothing is moved."""
        return cache._replace(ancestors=tf.gather(cache.ancestors, candidates, batch_dims=1))

    @override
    def predict(
        self, sequences: tf.Tensor, index: tf.Tensor, cache: Cache
    ) -> tuple[tf.Tensor, Cache]:
        """Decodes the last position of all candidates."""
        num_candidates, width = sequences.shape[1], self._model.embedding_width
        last = tf.reshape(tf.gather(sequences, index, axis=2), [-1])  # [b * K]
        # Where there are fewer ids than continuations, impossible ones are among the best.
        last = tf.minimum(last, self._model.target_vocab_size - 1)
        x = self._model.embed_position(last, index)  # [b * K, D]
        x = tf.cast(x, tf.float32)
        is_now = tf.range(tf.shape(cache.ancestors)[2]) == index  # [T]
        own = tf.range(num_candidates)[tf.newaxis, :, tf.newaxis]  # [1, K, 1]
        cache = cache._replace(ancestors=tf.where(is_now, own, cache.ancestors))
        bias = _mask_others(cache.ancestors)  # [b, 1, K, T * K]
        keys, values = [], []
        for number, block in enumerate(self._blocks):
            x, new_keys, new_values = block.step(x, index, bias, cache, number)
            keys.append(new_keys)
            values.append(new_values)
        x = self._norm.apply(x)
        logits = self._logits.apply(tf.ensure_shape(x, [None, width]))
        logits = tf.reshape(logits, [-1, num_candidates, self._logits.kernel.shape[1]])
        return logits, cache._replace(keys=keys, values=values)


def _read_logits(embedding: Any) -> Dense:
    """Returns the matrix `[D, V]` that computes logits, in float32.

    Ids without meaning fill the vocabulary up, because finding the largest logits takes blocks.
    """
    table = tf.cast(tf.convert_to_tensor(embedding), tf.float32)
    rest = -table.shape[0] % _VOCAB_MULTIPLE
    kernel = tf.transpose(tf.pad(table, [[0, rest], [0, 0]]))  # [D, V]
    bias = tf.constant([0.0] * table.shape[0] + [_IMPOSSIBLE] * rest) if rest else None
    return Dense(kernel, bias)


def _put(pool: tf.Tensor, entries: tf.Tensor, index: tf.Tensor, *, is_compiled: bool) -> tf.Tensor:
    """Writes entries `[b, H, K, N]` at step `index` of a pool, in place.

    Nothing may read the pool as it was before. XLA knows another operation, and finds out itself
    that it can work in place; TensorFlow's kernel of that one copies the pool.
    """
    shape, size = tf.shape(pool), pool.shape[3] * pool.shape[4]
    num_rows = shape[0] * shape[1]
    entries = tf.reshape(entries, [num_rows, size])  # [b * H, K * N]
    places = tf.range(num_rows) * shape[2] + index  # [b * H]
    flat = tf.reshape(pool, [-1, size])  # [b * H * T, K * N]
    if is_compiled:
        filled = tf.tensor_scatter_nd_update(flat, places[:, tf.newaxis], entries)
    else:
        filled = tf.raw_ops.InplaceUpdate(x=flat, i=places, v=entries)
    return tf.ensure_shape(tf.reshape(filled, shape), pool.shape)


def _merge_steps(pool: tf.Tensor) -> tf.Tensor:
    """Turns `[b, H, T, K, N]` into `[b, H, T * K, N]`."""
    shape = tf.shape(pool)
    return tf.reshape(pool, [shape[0], pool.shape[1], shape[2] * shape[3], pool.shape[4]])


def _mask_others(ancestors: tf.Tensor) -> tf.Tensor:
    """Returns `[b, 1, K, T * K]`, far below 0 at entries that are not a candidate's own past."""
    num_candidates = ancestors.shape[1]
    is_other = ancestors[..., tf.newaxis] != tf.range(num_candidates)  # [b, K, T, K]
    bias = tf.cast(is_other, tf.float32) * _IMPOSSIBLE
    return tf.reshape(
        bias, [tf.shape(bias)[0], 1, num_candidates, tf.shape(bias)[2] * num_candidates]
    )
