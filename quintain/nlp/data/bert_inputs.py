"""Preprocessing of texts to the inputs of a BERT encoder, inside the graph.

Shapes:
    N  examples
    S  positions
"""

from collections.abc import Mapping, Sequence

import tensorflow as tf

from quintain import errors
from quintain.nlp.data import text_operations
from quintain.nlp.data.masked import bert_vocabulary


class TextProcessor(tf.Module):
    """Makes `[CLS] first [SEP] second [SEP]`, of one text or several, padded to a fixed length.

    Texts that are too long together are cut at their ends, the longest first.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/vocab.txt"
        >>> with open(path, "w") as file:
        ...     _ = file.write("[PAD] [UNK] [CLS] [SEP] to be or not".replace(" ", chr(10)))
        >>> inputs = TextProcessor(seq_length=6, vocab_file=path)([tf.constant(["To be or not"])])
        >>> inputs["input_word_ids"].numpy().tolist()
        [[2, 4, 5, 6, 7, 3]]
    """

    def __init__(
        self,
        seq_length: int,
        vocab_file: str = "",
        tokenization: bert_vocabulary.Tokenization = "WordPiece",
        lower_case: bool = True,
        preprocessing_hub_module_url: str | None = None,
        *,
        vocabulary: bert_vocabulary.BertVocabulary | None = None,
    ) -> None:
        """Loads the vocabulary.

        Args:
            seq_length: Positions of an example.
            vocab_file: WordPiece text file or SentencePiece model.
            tokenization: Which of the two it is.
            lower_case: Whether case does not count.
            preprocessing_hub_module_url: Must be empty.
            vocabulary: A loaded vocabulary, instead of the file.

        Raises:
            ConfigError: If the vocabulary can't be used, or a module of TensorFlow Hub is given.
            DataError: If its file is missing or of another kind.
        """
        super().__init__(name="text_processor")
        if preprocessing_hub_module_url:
            raise errors.ConfigError(
                f"preprocessing_hub_module_url: got {preprocessing_hub_module_url!r}; modules of "
                "TensorFlow Hub are not loaded. Give the vocabulary as vocab_file."
            )
        self.seq_length = seq_length
        self.vocabulary = vocabulary or bert_vocabulary.load(
            vocab_file, tokenization, lower_case=lower_case
        )
        self._cls_id, self._sep_id = self.vocabulary.cls_id, self.vocabulary.sep_id

    def __call__(self, segments: Sequence[tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns the inputs of texts.

        Args:
            segments: One tensor of strings for each text field, all `[N]`, or all scalars.

        Returns:
            `input_word_ids`, `input_mask` (1 for tokens) and `input_type_ids` (the number of the
            text field), each `[N, S]` int32, or `[S]` for scalars.

        Raises:
            ConfigError: If the sequence is too short for the special tokens.
        """
        num_special = len(segments) + 1
        if self.seq_length <= num_special:
            raise errors.ConfigError(
                f"seq_length: got {self.seq_length}, expected more than the {num_special} special "
                f"tokens around {len(segments)} texts."
            )
        is_single = segments[0].shape.rank == 0
        texts = [tf.reshape(segment, [-1]) for segment in segments]
        tokens = [self.vocabulary.tokenize(text) for text in texts]
        ids, types = text_operations.combine_segments(
            trim(tokens, self.seq_length - num_special),
            start_of_sequence_id=self._cls_id,
            end_of_segment_id=self._sep_id,
        )
        inputs = {
            "input_word_ids": ids.to_tensor(shape=[None, self.seq_length]),
            "input_mask": tf.ones_like(ids).to_tensor(shape=[None, self.seq_length]),
            "input_type_ids": types.to_tensor(shape=[None, self.seq_length]),
        }
        inputs = {name: tf.cast(value, tf.int32) for name, value in inputs.items()}
        return {name: value[0] for name, value in inputs.items()} if is_single else inputs


def trim(segments: Sequence[tf.RaggedTensor], num_tokens: int) -> list[tf.RaggedTensor]:
    """Cuts segments at their ends, the longest first, until they have `num_tokens` in all.

    Example:
        >>> first, second = tf.ragged.constant([[1, 2]]), tf.ragged.constant([[3, 4, 5, 6]])
        >>> [segment.to_list() for segment in trim([first, second], 4)]
        [[[1, 2]], [[3, 4]]]
    """
    lengths = tf.stack([tf.cast(part.row_lengths(), tf.int32) for part in segments], axis=1)
    in_order = tf.sort(lengths, axis=1)
    shares = (num_tokens - tf.cumsum(in_order, axis=1, exclusive=True)) // tf.range(
        len(segments), 0, -1
    )
    # The first segment that is longer than its share of what the shorter ones leave gets that, and
    # so do all longer ones; tokens that are left over go to the first of them.
    is_long = in_order > shares
    first = tf.argmax(tf.cast(is_long, tf.int32), axis=1)
    level = tf.where(
        tf.reduce_any(is_long, axis=1), tf.gather(shares, first, batch_dims=1), num_tokens
    )
    kept = tf.minimum(lengths, level[:, tf.newaxis])
    is_cut = lengths > kept
    turn = tf.cumsum(tf.cast(is_cut, tf.int32), axis=1, exclusive=True)
    left = num_tokens - tf.reduce_sum(kept, axis=1, keepdims=True)
    kept += tf.cast(is_cut & (turn < left), tf.int32)
    return [
        tf.RaggedTensor.from_tensor(part.to_tensor(), lengths=kept[:, index])
        for index, part in enumerate(segments)
    ]


def repeat_dummy(
    num_positions: int, others: Mapping[str, tf.Tensor], *, is_training: bool | None
) -> tf.data.Dataset:
    """Returns batches of one example whose words are zeros, to try a model without data.

    In training there is no end; otherwise there are two batches. `others` are in each as well.
    """
    words = tf.zeros([1, num_positions], tf.int32)  # [1, S]
    batch = {"input_word_ids": words, "input_mask": tf.ones_like(words), "input_type_ids": words}
    return tf.data.Dataset.from_tensors({**batch, **others}).repeat(None if is_training else 2)
