"""Heads of pretrained models: how examples become inputs, labels and weights.

Shapes:
    B  examples in the batch
    S  positions
    M  masked positions
"""

import abc
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import keras
import numpy as np
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.files import file_io
from quintain.hub import configs, presets, records
from quintain.modeling import token_metrics
from quintain.vision import image_data

LABEL: Final = "label"
WEIGHT: Final = "weight"
TEACHER: Final = "teacher"

ANY_IMAGE: Final = image_data.Format(1, 1, 3, "stretch")
"""Colours of any size, to find damaged images by."""

Columns = dict[str, Any]
Batch = Mapping[str, tf.Tensor]


class Head(abc.ABC):
    """Purpose of a model: its outputs, and the labels that they are compared with.

    Args:
        config: The task's config.
    """

    task_name: ClassVar[str]
    """Class of KerasHub, and the beginning of the name of its preprocessor."""

    has_classes: ClassVar[bool] = True

    def __init__(self, config: configs.HubConfig) -> None:
        self.config = config
        self.label_names = list(config.label_names) if config.label_names else None
        self.num_classes = config.model.num_classes or len(self.label_names or ())
        self._preprocessor: Any = None

    @property
    def preprocessor(self) -> Any:
        """The preset's preprocessor."""
        if self._preprocessor is None:
            model = self.config.model
            self._preprocessor = presets.load_preprocessor(
                model.preset, self.task_name, model.sequence_length
            )
        return self._preprocessor

    def list_names(self) -> list[str]:
        """Returns the names of the classes, or their numbers where they have none."""
        return self.label_names or [str(number) for number in range(self.num_classes)]

    def build_model(self, config: configs.ModelConfig) -> keras.Model:
        """Loads the model of a preset with this head."""
        num_classes = self.num_classes if self.has_classes else 0
        return presets.load_model(config, self.task_name, num_classes)

    def build_metrics(self) -> list[keras.metrics.Metric]:
        """Returns the metrics, which are given labels, outputs and weights."""
        return [token_metrics.TokenAccuracy("accuracy")]

    @abc.abstractmethod
    def read(self, params: configs.HubDataConfig) -> Columns:
        """Reads and checks the examples of a data set, as columns by their names.

        Raises:
            DataError: If one is wrong, with file and line.
        """

    @abc.abstractmethod
    def preprocess(self, batch: Batch, params: configs.HubDataConfig) -> tuple[Any, Columns]:
        """Maps a batch of columns to the inputs of the model, and to labels and their weights."""

    def parse(self, example: Batch) -> Batch:
        """Maps an example before it is batched. The default does nothing."""
        return example

    def _read_rows(self, params: configs.HubDataConfig) -> Iterator[records.Row]:
        return records.read_data(params)

    def _take_class(self, place: str, label: Any, field: str) -> int:
        return records.take_label(place, label, self.label_names, self.num_classes, field)


class TextClassification(Head):
    """Classes of texts, or of pairs of texts."""

    task_name = "TextClassifier"

    @override
    def read(self, params: configs.HubDataConfig) -> Columns:
        texts: list[list[str]] = []
        labels = []
        for place, row in self._read_rows(params):
            texts.append([records.take_text(place, row, field) for field in params.fields])
            label = row.get(params.label_field)
            labels.append(self._take_class(place, label, params.label_field))
        return {"texts": texts, LABEL: labels}

    @override
    def preprocess(self, batch: Batch, params: configs.HubDataConfig) -> tuple[Any, Columns]:
        label = tf.cast(batch[LABEL], tf.int32)  # [B]
        inputs = self.tokenize(batch["texts"], len(params.fields))
        return inputs, {LABEL: label, WEIGHT: tf.ones_like(label, tf.float32)}

    def tokenize(self, texts: tf.Tensor, num_fields: int) -> dict[str, tf.Tensor]:
        """Maps texts `[B, num_fields]` to the inputs of the model."""
        fields = tuple(tf.unstack(texts, num_fields, axis=1))
        inputs: dict[str, tf.Tensor] = self.preprocessor(fields if num_fields > 1 else fields[0])
        length = self.config.model.sequence_length
        return {
            name: tf.ensure_shape(tf.convert_to_tensor(part), [None, length])
            for name, part in inputs.items()
        }


class TokenClassification(Head):
    """Classes of words, told by the first piece of each."""

    task_name = "TokenClassifier"

    @property
    @override
    def preprocessor(self) -> Any:
        if self._preprocessor is None:
            self._preprocessor = presets.load_tokenizer(self.config.model.preset)
        return self._preprocessor

    @override
    def build_model(self, config: configs.ModelConfig) -> keras.Model:
        """Puts a dense layer on the outputs of a backbone; KerasHub has no such task."""
        if not self.num_classes:
            raise errors.ConfigError(
                "task.label_names: got none, expected the classes of words, such as ['O', 'NAME']."
            )
        backbone = presets.load_backbone(config)
        hidden = backbone(backbone.input)
        hidden = hidden["sequence_output"] if isinstance(hidden, dict) else hidden  # [B, S, H]
        if len(hidden.shape) != 3 or not isinstance(backbone.input, dict):
            raise errors.ConfigError(
                f"task.model.head: got {config.head!r}, but {config.preset!r} is a "
                f"{type(backbone).__name__}, which reads no tokens. Choose another preset."
            )
        logits = keras.layers.Dense(self.num_classes, name="logits", dtype=backbone.dtype_policy)
        return keras.Model(backbone.input, logits(hidden), name="token_classifier")

    @override
    def read(self, params: configs.HubDataConfig) -> Columns:
        (field,), rows = params.fields, []
        for place, row in self._read_rows(params):
            words, labels = row.get(field), row.get(params.label_field)
            are_lists = isinstance(words, list) and isinstance(labels, list)
            if not are_lists or not words or len(words) != len(labels or ()):
                raise errors.DataError(
                    f"{place}: {field}, {params.label_field}: got {errors.show(words)} and "
                    f"{errors.show(labels)}, expected a list of words and one of as many classes."
                )
            ids = [self._take_class(place, label, params.label_field) for label in labels or ()]
            rows.append(self._align([str(word) for word in words], ids))
        token_ids, labels, weights = (np.stack(part) for part in zip(*rows, strict=True))
        return {"token_ids": token_ids, LABEL: labels, WEIGHT: weights}

    def _align(
        self, words: Sequence[str], labels: Sequence[int]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns ids, labels and weights of the pieces `[S]`; only first pieces count."""
        tokenizer, length = self.preprocessor, self.config.model.sequence_length
        start = getattr(tokenizer, "start_token_id", None)
        end = getattr(tokenizer, "end_token_id", None)
        ids, classes, weights = ([] if start is None else [start]), [0], [0.0]
        classes, weights = classes[: len(ids)], weights[: len(ids)]
        for number, (word, label) in enumerate(zip(words, labels, strict=True)):
            # Pieces of a byte-pair vocabulary differ within a text by the space before.
            pieces = np.asarray(tokenizer(word if number == 0 else f" {word}")).tolist()
            ids += pieces
            classes += [label] + [0] * (len(pieces) - 1) if pieces else []
            weights += [1.0] + [0.0] * (len(pieces) - 1) if pieces else []
        ids = ids[: length - (end is not None)] + ([] if end is None else [end])
        weights = weights[: len(ids) - (end is not None)]
        return (
            _pad(ids, length, tokenizer.pad_token_id, np.int32),
            _pad(classes[: len(weights)], length, 0, np.int32),
            _pad(weights, length, 0.0, np.float32),
        )

    @override
    def preprocess(self, batch: Batch, params: configs.HubDataConfig) -> tuple[Any, Columns]:
        del params
        token_ids = batch["token_ids"]
        inputs = {
            "token_ids": token_ids,
            "padding_mask": token_ids != self.preprocessor.pad_token_id,
        }
        if presets.takes_segments(self.config.model.preset):
            inputs["segment_ids"] = tf.zeros_like(token_ids)
        return inputs, {LABEL: batch[LABEL], WEIGHT: batch[WEIGHT]}


def _pad(values: Sequence[Any], length: int, filler: Any, dtype: Any) -> np.ndarray:
    row = np.full([length], filler, dtype)
    row[: len(values)] = values
    return row


class MaskedLm(TextClassification):
    """Words that are masked, with other ones each time."""

    task_name = "MaskedLM"
    has_classes = False

    @override
    def read(self, params: configs.HubDataConfig) -> Columns:
        return {"texts": read_texts(params)}

    @override
    def preprocess(self, batch: Batch, params: configs.HubDataConfig) -> tuple[Any, Columns]:
        """Masks as the preset's preprocessor does, by draws that a resumed run repeats."""
        processor = self.preprocessor
        texts = tuple(tf.unstack(batch["texts"], len(params.fields), axis=1))
        token_ids, segment_ids = processor.packer(
            tuple(processor.tokenizer(text) for text in texts)
        )
        length = self.config.model.sequence_length
        token_ids = tf.ensure_shape(tf.cast(token_ids, tf.int32), [None, length])
        seed = tf.stack([tf.cast(params.seed or 0, tf.int64), batch[records.DRAW][0]])
        masked = mask_tokens(token_ids, processor, seed)
        inputs = {
            "token_ids": masked["token_ids"],
            "padding_mask": token_ids != processor.tokenizer.pad_token_id,
            "mask_positions": masked["positions"],
        }
        if presets.takes_segments(self.config.model.preset):
            inputs["segment_ids"] = tf.ensure_shape(tf.cast(segment_ids, tf.int32), [None, length])
        return inputs, {LABEL: masked[LABEL], WEIGHT: masked[WEIGHT]}


def read_texts(params: configs.HubDataConfig) -> list[list[str]]:
    """Returns the texts of the fields of all examples."""
    return [
        [records.take_text(place, row, field) for field in params.fields]
        for place, row in records.read_data(params)
    ]


def mask_tokens(token_ids: tf.Tensor, processor: Any, seed: tf.Tensor) -> dict[str, tf.Tensor]:
    """Masks some of the tokens `[B, S]`, as BERT was trained.

    Args:
        token_ids: The ids.
        processor: A `MaskedLMPreprocessor`, for its rates.
        seed: Two numbers, on which the draws depend.

    Returns:
        `token_ids` `[B, S]`, and of the masked ones `positions`, `label` and `weight` `[B, M]`.
    """
    tokenizer, rate = processor.tokenizer, processor.mask_selection_rate
    length = token_ids.shape[1]
    most = max(1, min(processor.mask_selection_length, int(length * rate)))
    special = tf.constant(tokenizer.special_token_ids, tf.int32)
    is_plain = tf.reduce_all(token_ids[..., tf.newaxis] != special, axis=-1)  # [B, S]
    draws = tf.random.stateless_uniform([3, *tf.unstack(tf.shape(token_ids))], seed)
    scores, positions = tf.math.top_k(tf.where(is_plain, draws[0], -1.0), most)  # [B, M]
    num_plain = tf.reduce_sum(tf.cast(is_plain, tf.float32), axis=1, keepdims=True)
    num_masked = tf.maximum(1.0, tf.round(num_plain * rate))  # [B, 1]
    weight = tf.cast(
        (scores >= 0.0) & (tf.range(most, dtype=tf.float32)[tf.newaxis] < num_masked), tf.float32
    )
    label = tf.gather(token_ids, positions, batch_dims=1)
    kind = tf.gather(draws[1], positions, batch_dims=1)
    random = tf.cast(
        tf.gather(draws[2], positions, batch_dims=1) * tokenizer.vocabulary_size(), tf.int32
    )
    new = tf.where(kind < processor.mask_token_rate + processor.random_token_rate, random, label)
    new = tf.where(kind < processor.mask_token_rate, tokenizer.mask_token_id, new)
    new = tf.where(weight > 0, new, label)
    places = tf.stack([tf.zeros_like(positions) + tf.range(tf.shape(positions)[0])[:, tf.newaxis],
                       positions], axis=-1)  # fmt: skip
    return {
        "token_ids": tf.tensor_scatter_nd_update(token_ids, places, new),
        "positions": positions,
        LABEL: label,
        WEIGHT: weight,
    }


class CausalLm(Head):
    """Each next token of texts."""

    task_name = "CausalLM"
    has_classes = False

    @override
    def read(self, params: configs.HubDataConfig) -> Columns:
        return {"texts": read_texts(params)}

    @override
    def preprocess(self, batch: Batch, params: configs.HubDataConfig) -> tuple[Any, Columns]:
        length = self.config.model.sequence_length
        inputs, label, weight = self.preprocessor(batch["texts"][:, 0])
        inputs = {
            name: tf.ensure_shape(tf.convert_to_tensor(part), [None, length])
            for name, part in inputs.items()
        }
        return inputs, {
            LABEL: tf.ensure_shape(label, [None, length]),
            WEIGHT: tf.ensure_shape(tf.cast(weight, tf.float32), [None, length]),
        }


class ImageClassification(Head):
    """Classes of images."""

    task_name = "ImageClassifier"

    @override
    def _read_rows(self, params: configs.HubDataConfig) -> Iterator[records.Row]:
        path = params.input_path
        if isinstance(path, str) and file_io.isdir(path):
            yield from records.read_image_folders(path)
            return
        for place, row in records.read(path):
            yield place, {**row, "image": records.take_file(place, row, params.fields[0])}

    @override
    def read(self, params: configs.HubDataConfig) -> Columns:
        rows = list(self._read_rows(params))
        paths = [row["image"] for _, row in rows]
        rows = [rows[place] for place in image_data.find_whole(params, ANY_IMAGE, paths)]
        field = params.label_field
        return {
            "image": [row["image"] for _, row in rows],
            LABEL: [self._take_class(place, row.get(field), field) for place, row in rows],
        }

    @override
    def parse(self, example: Batch) -> Batch:
        return {**example, "image": self.convert(tf.io.read_file(example["image"]))}

    def convert(self, data: tf.Tensor) -> tf.Tensor:
        """Maps a file's bytes to an image as the model takes it."""
        return self.preprocessor(decode_image(data))

    @override
    def preprocess(self, batch: Batch, params: configs.HubDataConfig) -> tuple[Any, Columns]:
        del params
        label = tf.cast(batch[LABEL], tf.int32)  # [B]
        return batch["image"], {LABEL: label, WEIGHT: tf.ones_like(label, tf.float32)}


def decode_image(data: tf.Tensor) -> tf.Tensor:
    """Returns the pixels `[height, width, 3]` float32 of a file."""
    image = tf.io.decode_image(data, channels=3, expand_animations=False)
    image.set_shape([None, None, 3])
    return tf.cast(image, tf.float32)


def build_batches(
    head: Head, params: configs.HubDataConfig, input_context: tf.distribute.InputContext | None
) -> tf.data.Dataset:
    """Returns batches of inputs, and of labels and weights."""
    return records.to_batches(
        head.read(params),
        params,
        input_context,
        parser_fn=head.parse,
        postprocess_fn=lambda batch: head.preprocess(batch, params),
    )
