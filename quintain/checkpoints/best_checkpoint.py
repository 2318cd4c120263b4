"""Keeps the checkpoint with the best evaluation so far in a directory of its own."""

import contextlib
import json
import math
import operator
from collections.abc import Mapping
from typing import Any, Final, Protocol

import tensorflow as tf

from quintain import errors
from quintain.checkpoints import checkpoints, cluster_checkpoints, evaluation_log
from quintain.files import file_io, file_paths, whole_files
from quintain.orbit import cluster
from quintain.settings import config_definitions as cfg

INFO_FILE: Final = "info.json"
KEPT_FILE: Final = "kept.json"
STEP_KEY: Final = "best_ckpt_global_step"
BEST_CHECKPOINT_NAME: Final = "best_ckpt"
_BETTER: Final = {"higher": operator.gt, "lower": operator.lt}


def find_metric(
    logs: Mapping[str, Any], name: str, field: str = "trainer.best_checkpoint_eval_metric"
) -> float:
    """Returns one metric of an evaluation; what is on record as None is not a number.

    Args:
        logs: Output of an evaluation, possibly nested.
        name: Name of the metric; `a|b` is the metric `b` below `a`.
        field: Field of the config that gives the name, for error messages.

    Raises:
        ConfigError: If there is no such metric; the message lists those there are.
    """
    value: Any = logs
    for part in name.split("|"):
        if not isinstance(value, Mapping) or part not in value:
            known = sorted(evaluation_log.flatten(logs))
            raise errors.ConfigError(
                f"{field}: got {name!r}, but the evaluation of this task gives: "
                f"{', '.join(known) or 'none'}.{errors.suggest(name, known)}"
            )
        value = value[part]
    return _to_number(value, name, field)


class CheckpointExporter(Protocol):
    """Saves checkpoints by their evaluation: the class below, or one of the user's own."""

    @property
    def best_ckpt_logs(self) -> Mapping[str, Any]:
        """Evaluation output of the best checkpoint; empty before the first export."""

    def maybe_export_checkpoint(
        self, checkpoint: tf.train.Checkpoint, eval_logs: Any, global_step: int, /
    ) -> object:
        """Saves a checkpoint if its evaluation says so."""


def export_best(
    exporter: CheckpointExporter | None,
    checkpoint: tf.train.Checkpoint,
    logs: dict[str, Any],
    *,
    step: int,
    metric_name: str,
) -> dict[str, Any]:
    """Saves a checkpoint apart if its evaluation is the best so far; no exporter saves none.

    Returns:
        The best value, as `best_METRIC`; nothing if there is none.
    """
    if exporter is None:
        return {}
    exporter.maybe_export_checkpoint(checkpoint, logs, step)
    best = evaluation_log.flatten(exporter.best_ckpt_logs).get(metric_name)
    return {} if best is None else {f"best_{metric_name}": best}


class BestCheckpointExporter:
    """Saves `best_ckpt-STEP` whenever an evaluation is one of the best `max_to_keep` so far.

    The best result is kept in `info.json`, written after the checkpoint, so that it survives a
    restart; with several to keep, the values of all of them are in `kept.json`. A metric that is
    not a number never wins, and of equal evaluations the earlier one does.
    """

    def __init__(
        self, export_dir: str, metric_name: str, metric_comp: str, *, max_to_keep: int = 1
    ) -> None:
        """Stores where to save and what counts as better.

        Args:
            export_dir: Directory of the best checkpoints; created by the first export.
            metric_name: Metric that decides; `a|b` is the metric `b` below `a`.
            metric_comp: `higher` or `lower`: which one is better.
            max_to_keep: Best checkpoints to keep.
        """
        if metric_comp not in _BETTER:
            raise errors.ConfigError(
                f"trainer.best_checkpoint_metric_comp: got {metric_comp!r}, expected 'higher' or "
                "'lower'."
            )
        if max_to_keep < 1:
            raise errors.ConfigError(
                f"trainer.best_checkpoint_max_to_keep: got {max_to_keep}, expected at least 1."
            )
        self._export_dir = export_dir
        self._metric_name = metric_name
        self._is_better = _BETTER[metric_comp]
        self._max_to_keep = max_to_keep
        self._manager: checkpoints.CheckpointManager | None = None
        self._newest: checkpoints.CheckpointManager | None = None

    def share_files(self, newest: checkpoints.CheckpointManager) -> None:
        """Lets a best checkpoint be hard links to the newest one where that is of the same step.

        Args:
            newest: Manager of the newest checkpoints of a run of one worker, whose evaluations
                leave the state as it was saved.
        """
        self._newest = newest

    @property
    def metric_name(self) -> str:
        """Metric that decides which checkpoint is best."""
        return self._metric_name

    @property
    def best_ckpt_logs(self) -> dict[str, Any]:
        """Evaluation output of the best checkpoint; empty before the first export.

        Several workers must ask at the same point; they all get what the chief finds.
        """
        info: dict[str, Any] = cluster.from_chief(
            tf.distribute.get_strategy(), self._read_json(INFO_FILE)
        )
        return info

    @property
    def best_ckpt_logs_path(self) -> str:
        """File of the evaluation of the best checkpoint."""
        return file_paths.join(self._export_dir, INFO_FILE)

    @property
    def best_ckpt_path(self) -> str | None:
        """Prefix of the best checkpoint, or None before the first export."""
        info = self._read_json(INFO_FILE)
        if not info:
            return None
        path = file_paths.join(self._export_dir, f"{BEST_CHECKPOINT_NAME}-{info[STEP_KEY]:.0f}")
        found = checkpoints.list_checkpoints(self._export_dir, BEST_CHECKPOINT_NAME)
        return path if path in found else None

    @property
    def kept_values(self) -> dict[int, float]:
        """Metric of every checkpoint that is kept, by step, the best first."""
        found = {
            int(path.rpartition("-")[2])
            for path in checkpoints.list_checkpoints(self._export_dir, BEST_CHECKPOINT_NAME)
        }
        values = {int(step): value for step, value in self._read_json(KEPT_FILE).items()}
        best = self._read_json(INFO_FILE)
        if best:
            values[int(best[STEP_KEY])] = find_metric(best, self._metric_name)
        return {step: values[step] for step in self._rank(values) if step in found}

    def maybe_export_checkpoint(
        self,
        checkpoint: tf.train.Checkpoint,
        eval_logs: Mapping[str, Any],
        global_step: int,
        write_logs: bool = True,
    ) -> bool:
        """Saves a checkpoint if `eval_logs` are among the best so far.

        Args:
            checkpoint: What to save.
            eval_logs: Output of the evaluation.
            global_step: Step that was evaluated.
            write_logs: Whether to write `info.json` where this is the best evaluation of all.

        Returns:
            Whether it was saved.

        Raises:
            ConfigError: If the metric is not in `eval_logs`.
            CheckpointError: If the checkpoint can't be written.
        """
        step, value = int(global_step), find_metric(eval_logs, self._metric_name)
        is_chief = cluster.is_chief(tf.distribute.get_strategy())
        with (
            whole_files.directory_locked(self._export_dir) if is_chief else contextlib.nullcontext()
        ):
            return self._export_if_best(checkpoint, eval_logs, step, value, write_logs=write_logs)

    def _export_if_best(
        self,
        checkpoint: tf.train.Checkpoint,
        eval_logs: Mapping[str, Any],
        step: int,
        value: float,
        *,
        write_logs: bool,
    ) -> bool:
        strategy = tf.distribute.get_strategy()
        is_chief = cluster.is_chief(strategy)
        # Workers may see the files at different times: the chief decides.
        ranked = cluster.from_chief(strategy, self._rank_with(step, value) if is_chief else [])
        if step not in ranked:
            return False
        self._save(checkpoint, step)
        if is_chief:
            values = {**self.kept_values, step: value}
            if ranked[0] == step and write_logs:
                self.export_best_eval_metric(eval_logs, step)
            self._write_json(KEPT_FILE, {kept: values[kept] for kept in ranked})
            self._delete_others(set(ranked))
        cluster.barrier(strategy)
        return True

    def export_best_eval_metric(self, eval_logs: Mapping[str, Any], global_step: int) -> None:
        """Writes `info.json`: the numbers of the best evaluation, without arrays, and its step."""
        numbers = evaluation_log.to_plain(evaluation_log.without_arrays(eval_logs))
        info = {**numbers, STEP_KEY: int(global_step)}
        self._write_json(INFO_FILE, info)

    def _rank_with(self, step: int, value: float) -> list[int]:
        """Returns the steps to keep, the best first; without `step` if it is not to be saved."""
        kept = self.kept_values
        if not math.isfinite(value) or (step in kept and not self._is_better(value, kept[step])):
            return []
        return self._rank({**kept, step: value})[: self._max_to_keep]

    def _rank(self, values: Mapping[int, float]) -> list[int]:
        """Returns the steps, the best first; of equal ones the earlier."""
        is_higher = self._is_better is operator.gt
        return sorted(values, key=lambda step: (-values[step] if is_higher else values[step], step))

    def _save(self, checkpoint: tf.train.Checkpoint, step: int) -> None:
        if self._manager is None or self._manager.checkpoint is not checkpoint:
            self._manager = cluster_checkpoints.ClusterCheckpointManager(
                tf.distribute.get_strategy(),
                checkpoint,
                self._export_dir,
                max_to_keep=None,
                checkpoint_name=BEST_CHECKPOINT_NAME,
                enable_async=False,
            )
        written = None
        if self._newest is not None and self._newest.checkpoint is checkpoint:
            written = self._newest.find_written(step)
        if written is None or not self._manager.link(written, step):
            self._manager.save(checkpoint_number=step, check_interval=False)

    def _delete_others(self, steps: set[int]) -> None:
        paths = checkpoints.list_checkpoints(self._export_dir, BEST_CHECKPOINT_NAME)
        others = [path for path in paths if int(path.rpartition("-")[2]) not in steps]
        if others and self._manager is not None:
            self._manager.discard(others)

    def check_record(self) -> None:
        """Reads what is on record of the best checkpoints, before a run relies on it.

        Raises:
            DamagedFileError: If it can't be understood.
        """
        self._read_json(INFO_FILE)
        self._read_json(KEPT_FILE)

    def _read_json(self, name: str) -> dict[str, Any]:
        path = file_paths.join(self._export_dir, name)
        if not file_io.exists(path):
            return {}
        content: dict[str, Any] = whole_files.read_json(path)
        with whole_files.damage_explained(path):
            if name == INFO_FILE:
                int(content[STEP_KEY])
            else:
                {int(step): float(value) for step, value in content.items()}
        return content

    def _write_json(self, name: str, content: Mapping[Any, Any]) -> None:
        whole_files.write(file_paths.join(self._export_dir, name), json.dumps(content, indent=2))


def maybe_create_best_ckpt_exporter(
    params: cfg.ExperimentConfig, data_dir: str
) -> BestCheckpointExporter | None:
    """Builds the exporter that an experiment asks for; None if it asks for none.

    Args:
        params: The experiment.
        data_dir: Directory of the run. Empty: nothing is kept, so there is no exporter.

    Raises:
        ConfigError: If the exporter's fields do not fit together.
        DamagedFileError: If what is on record can't be understood.
    """
    config = params.trainer
    if not (
        data_dir and config.best_checkpoint_export_subdir and config.best_checkpoint_eval_metric
    ):
        return None
    exporter = BestCheckpointExporter(
        file_paths.join(data_dir, config.best_checkpoint_export_subdir),
        config.best_checkpoint_eval_metric,
        config.best_checkpoint_metric_comp,
        max_to_keep=config.best_checkpoint_max_to_keep,
    )
    exporter.check_record()
    return exporter


def _to_number(value: Any, name: str, field: str) -> float:
    if value is None:
        return math.nan
    if isinstance(value, Mapping) or tf.size(value) != 1:
        raise errors.ConfigError(
            f"{field}: got {name!r}, which is not a single number in the evaluation of this task."
        )
    return float(tf.reshape(value, []))
