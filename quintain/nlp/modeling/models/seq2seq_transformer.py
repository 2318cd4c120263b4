"""The encoder-decoder Transformer.

Shapes:
    B  examples in the batch
    S  source positions
    T  target positions
    C  candidates for each example while decoding
    D  width of the model
    V  vocabulary size
"""

import math
from collections.abc import Sequence
from typing import Any, Final

import keras
import tensorflow as tf

from quintain import errors
from quintain.nlp.modeling.layers import dropout, packed_rows
from quintain.nlp.modeling.models.transformer_stacks import TransformerDecoder, TransformerEncoder
from quintain.nlp.modeling.ops import cached_decoder, decoding

PAD_ID: Final = 0
_LONGEST_WAVELENGTH: Final = 10_000.0


class Seq2SeqTransformer(keras.Model):
    """Translates sequences of ids; one matrix embeds both sides and computes the logits.

    All variables exist once the model is constructed.

    Source:
        Vaswani et al., 2017 (https://arxiv.org/abs/1706.03762).
    """

    def __init__(
        self,
        vocab_size: int,
        embedding_width: int = 512,
        dropout_rate: float = 0.0,
        padded_decode: bool = False,
        decode_max_length: int | None = None,
        extra_decode_length: int = 0,
        beam_size: int = 4,
        alpha: float = 0.6,
        encoder_layer: TransformerEncoder | None = None,
        decoder_layer: TransformerDecoder | None = None,
        eos_id: int | Sequence[int] = 1,
        position_repeats: int = 1,
        min_length: int = 0,
        no_repeat_ngram_size: int = 0,
        target_vocab_size: int | None = None,
        embed_start: bool = False,
        skip_padding: bool = False,
        **kwargs: Any,
    ) -> None:
        """Creates the model and its variables.

        Args:
            vocab_size: Number of ids; id 0 is padding.
            embedding_width: Width of the model.
            dropout_rate: Share of the embeddings' values that training drops.
            padded_decode: Whether decoding keeps fixed shapes. Needs `decode_max_length`.
            decode_max_length: Longest output. None allows the source's length plus
                `extra_decode_length`.
            extra_decode_length: How many ids longer than its source an output may be.
            beam_size: Candidates kept for each example while decoding.
            alpha: Strength of the length normalisation while decoding.
            encoder_layer: The encoder; None for the published base model's.
            decoder_layer: The decoder; None for the published base model's.
            eos_id: Id, or ids, that end a sequence.
            position_repeats: Copies of the positions' sinusoids, each of a part of the width. More
                than 1 in a model that grew from a narrower one, see `growth`.
            min_length: Fewest ids of an output, its end not counted.
            no_repeat_ngram_size: No output holds the same so many ids in a row twice; 0 allows all.
            target_vocab_size: Number of ids of the target, which then has embeddings of its own;
                id 0 is padding. None: source and target share ids and embeddings.
            embed_start: Whether a target starts with the embedding of id 0, as in models of the
                TensorFlow Model Garden, instead of zeros.
            skip_padding: Whether training computes nothing but attention weights for padding.
                Logits at padding then mean nothing, and no gradient flows from them. Steps that
                XLA compiles, which need fixed shapes, compute it all the same.
            **kwargs: Arguments of a Keras model.

        Raises:
            ConfigError: If the width is odd or no multiple of the number of heads, does not part
                into `position_repeats` even numbers, `padded_decode` lacks `decode_max_length`, or
                a number of the decoding is out of its range.
        """
        super().__init__(**kwargs)
        if embedding_width % 2:
            raise errors.ConfigError(
                f"embedding_width: got {embedding_width}, expected an even number."
            )
        if embedding_width % (2 * position_repeats):
            raise errors.ConfigError(
                f"position_repeats: got {position_repeats}, but the width {embedding_width} does "
                "not part into as many even numbers."
            )
        if padded_decode and decode_max_length is None:
            raise errors.ConfigError(
                "decode_max_length: got None with padded_decode; fixed shapes need a fixed length."
            )
        self.vocab_size = vocab_size
        self.target_vocab_size = target_vocab_size or vocab_size
        self.embedding_width = embedding_width
        self.padded_decode = padded_decode
        self.decode_max_length = decode_max_length
        self.extra_decode_length = extra_decode_length
        self.beam_size = beam_size
        self.alpha = alpha
        self.eos_id = eos_id
        self.decoding = decoding.DecodingOptions(
            beam_size=beam_size,
            alpha=alpha,
            min_length=min_length,
            no_repeat_ngram_size=no_repeat_ngram_size,
        )
        self.position_repeats = position_repeats
        self.embed_start = embed_start
        self.skip_padding = skip_padding
        self.encoder = encoder_layer or TransformerEncoder()
        self.decoder = decoder_layer or TransformerDecoder()
        self.dropout = dropout.Dropout(dropout_rate)
        # Without autocast: only the rows of a batch are cast, not the whole matrix.
        self.embedding = self.add_weight(
            shape=(vocab_size, embedding_width),
            initializer=keras.initializers.RandomNormal(stddev=embedding_width**-0.5),
            autocast=False,
            name="embedding",
        )
        self.target_embedding = None
        if target_vocab_size is not None:
            self.target_embedding = self.add_weight(
                shape=(target_vocab_size, embedding_width),
                initializer=keras.initializers.RandomNormal(stddev=embedding_width**-0.5),
                autocast=False,
                name="target_embedding",
            )
        self.encoder.build((None, None, embedding_width))
        self.decoder.build((None, None, embedding_width))
        self.built = True

    def call(
        self, inputs: dict[str, tf.Tensor], training: bool = False, search: bool = False
    ) -> Any:
        """Computes the logits of given targets, or searches for an output, or both.

        Args:
            inputs: `inputs`, `[B, S]` ids padded with 0; and `targets`, `[B, T]` likewise, or
                nothing.
            training: Whether to apply dropout.
            search: Whether to search though there are targets; the source is encoded once for both.

        Returns:
            With targets, `[B, T, V]` float32 logits, each from the targets before its position.
            Without, `outputs`, `[B, L]` int32 ids padded with 0, and `scores`, `[B]` float32.
            With targets and `search`, a dictionary of `logits`, `outputs` and `scores`.
        """
        source, target = inputs["inputs"], inputs.get("targets")
        memory_mask = self._mask_padding(source)  # [B, 1, S]
        rows = None if target is None else self._find_rows(source, training)
        memory = self._encode(source, memory_mask, training, rows)
        if target is None:
            return self._search(source, memory, memory_mask)
        logits = self._predict(target, memory, memory_mask, training, rows)
        if not search:
            return logits
        memory = memory if rows is None else rows.spread(memory)
        return {"logits": logits, **self._search(source, memory, memory_mask)}

    def _find_rows(self, ids: tf.Tensor, training: bool) -> packed_rows.PackedRows | None:
        """Returns where the tokens of `[B, S]` ids are, if padding is to be skipped."""
        is_token = tf.not_equal(ids, PAD_ID)
        return packed_rows.find(is_token, is_wanted=training and self.skip_padding)

    def _encode(
        self,
        source: tf.Tensor,
        mask: tf.Tensor,
        training: bool,
        rows: packed_rows.PackedRows | None = None,
    ) -> tf.Tensor:
        """Returns the memory `[B, S, D]` of a source, or its `rows` `[N, D]`."""
        x = self._embed_in_place(source, rows)
        return self.encoder(self.dropout(x, training=training), mask, training=training, rows=rows)

    def _predict(
        self,
        target: tf.Tensor,
        memory: tf.Tensor,
        memory_mask: tf.Tensor,
        training: bool,
        memory_rows: packed_rows.PackedRows | None,
    ) -> tf.Tensor:
        length = tf.shape(target)[1]
        rows = self._find_rows(target, training)
        shifted = tf.pad(target, [[0, 0], [1, 0]])[:, :-1]  # [B, T]
        x = self._embed_in_place(shifted, rows, is_target=True)
        mask = tf.linalg.band_part(tf.ones([1, length, length], self.compute_dtype), -1, 0)
        outputs = self.decoder(
            self.dropout(x, training=training),
            memory,
            mask,  # [1, T, T]
            memory_mask,
            training=training,
            rows=rows,
            memory_rows=memory_rows,
        )
        return self._compute_logits(outputs if rows is None else rows.spread(outputs))

    def decode(
        self,
        source: tf.Tensor,
        options: decoding.DecodingOptions | None = None,
        *,
        prefix: tf.Tensor | None = None,
        seed: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Finds outputs for sources.

        Args:
            source: `[B, S]` ids padded with 0.
            options: How to; None for the model's own settings.
            prefix: `[B, P]` ids padded with 0: what outputs start with. None for nothing.
            seed: `[2]` integers: equal ones draw the same samples from the same batch.

        Returns:
            `outputs`, `[B, N, L]` int32 ids padded with 0, and `scores`, `[B, N]` float32, best
            first, N being `options.num_outputs`. Where fewer were found, the last scores are at
            most `beam_search.WORST_SCORE`.
        """
        memory_mask = self._mask_padding(source)  # [B, 1, S]
        memory = self._encode(source, memory_mask, training=False)
        options = options or self.decoding
        return self._decode(source, memory, memory_mask, options, prefix, seed)

    def _search(
        self, source: tf.Tensor, memory: tf.Tensor, memory_mask: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Returns the best output `[B, L]` of each source, and its score `[B]`."""
        found = self._decode(source, memory, memory_mask, self.decoding)
        return {"outputs": found["outputs"][:, 0], "scores": found["scores"][:, 0]}

    def _decode(
        self,
        source: tf.Tensor,
        memory: tf.Tensor,
        memory_mask: tf.Tensor,
        options: decoding.DecodingOptions,
        prefix: tf.Tensor | None = None,
        seed: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        loop = options.build_loop(
            cached_decoder.CachedDecoder(self, options.precision),
            eos_ids=(self.eos_id,) if isinstance(self.eos_id, int) else tuple(self.eos_id),
            max_length=self._limit_lengths(source, prefix),
            has_fixed_shapes=self.padded_decode,
            seed=seed,
        )
        initial_ids = tf.zeros([tf.shape(source)[0]], tf.int32)  # [B]
        ids, scores = loop.run(initial_ids, (memory, memory_mask), prefix)
        num_outputs = options.num_outputs
        return {"outputs": ids[:, :num_outputs, 1:], "scores": scores[:, :num_outputs]}

    def _limit_lengths(self, source: tf.Tensor, prefix: tf.Tensor | None) -> int | tf.Tensor:
        """Returns how long outputs may be; each source's own limit, whatever batch it is in."""
        if self.padded_decode:
            return self.decode_max_length
        if self.decode_max_length is None:
            limit = tf.math.count_nonzero(source, axis=1, dtype=tf.int32) + self.extra_decode_length
        else:
            limit = tf.fill([tf.shape(source)[0]], self.decode_max_length)  # [B]
        if prefix is None:
            return limit
        return tf.maximum(limit, tf.math.count_nonzero(prefix, axis=1, dtype=tf.int32) + 1)

    def embed_position(self, ids: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
        """Returns the decoder's inputs `[N, D]` for ids `[N]` at place `index` of the target."""
        return self._embed(ids, is_target=True) + self._encode_positions(index[tf.newaxis])

    def _embed_in_place(
        self, ids: tf.Tensor, rows: packed_rows.PackedRows | None, *, is_target: bool = False
    ) -> tf.Tensor:
        """Embeds `[B, S]` ids and adds their positions: `[B, S, D]`, or `[N, D]` for the `rows`."""
        positions = self._encode_positions(tf.range(tf.shape(ids)[1]))  # [T, D]
        if rows is None:
            return self._embed(ids, is_target=is_target) + positions
        in_place = tf.gather(positions, rows.positions)  # [N, D]
        return self._embed(rows.pack(ids), is_target=is_target) + in_place

    @property
    def output_embedding(self) -> keras.Variable:
        """The embeddings `[V, D]` of the target, which compute the logits as well."""
        return self.embedding if self.target_embedding is None else self.target_embedding

    def _embed(self, ids: tf.Tensor, *, is_target: bool = False) -> tf.Tensor:
        """Looks ids up, scaled by the square root of the width; padding is zero."""
        embedding = self.output_embedding if is_target else self.embedding
        rows = tf.gather(tf.convert_to_tensor(embedding), ids)
        if is_target and self.embed_start:
            return tf.cast(rows * self.embedding_width**0.5, self.compute_dtype)
        scale = tf.cast(tf.not_equal(ids, PAD_ID), rows.dtype) * self.embedding_width**0.5
        return tf.cast(rows * scale[..., tf.newaxis], self.compute_dtype)

    def _encode_positions(self, positions: tf.Tensor) -> tf.Tensor:
        """Returns the sinusoids `[len(positions), D]`: sines, then cosines."""
        num_waves = self.embedding_width // self.position_repeats // 2
        exponents = tf.range(num_waves, dtype=tf.float32) / max(num_waves - 1, 1)
        frequencies = tf.exp(-math.log(_LONGEST_WAVELENGTH) * exponents)
        angles = tf.cast(positions, tf.float32)[:, tf.newaxis] * frequencies  # [T, waves]
        waves = tf.concat([tf.sin(angles), tf.cos(angles)] * self.position_repeats, axis=1)
        return tf.cast(waves, self.compute_dtype)

    def _compute_logits(self, outputs: tf.Tensor) -> tf.Tensor:
        table = tf.cast(tf.convert_to_tensor(self.output_embedding), self.compute_dtype)
        flat = tf.reshape(tf.cast(outputs, table.dtype), [-1, self.embedding_width])  # [B * T, D]
        logits = tf.cast(tf.matmul(flat, table, transpose_b=True), tf.float32)  # [B * T, V]
        shape = tf.shape(outputs)
        return tf.reshape(logits, [shape[0], shape[1], self.target_vocab_size])

    def _mask_padding(self, source: tf.Tensor) -> tf.Tensor:
        """Returns `[B, 1, S]`, 0 at padding."""
        return tf.cast(tf.not_equal(source, PAD_ID), self.compute_dtype)[:, tf.newaxis]
