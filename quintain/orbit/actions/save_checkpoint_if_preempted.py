"""Checkpoint on preemption of the machines of a cluster."""

from typing import Any

import tensorflow as tf


class SaveCheckpointIfPreempted:
    """Saves a checkpoint on all workers if one of them was told that it will be preempted.

    For clusters whose notices TensorFlow knows (`tf.distribute.experimental.TerminationConfig`). A
    process that is simply sent SIGTERM is the business of `Interruption`.
    """

    def __init__(
        self,
        cluster_resolver: tf.distribute.cluster_resolver.ClusterResolver,
        checkpoint_manager: tf.train.CheckpointManager,
        checkpoint_number: tf.Variable | None = None,
        keep_running_after_save: bool = False,
        *,
        termination_config: tf.distribute.experimental.TerminationConfig | None = None,
    ) -> None:
        """Starts to listen for notices.

        Args:
            cluster_resolver: Knows the workers.
            checkpoint_manager: Where to save.
            checkpoint_number: `[]` integer variable that numbers the checkpoint; None counts saves.
            keep_running_after_save: Whether to go on instead of ending the process.
            termination_config: How notices are found and what follows the save, instead of what
                TensorFlow knows of the platform and `keep_running_after_save`.
        """
        self._checkpoint_number = checkpoint_number
        config = termination_config or tf.distribute.experimental.TerminationConfig(
            exit_fn=_keep_running if keep_running_after_save else None
        )
        self._handler = tf.distribute.experimental.PreemptionCheckpointHandler(
            cluster_resolver, checkpoint_manager, termination_config=config
        )

    def __call__(self, output: Any) -> None:
        """Saves, if there was a notice."""
        del output
        number = None if self._checkpoint_number is None else int(self._checkpoint_number.numpy())
        self._handler.save_checkpoint_if_preempted(checkpoint_number=number)


def _keep_running() -> None:
    """Takes the place of ending the process."""
