"""Config of image classification."""

import dataclasses
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le

from quintain import errors
from quintain.config import base_config
from quintain.optimization.configs import ranges
from quintain.settings import config_definitions as cfg

Pixels = Annotated[int, Gt(0), Le(16_384)]
Depth = Annotated[int, Gt(0), Le(1_000)]


@dataclasses.dataclass
class ResNetConfig(base_config.Config):
    """A small residual network."""

    width: Annotated[int, Gt(0), Le(4_096)] = 16
    """Channels of the first stage. Each further stage has twice as many, on half the size."""

    num_stages: Annotated[int, Gt(0), Le(8)] = 3
    """Stages."""

    blocks_per_stage: Depth = 1
    """Residual blocks of a stage."""


@dataclasses.dataclass
class ViTConfig(base_config.Config):
    """A small vision transformer."""

    patch_size: Pixels = 4
    """Height and width of a patch; a divisor of those of the image."""

    width: ranges.Size = 64
    """Size of a patch's vector; a multiple of `num_heads`."""

    num_layers: Depth = 4
    """Transformer blocks."""

    num_heads: Annotated[int, Gt(0), Le(1_024)] = 4
    """Attention heads."""

    mlp_width: ranges.Size = 128
    """Units of a block's hidden layer."""

    dropout_rate: ranges.Fraction = 0.0
    """Share of units that training drops in each block."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the fields whose values do not fit together."""
        if self.width % self.num_heads:
            yield "width", f"got {self.width}, expected a multiple of num_heads={self.num_heads}."


@dataclasses.dataclass
class ImageModelConfig(base_config.Config):
    """A backbone, and a dense layer over its features."""

    backbone: str = "resnet"
    """`resnet` or `vit`, `keras.applications:NAME`, or `MODULE:NAME` of a function of one's own: it
    gets `input_shape`, and returns a Keras model from pixels of 0 to 255 to features."""

    arguments: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Further arguments of the backbone's function, such as `{alpha: 0.5}`."""

    resnet: ResNetConfig = dataclasses.field(default_factory=ResNetConfig)
    """The backbone `resnet`."""

    vit: ViTConfig = dataclasses.field(default_factory=ViTConfig)
    """The backbone `vit`."""

    weights: str = ""
    """File of weights that the backbone of a new run starts from (.h5, .keras); empty has none."""

    is_frozen: bool = False
    """Whether the backbone stays as it is, and only the layer over it learns."""

    dropout_rate: ranges.Fraction = 0.0
    """Share of features that training drops before the last layer."""


@dataclasses.dataclass
class AugmentationConfig(base_config.Config):
    """Random changes of training images, each other ones in every epoch."""

    flip: Literal["none", "horizontal", "vertical", "horizontal_and_vertical"] = "none"
    """Directions in which half of the images are mirrored."""

    crop_padding: Annotated[int, Ge(0), Le(16_384)] = 0
    """Pixels that are added on each side before an image is cut out again at a random place."""

    rotation: ranges.UnitInterval = 0.0
    """Largest turn in either direction, as a part of a full turn."""

    contrast: ranges.UnitInterval = 0.0
    """Largest change of contrast in either direction, as a part of it."""

    rand_augment: Annotated[int, Ge(0), Le(10)] = 0
    """Operations of Keras' `RandAugment` for each image; 0 does without."""

    rand_augment_factor: ranges.UnitInterval = 0.5
    """Strength of these operations."""

    mixup: ranges.NonNegative = 0.0
    """Parameter of the beta distribution of the shares in which two images are mixed; 0 mixes none.
    0.2 is usual."""


@dataclasses.dataclass
class ImageDataConfig(cfg.DataConfig):
    """Images with classes."""

    input_path: Any = ""
    """A folder with a sub-folder for each class; a folder that `save_to_disk` of the library
    `datasets` wrote; TFRecord files; or `drawn:shapes/train`, which needs no file."""

    global_batch_size: cfg.NonNegativeInt = 32
    """Images in a batch over all replicas."""

    is_training: bool | None = True
    """Whether the data is shuffled and repeated for training."""

    shuffle_buffer_size: cfg.NonNegativeInt = 1_000
    """Records held in the shuffle buffer of training. Folders need none."""

    image_field: str = "image"
    """Feature of records, or column, with the encoded image; of records often `image/encoded`."""

    label_field: str = "label"
    """Feature of records, or column, with the number of the class; of records often
    `image/class/label`."""

    check_images: bool = True
    """Whether the images of a folder are decoded once before the first step, so that those that
    can't be are named, or with `corrupt_records=skip` left out and counted."""


@dataclasses.dataclass
class ImageClassificationConfig(cfg.TaskConfig):
    """Image classification: model, images, classes."""

    model: ImageModelConfig = dataclasses.field(default_factory=ImageModelConfig)
    """The model."""

    image_size: tuple[Pixels, Pixels] = (224, 224)
    """Height and width of the images that the model gets, in pixels."""

    num_channels: Literal[1, 3] = 3
    """Channels of an image: 1 is grey, 3 are colours."""

    resize: Literal["stretch", "crop", "pad", "refuse"] = "stretch"
    """How images of another size are changed: stretched, cut at the longer sides, or padded at the
    shorter ones; or whether one is an error."""

    class_names: list[str] | None = None
    """Names of the classes, in the order of their numbers. None takes the sub-folders, or the names
    that a data set has."""

    class_weights: dict[str, ranges.NonNegative] = dataclasses.field(default_factory=dict)
    """Weights of classes in the training loss, by name; 1 where not given."""

    label_smoothing: ranges.Fraction = 0.0
    """Share of a label's probability that is spread over all classes in training."""

    top_k: Annotated[int, Gt(1), Le(1_000)] = 5
    """Classes among which `top_k_accuracy` looks for the right one."""

    augmentation: AugmentationConfig = dataclasses.field(default_factory=AugmentationConfig)
    """Random changes of training images."""

    train_data: ImageDataConfig = dataclasses.field(default_factory=ImageDataConfig)
    """Training images."""

    validation_data: ImageDataConfig = dataclasses.field(
        default_factory=lambda: ImageDataConfig(is_training=False)
    )
    """Images to evaluate on."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the fields whose values do not fit together."""
        yield from super().check()
        names = self.class_names
        if names is not None and (len(names) < 2 or len(set(names)) < len(names)):
            yield "class_names", f"got {errors.show(names)}, expected two or more different names."
        patch = self.model.vit.patch_size
        if self.model.backbone == "vit" and any(size % patch for size in self.image_size):
            yield (
                "model.vit.patch_size",
                f"got {patch}, expected a divisor of image_size={list(self.image_size)}.",
            )
        if self.model.is_frozen and not (self.model.weights or self.init_checkpoint):
            yield "model.is_frozen", "got true without model.weights or init_checkpoint."
