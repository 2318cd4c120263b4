"""Translates text with a trained model: everything it needs is in the run's directory."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from quintain import errors
from quintain.kernels import modes
from quintain.kernels import translation as kernel_translation
from quintain.nlp.data import tokenizers
from quintain.nlp.modeling import int8_weights
from quintain.nlp.modeling.models import seq2seq_transformer
from quintain.nlp.modeling.ops import candidate_loop, decoding, native_search, sampler
from quintain.nlp.tasks import translation
from quintain.serving import (
    exporter,
    search_pool,
    source_batches,
    text_tensors,
    trained_run,
)

BATCH_SIZE: Final = 64
"""Sentences translated together unless the caller says otherwise."""

SourceTooLongError = source_batches.SourceTooLongError
_stack = source_batches.stack

MAX_SOURCE_LENGTH: Final = exporter.MAX_SOURCE_LENGTH
"""Most tokens of a sentence unless the caller says otherwise: memory grows by the square."""


class ExportedTranslation:
    """Stands for the model and for the tokenizer that were exported."""

    def __init__(self, directory: str) -> None:
        """Loads an export.

        Raises:
            CheckpointError: If it is no export, or a damaged one.
            ConfigError: If the model does something else than translate.
        """
        description = exporter.Description.read_kind(directory, "translation")
        self.decoding = decoding.DecodingOptions(**description.decoding)
        """Options of its search."""
        self.max_source_length = description.max_source_length
        """Most tokens of a source."""
        self._loaded = exporter.load_saved_model(directory)

    def tokenize(self, sentences: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids of sentences `[N]`; see `SentencePieceTokenizer.tokenize`."""
        return self._loaded.tokenize(sentences)

    def detokenize(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns the texts `[N]` of ids `[N, L]`, padded with 0."""
        return self._loaded.detokenize(ids)

    def decode(
        self,
        source: tf.Tensor,
        options: decoding.DecodingOptions | None = None,
        *,
        prefix: tf.Tensor | None = None,
        seed: tf.Tensor | None = None,
    ) -> dict[str, Any]:
        """Finds outputs for sources `[B, S]`, padded with 0, by the options of the export."""
        del options, prefix, seed
        return self._loaded.serve_tokens(source)


@dataclasses.dataclass(frozen=True)
class Translation:
    """A translation and how sure the model is of it."""

    text: str
    """The text."""

    score: float
    """Its length-normalised log-probability."""


class Translator:
    """Translates sentences by beam search, or by sampling.

    Example:
        translator = Translator.load("runs/local")
        translator.translate(["twenty-one", "the third of May"])
    """

    def __init__(
        self,
        model: seq2seq_transformer.Seq2SeqTransformer,
        tokenizer: tokenizers.SentencePieceTokenizer,
        target_tokenizer: tokenizers.SentencePieceTokenizer | None = None,
        *,
        kernels: modes.KernelMode = modes.KernelMode.AUTO,
    ) -> None:
        """Stores the parts.

        Args:
            model: The model.
            tokenizer: The tokenizer that the model was trained with.
            target_tokenizer: That of the target, if it has another.
            kernels: Whether native code may be used; where it can't be, it is not.
        """
        self._model = model
        self._tokenizer = tokenizer
        self._target_tokenizer = target_tokenizer or tokenizer
        self._searches = _Searches(model, kernels)

    @classmethod
    def from_model_dir(
        cls,
        model_dir: str,
        *,
        checkpoint: str | None = None,
        beam_size: int | None = None,
        alpha: float | None = None,
    ) -> "Translator":
        """Returns a translator with the weights of a run.

        Args:
            model_dir: The run's directory, with `params.yaml`, `vocabulary.model` and checkpoints.
            checkpoint: Checkpoint to use, such as `runs/local/ckpt-800`. None takes the newest.
            beam_size: Translations kept while searching. None takes the run's own.
            alpha: Strength of the length normalisation. None takes the run's own.

        Raises:
            CheckpointError: If the directory holds no checkpoint or vocabulary, or `checkpoint`
                does not exist or does not fit.
            ConfigError: If the run's `params.yaml` is missing or describes no translation.
        """
        given: dict[str, Any] = {"beam_size": beam_size, "alpha": alpha}
        search = {name: value for name, value in given.items() if value is not None}
        kinds, overrides = (translation.TranslationConfig,), {"model": search}
        run = trained_run.load(model_dir, kinds, checkpoint=checkpoint, overrides=overrides)
        task: Any = run.task
        return cls(run.model, task.tokenizer, task.target_tokenizer, kernels=run.kernels)

    @classmethod
    def from_export(cls, directory: str) -> "Translator":
        """Returns a translator of a directory that `quintain export` wrote.

        It searches as it was exported to: `translate` takes no options of decoding or prefixes.

        Raises:
            CheckpointError: If the directory holds no export, or a damaged one.
            ConfigError: If the exported model does something else.
        """
        model: Any = ExportedTranslation(directory)
        return cls(model, model)

    @classmethod
    def load(cls, model_dir: str, *, checkpoint: str | None = None) -> "Translator":
        """Returns the translator of a run's directory, or of one that `quintain export` wrote.

        Raises:
            CheckpointError: As for `from_model_dir` and `from_export`.
            ConfigError: Likewise, or if `checkpoint` is given for an export.
        """
        if not exporter.is_export(model_dir):
            return cls.from_model_dir(model_dir, checkpoint=checkpoint)
        exporter.refuse_checkpoint(checkpoint)
        return cls.from_export(model_dir)

    def choose_max_source_length(self, wanted: int | None = None) -> int:
        """Returns how many tokens a sentence may have.

        Args:
            wanted: So many; None takes the limit of an export, or `MAX_SOURCE_LENGTH`.

        Raises:
            ConfigError: If the model was exported for shorter sentences.
        """
        if not isinstance(self._model, ExportedTranslation):
            return MAX_SOURCE_LENGTH if wanted is None else wanted
        most = self._model.max_source_length
        if wanted is not None and wanted > most:
            raise errors.ConfigError(
                f"max_source_length: got {wanted}, but the model was exported for at most {most} "
                "tokens. Export it anew, or give the run's directory."
            )
        return most if wanted is None else wanted

    def choose_options(self, **options: Any) -> decoding.DecodingOptions:
        """Returns how it searches, with some options replaced.

        Raises:
            ConfigError: If there is no such option, its value is out of its range, or the model was
                exported to search in another way.
        """
        own = self._model.decoding
        chosen = own.override(**options)
        if chosen != own and isinstance(self._model, ExportedTranslation):
            changed = ", ".join(
                name for name in options if getattr(chosen, name) != getattr(own, name)
            )
            raise errors.ConfigError(
                f"{changed}: an exported model searches as it was exported to. Export it anew with "
                "other options, or give the run's directory."
            )
        return chosen

    def is_native(self, options: decoding.DecodingOptions) -> bool:
        """Returns whether native code searches; several threads may then translate together."""
        return self._searches.find_pool(options) is not None

    def translate(
        self,
        sentences: Sequence[str],
        batch_size: int = BATCH_SIZE,
        *,
        prefixes: Sequence[str] | None = None,
        max_source_length: int | None = None,
        seed: int | None = None,
        **options: Any,
    ) -> list[str]:
        """Translates sentences.

        Sentences of similar length are translated together, which saves padding.

        Args:
            sentences: Texts to translate, one sentence each. Blank ones, and those without
                any token, become empty ones.
            batch_size: Sentences translated at the same time. Very long ones come in smaller
                batches.
            prefixes: For each sentence, the text that its translation starts with; "" for none.
            max_source_length: Most tokens of a sentence; see `choose_max_source_length`.
            seed: Seed of samples. The same sentences with the same `batch_size` and seed give the
                same translations; None gives others every time.
            **options: Fields of `decoding.DecodingOptions`; those left out are the model's own.

        Returns:
            The best translations, in the order of `sentences`.

        Raises:
            ValueError: If `batch_size` is less than 1, or there are not as many prefixes as
                sentences.
            ConfigError: If an option is unknown or out of its range, or does not apply to an
                export.
            DataError: If a sentence is no text that can be written as UTF-8.
            SourceTooLongError: If a sentence has more tokens than `max_source_length`.
        """
        found = self.translate_with_scores(
            sentences,
            batch_size,
            prefixes=prefixes,
            max_source_length=max_source_length,
            seed=seed,
            **options,
        )
        return [translations[0].text for translations in found]

    def translate_with_scores(
        self,
        sentences: Sequence[str],
        batch_size: int = BATCH_SIZE,
        *,
        prefixes: Sequence[str] | None = None,
        max_source_length: int | None = None,
        seed: int | None = None,
        is_wanted: Callable[[], bool] = lambda: True,
        **options: Any,
    ) -> list[list[Translation]]:
        """Translates sentences in several ways, `num_outputs` of each.

        Args:
            sentences: As for `translate`, and the others too.
            batch_size: See there.
            prefixes: See there.
            max_source_length: See there.
            seed: See there.
            is_wanted: Whether somebody waits for the translations; where nobody does any more, what
                native code has not begun is left out.
            **options: See there.

        Returns:
            For each sentence its translations, the best first; samples in the order that they were
            drawn. Fewer than `num_outputs` where the search found no more.

        Raises:
            ValueError: As for `translate`.
            ConfigError: As for `translate`.
            DataError: As for `translate`.
            SourceTooLongError: As for `translate`.
            CancelledError: If nobody waits any more.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size: got {batch_size!r}, expected an integer >= 1.")
        if prefixes is not None and len(prefixes) != len(sentences):
            raise ValueError(
                f"prefixes: got {len(prefixes)} for {len(sentences)} sentences, expected as many."
            )
        settings = self.choose_options(**options)
        self._check_export(prefixes, seed)
        sources = self._tokenize(sentences, self.choose_max_source_length(max_source_length))
        starts = self._tokenize_prefixes(prefixes)
        found = [[Translation("", 0.0)] for _ in sentences]
        # What has no token but the end, such as a mark of the byte order, is blank as well.
        order = [
            place
            for place, text in enumerate(sentences)
            if text.strip() and len(sources[place]) > 1
        ]
        order.sort(key=lambda place: -len(sources[place]))
        pool = self._searches.find_pool(settings)
        if pool is not None and order:
            outputs = pool.run(
                [sources[place] for place in order],
                [None if starts is None else starts[place] for place in order],
                batch_size,
                is_wanted,
            )
            for place, ways in zip(order, self._detokenize(outputs), strict=True):
                found[place] = ways
            return found
        for number, places in enumerate(source_batches.cut(order, sources, batch_size)):
            translations = self._translate_batch(
                _stack([sources[place] for place in places]),
                None if starts is None else _stack([starts[place] for place in places]),
                settings,
                None if seed is None else seed + number,
            )
            for place, ways in zip(places, translations, strict=True):
                found[place] = ways
        return found

    def translate_stream(
        self,
        sentences: Iterable[str],
        batch_size: int = BATCH_SIZE,
        *,
        window: int | None = None,
        **options: Any,
    ) -> Iterator[str]:
        """Yields translations one by one, reading a window of sentences ahead.

        Args:
            sentences: Texts to translate, such as the lines of a file too large for memory.
            batch_size: Sentences translated at the same time.
            window: Sentences read ahead; those of similar length among them are translated
                together. None reads `batch_size`.
            **options: As for `translate`, without prefixes.
        """
        waiting: list[str] = []
        for sentence in sentences:
            waiting.append(sentence)
            if len(waiting) == (window or batch_size):
                yield from self.translate(waiting, batch_size, **options)
                waiting = []
        yield from self.translate(waiting, batch_size, **options)

    def count_tokens(self, sentences: Sequence[str], *, is_target: bool = False) -> list[int]:
        """Returns how many tokens each sentence, or translation, has, its end included."""
        if not sentences:
            return []
        tokenizer = self._target_tokenizer if is_target else self._tokenizer
        lengths = tokenizer.tokenize(text_tensors.build(sentences)).row_lengths()
        return [int(length) for length in lengths.numpy()]

    def _tokenize(
        self, sentences: Sequence[str], limit: int, *, is_target: bool = False
    ) -> list[np.ndarray]:
        if not sentences:
            return []
        tokenizer = self._target_tokenizer if is_target else self._tokenizer
        tokens = tokenizer.tokenize(text_tensors.build(sentences))
        splits = tokens.row_splits.numpy()
        lengths = np.diff(splits)
        for place, length in enumerate(lengths):
            if length > limit:
                raise SourceTooLongError(place, int(length), limit)
        return np.split(tokens.values.numpy(), splits[1:-1])

    def _check_export(self, prefixes: Sequence[str] | None, seed: int | None) -> None:
        """Refuses what an export can't do."""
        if not isinstance(self._model, ExportedTranslation):
            return
        if prefixes and any(prefixes):
            raise errors.ConfigError(
                "prefixes: an exported model takes none; give the run's directory."
            )
        if seed is not None:
            raise errors.ConfigError(
                "seed: an exported model draws as it likes; give the run's directory."
            )

    def _tokenize_prefixes(self, prefixes: Sequence[str] | None) -> list[np.ndarray] | None:
        """Returns the tokens of prefixes, without the ends; None if all are empty."""
        if not prefixes or not any(prefixes):
            return None
        return [
            tokens[:-1] if prefix else tokens[:0]
            for prefix, tokens in zip(
                prefixes,
                self._tokenize(prefixes, MAX_SOURCE_LENGTH, is_target=True),
                strict=True,
            )
        ]

    def _translate_batch(
        self,
        inputs: np.ndarray,
        prefix: np.ndarray | None,
        options: decoding.DecodingOptions,
        seed: int | None,
    ) -> list[list[Translation]]:
        search = self._searches.get_graph(options, has_prefix=prefix is not None)
        arguments = [inputs] if prefix is None else [inputs, prefix]
        found = search(sampler.build_seed(seed), *arguments)
        ids, scores = found["outputs"], found["scores"].numpy()  # [B, N, L], [B, N]
        texts = self._target_tokenizer.detokenize(tf.reshape(ids, [-1, tf.shape(ids)[2]])).numpy()
        texts = texts.reshape(scores.shape)
        return [
            [
                Translation(text.decode(errors="replace"), float(score))
                for text, score in zip(row_texts, row_scores, strict=True)
                if score > candidate_loop.WORST_SCORE
            ]
            or [Translation("", float("-inf"))]
            for row_texts, row_scores in zip(texts, scores, strict=True)
        ]

    def _detokenize(self, outputs: Sequence[kernel_translation.Found]) -> list[list[Translation]]:
        """Returns the texts of what native searches found."""
        rows = [ids for found in outputs for ids in found.ids]
        if not rows:
            return [[Translation("", float("-inf"))] for _ in outputs]
        texts = iter(self._target_tokenizer.detokenize_rows(rows))
        return [
            [Translation(next(texts).decode(errors="replace"), score) for score in found.scores]
            or [Translation("", float("-inf"))]
            for found in outputs
        ]


class _Searches:
    """The searches of a model, each kept for the next sentences with the same options."""

    def __init__(self, model: Any, kernels: modes.KernelMode) -> None:
        self._model = model
        self._is_export = isinstance(model, ExportedTranslation)
        self._is_native = kernels is not modes.KernelMode.TENSORFLOW and not self._is_export
        self._graphs: dict[tuple[decoding.DecodingOptions, bool], Any] = {}
        self._pools: dict[decoding.DecodingOptions, search_pool.SearchPool | None] = {}
        self._weights: int8_weights.Int8Model | None = None

    def find_pool(self, options: decoding.DecodingOptions) -> search_pool.SearchPool | None:
        """Returns the native searches of some options; None where there are none."""
        if not self._is_native:
            return None
        if options not in self._pools:
            reason = native_search.find_reason(self._model, options)
            self._pools[options] = None if reason else search_pool.SearchPool(self._model, options)
        return self._pools[options]

    def get_graph(self, options: decoding.DecodingOptions, *, has_prefix: bool) -> Any:
        """Returns the graph of some options; one for all shapes, so that none is traced anew."""
        key = (options, has_prefix)
        if key not in self._graphs:
            ids = tf.TensorSpec([None, None], tf.int32)
            weights: dict[str, Any] = {}
            if options.precision == "int8" and not self._is_export:
                self._weights = self._weights or int8_weights.Int8Model(self._model)
                weights = {"weights": self._weights}

            def search(seed: tf.Tensor, source: tf.Tensor, prefix: Any = None) -> Any:
                return self._model.decode(source, options, prefix=prefix, seed=seed, **weights)

            signature = [tf.TensorSpec([2], tf.int32), ids, *([ids] if has_prefix else [])]
            self._graphs[key] = tf.function(search, input_signature=signature)
        return self._graphs[key]
