"""A loop of a million steps in one graph, far longer than any test; tells when it has started."""

import sys

import tensorflow as tf

from quintain import orbit


class Trainer(orbit.StandardTrainer):
    def __init__(self):
        self.step = orbit.utils.create_global_step()
        self.matrix = tf.Variable(tf.eye(256))
        super().__init__(tf.data.Dataset.range(10).repeat())

    def train_step(self, iterator):
        next(iterator)
        self.matrix.assign(tf.matmul(self.matrix, self.matrix))
        self.step.assign_add(1)
        if self.step == 5:
            tf.print("started", output_stream=sys.stdout)


trainer = Trainer()
position = tf.Variable(0, dtype=tf.int64)
checkpoint = tf.train.Checkpoint(step=trainer.step, position=position)
manager = tf.train.CheckpointManager(checkpoint, sys.argv[1], max_to_keep=3)
try:
    with orbit.Interruption() as interruption:
        orbit.Controller(
            trainer=trainer,
            global_step=trainer.step,
            steps_per_loop=1_000_000,
            checkpoint_manager=manager,
            interruption=interruption,
            loop_position=position,
        ).train(2_000_000)
except orbit.Interrupted as stop:
    print(stop.reason, stop.step, int(position), manager.latest_checkpoint, flush=True)
