"""Reads examples that are known by their numbers, such as the rows of a table in memory."""

from typing import Any

import tensorflow as tf
from typing_extensions import override

from quintain.input import input_files, input_reader
from quintain.settings import config_definitions as cfg


class RowReader(input_reader.InputReader):
    """An `InputReader` of numbered examples in place of files.

    Training sees all of them in a new order every epoch, without a shuffle buffer, so that a
    position is no more than two numbers.

    Example:
        >>> params = cfg.DataConfig(input_path="rows", global_batch_size=2, is_training=False)
        >>> rows = tf.constant([5.0, 6.0, 7.0])
        >>> reader = RowReader(params, 3, parser_fn=lambda row: rows[row])
        >>> [batch.numpy().tolist() for batch in reader.read_rows()]
        [[5.0, 6.0], [7.0]]
    """

    def __init__(
        self, params: cfg.DataConfig, num_rows: int, *, counts: bool = False, **stages: Any
    ) -> None:
        """Takes the number of examples, and the stages of an `InputReader`.

        The first stage that is given gets the number of an example, an int64 scalar. With `counts`
        it gets the example's place in the whole order before it, on which random changes depend.
        """
        size = num_rows if params.cache else 0
        super().__init__(params.replace(shuffle_buffer_size=size), **stages)
        self._num_rows = num_rows
        self._counts = counts

    @override
    def get_files(self, input_path: Any, name: str = "input_path") -> list[str]:
        return []

    def read_rows(self, input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
        """Returns the batches of this worker; see `InputReader.read`."""
        return self.read(input_context, self._order(input_context))

    def _order(self, input_context: tf.distribute.InputContext | None) -> tf.data.Dataset:
        params, num_rows = self._params, self._num_rows
        if params.is_training:
            seed = input_reader.get_seed(params, input_context)

            @tf.autograph.experimental.do_not_convert
            def draw_order(epoch: tf.Tensor) -> tf.data.Dataset:
                numbers = input_files.draw_uniform(num_rows, seed=seed, epoch=epoch)
                order = tf.argsort(numbers, stable=True)
                return tf.data.Dataset.from_tensor_slices(tf.cast(order, tf.int64))

            num_epochs = 1 if params.cache else tf.int64.max
            rows = tf.data.Dataset.range(num_epochs).flat_map(draw_order, name="rows")
        else:
            rows = tf.data.Dataset.range(num_rows, name="rows")
        rows = rows.enumerate() if self._counts else rows
        if input_context is None or not params.sharding:
            return rows
        return rows.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
