"""Trains over 7 of 10 steps in one graph under every strategy.

With a step counter and a nested function that do not wait for the data. Two virtual CPUs can only
be made before TensorFlow starts.
"""

import tensorflow as tf

from quintain import orbit

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


class Trainer(orbit.StandardTrainer):
    def __init__(self, strategy, dataset):
        self.strategy = strategy
        with strategy.scope():
            self.step = orbit.utils.create_global_step()
            self.total = tf.Variable(
                0, dtype=tf.int64, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA
            )
        super().__init__(orbit.utils.make_distributed_dataset(strategy, dataset))

    def train_step(self, iterator):
        def replica_step(numbers):
            self.step.assign_add(1)
            total = tf.distribute.get_replica_context().all_reduce("sum", tf.reduce_sum(numbers))
            self.total.assign_add(total)

        self.strategy.run(replica_step, (next(iterator),))


for strategy in (
    tf.distribute.get_strategy(),
    tf.distribute.OneDeviceStrategy("CPU:0"),
    tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]),
):
    trainer = Trainer(strategy, tf.data.Dataset.range(28).batch(4))
    orbit.Controller(
        trainer=trainer, global_step=trainer.step, steps_per_loop=5, strategy=strategy
    ).train(10)
    print(int(trainer.step.numpy()), int(trainer.total.numpy()), flush=True)
