"""Conversion of a checkpoint of the TensorFlow Model Garden to a run of ours."""

from collections.abc import Sequence
from typing import Final

import tensorflow as tf

from quintain import errors
from quintain.checkpoints import checkpoint_fit, checkpoints, run_lock
from quintain.core import base_task, task_factory
from quintain.files import file_io
from quintain.nlp.tasks import reference_checkpoint, sentence_prediction, translation
from quintain.run import run_files
from quintain.settings import config_definitions as cfg

_FIELD: Final = "--from"


def convert(
    source: str,
    params: cfg.ExperimentConfig,
    model_dir: str,
    *,
    experiment: str,
    imports: Sequence[str] = (),
    allow_new: bool = False,
) -> tuple[str, reference_checkpoint.Report]:
    """Writes a directory like that of a run, with weights of the reference.

    It holds `params.yaml`, the vocabulary and `ckpt-0`, which has no optimizer: it can be exported,
    translated or predicted with, and be `task.init_checkpoint`. On an error nothing is left behind.

    Args:
        source: Prefix of the reference's checkpoint, or a directory with one.
        params: The experiment that the model is of.
        model_dir: Directory to write.
        experiment: Name of the experiment.
        imports: Modules that register it.
        allow_new: Whether parts that the checkpoint lacks, other than the encoder, may be new.

    Returns:
        The prefix of the checkpoint that was written, and what it was made of.

    Raises:
        CheckpointError: If there is no such checkpoint, it is none of the reference's, or it does
            not fit the model.
        ConfigError: If `model_dir` has checkpoints, the vocabulary is missing, or the experiment
            keeps an average of the weights.
    """
    path = checkpoint_fit.find_newest(source, _FIELD)
    if not reference_checkpoint.is_reference(path, _FIELD):
        raise errors.CheckpointError(
            f"{_FIELD}: got {path!r}, which is not in the layout of the TensorFlow Model Garden's "
            "Transformers. Checkpoints of ours need no conversion: use task.init_checkpoint."
        )
    _check(params, model_dir, experiment)
    with run_lock.hold(model_dir), run_files.undo_on_error(model_dir):
        task = task_factory.get_task(params.task, logging_dir=model_dir)
        file_io.makedirs(model_dir)
        model = task.build_model()
        required = ["encoder"] if allow_new else None
        report = reference_checkpoint.load_model(model, path, _FIELD, required=required)
        _keep_vocabulary(task)
        run_files.serialize_config(params, model_dir, experiment=experiment, imports=imports)
        step = tf.Variable(0, dtype=tf.int64)
        items = {"global_step": step, **checkpoint_fit.model_items(model)}
        manager = checkpoints.CheckpointManager(
            tf.train.Checkpoint(**items), model_dir, step_counter=step, enable_async=False
        )
        written = manager.save()
    return str(written), report


def _check(params: cfg.ExperimentConfig, model_dir: str, experiment: str) -> None:
    run_files.check_model_dir(params, model_dir, experiment=experiment, writes=True)
    found = checkpoints.list_checkpoints(model_dir)
    if found:
        raise errors.ConfigError(
            f"--model-dir: got {model_dir!r}, which has checkpoints ({found[-1]}); expected a new "
            "directory."
        )
    if params.trainer.optimizer_config.ema is not None:
        raise errors.ConfigError(
            "trainer.optimizer_config.ema: got an average of the weights, but the reference's "
            "checkpoint is converted without an optimizer. Set it to null."
        )
    config = params.task
    if isinstance(config, translation.TranslationConfig) and not config.sentencepiece_model_path:
        raise errors.ConfigError(
            "task.sentencepiece_model_path: missing; the weights mean nothing without the "
            "vocabulary that they were trained with."
        )


def _keep_vocabulary(task: base_task.Task) -> None:
    """Copies the vocabulary of a classifier of texts; a translation model's is there already."""
    if not isinstance(task, sentence_prediction.SentencePredictionTask):
        return
    if getattr(task.task_config.train_data, "vocab_file", ""):
        _ = task.vocabulary_path
