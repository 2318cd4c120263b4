"""Presets of KerasHub: models and preprocessors from a directory, Hugging Face or Kaggle."""

import contextlib
import functools
import hashlib
import importlib.util
import inspect
import json
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from quintain import errors
from quintain.files import file_io, file_paths
from quintain.hub import bundled, configs

_FIELD = "task.model.preset"
_SHOWN_CHARACTERS = 400
_CLIENTS = {"hf": "huggingface_hub", "kaggle": "kagglehub", "modelscope": "modelscope"}
"""Packages that download presets, by the scheme of their addresses."""


def import_keras_hub() -> Any:
    """Imports KerasHub.

    Raises:
        ConfigError: If it is not installed.
    """
    try:
        import keras_hub  # noqa: PLC0415 - only runs of its models wait for it
    except ImportError as error:
        raise errors.ConfigError(
            f"{_FIELD}: presets need KerasHub, which can't be imported ({error}). Install it with "
            '`pip install "quintain[hub]"`.'
        ) from error
    return keras_hub


def load_model(config: configs.ModelConfig, task_name: str, num_classes: int) -> keras.Model:
    """Loads a model with its head, uncompiled.

    Args:
        config: Which preset, and whether with its weights.
        task_name: The class of KerasHub that has the head, such as `TextClassifier`.
        num_classes: Classes of a new head; 0 takes the preset's.

    Raises:
        ConfigError: If the preset can't be loaded, or its family has no such head.
    """
    hub = import_keras_hub()
    _check_head(hub, config, task_name)
    options: dict[str, Any] = {"num_classes": num_classes} if num_classes else {}
    with _explaining(config.preset):
        load = functools.partial(
            getattr(hub.models, task_name).from_preset,
            find(config.preset),
            load_weights=config.load_weights,
            preprocessor=None,
            compile=False,
            **options,
        )
        try:
            model = load()
            activation = keras.activations.get(getattr(model, "activation", None))
            # Losses are those of logits, also of presets that have probabilities.
            return model if activation is keras.activations.linear else load(activation=None)
        except TypeError as error:
            if num_classes or "num_classes" not in str(error):
                raise
            raise errors.ConfigError(
                f"task.label_names: got none, but {config.preset!r} has no head with classes. Name "
                "the classes there, or set task.model.num_classes."
            ) from error


def load_backbone(config: configs.ModelConfig) -> keras.Model:
    """Loads a model without a head.

    Raises:
        ConfigError: If the preset can't be loaded.
    """
    hub = import_keras_hub()
    with _explaining(config.preset):
        return hub.models.Backbone.from_preset(
            find(config.preset), load_weights=config.load_weights
        )


def load_preprocessor(preset: str, task_name: str, sequence_length: int) -> Any:
    """Loads what turns texts or images into the inputs of a model.

    Raises:
        ConfigError: If the preset can't be loaded.
    """
    hub = import_keras_hub()
    # Tables that are made within a graph are lost to the next one.
    with tf.init_scope(), _explaining(preset):
        loaded = getattr(hub.models, f"{task_name}Preprocessor").from_preset(find(preset))
        if hasattr(loaded, "sequence_length"):
            loaded.sequence_length = sequence_length
        if not loaded.built:
            loaded.build(None)
        return loaded


def takes_segments(preset: str) -> bool:
    """Returns whether models of a preset are told which of two texts a token belongs to.

    Raises:
        ConfigError: If the preset can't be loaded.
    """
    return "num_segments" in inspect.signature(_find_family(preset)).parameters


def _find_family(preset: str) -> type:
    """Returns the class of a preset's backbone."""
    with _explaining(preset):
        loaded: type = _import_utils().get_preset_loader(find(preset)).check_backbone_class()
        return loaded


def load_tokenizer(preset: str) -> Any:
    """Loads the tokenizer of a preset.

    Raises:
        ConfigError: If the preset can't be loaded, or has none.
    """
    hub = import_keras_hub()
    with tf.init_scope(), _explaining(preset):
        return hub.tokenizers.Tokenizer.from_preset(find(preset))


def find(preset: str) -> str:
    """Returns a preset as KerasHub takes it; one that comes with this package is written first.

    A directory goes before a name that KerasHub knows.
    """
    if preset == bundled.MODEL:
        return bundled.write_model(import_keras_hub().models)
    is_directory = file_paths.is_local(preset) and file_io.isdir(preset)
    return file_paths.absolute(preset) if is_directory else preset


def find_revision(preset: str) -> str:
    """Returns the revision of a preset: a commit of Hugging Face, a version of Kaggle.

    It is empty for a directory.

    Raises:
        ConfigError: If the preset can't be downloaded.
    """
    if not _find_client(preset):
        return ""
    with _explaining(preset):
        return file_paths.basename(file_paths.dirname(_download_config(preset)))


def _find_client(preset: str) -> str:
    """Returns the package that downloads a preset; empty for a directory."""
    found = find(preset)
    is_known = found in _import_utils().BUILTIN_PRESETS
    return _CLIENTS.get("kaggle" if is_known else file_paths.scheme(found), "")


def _download_config(preset: str) -> str:
    utils = _import_utils()
    path: str = utils.get_file(preset, utils.CONFIG_FILE)
    return path


def _import_utils() -> Any:
    import_keras_hub()
    from keras_hub.src.utils import preset_utils  # noqa: PLC0415 - as `import_keras_hub`

    return preset_utils


def hash_variables(variables: list[keras.Variable]) -> str:
    """Returns the SHA-256 of the values of variables, in their order."""
    digest = hashlib.sha256()
    for variable in variables:
        digest.update(np.ascontiguousarray(keras.ops.convert_to_numpy(variable)).tobytes())
    return digest.hexdigest()


def _check_head(hub: Any, config: configs.ModelConfig, task_name: str) -> None:
    family = _find_family(config.preset)
    heads = {"TextClassifier", "MaskedLM", "CausalLM", "ImageClassifier", "ImageSegmenter",
             "ObjectDetector"}  # fmt: skip
    heads |= {task_name}
    offered = {
        head
        for head in heads
        for one in _import_utils().list_subclasses(getattr(hub.models, head))
        if one.backbone_cls is family
    }
    if task_name not in offered:
        raise errors.ConfigError(
            f"task.model.head: got {config.head!r}, but {config.preset!r} is a "
            f"{family.__name__}, for which KerasHub has {', '.join(sorted(offered)) or 'no head'}. "
            "Choose another head, or another preset."
        )


@contextlib.contextmanager
def _explaining(preset: str) -> Iterator[None]:
    """Names the preset in whatever goes wrong with it."""
    if not preset:
        raise errors.ConfigError(
            f"{_FIELD}: got '', expected a directory that `save_to_preset` wrote, "
            "hf://USER/MODEL, kaggle://USER/MODEL/keras/VARIANT, modelscope://USER/MODEL, or a "
            "name that KerasHub knows."
        )
    client = _find_client(preset)
    if client and importlib.util.find_spec(client) is None:
        raise errors.ConfigError(
            f"{_FIELD}: {preset!r} needs the package {client}, which is not installed. Install it "
            f"with `pip install {client}`, or give a directory that `save_to_preset` wrote."
        )
    found = find(preset)
    if not client and file_paths.is_local(found) and not file_io.exists(found):
        raise errors.ConfigError(
            f"{_FIELD}: {preset!r} can't be loaded: no such directory, and no name that KerasHub "
            f"knows.{errors.suggest(preset, _import_utils().BUILTIN_PRESETS)}"
        )
    try:
        if client:
            _download_config(preset)  # Later KerasHub hides why a file can't be had.
        yield
    except errors.QuintainError:
        raise
    except Exception as error:
        # KerasHub and the clients of Kaggle and Hugging Face raise any class.
        cause = error.__cause__ if client and isinstance(error.__cause__, Exception) else error
        raise errors.ConfigError(
            f"{_FIELD}: {preset!r} can't be loaded: {_shorten(cause)} {_advise(preset, client)}"
        ) from error


def _shorten(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = " ".join(lines) or type(error).__name__
    if len(text) > _SHOWN_CHARACTERS:
        text = text[:_SHOWN_CHARACTERS].rpartition(". ")[0] or text[:_SHOWN_CHARACTERS]
    return text if text.endswith(".") else f"{text}."


def _advise(preset: str, client: str) -> str:
    if client:
        return (
            "Check the name and the network. Without a network, give a directory: "
            "`save_to_preset` writes one where there is a network."
        )
    try:
        written = json.loads(file_io.read_text(file_paths.join(preset, "metadata.json")))
        version = written["keras_version"]
        hub_version = written.get("keras_hub_version") or written.get("keras_nlp_version", "?")
    except (OSError, ValueError, KeyError, TypeError):
        return "Check that the directory is whole, as `save_to_preset` wrote it."
    here = import_keras_hub().__version__
    if (version, hub_version) == (keras.__version__, here):
        return "Check that the directory is whole, as `save_to_preset` wrote it."
    return (
        f"It was written by Keras {version} with KerasHub {hub_version}, and this is Keras "
        f"{keras.__version__} with KerasHub {here}: install those, or write it anew with these."
    )
