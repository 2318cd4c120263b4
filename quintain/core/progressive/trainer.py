"""`ProgressiveTrainer`: changes model, optimizer and data between the stages of a training."""

from collections.abc import Mapping
from typing import Any, Final

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors, orbit
from quintain.checkpoints import best_checkpoint, checkpoint_fit, checkpoints, cluster_checkpoints
from quintain.config import gin_io
from quintain.core import base_trainer
from quintain.core.loop import dataset_distribution
from quintain.core.loop import loop_record as loop_record_lib
from quintain.core.progressive import configs, policies
from quintain.distribute import distribution
from quintain.files import file_paths
from quintain.optimization.schedules import learning_rate_scale

ProgressiveTrainerConfig = configs.ProgressiveTrainerConfig

EXPORT_DIRECTORY: Final = "exported_ckpts"
_SEED_STRIDE: Final = 7_919


@gin_io.configurable
class ProgressiveTrainer(base_trainer.Trainer):
    """Trains the stages of a policy one after the other.

    A loop never goes on into the next stage. Restoring a checkpoint first builds the stage that the
    checkpoint is of. Build it inside the scope of the strategy.
    """

    def __init__(
        self,
        config: base_trainer.ExperimentConfig,
        prog_task: policies.ProgressivePolicy,
        ckpt_dir: str = "",
        train: bool = True,
        evaluate: bool = True,
        checkpoint_exporter: best_checkpoint.CheckpointExporter | None = None,
    ) -> None:
        """Prepares the loops of the first stage.

        Args:
            config: The experiment; its trainer is a `ProgressiveTrainerConfig`.
            prog_task: The policy.
            ckpt_dir: Directory of the run, below which checkpoints for other programs go. Empty
                exports none.
            train: Whether `train` will be called.
            evaluate: Whether `evaluate` will be called.
            checkpoint_exporter: Exports checkpoints by their evaluation.

        Raises:
            ConfigError: If `config.trainer` is of another class, or under a parameter-server
                strategy.
        """
        if not isinstance(config.trainer, configs.ProgressiveTrainerConfig):
            raise errors.ConfigError(
                f"trainer: got a {type(config.trainer).__name__}, expected a "
                "ProgressiveTrainerConfig."
            )
        distribution.check_is_synchronous(tf.distribute.get_strategy(), "training in stages")
        self._policy = prog_task
        self._progressive_config = config.trainer
        self._trains, self._evaluates = train, evaluate
        self._export_dir = file_paths.join(ckpt_dir, EXPORT_DIRECTORY) if ckpt_dir else ""
        self._data_start = tf.Variable(0, dtype=tf.int64, trainable=False, name="data_start")
        self._hooked_checkpoint: checkpoint_fit.HookedCheckpoint | None = None
        super().__init__(
            config,
            prog_task.task,
            prog_task.cur_model,
            prog_task.cur_optimizer,
            train=train,
            evaluate=evaluate,
            train_dataset=prog_task.cur_train_dataset if train else None,
            validation_dataset=prog_task.cur_eval_dataset if evaluate else None,
            checkpoint_exporter=checkpoint_exporter,
        )

    @property
    def policy(self) -> policies.ProgressivePolicy:
        """The policy."""
        return self._policy

    @property
    def train_dataset(self) -> dataset_distribution.Dataset:
        """The training data of the current stage; the policy's, which can't be assigned."""
        return self._train_dataset

    @train_dataset.setter
    def train_dataset(self, train_dataset: Any) -> None:
        raise SyntaxError(
            "`train_dataset` can't be assigned: progressive training takes its data from "
            "`ProgressivePolicy.get_train_dataset`."
        )

    @property
    def eval_dataset(self) -> dataset_distribution.Dataset:
        """The evaluation data of the current stage; the policy's, which can't be assigned."""
        return self._eval_dataset

    @eval_dataset.setter
    def eval_dataset(self, eval_dataset: Any) -> None:
        raise SyntaxError(
            "`eval_dataset` can't be assigned: progressive training takes its data from "
            "`ProgressivePolicy.get_eval_dataset`."
        )

    @override
    def train(self, num_steps: tf.Tensor) -> orbit.runner.Output | None:
        """Implements `num_steps` steps of training, in one loop for each stage they belong to."""
        output, num_left = None, int(num_steps)
        while num_left > 0:
            step = self._state.step
            in_stage = self._policy.count_steps_left(step)
            num_now = num_left if in_stage is None else min(num_left, in_stage)
            output = super().train(tf.constant(num_now, tf.int32))
            num_done = self._state.step - step
            if output is None or num_done < num_now:
                break
            num_left -= num_done
        return output

    @override
    def train_loop_end(self) -> dict[str, Any]:
        """Collects the means over the loop; exports, and enters the next stage, where due.

        Returns:
            What `Trainer.train_loop_end` returns, and `stage`, the stage of the loop.
        """
        logs = super().train_loop_end()
        logs["stage"] = self._policy.cur_stage_id
        step = self._state.step
        self._maybe_export(step)
        if self._policy.is_stage_advancing(step):
            self._enter_stage(step, pass_old_model=True)
        return logs

    def _enter_stage(self, step: int, *, pass_old_model: bool) -> None:
        """Changes model, optimizer, data and compiled loops to those of the stage of a step."""
        former_data = self._train_dataset if self._trains else None
        former_iterator = self._train_iterator if self._trains else None
        with self.strategy.scope():
            self._set_seed(self._policy.compute_stage_id(step))
            self._policy.update_pt_stage(step, pass_old_model=pass_old_model)
            self._task = self._policy.task
            self._model = self._policy.cur_model
            self._optimizer = self._policy.cur_optimizer
            train_data = self._policy.cur_train_dataset if self._trains else None
            eval_data = self._policy.cur_eval_dataset if self._evaluates else None
            self._scale_learning_rate()
            self._set_up(self._trains, train_data, self._evaluates, eval_data)
        if self._trains and train_data is former_data:
            self._train_iterator = former_iterator
        else:
            self._data_start.assign(step)

    def _set_seed(self, stage_id: int) -> None:
        """Makes the new weights of a stage depend on the seed and the stage alone.

        A run that is resumed in a later stage would otherwise draw others than one that was not.
        """
        seed = self._config.runtime.seed
        if seed is not None:
            keras.utils.set_random_seed(seed + _SEED_STRIDE * stage_id)

    def _scale_learning_rate(self) -> None:
        """Lowers the rate of a new optimizer as earlier recoveries from blow-ups did."""
        factor = self.loop_record.state.learning_rate_factor
        if self._config.trainer.recovery_lr_factor != 1.0 or factor != 1.0:
            learning_rate_scale.prepare(self._optimizer)
            learning_rate_scale.scale(self._optimizer, factor=factor, previous=1.0)

    @override
    def _create_checkpoint(self, train: bool) -> tf.train.Checkpoint:
        items: Mapping[str, Any] = {
            **super()._create_checkpoint(train)._trackable_children(),
            "stage_id": self._policy.cur_checkpoint_items["stage_id"],
            "data_start": self._data_start,
        }
        if self._hooked_checkpoint is None:
            self._hooked_checkpoint = checkpoint_fit.HookedCheckpoint(self._build_stage, **items)
        else:
            self._hooked_checkpoint.set_items(items)
        return self._hooked_checkpoint

    def _build_stage(self, path: str) -> None:
        step = checkpoint_fit.read_step(path)
        if self._policy.is_stage_advancing(step):
            self._enter_stage(step, pass_old_model=False)

    @override
    def _count_used(self) -> dict[str, int]:
        num_steps = self._state.step - int(self._data_start.numpy())
        return {loop_record_lib.SINGLE: num_steps * self.elements_per_step}

    @override
    def _restart_train_data(self) -> Any:
        if self.loop_record.has_begun:
            self._train_dataset = self._policy.get_train_dataset(self._policy.cur_stage_id)
            self._train_loop_fn = None
            self.train_iterator = None
        return self.ensure_train_iterator()

    def _maybe_export(self, step: int) -> None:
        config = self._progressive_config
        if not (self._export_dir and config.export_checkpoint):
            return
        if config.export_only_final_stage_ckpt and not self._policy.is_last_stage:
            return
        interval = config.export_checkpoint_interval or config.get_checkpoint_steps(
            "trainer.export_checkpoint"
        )
        earlier = [
            int(path.rpartition("-")[2]) for path in checkpoints.list_checkpoints(self._export_dir)
        ]
        newest = max((number for number in earlier if number <= step), default=0)
        is_due = interval > 0 and step - newest >= interval
        if not is_due and step != config.train_steps:
            return
        exported = tf.train.Checkpoint(
            global_step=self.global_step,
            optimizer=self._optimizer,
            **checkpoint_fit.model_items(self._model),
        )
        cluster_checkpoints.ClusterCheckpointManager(
            self.strategy,
            exported,
            self._export_dir,
            config.export_max_to_keep or config.max_to_keep,
            step_counter=self.global_step,
            enable_async=False,
        ).save(check_interval=False)
