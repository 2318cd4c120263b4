"""The encoder-decoder Transformer.

Shapes:
    B  examples in the batch
    S  source positions
    T  target positions
    C  candidates for each example while decoding
    D  width of the model
    V  vocabulary size
"""

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.kernels import casts
from quintain.nlp.modeling import constructed_model, int8_weights, layers
from quintain.nlp.modeling.layers import dropout, own_classes, packed_rows, projection
from quintain.nlp.modeling.models import transformer_stacks
from quintain.nlp.modeling.ops import cached_decoder, candidate_loop, decoding, step_decoder

TransformerDecoder = transformer_stacks.TransformerDecoder
TransformerEncoder = transformer_stacks.TransformerEncoder
attention_initializer = transformer_stacks.attention_initializer

EOS_ID: Final = 1
PAD_ID: Final = 0
_LONGEST_WAVELENGTH: Final = 10_000.0


@keras.saving.register_keras_serializable("Text")
class Seq2SeqTransformer(constructed_model.ConstructorConfig, keras.Model):
    """Translates sequences of ids; one matrix embeds both sides and computes the logits.

    All variables exist once the model is constructed.

    Source:
        Vaswani et al., 2017 (https://arxiv.org/abs/1706.03762).
    """

    def __init__(
        self,
        vocab_size: int = 33708,
        embedding_width: int = 512,
        dropout_rate: float = 0.0,
        padded_decode: bool = False,
        decode_max_length: int | None = None,
        extra_decode_length: int = 0,
        beam_size: int = 4,
        alpha: float = 0.6,
        encoder_layer: TransformerEncoder | None = None,
        decoder_layer: TransformerDecoder | None = None,
        eos_id: int | Sequence[int] = EOS_ID,
        *,
        position_repeats: int = 1,
        min_length: int = 0,
        no_repeat_ngram_size: int = 0,
        target_vocab_size: int | None = None,
        embed_start: bool = True,
        skip_padding: bool = False,
        **kwargs: Any,
    ) -> None:
        """Creates the model and its variables.

        Args:
            vocab_size: Number of ids; id 0 is padding.
            embedding_width: Width of the model.
            dropout_rate: Share of the embeddings' values that training drops.
            padded_decode: Whether decoding keeps fixed shapes. Needs `decode_max_length`.
            decode_max_length: Longest output; None allows the source's length and more.
            extra_decode_length: How many ids longer than its source an output may be.
            beam_size: Candidates kept for each example while decoding.
            alpha: Strength of the length normalisation while decoding.
            encoder_layer: The encoder; None for the published base model's.
            decoder_layer: Likewise the decoder.
            eos_id: Id, or ids, that end a sequence.
            position_repeats: Copies of the positions' sinusoids, each of a part of the width; more
                than 1 in a model that grew from a narrower one, see `growth`.
            min_length: Fewest ids of an output, its end not counted.
            no_repeat_ngram_size: No output holds the same so many ids in a row twice; 0 allows all.
            target_vocab_size: Number of ids of the target, which then has embeddings of its own;
                None: source and target share ids and embeddings.
            embed_start: Whether a target starts with the embedding of id 0, and padding in it has
                that too, instead of zeros.
            skip_padding: Whether training computes nothing but attention weights for padding, where
                XLA does not need fixed shapes. Logits at padding then mean nothing, and no gradient
                flows from them.
            **kwargs: Arguments of a Keras model.

        Raises:
            ConfigError: If the width is odd or no multiple of the number of heads, does not part
                into `position_repeats` even numbers, `padded_decode` lacks `decode_max_length`, or
                a number of the decoding is out of its range.
        """
        given = constructed_model.arguments(locals())
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
        self._keep_config(**given)
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
        self.encoder_layer = encoder_layer or TransformerEncoder()
        self.decoder_layer = decoder_layer or TransformerDecoder()
        self.encoder_dropout = dropout.Dropout(dropout_rate)
        self.decoder_dropout = dropout.Dropout(dropout_rate)
        self.embedding_lookup = self._build_embedding(vocab_size)
        self.target_embedding_lookup = None
        if target_vocab_size is not None:
            self.target_embedding_lookup = self._build_embedding(target_vocab_size)
        for stack in (self.encoder_layer, self.decoder_layer):
            if not stack.built:
                stack.build((None, None, embedding_width))
        self.built = True

    def _build_embedding(self, size: int) -> keras.layers.Layer:
        width = self.embedding_width
        layer = layers.OnDeviceEmbedding(
            vocab_size=size,
            embedding_width=width,
            initializer=keras.initializers.RandomNormal(stddev=width**-0.5),
            scale_factor=width**0.5,
        )
        layer.build((None, None))
        return layer

    @override
    def build(self, input_shape: Any = None) -> None:
        """Does nothing: all weights were made by the constructor."""

    @property
    def encoder(self) -> TransformerEncoder:
        """The encoder."""
        return self.encoder_layer

    @property
    def decoder(self) -> TransformerDecoder:
        """The decoder."""
        return self.decoder_layer

    @property
    def position_embedding(self) -> keras.layers.Layer:
        """A layer that gives the sinusoids of positions, which the model adds to embeddings."""
        return layers.RelativePositionEmbedding(hidden_size=self.embedding_width)

    @property
    def embedding(self) -> keras.Variable:
        """The embeddings `[V, D]` of the source."""
        return self.embedding_lookup.embeddings

    @property
    def target_embedding(self) -> keras.Variable | None:
        """The embeddings of the target, where it has its own."""
        lookup = self.target_embedding_lookup
        return None if lookup is None else lookup.embeddings

    @override
    def call(
        self, inputs: Mapping[str, Any], training: bool = False, *, search: bool = False
    ) -> Any:
        """Computes the logits of given targets, or searches for an output, or both.

        Args:
            inputs: `inputs`, `[B, S]` ids padded with 0, or in place of them `embedded_inputs`,
                `[B, S, D]`, and `input_masks`, `[B, S]`, true at tokens; and `targets`, `[B, T]`
                ids padded with 0, or nothing.
            training: Whether to apply dropout.
            search: Whether to search though there are targets; the source is encoded once for both.

        Returns:
            With targets, `[B, T, V]` float32 logits, each from the targets before its position.
            Without, `outputs`, `[B, L]` int32 ids padded with 0, and `scores`, `[B]` float32.
            With targets and `search`, a dictionary of `logits`, `outputs` and `scores`.

        Raises:
            KeyError: If there is no source.
        """
        target = inputs.get("targets")
        is_token = self._find_tokens(inputs)  # [B, S]
        wanted = bool(training) and self.skip_padding and target is not None
        rows = packed_rows.find(is_token, is_wanted=wanted and "inputs" in inputs)
        memory = self._encode(inputs, is_token, rows)
        if target is None:
            return self._search(is_token, memory)
        logits = self._predict(target, memory, is_token, rows, wanted)
        if not search:
            return logits
        memory = memory if rows is None else rows.spread(memory)
        return {"logits": logits, **self._search(is_token, memory)}

    def _find_tokens(self, inputs: Mapping[str, Any]) -> tf.Tensor:
        """Returns where a source `[B, S]` is not padding."""
        if inputs.get("inputs") is not None:
            return tf.not_equal(inputs["inputs"], PAD_ID)
        if inputs.get("embedded_inputs") is None or inputs.get("input_masks") is None:
            raise KeyError(
                f"inputs: got {', '.join(inputs) or 'nothing'}, expected `inputs`, or "
                "`embedded_inputs` and `input_masks`."
            )
        return tf.cast(inputs["input_masks"], tf.bool)

    def _encode(
        self,
        inputs: Mapping[str, Any],
        is_token: tf.Tensor,
        rows: packed_rows.PackedRows | None = None,
    ) -> tf.Tensor:
        """Returns the memory `[B, S, D]` of a source, or its `rows` `[N, D]`."""
        if inputs.get("inputs") is not None:
            x = self._embed_in_place(inputs["inputs"], rows)
        else:
            embedded = tf.cast(inputs["embedded_inputs"], self.compute_dtype)
            embedded *= tf.cast(is_token, embedded.dtype)[..., tf.newaxis]
            x = embedded + self._encode_positions(tf.range(tf.shape(embedded)[1]))
        mask = self._to_mask(is_token)  # [B, 1, S]
        where = {} if rows is None else {"rows": rows}
        return self.encoder_layer(self.encoder_dropout(x), attention_mask=mask, **where)

    def _predict(
        self,
        target: tf.Tensor,
        memory: tf.Tensor,
        is_token: tf.Tensor,
        memory_rows: packed_rows.PackedRows | None,
        is_packed: bool,
    ) -> tf.Tensor:
        length = tf.shape(target)[1]
        is_packed = is_packed and memory_rows is not None
        rows = packed_rows.find(tf.not_equal(target, PAD_ID), is_wanted=is_packed)
        shifted = tf.pad(target, [[0, 0], [1, 0]])[:, :-1]  # [B, T]
        x = self._embed_in_place(shifted, rows, is_target=True)
        mask = tf.linalg.band_part(tf.ones([1, length, length], self.compute_dtype), -1, 0)
        where = {} if rows is None else {"rows": rows, "memory_rows": memory_rows}
        outputs = self.decoder_layer(
            self.decoder_dropout(x),
            memory,
            self_attention_mask=mask,  # [1, T, T]
            cross_attention_mask=self._to_mask(is_token),
            **where,
        )
        return self.compute_logits(outputs if rows is None else rows.spread(outputs))

    def decode(
        self,
        source: tf.Tensor,
        options: decoding.DecodingOptions | None = None,
        *,
        prefix: tf.Tensor | None = None,
        seed: tf.Tensor | None = None,
        weights: int8_weights.Int8Model | None = None,
    ) -> dict[str, tf.Tensor]:
        """Finds outputs for sources `[B, S]`, ids padded with 0.

        Args:
            source: The sources.
            options: How to; None for the model's own settings.
            prefix: `[B, P]` ids padded with 0: what outputs start with. None for nothing.
            seed: `[2]` integers: equal ones draw the same samples from the same batch.
            weights: This model's, rounded before, where `options` ask for int8.

        Returns:
            `outputs`, `[B, N, L]` int32 ids padded with 0, and `scores`, `[B, N]` float32, best
            first, N being `options.num_outputs`. Where fewer were found, the last scores are at
            most `candidate_loop.WORST_SCORE`.
        """
        options = options or self.decoding
        scope: Any = contextlib.nullcontext()
        if options.precision == "int8":
            scope = (weights or int8_weights.Int8Model(self)).scope()
        with scope:
            is_token = self._find_tokens({"inputs": source})
            memory = self._encode({"inputs": source}, is_token)
            return self._decode(is_token, memory, options, prefix, seed)

    def _search(self, is_token: tf.Tensor, memory: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the best output `[B, L]` of each source, and its score `[B]`."""
        found = self._decode(is_token, memory, self.decoding)
        return {"outputs": found["outputs"][:, 0], "scores": found["scores"][:, 0]}

    def _decode(
        self,
        is_token: tf.Tensor,
        memory: tf.Tensor,
        options: decoding.DecodingOptions,
        prefix: tf.Tensor | None = None,
        seed: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        is_known = self.decoder_layer.is_fused and own_classes.decodes_as_known(self)
        # Blocks of any class compute in the type that they were made for.
        predictor: candidate_loop.Predictor = step_decoder.StepDecoder(self)
        if is_known:
            precision = None if options.precision == "int8" else options.precision
            predictor = cached_decoder.CachedDecoder(self, precision)
        loop = options.build_loop(
            predictor,
            eos_ids=(self.eos_id,) if isinstance(self.eos_id, int) else tuple(self.eos_id),
            max_length=self._limit_lengths(is_token, prefix),
            has_fixed_shapes=self.padded_decode,
            seed=seed,
        )
        initial_ids = tf.zeros([tf.shape(memory)[0]], tf.int32)  # [B]
        ids, scores = loop.run(initial_ids, (memory, self._to_mask(is_token)), prefix)
        num_outputs = options.num_outputs
        return {"outputs": ids[:, :num_outputs, 1:], "scores": scores[:, :num_outputs]}

    def _limit_lengths(self, is_token: tf.Tensor, prefix: tf.Tensor | None) -> int | tf.Tensor:
        """Returns how long outputs may be; each source's own limit, whatever batch it is in."""
        if self.padded_decode:
            return self.decode_max_length
        if self.decode_max_length is None:
            limit = tf.math.count_nonzero(is_token, axis=1, dtype=tf.int32)  # [B]
            limit += self.extra_decode_length
        else:
            limit = tf.fill([tf.shape(is_token)[0]], self.decode_max_length)  # [B]
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
        own = self.target_embedding
        return self.embedding if own is None else own

    def list_width_exponents(self) -> list[tuple[keras.Variable, float]]:
        """Returns how weights differ from others in `optimization.width_transfer`.

        Embeddings are small by the root of the width, which multiplies them. As outputs they are
        multiplied by the last normalisation's weights, which makes up for the same.
        """
        last = self.decoder_layer.output_normalization
        return [(one, -0.5) for one in (self.embedding, self.output_embedding, *last.weights)]

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

    def compute_logits(self, outputs: tf.Tensor) -> tf.Tensor:
        """Returns the logits `[B, T, V]` float32 of the decoder's outputs `[B, T, D]`."""
        table = tf.cast(tf.convert_to_tensor(self.output_embedding), self.compute_dtype)
        flat = tf.reshape(tf.cast(outputs, table.dtype), [-1, self.embedding_width])  # [B * T, D]
        logits = projection.multiply_by_table(flat, table)  # [B * T, V]
        shape = tf.shape(outputs)
        logits = tf.reshape(logits, [shape[0], shape[1], self.target_vocab_size])
        return casts.widen(logits)

    def _to_mask(self, is_token: tf.Tensor) -> tf.Tensor:
        """Returns `[B, 1, S]`, 1 at tokens and 0 at padding."""
        return tf.cast(is_token, self.compute_dtype)[:, tf.newaxis]
