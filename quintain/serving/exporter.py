"""Writes the model of a run as a SavedModel, with the signatures that its task says."""

import dataclasses
import importlib
import json
import logging
import uuid
from collections.abc import Mapping
from typing import Any, Final

import tensorflow as tf

import quintain
from quintain import errors
from quintain.checkpoints import receipts
from quintain.core import export_base
from quintain.files import file_io, file_paths, literal_paths, saved_model_files, whole_files
from quintain.hub import configs as hub_configs
from quintain.nlp.tasks import translation_serving
from quintain.serving import servable, trained_run

DESCRIPTION_FILE: Final = "assets.extra/quintain.json"
RECEIPT_FILE: Final = "assets.extra/receipt.json"
"""Receipt of the checkpoint that the weights are from."""
"""File of a SavedModel that says what it is."""

MAX_SOURCE_LENGTH: Final = translation_serving.MAX_SOURCE_LENGTH

_SIGNS_OF_DAMAGE: Final = (
    tf.errors.OpError,
    AttributeError,
    LookupError,
    OSError,
    RuntimeError,
    SystemError,
    TypeError,
    ValueError,
)

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Description:
    """Description of an export, kept beside it as JSON."""

    kind: str
    """Kind of the model; see `ExportModule.kind`."""

    signatures: dict[str, str]
    """Names of the signatures by the functions that they call."""

    checkpoint: str
    """The checkpoint that the weights are from."""

    version: str
    """The version of this package that wrote it."""

    decoding: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Search for translations; fields of `decoding.DecodingOptions`."""

    max_source_length: int = 0
    """Most tokens of a source; 0 where longer ones are cut."""

    num_fields: int = 1
    """Text fields of an example."""

    labels: list[str] | None = None
    """Names of the classes; None of a regression."""

    details: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Further details of the export module."""

    @classmethod
    def read(cls, directory: str) -> "Description":
        """Reads the description of an export.

        Raises:
            CheckpointError: If the directory holds no export of this package.
        """
        try:
            text = file_io.read_text(file_paths.join(directory, DESCRIPTION_FILE))
            return cls(**json.loads(text))
        except (OSError, ValueError, TypeError) as error:
            raise errors.CheckpointError(
                f"{directory}: is no model that `quintain export` wrote: "
                f"{file_paths.basename(DESCRIPTION_FILE)} is missing or damaged "
                f"({type(error).__name__})."
            ) from error

    @classmethod
    def read_kind(cls, directory: str, kind: str) -> "Description":
        """Reads the description of an export that does a certain thing.

        Raises:
            CheckpointError: As for `read`.
            ConfigError: If the export does something else.
        """
        description = cls.read(directory)
        if description.kind != kind:
            raise errors.ConfigError(
                f"model_dir: got {directory!r}, which holds a model of {description.kind}."
            )
        return description

    def write(self, directory: str) -> None:
        """Writes it into an export."""
        path = file_paths.join(directory, DESCRIPTION_FILE)
        text = json.dumps(dataclasses.asdict(self), indent=2, ensure_ascii=False)
        file_io.makedirs(file_paths.dirname(path))
        with file_io.open(path, "w") as file:
            file.write(text + "\n")


def is_export(directory: str) -> bool:
    """Returns whether a directory holds a SavedModel, maybe a damaged one, rather than a run."""
    if file_io.exists(file_paths.join(directory, servable.KERAS_FILE)):
        return False
    names = ("saved_model.pb", DESCRIPTION_FILE)
    return any(file_io.isfile(file_paths.join(directory, name)) for name in names)


def find_kind(directory: str) -> str:
    """Returns what an export does; of a SavedModel that is none of ours, only that it is a model.

    Raises:
        CheckpointError: If its description is damaged.
    """
    return (
        Description.read(directory).kind if _is_ours(directory) else export_base.ExportModule.kind
    )


def read_details(directory: str) -> dict[str, Any]:
    """Returns what the export module of an export says of itself; nothing of other SavedModels.

    Raises:
        CheckpointError: If its description is damaged.
    """
    return Description.read(directory).details if _is_ours(directory) else {}


def _is_ours(directory: str) -> bool:
    return bool(file_io.exists(file_paths.join(directory, DESCRIPTION_FILE)))


def refuse_checkpoint(checkpoint: str | None) -> None:
    """Refuses the checkpoint of a run where there is an export.

    Raises:
        ConfigError: If there is one.
    """
    if checkpoint is not None:
        raise errors.ConfigError("checkpoint: an export has its weights; leave it out.")


def load_saved_model(directory: str) -> Any:
    """Loads an export.

    Raises:
        CheckpointError: If it is damaged.
    """
    importlib.import_module("tensorflow_text")  # Registers the operations of the vocabulary.
    try:
        return tf.saved_model.load(literal_paths.directory(directory))
    except _SIGNS_OF_DAMAGE as error:
        reason = str(error).strip().partition("\n")[0][:300]
        raise errors.CheckpointError(
            f"{directory}: the SavedModel is damaged and can't be loaded ({type(error).__name__}: "
            f"{reason}). Export it anew."
        ) from error


def export_run(
    model_dir: str,
    output: str,
    *,
    checkpoint: str | None = None,
    overwrite: bool = False,
    **options: Any,
) -> str:
    """Writes the model of a run as a SavedModel; with what it needs, such as a vocabulary, inside.

    The directory appears when it is complete.

    Args:
        model_dir: Directory of a run; or a Keras model, see `servable.load`.
        output: Directory to write.
        checkpoint: Checkpoint to take the weights from. None takes the newest.
        overwrite: Whether an export that is already there is replaced.
        **options: Options of the task's `build_export_module`, such as `beam_size` of translation.

    Returns:
        `output`.

    Raises:
        CheckpointError: If there is no checkpoint, or it does not fit.
        ConfigError: If no signature can be found, an option does not exist or does not apply, or
            `output` is not empty.
    """
    target = file_paths.normal(output)
    _check_target(target, overwrite=overwrite)
    found = servable.load(model_dir, checkpoint=checkpoint, options=options)
    module = found.module
    description = Description(
        module.kind,
        signatures=dict(module.function_keys),
        checkpoint=found.checkpoint,
        version=quintain.__version__,
        **_sort_details(module.describe()),
    )
    partial = _name_beside(target)
    try:
        export_base.export(module, description.signatures, partial, timestamped=False)
        description.write(partial)
        if file_io.exists(found.checkpoint + receipts.SUFFIX):
            receipt = file_io.read_bytes(found.checkpoint + receipts.SUFFIX)
            whole_files.write(file_paths.join(partial, RECEIPT_FILE), receipt)
        _put_in_place(partial, target)
    finally:
        if file_io.exists(partial):
            file_io.rmtree(partial)
    return output


def export_preset(
    model_dir: str,
    output: str,
    file_format: str,
    *,
    checkpoint: str | None = None,
    overwrite: bool = False,
    **options: Any,
) -> str:
    """Writes the model of a fine-tuned preset for programs with Keras or Transformers.

    Args:
        model_dir: Directory of a run of `hub`.
        output: Directory to write; it appears when it is complete.
        file_format: `keras`, `preset` or `transformers`; see `HubTask.save`.
        checkpoint: Checkpoint to take the weights from. None takes the newest.
        overwrite: Whether a directory that is already there is replaced.
        **options: There are none.

    Returns:
        `output`.

    Raises:
        CheckpointError: If there is no checkpoint, or it does not fit.
        ConfigError: If the run is of another task, the format does not have its model, or `output`
            is not empty.
    """
    if options:
        raise errors.ConfigError(f"{', '.join(options)}: the format {file_format!r} takes none.")
    target = file_paths.normal(output)
    _check_target(target, overwrite=overwrite)
    run = trained_run.load(model_dir, (hub_configs.HubConfig,), checkpoint=checkpoint)
    task: Any = run.task
    partial = _name_beside(target)
    file_io.makedirs(partial)
    try:
        task.save(run.model, partial, file_format)
        description = Description("preset", {}, run.checkpoint, quintain.__version__)
        description.write(partial)
        _put_in_place(partial, target)
    finally:
        if file_io.exists(partial):
            file_io.rmtree(partial)
    return output


def _sort_details(described: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a module says of itself as fields of `Description`."""
    known = {field.name for field in dataclasses.fields(Description)}
    fields = {name: value for name, value in described.items() if name in known}
    others = {name: value for name, value in described.items() if name not in known}
    return {**fields, "details": others}


def _name_beside(target: str) -> str:
    """Returns the path of a directory beside another one that nobody else uses."""
    directory, name = file_paths.split(target)
    return file_paths.join(directory, f".{name}.{uuid.uuid4().hex}")


def _check_target(target: str, *, overwrite: bool) -> None:
    """Refuses to write where something else is, or where TensorFlow can't."""
    file_io.check_writable(target, "output")
    if not file_io.exists(target) or (file_io.isdir(target) and not file_io.listdir(target)):
        return
    if not overwrite:
        raise errors.ConfigError(
            f"output: got {target!r}, which exists; give overwrite to replace it."
        )
    if not file_io.isfile(file_paths.join(target, DESCRIPTION_FILE)):
        raise errors.ConfigError(
            f"output: got {target!r}, which is no export; it is left as it is."
        )


def _put_in_place(partial: str, target: str) -> None:
    """Renames a directory to one that may exist."""
    if not file_io.exists(target):
        file_io.move_directory(partial, target)
        return
    former = _name_beside(target)
    file_io.move_directory(target, former)
    file_io.move_directory(partial, target)
    saved_model_files.delete(former, is_known=True)
    if file_io.exists(former):  # What somebody else has put there is not ours to delete.
        saved_model_files.move(former, target)
