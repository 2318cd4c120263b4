"""An exported translation model with the methods of a model and of a tokenizer."""

from typing import Any

import tensorflow as tf

from quintain.nlp.modeling.ops import decoding
from quintain.serving import exporter


class ExportedTranslation:
    """Stands for the model and for the tokenizer that were exported."""

    def __init__(self, directory: str) -> None:
        """Loads an export.

        Args:
            directory: What `quintain export` wrote.

        Raises:
            CheckpointError: If it is no export, or a damaged one.
            ConfigError: If the model does something else than translate.
        """
        description = exporter.Description.read_kind(directory, "translation")
        self.decoding = decoding.DecodingOptions(**description.decoding)
        """How it searches."""
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
        """Finds outputs for sources `[B, S]`; see `Seq2SeqTransformer.decode`.

        Args:
            source: Ids, padded with 0.
            options: Those of the export.
            prefix: None; the translator sees to it.
            seed: Not used; the export draws as it likes.
        """
        del options, prefix, seed
        return self._loaded.serve_tokens(source)
