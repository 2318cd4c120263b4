"""Images with classes: from folders, records or data sets to batches.

Shapes:
    B  images in the batch
    H  height
    W  width
    C  channels
    N  images of a data set
"""

import collections
import dataclasses
import functools
import importlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from quintain import errors
from quintain.files import file_io, file_paths
from quintain.input import file_marks, input_files, input_reader, row_order, saved_datasets
from quintain.orbit import iterators
from quintain.process import user_errors
from quintain.settings import config_definitions
from quintain.vision import image_configs, shapes

SUFFIXES: Final = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp")
"""Ends of the names of images, in any case."""

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Format:
    """Size of the images that a model gets, and how others become as large."""

    height: int
    width: int
    num_channels: int
    resize: str

    @classmethod
    def from_config(cls, config: image_configs.ImageClassificationConfig) -> "Format":
        """Returns the format that a task's config says."""
        return cls(*config.image_size, config.num_channels, config.resize)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of an image, `[H, W, C]`."""
        return self.height, self.width, self.num_channels

    @tf.autograph.experimental.do_not_convert
    def decode(self, encoded: tf.Tensor) -> tf.Tensor:
        """Decodes a JPEG, PNG, GIF (its first image), BMP or WebP.

        Returns:
            `[H, W, C]` uint8.
        """
        return self.fit(
            tf.io.decode_image(encoded, channels=self.num_channels, expand_animations=False)
        )

    @tf.autograph.experimental.do_not_convert
    def fit(self, image: tf.Tensor) -> tf.Tensor:
        """Returns an image of another size as `[H, W, C]` uint8."""
        image = tf.ensure_shape(image, [None, None, self.num_channels])
        size = [self.height, self.width]
        found = tf.shape(image)[:2]
        if self.resize == "refuse":
            with tf.control_dependencies(
                [tf.debugging.assert_equal(found, size, "an image has another size")]
            ):
                return tf.ensure_shape(image, self.shape)
        image = tf.cast(image, tf.float32)
        # Filters that change nothing would take longer than decoding.
        image = tf.cond(
            tf.reduce_all(tf.equal(found, size)),
            lambda: image,
            lambda: self._resize(image, size),
        )
        return tf.ensure_shape(tf.saturate_cast(tf.round(image), tf.uint8), self.shape)

    def _resize(self, image: tf.Tensor, size: list[int]) -> tf.Tensor:
        """Returns an image `[H, W, C]` float32 of a size."""
        if self.resize == "pad":
            return tf.image.resize_with_pad(image, *size, antialias=True)
        if self.resize == "stretch":
            return tf.image.resize(image, size, antialias=True)
        height, width = tf.unstack(tf.cast(tf.shape(image)[:2], tf.float64))
        scale = tf.maximum(self.height / height, self.width / width)
        larger = tf.cast(tf.math.ceil(tf.stack([height, width]) * scale - 1e-6), tf.int32)
        image = tf.image.resize(image, larger, antialias=True)
        return tf.image.resize_with_crop_or_pad(image, *size)


@dataclasses.dataclass(frozen=True)
class _Rows:
    """Images that are known by their numbers."""

    images: Sequence[str | bytes]
    """Paths, or encoded images."""

    labels: np.ndarray
    """Classes `[N]` int32."""

    are_files: bool = False
    """Whether images are paths."""


def find_class_names(
    params: image_configs.ImageDataConfig, given: Sequence[str] | None
) -> list[str]:
    """Returns the names of the classes: those that were given, or those that the data have.

    Raises:
        ConfigError: If there are none.
        DataError: If the data are missing.
    """
    if given is not None:
        return list(given)
    path = params.input_path
    names: Sequence[str] = ()
    if _is_drawn(params):
        names = shapes.CLASSES
    elif params.tfds_name:
        feature = _find_feature(input_reader.InputReader(params).tfds_info, params)
        names = getattr(feature, "names", None) or ()
    elif saved_datasets.is_saved(params.input_path):
        names = getattr(_load_saved(params).features[params.label_field], "names", None) or ()
    elif _is_folder(params):
        names = _list_classes(path)
        if len(names) < 2:
            raise errors.DataError(
                f"task.train_data.input_path: {path!r} has {len(names)} sub-folders with names of "
                "classes, expected two or more. Put the images of each class into a folder of "
                "its own."
            )
    else:
        input_files.match_files(path, name="task.train_data.input_path")  # Else records.
    if not names:
        raise errors.ConfigError(
            "task.class_names: got null, but the training data have no names of classes. Give "
            "them in the order of their numbers, such as [cat, dog]."
        )
    return list(names)


def build(
    params: image_configs.ImageDataConfig,
    image_format: Format,
    class_names: Sequence[str],
    input_context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """Returns batches of images.

    Returns:
        Images `[B, H, W, C]` uint8 and classes `[B]` int32.

    Raises:
        ConfigError: If the config contradicts itself.
        DataError: If images are missing or can't be decoded; it names the file.
    """
    if _is_drawn(params):
        rows = _Rows(*shapes.draw(params.input_path))
    elif saved_datasets.is_saved(params.input_path):
        rows = _read_saved(params, class_names)
    elif _is_folder(params):
        rows = _list_images(params, image_format, class_names)
    else:
        reader = input_reader.InputReader(
            params,
            decoder_fn=functools.partial(_decode_record, params, image_format),
            parser_fn=functools.partial(_check_label, params.label_field, len(class_names)),
        )
        return reader.read(input_context)
    images, labels = tf.constant(list(rows.images)), tf.constant(rows.labels)

    @tf.autograph.experimental.do_not_convert
    def parse(row: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        image = images[row]
        encoded = tf.io.read_file(image) if rows.are_files else image
        return image_format.decode(encoded), labels[row]

    return row_order.RowReader(params, len(rows.labels), parser_fn=parse).read_rows(input_context)


def describe_damage(encoded: bytes) -> str:
    """Returns why an image can't be decoded; empty if it can."""
    try:
        tf.io.decode_image(encoded, expand_animations=False)
    except tf.errors.OpError as error:
        return _explain(error)
    return ""


def _explain(error: Exception) -> str:
    """Returns what the decoder says, as a sentence."""
    line = user_errors.find_cause(error).partition("\n")[0]
    return f"{line.rpartition('Error: ')[2].rstrip('.')}."


def _is_drawn(params: image_configs.ImageDataConfig) -> bool:
    path = params.input_path
    return isinstance(path, str) and path.startswith(shapes.PREFIX)


def _is_folder(params: image_configs.ImageDataConfig) -> bool:
    return isinstance(params.input_path, str) and file_io.isdir(params.input_path)


def _list_classes(path: str) -> list[str]:
    return sorted(
        name
        for name in file_io.listdir(path)
        if not name.startswith(".") and file_io.isdir(file_paths.join(path, name))
    )


def _list_images(
    params: image_configs.ImageDataConfig, image_format: Format, class_names: Sequence[str]
) -> _Rows:
    folder = params.input_path
    unknown = [name for name in _list_classes(folder) if name not in class_names]
    if unknown:
        raise errors.DataError(
            f"{file_paths.join(folder, unknown[0])}: there is no class of this name, only "
            f"{errors.enumerate_some(class_names)}.{errors.suggest(unknown[0], class_names)}"
        )
    paths: list[str] = []
    labels: list[int] = []
    others: list[str] = []
    for label, name in enumerate(class_names):
        inside = file_paths.join(folder, name)
        for file in sorted(file_io.listdir(inside)) if file_io.isdir(inside) else ():
            path = file_paths.join(inside, file)
            if file.lower().endswith(SUFFIXES):
                paths.append(path)
                labels.append(label)
            elif not file.startswith("."):
                others.append(path)
    _check_others(others)
    for path in paths[-file_marks.MOST_FILES :]:
        file_marks.note(path)
    if params.check_images:
        whole = find_whole(params, image_format, paths)
        paths, labels = [paths[place] for place in whole], [labels[place] for place in whole]
    _check_classes(params, class_names, labels)
    return _Rows(paths, np.array(labels, np.int32), are_files=True)


def _check_others(paths: Sequence[str]) -> None:
    if nested := [path for path in paths if file_io.isdir(path)]:
        raise errors.DataError(
            f"{nested[0]}: is a folder within that of a class, whose images would be left out. "
            "Move them up."
        )
    if paths:
        _logger.warning(
            "%s: the first of %d files that are no images by their names (%s); they are left out.",
            paths[0], len(paths), ", ".join(SUFFIXES),
        )  # fmt: skip


def find_whole(
    params: config_definitions.DataConfig, image_format: Format, paths: Sequence[str]
) -> list[int]:
    """Returns the places of images that can be decoded, if others are to be left out.

    Raises:
        DataError: Naming the first one that can't, if not.
    """
    return [*measure_whole(params, image_format, paths)]


def measure_whole(
    params: config_definitions.DataConfig, image_format: Format, paths: Sequence[str]
) -> dict[int, tuple[int, int]]:
    """Returns height and width of images that can be decoded, by their places.

    Raises:
        DataError: As for `find_whole`.
    """
    found, damaged = _measure(paths, image_format)
    if not damaged:
        return found
    place = min(damaged)
    counted = f"{paths[place]}: {damaged[place]}"
    if params.corrupt_records != "skip":
        raise errors.DataError(
            f"{counted} ({len(damaged):,} of {len(paths):,} images in {params.input_path!r} can't "
            "be used). Mend or remove them, or set corrupt_records=skip to leave them out."
        )
    _logger.warning(
        "%s The first of %s of %s images that are left out.",
        counted, f"{len(damaged):,}", f"{len(paths):,}",
    )  # fmt: skip
    return found


def _measure(
    paths: Sequence[str], image_format: Format
) -> tuple[dict[int, tuple[int, int]], dict[int, str]]:
    """Returns sizes of images, and the reasons why others can't be used, by their places."""
    found: dict[int, tuple[int, int]] = {}
    if not paths:
        return found, {}
    any_size = dataclasses.replace(image_format, resize="stretch")

    @tf.autograph.experimental.do_not_convert
    def measure(path: tf.Tensor) -> tf.Tensor:
        channels = any_size.num_channels
        encoded = tf.io.read_file(path)
        return tf.shape(tf.io.decode_image(encoded, channels=channels, expand_animations=False))

    dataset = tf.data.Dataset.from_tensor_slices(list(paths))
    sizes = iterators.create(dataset.map(measure, num_parallel_calls=tf.data.AUTOTUNE))
    expected = [image_format.height, image_format.width]
    damaged: dict[int, str] = {}
    for place in range(len(paths)):
        try:
            height, width, _ = next(sizes).numpy().tolist()
        except tf.errors.OpError as error:
            damaged[place] = f"can't be decoded: {_explain(error)}"
            continue
        if image_format.resize == "refuse" and [height, width] != expected:
            damaged[place] = (
                f"has {height} by {width} pixels, expected {expected[0]} by {expected[1]} "
                "(task.image_size) with task.resize=refuse."
            )
            continue
        found[place] = height, width
    return found, damaged


def _check_classes(
    params: image_configs.ImageDataConfig, class_names: Sequence[str], labels: Sequence[int]
) -> None:
    counts = collections.Counter(labels)
    missing = [name for label, name in enumerate(class_names) if not counts[label]]
    folder = params.input_path
    if not counts or (missing and params.is_training):
        raise errors.DataError(
            f"{file_paths.join(folder, missing[0])}: there is no image of this class (and of "
            f"{len(missing) - 1} others). Each class needs a folder with images "
            f"({', '.join(SUFFIXES)})."
        )
    if missing:
        _logger.warning(
            "%s: there are no images of the classes %s, on which the evaluation says nothing.",
            folder, errors.enumerate_some(missing),
        )  # fmt: skip


def _load_saved(params: image_configs.ImageDataConfig) -> Any:
    """Returns a `datasets.Dataset`, whose images stay encoded."""
    dataset = saved_datasets.load(params.input_path)
    for field in ("image_field", "label_field"):
        name = getattr(params, field)
        if name not in dataset.column_names:
            raise errors.ConfigError(
                f"{field}: got {name!r}, expected a column of {params.input_path!r}: "
                f"{', '.join(dataset.column_names)}.{errors.suggest(name, dataset.column_names)}"
            )
    encoded = importlib.import_module("datasets").Image(decode=False)
    return dataset.cast_column(params.image_field, encoded)


def _read_saved(params: image_configs.ImageDataConfig, class_names: Sequence[str]) -> _Rows:
    images: list[bytes] = []
    labels: list[int] = []
    damaged: list[str] = []
    for number, row in enumerate(_load_saved(params), start=1):
        image, label = row[params.image_field], row[params.label_field]
        label = class_names.index(label) if label in class_names else label
        where = f"{params.input_path}: row {number}"
        if not isinstance(label, int) or not 0 <= label < len(class_names):
            raise errors.DataError(
                f"{where}: {params.label_field}: got {label!r}, expected a class from 0 to "
                f"{len(class_names) - 1}, or its name."
            )
        encoded = image["bytes"] or file_io.read_bytes(image["path"])
        if params.check_images and (problem := describe_damage(encoded)):
            damaged.append(f"{where}: can't be decoded: {problem}")
            continue
        images.append(encoded)
        labels.append(label)
    if damaged and params.corrupt_records != "skip":
        raise errors.DataError(f"{damaged[0]} Set corrupt_records=skip to leave such rows out.")
    if damaged:
        _logger.warning("%s The first of %d rows that are left out.", damaged[0], len(damaged))
    if not images:
        raise errors.DataError(f"{params.input_path}: there is no image in it.")
    return _Rows(images, np.array(labels, np.int32))


def _find_feature(info: Any, params: image_configs.ImageDataConfig) -> Any:
    known = list(info.features)
    if params.label_field not in known:
        raise errors.ConfigError(
            f"label_field: got {params.label_field!r}, expected a feature of "
            f"{params.tfds_name!r}: {', '.join(known)}."
            f"{errors.suggest(params.label_field, known)}"
        )
    return info.features[params.label_field]


@tf.autograph.experimental.do_not_convert
def _decode_record(
    params: image_configs.ImageDataConfig, image_format: Format, *record: Any
) -> tuple[tf.Tensor, tf.Tensor]:
    if len(record) == 2:  # `tfds_as_supervised`
        image, label = record
    else:
        (fields,) = record
        names = params.image_field, params.label_field
        if not isinstance(fields, Mapping):
            image_type, label_type = tf.string, tf.int64
            fields = tf.io.parse_single_example(
                fields,
                {
                    names[0]: tf.io.FixedLenFeature([], image_type),
                    names[1]: tf.io.FixedLenFeature([], label_type),
                },
            )
        for field, name in zip(("image_field", "label_field"), names, strict=True):
            if name not in fields:
                raise errors.ConfigError(
                    f"{field}: got {name!r}, but the entry has the features {', '.join(fields)}."
                    f"{errors.suggest(name, fields)}"
                )
        image, label = fields[names[0]], fields[names[1]]
    if image.dtype == tf.string:
        return image_format.decode(image), tf.cast(label, tf.int32)
    channels = image.shape[-1]
    if channels == 1 and image_format.num_channels == 3:
        image = tf.image.grayscale_to_rgb(image)
    elif channels == 3 and image_format.num_channels == 1:
        image = tf.image.rgb_to_grayscale(image)
    return image_format.fit(image), tf.cast(label, tf.int32)


@tf.autograph.experimental.do_not_convert
def _check_label(
    label_field: str, num_classes: int, image: tf.Tensor, label: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    message = f"{label_field}: a label is outside of 0 to {num_classes - 1}"
    with tf.control_dependencies(
        [tf.debugging.Assert((label >= 0) & (label < num_classes), [message, label])]
    ):
        return image, tf.identity(label)
