"""Semantic segmentation: a class for each pixel of an image.

Shapes:
    B  images in the batch
    H  height of the images that the model takes
    W  their width
"""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.files import file_io, file_paths
from quintain.hub import configs, heads, presets, records
from quintain.hub.images import masks
from quintain.modeling import token_metrics
from quintain.orbit import iterators
from quintain.vision import image_data

IMAGES, MASKS = "images", "masks"


class WholeImages(heads.ImageClassification):
    """Outputs that have places in images, which become as large as the model takes them uncropped.

    Masks and boxes do so with them.
    """

    may_pad: ClassVar[bool] = False
    """Whether the preset's converter may pad images to their aspect ratio."""

    @property
    @override
    def preprocessor(self) -> Any:
        if self._preprocessor is None:
            self._preprocessor = presets.load_preprocessor(
                self.config.model.preset, self.task_name, 0
            )
            stretch(
                self._preprocessor.image_converter,
                self.config.model.preset,
                may_pad=self.may_pad,
            )
        return self._preprocessor

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Shape `[H, W, 3]` of the images that the model takes."""
        height, width = self.preprocessor.image_converter.image_size
        return height, width, 3


class SemanticSegmentation(WholeImages):
    """Classes of the pixels of images."""

    task_name = "ImageSegmenter"

    @override
    def build_metrics(self) -> list[keras.metrics.Metric]:
        return [token_metrics.TokenAccuracy("accuracy"), MeanIou(self.num_classes)]

    @override
    def _read_rows(self, params: configs.HubDataConfig) -> Iterator[records.Row]:
        path = params.input_path
        if isinstance(path, str) and file_io.isdir(path):
            yield from read_folders(path)
            return
        for place, row in records.read(path):
            image, mask = (
                records.take_file(place, row, field)
                for field in (params.fields[0], params.label_field)
            )
            yield place, {"image": image, "mask": mask}

    @override
    def read(self, params: configs.HubDataConfig) -> heads.Columns:
        rows = [(row["image"], row["mask"]) for _, row in self._read_rows(params)]
        for part in range(2):
            paths = [row[part] for row in rows]
            rows = [rows[place] for place in image_data.find_whole(params, heads.ANY_IMAGE, paths)]
        headers = [masks.read_header(mask) for _, mask in rows]
        columns = {
            "image": [image for image, _ in rows],
            "mask": [mask for _, mask in rows],
            "start": [header.start for header in headers],
            "scale": [header.scale for header in headers],
        }
        self._check(columns, headers)
        return columns

    def _check(self, columns: heads.Columns, headers: Sequence[masks.Header]) -> None:
        @tf.autograph.experimental.do_not_convert
        def measure(row: heads.Batch) -> tuple[tf.Tensor, tf.Tensor]:
            image = heads.decode_image(tf.io.read_file(row["image"]))
            mask = masks.decode(row["mask"], row["start"], row["scale"])
            return tf.shape(image)[:2], tf.unique(tf.reshape(mask, [-1]))[0]

        dataset = tf.data.Dataset.from_tensor_slices(columns)
        found = iterators.create_numpy(dataset.map(measure, num_parallel_calls=tf.data.AUTOTUNE))
        for image, mask, header, (size, classes) in zip(
            columns["image"], columns["mask"], headers, found, strict=True
        ):
            if tuple(size) != header.size:
                raise errors.DataError(
                    f"{mask}: has {header.size[0]} by {header.size[1]} pixels, but its image "
                    f"{image!r} has {size[0]} by {size[1]}. Make them the same."
                )
            known = [*range(self.num_classes), self.config.ignored_class]
            unknown = np.setdiff1d(classes, known)
            if unknown.size:
                raise errors.DataError(
                    f"{mask}: got a pixel of the class {unknown[0]}, expected 0 to "
                    f"{self.num_classes - 1}, or {self.config.ignored_class} to ignore it. Mend "
                    "the mask, or set task.model.num_classes or task.ignored_class."
                )

    @override
    def parse(self, example: heads.Batch) -> heads.Batch:
        mask = masks.decode(example["mask"], example["start"], example["scale"])
        mask = tf.image.resize(mask, self.image_shape[:2], method="nearest")
        image = tf.ensure_shape(self.convert(tf.io.read_file(example["image"])), self.image_shape)
        return {"image": image, "mask": mask[..., 0]}

    @override
    def preprocess(
        self, batch: heads.Batch, params: configs.HubDataConfig
    ) -> tuple[Any, heads.Columns]:
        del params
        is_known = batch["mask"] != self.config.ignored_class  # [B, H, W]
        label = tf.where(is_known, batch["mask"], 0)
        return batch["image"], {heads.LABEL: label, heads.WEIGHT: tf.cast(is_known, tf.float32)}


class MeanIou(keras.metrics.MeanIoU):
    """Mean over classes of their intersection over union, of pixels that count.

    Classes that neither labels nor predictions have do not count.

    Args:
        num_classes: Classes.
    """

    def __init__(self, num_classes: int) -> None:
        # Counts of pixels are exact in it, and do not overflow.
        super().__init__(num_classes, name="mean_iou", dtype="float64", sparse_y_pred=False)


def read_folders(directory: str) -> Iterator[records.Row]:
    """Yields each image of the directory `images`, and that of the same name in `masks`.

    Raises:
        DataError: If there are none, or a mask is missing.
    """
    folder = file_paths.join(directory, IMAGES)
    names = sorted(file_io.listdir(folder)) if file_io.isdir(folder) else []
    names = [name for name in names if name.lower().endswith(image_data.SUFFIXES)]
    if not names:
        raise errors.DataError(
            f"input_path: {directory!r} has no images ({', '.join(image_data.SUFFIXES)}) in a "
            f"directory {IMAGES}, with masks beside it in {MASKS}. Check the path."
        )
    for name in names:
        mask = file_paths.join(directory, MASKS, f"{name.rpartition('.')[0]}.png")
        if not file_io.exists(mask):
            raise errors.DataError(
                f"{file_paths.join(folder, name)}: has no mask, expected {mask!r}."
            )
        yield mask, {"image": file_paths.join(folder, name), "mask": mask}


def stretch(converter: Any, preset: str, *, may_pad: bool = False) -> None:
    """Makes a converter of KerasHub resize images as a whole, without cropping or padding.

    Args:
        converter: The converter.
        preset: Its preset, for the message.
        may_pad: Whether padding stays.

    Raises:
        ConfigError: If it has no size to which.
    """
    if converter is None or converter.image_size is None:
        raise errors.ConfigError(
            f"task.model.preset: {preset!r} does not say how large images are. Set image_size of "
            "its image converter, and save it anew."
        )
    for one in (converter, converter.resizing):
        one.crop_to_aspect_ratio = False
        one.pad_to_aspect_ratio &= may_pad
