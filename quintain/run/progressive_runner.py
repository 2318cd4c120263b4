"""Runner of progressive training."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.core.progressive import policies, trainer
from quintain.run import experiment_runner, run_mode, run_options
from quintain.settings import config_definitions as cfg


class ProgressiveRunner(experiment_runner.ExperimentRunner):
    """Trains in stages, and evaluates. Its `task` is a policy."""

    @override
    def build_trainer(self, task: Any) -> trainer.ProgressiveTrainer:
        return trainer.ProgressiveTrainer(
            self._params,
            task,
            ckpt_dir=self._model_dir,
            train=self._mode.is_training,
            evaluate=self._evaluates,
            checkpoint_exporter=self.build_best_checkpoint_exporter(),
        )

    @override
    def get_steps_per_loop(self) -> Callable[[int], int]:
        """Returns a function that ends loops where stages end."""
        steps_per_loop = self._params.trainer.steps_per_loop
        policy: policies.ProgressivePolicy = self._trainer.policy

        def count_steps(step: int) -> int:
            left = policy.count_steps_left(step)
            return steps_per_loop if left is None else min(steps_per_loop, left)

        return count_steps


def run_experiment(
    distribution_strategy: tf.distribute.Strategy,
    task: policies.ProgressivePolicy,
    mode: str,
    params: cfg.ExperimentConfig,
    model_dir: str | None,
    run_post_eval: bool = False,
    save_summary: bool = True,
    **options: Any,
) -> tuple[keras.Model, dict[str, Any]]:
    """Trains and evaluates the stages of a policy as a config says.

    The modes, checkpoints, records and actions are those of `quintain.run.train_lib`.

    Args:
        distribution_strategy: Strategy to train under.
        task: The policy, made in the scope of the strategy; usually a task at the same time.
        mode: Name of the mode.
        params: The experiment; its trainer is a `ProgressiveTrainerConfig`.
        model_dir: Directory of the run. None keeps nothing.
        run_post_eval: Whether to evaluate once more at the end, and to return the result.
        save_summary: Whether to write TensorBoard summaries.
        **options: Others of `RunOptions`, such as `reporter` and `train_actions`.

    Returns:
        The model of the stage that was reached, and the metrics of the last evaluation with
        `run_post_eval`, else an empty mapping.

    Raises:
        ConfigError: If mode and parameters can't work.
        CheckpointError: If there is no checkpoint to evaluate, or it does not fit.
        Interrupted: If an interruption was requested; the run can be resumed.
    """
    with run_mode.run_scope(params, mode, model_dir, distribution_strategy):
        runner = ProgressiveRunner(
            distribution_strategy,
            task,
            mode,
            params,
            model_dir,
            run_options.RunOptions(
                run_post_eval=run_post_eval, save_summary=save_summary, **options
            ),
        )
        model, logs = runner.run()
    return model, (logs if run_post_eval else {})
