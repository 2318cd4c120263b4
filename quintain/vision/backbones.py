"""Backbones: from pixels to features.

Shapes:
    B  images in the batch
    H  height
    W  width
    C  channels
    P  patches
    F  features
"""

import functools
import importlib
import sys
from typing import Any, Final

import keras

from quintain import errors
from quintain.core import user_modules
from quintain.files import file_io
from quintain.vision import image_configs

_APPLICATIONS: Final = "keras.applications"
_FIELD: Final = "task.model.backbone"

Shape = tuple[int, int, int]


def build(config: image_configs.ImageModelConfig, shape: Shape) -> keras.Model:
    """Builds a model from images `[B, H, W, C]`, numbers from 0 to 255, to features `[B, F]`.

    Raises:
        ConfigError: If there is no such backbone, or it does not take the arguments or the shape.
    """
    if config.backbone == "resnet":
        return _build_resnet(config.resnet, shape)
    if config.backbone == "vit":
        return _build_vit(config.vit, shape)
    function = _find_function(config.backbone)
    is_application = config.backbone.startswith(f"{_APPLICATIONS}:")
    arguments = {"include_top": False, "weights": None} if is_application else {}
    try:
        model = function(input_shape=shape, **{**arguments, **config.arguments})
    except (TypeError, ValueError) as error:
        raise errors.ConfigError(
            f"{_FIELD}: {config.backbone} can't be built with the images {list(shape)} and "
            f"task.model.arguments={config.arguments!r}: {str(error).strip()}"
        ) from error
    if not isinstance(model, keras.Model):
        raise errors.ConfigError(
            f"{_FIELD}: {config.backbone} returned {errors.show(model)}, expected a keras.Model."
        )
    images = keras.Input(shape, name="images")
    pixels = _preprocess(function, images) if is_application else images
    features = model(pixels)  # [B, F] or [B, H, W, F]
    if len(features.shape) == 4:
        features = keras.layers.GlobalAveragePooling2D(name="pool")(features)
    if len(features.shape) != 2:
        raise errors.ConfigError(
            f"{_FIELD}: {config.backbone} gives {features.shape}, expected features [B, F] or maps "
            "[B, H, W, F]."
        )
    return keras.Model(images, features, name="backbone")


def load_weights(backbone: keras.Model, path: str) -> None:
    """Reads weights of a backbone from a file.

    Raises:
        ConfigError: If there is none, or it does not fit.
    """
    if not file_io.isfile(path):
        raise errors.ConfigError(
            f"task.model.weights: got {path!r}, but there is no such file. Names such as "
            "'imagenet' are not downloaded: save the weights once by `model.save_weights(...)`, "
            "without the top."
        )
    inner = [layer for layer in backbone.layers if isinstance(layer, keras.Model)]
    try:
        (inner[0] if inner else backbone).load_weights(file_io.fetch(path))
    except (OSError, ValueError, KeyError) as error:
        raise errors.ConfigError(
            f"task.model.weights: {path!r} does not fit the backbone: {str(error).strip()}"
        ) from error


def _find_function(backbone: str) -> Any:
    module, _, name = backbone.partition(":")
    if module == _APPLICATIONS:
        known = [one for one in dir(keras.applications) if one[0].isupper()]
    elif name:
        user_modules.import_modules([module])
        known = [one for one in dir(sys.modules[module]) if not one.startswith("_")]
    else:
        known = ["resnet", "vit", f"{_APPLICATIONS}:NAME", "MODULE:NAME"]
    function = getattr(sys.modules.get(module, keras), name or "_", None)
    if module == _APPLICATIONS:
        function = getattr(keras.applications, name, None)
    if name not in known or not callable(function):
        raise errors.ConfigError(
            f"{_FIELD}: got {backbone!r}, expected one of {errors.enumerate_some(known)}."
            f"{errors.suggest(name or backbone, known)}"
        )
    return function


def _preprocess(function: Any, images: Any) -> Any:
    """Returns pixels as the weights of an application want them."""
    module = importlib.import_module(function.__module__)
    return module.preprocess_input(images)


def _build_resnet(config: image_configs.ResNetConfig, shape: Shape) -> keras.Model:
    """Builds a residual network with pre-activation.

    Source:
        He et al., 2016 (https://arxiv.org/abs/1603.05027).
    """
    images = keras.Input(shape, name="images")  # [B, H, W, C]
    x = keras.layers.Rescaling(1 / 127.5, offset=-1.0)(images)
    x = _convolve(config.width)(x)
    for stage in range(config.num_stages):
        width = config.width * 2**stage
        for block in range(config.blocks_per_stage):
            strides = 2 if stage and not block else 1
            activated = _activate(x)
            is_same = strides == 1 and x.shape[-1] == width
            shortcut = x if is_same else _convolve(width, 1, strides)(activated)
            inner = _convolve(width, strides=strides)(activated)
            x = shortcut + _convolve(width)(_activate(inner))
    features = keras.layers.GlobalAveragePooling2D()(_activate(x))  # [B, F]
    return keras.Model(images, features, name="backbone")


def _convolve(width: int, size: int = 3, strides: int = 1) -> keras.layers.Layer:
    return keras.layers.Conv2D(
        width, size, strides, padding="same", use_bias=False, kernel_initializer="he_normal"
    )


def _activate(x: Any) -> Any:
    return keras.layers.ReLU()(keras.layers.BatchNormalization(momentum=0.9)(x))


def _build_vit(config: image_configs.ViTConfig, shape: Shape) -> keras.Model:
    """Builds a transformer over patches, whose mean is the image's features.

    Source:
        Dosovitskiy et al., 2020 (https://arxiv.org/abs/2010.11929).
    """
    images = keras.Input(shape, name="images")  # [B, H, W, C]
    x = keras.layers.Rescaling(1 / 127.5, offset=-1.0)(images)
    x = keras.layers.Conv2D(config.width, config.patch_size, config.patch_size)(x)
    x = keras.layers.Reshape((-1, config.width))(x)  # [B, P, F]
    x = Positions(name="positions")(x)
    dense = functools.partial(keras.layers.Dense, kernel_initializer="glorot_uniform")
    for _ in range(config.num_layers):
        normed = keras.layers.LayerNormalization(epsilon=1e-6)(x)
        attended = keras.layers.MultiHeadAttention(
            config.num_heads, config.width // config.num_heads, dropout=config.dropout_rate
        )(normed, normed)
        x = x + keras.layers.Dropout(config.dropout_rate)(attended)
        normed = keras.layers.LayerNormalization(epsilon=1e-6)(x)
        inner = dense(config.mlp_width, activation="gelu")(normed)
        x = x + keras.layers.Dropout(config.dropout_rate)(dense(config.width)(inner))
    x = keras.layers.LayerNormalization(epsilon=1e-6)(x)
    features = keras.layers.GlobalAveragePooling1D()(x)  # [B, F]
    return keras.Model(images, features, name="backbone")


@keras.saving.register_keras_serializable(package="quintain.vision")
class Positions(keras.layers.Layer):
    """Learnt vector of each position, added to what is there."""

    def build(self, input_shape: Any) -> None:
        """Makes the vectors `[P, F]`."""
        self.table = self.add_weight(
            shape=input_shape[1:], initializer=keras.initializers.RandomNormal(stddev=0.02)
        )

    def call(self, inputs: Any) -> Any:
        """Returns vectors `[B, P, F]` with those of their positions added."""
        return inputs + self.table
