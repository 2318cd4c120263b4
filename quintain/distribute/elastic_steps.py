"""Steps that give the same bits on any number of replicas: `runtime.elastic`.

A batch is made of a fixed number of shards. The gradients, metrics and statistics of a shard are
computed by one function that is never merged with what is around it, whoever has the shard, and
summed in pairs: a replica has neighbouring shards, so that its sum is a branch of the same tree.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.framework import auto_control_deps_utils
from typing_extensions import override

from quintain import errors
from quintain.distribute import replica_seeds
from quintain.input.diagnosis import random_watch
from quintain.optimization import dense_gradients, fused_optimizer, optimizer_wrapper
from quintain.orbit import cluster
from quintain.settings import config_definitions as cfg

ShardFn = Callable[[Any, Any], None]
"""Does the step of a shard: takes its batch, and an optimizer that keeps the gradients."""


def check(runtime: cfg.RuntimeConfig, num_replicas: int) -> None:
    """Checks that shards can be spread over the replicas of all workers.

    Raises:
        ConfigError: If they can't.
    """
    if runtime.elastic and runtime.elastic_shards % num_replicas:
        raise errors.ConfigError(
            f"runtime.elastic: got {num_replicas} workers or replicas, expected 1, 2, 4, ... up to "
            f"runtime.elastic_shards, {runtime.elastic_shards}."
        )


def find_problems(params: cfg.ExperimentConfig) -> Iterator[str]:
    """Yields what of an experiment keeps it from being elastic."""
    shards, trainer = params.runtime.elastic_shards, params.trainer
    data = getattr(params.task, "train_data", None)
    size = getattr(data, "global_batch_size", None)
    if size is not None and size % shards:
        yield (
            f"task.train_data.global_batch_size: got {size}, expected a multiple of "
            f"runtime.elastic_shards, {shards}. Change one of them."
        )
    batches = trainer.optimizer_config.gradient_accumulation_steps
    if batches > 1:
        yield (
            f"trainer.optimizer_config.gradient_accumulation_steps: got {batches} with "
            "runtime.elastic, expected 1. A worker takes its shards one after the other: raise "
            "runtime.elastic_shards."
        )
    if not trainer.train_tf_function:
        yield "trainer.train_tf_function: got False with runtime.elastic, expected True."
    if cfg.find_privacy(params) is not None:
        yield "runtime.elastic: got True with differential_privacy_config; leave one of them out."


def input_context(runtime: cfg.RuntimeConfig, *, is_training: bool) -> tf.distribute.InputContext:
    """Returns the share of the data that every worker reads: all of it, for training by shard."""
    return tf.distribute.InputContext(
        num_replicas_in_sync=runtime.elastic_shards if is_training else 1
    )


def keep_first(strategy: tf.distribute.Strategy, metrics: Sequence[keras.Metric]) -> None:
    """Sets metrics, which are read as sums over replicas, to 0 on all but the first replica."""
    variables = [variable for metric in metrics for variable in metric.variables]

    @tf.function(autograph=False)
    def run() -> None:
        strategy.run(reset)

    def reset() -> None:
        if _find_place(strategy):
            for variable in variables:
                fused_optimizer.write(variable, tf.zeros(variable.shape, variable.dtype))

    run()


@dataclasses.dataclass(frozen=True)
class Changes:
    """Variables that a step changes besides weights."""

    list_sums: Callable[[], Sequence[Any]]
    """Returns variables to which it adds, such as those of metrics."""

    list_statistics: Callable[[], Sequence[Any]]
    """Returns variables that it moves, such as a moving mean."""

    list_seeds: Callable[[], Sequence[Any]]
    """Returns the states of seed generators."""

    counters: Sequence[Any] = ()
    """Further variables to which it adds whole numbers."""


class ElasticStep:
    """A step of training over all shards of a batch.

    Args:
        strategy: Strategy of the run.
        num_shards: Shards of a batch.
        optimizer: Updates the weights.
        run_shard: Does the step of a shard.
        weigh: Runs what needs sums over all shards before the step, if there is such a thing.
        changes: What the step of a shard changes.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        num_shards: int,
        optimizer: Any,
        run_shard: ShardFn,
        *,
        weigh: Callable[[Any], Any] | None,
        changes: Changes,
    ) -> None:
        found = optimizer_wrapper.find_wrapper(optimizer, fused_optimizer.FusedOptimizer)
        if found is None:
            raise errors.ConfigError(
                f"runtime.elastic: got the optimizer {type(optimizer).__name__}, expected one of "
                "this package's."
            )
        self._strategy = strategy
        self._num_shards = num_shards
        self._optimizer = optimizer
        self._run_shard = run_shard
        self._weigh = weigh
        # AutoGraph has nothing to do in them, and can't convert what they call.
        unconverted = tf.autograph.experimental.do_not_convert
        self._list_sums = unconverted(changes.list_sums)
        self._list_statistics = unconverted(changes.list_statistics)
        self._list_seeds = unconverted(changes.list_seeds)
        self._counters = changes.counters

    def run(
        self, batches: Sequence[Any], apply: Callable[[Callable[[], None]], Any], autograph: bool
    ) -> None:
        """Trains on a step's batches, one for each shard, which all workers have read.

        Args:
            batches: The batches.
            apply: Calls what updates the weights.
            autograph: Whether AutoGraph converts the step of a shard.
        """
        self._strategy.run(self._run_replica, args=(list(batches), apply, autograph))

    def _run_replica(
        self, batches: list[Any], apply: Callable[[Callable[[], None]], Any], autograph: bool
    ) -> None:
        num_local = self._num_shards // self._strategy.num_replicas_in_sync
        first = _find_place(self._strategy) * num_local
        shards = list(range(first, first + num_local))
        totals = self._sum_weights([batches[shard] for shard in shards])
        sums, statistics = self._list_sums(), self._list_statistics()
        seeds = self._list_seeds()
        before = [_read_all(part) for part in (sums, statistics, seeds)]
        optimizer = GradientKeeper(self._optimizer)
        step = functools.partial(self._trace_shard, optimizer)
        compiled = tf.function(
            step, autograph=autograph, experimental_attributes={"_noinline": True}
        )
        arguments = [
            (tf.constant(shard, tf.int64), batches[shard], totals, before[1], before[2])
            for shard in shards
        ]
        self._check_writes(compiled.get_concrete_function(*arguments[0]).graph)
        results = self._sum_all([compiled(*each) for each in arguments])
        gradients, added, moved = results
        for variable, old, new in zip(sums, before[0], added, strict=True):
            # Read as the sum over replicas, of which the first has all.
            fused_optimizer.write(variable, tf.zeros_like(old) if first else old + new)
        for variable, new in zip(statistics, moved, strict=True):
            fused_optimizer.write(variable, new / self._num_shards)
        for variable, old in zip(seeds, before[2], strict=True):
            fused_optimizer.write(variable, tf.stack([old[0], _read(variable)[1]]))
        with fused_optimizer.gradients_are_summed():
            apply(lambda: self._optimizer.apply_gradients(optimizer.pair(gradients)))

    def _trace_shard(
        self,
        optimizer: "GradientKeeper",
        shard: tf.Tensor,
        batch: Any,
        totals: list[tf.Tensor],
        statistics: list[tf.Tensor],
        seeds: list[tf.Tensor],
    ) -> tuple[list[tf.Tensor], list[tf.Tensor], list[tf.Tensor]]:
        """Returns the gradients of a shard, what it adds, and its statistics."""
        sums = self._list_sums()
        for variable in sums:
            fused_optimizer.write(variable, tf.zeros(variable.shape, variable.dtype))
        for variable, value in zip(self._list_statistics(), statistics, strict=True):
            fused_optimizer.write(variable, value)
        for variable, state in zip(self._list_seeds(), seeds, strict=True):
            fused_optimizer.write(variable, replica_seeds.mix(state, shard))
        context = ShardContext(self._strategy, shard, self._num_shards, totals)
        with context:
            self._run_shard(batch, optimizer)
        context.check(optimizer)
        draws = random_watch.find_draws(tf.compat.v1.get_default_graph())
        if draws:
            raise errors.ConfigError(
                "runtime.elastic: the training step draws random numbers that depend on the number "
                f"of workers: {'; '.join(draws)}. Use Keras' random layers, or keras.random with "
                "a keras.random.SeedGenerator that the task or the model holds."
            )
        return optimizer.take(), _read_all(sums), _read_all(self._list_statistics())

    def _sum_weights(self, batches: Sequence[Any]) -> list[tf.Tensor]:
        """Returns the sums over all shards that `weigh` asks for, in its order."""
        if self._weigh is None:
            return []
        parts = []
        for batch in batches:
            context = ShardContext(self._strategy, tf.constant(0), self._num_shards, None)
            with context:
                self._weigh(batch)
            parts.append(context.values)
        return self._sum_all(parts)

    def _sum_all(self, parts: Sequence[Any]) -> Any:
        """Returns the sums over all shards of structures of tensors, in the order of the tree."""
        flat = _sum_tree([tf.nest.flatten(part) for part in parts])
        if self._strategy.num_replicas_in_sync > 1 and flat:
            is_cluster = cluster.num_workers(self._strategy) > 1
            flat = _sum_workers(flat) if is_cluster else _sum_replicas(flat)
        return tf.nest.pack_sequence_as(parts[0], flat)

    @tf.autograph.experimental.do_not_convert
    def _check_writes(self, graph: Any) -> None:
        """Checks that a shard changes nothing that would depend on how many came before it.

        Raises:
            ConfigError: If it does.
        """
        known = [*self._list_sums(), *self._list_statistics(), *self._list_seeds()]
        handles = {id(fused_optimizer.get_handle(part)) for part in [*known, *self._counters]}
        names = {id(part.handle): part.name for part in graph.variables}
        read_only = auto_control_deps_utils.get_read_only_resource_input_indices_graph(graph)
        only_read = {id(graph.inputs[index]) for index in read_only}
        for outside, inside in graph.captures:
            is_changed = outside.dtype == tf.resource and id(inside) not in only_read
            if is_changed and id(outside) not in handles:
                user = next(iter(inside.consumers()), inside.op)
                raise errors.ConfigError(
                    "runtime.elastic: the training step changes "
                    f"{names.get(id(outside), 'a resource')!r}{random_watch.find_line(user)}. Only "
                    "metrics, moving statistics and the seeds of random layers may change, of "
                    "which it is known how shards share them."
                )


class GradientKeeper:
    """Takes the place of an optimizer in the step of a shard, and keeps the gradients."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._gradients: list[tf.Tensor | None] | None = None
        self._variables: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._optimizer, name)

    @property
    def has_gradients(self) -> bool:
        """True if there are gradients."""
        return self._gradients is not None

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> None:
        """Keeps gradients.

        Raises:
            ConfigError: If there are some already.
        """
        del args, kwargs
        if self.has_gradients:
            raise errors.ConfigError(
                "runtime.elastic: the training step updates weights twice, expected once."
            )
        pairs = list(grads_and_vars)
        self._variables = [variable for _, variable in pairs]
        self._gradients = [
            None if gradient is None else dense_gradients.densify(gradient, variable)
            for gradient, variable in pairs
        ]

    def apply(self, grads: Sequence[Any], trainable_variables: Any = None) -> None:
        """Keeps gradients."""
        if trainable_variables is None:
            trainable_variables = self._optimizer._trainable_variables
        self.apply_gradients(zip(grads, trainable_variables, strict=True))

    def take(self) -> list[tf.Tensor]:
        """Returns the gradients, without those that are None."""
        gradients, self._gradients = self._gradients or [], None
        self._missing = [gradient is None for gradient in gradients]
        return [gradient for gradient in gradients if gradient is not None]

    def pair(self, gradients: Sequence[tf.Tensor]) -> list[tuple[tf.Tensor | None, Any]]:
        """Returns gradients, in the order in which they were taken, with their variables."""
        left = iter(gradients)
        return [
            (None if is_missing else next(left), variable)
            for is_missing, variable in zip(self._missing, self._variables, strict=True)
        ]


class ShardContext(tf.distribute.ReplicaContext):
    """The context of a shard, which to a task is one of `num_shards` replicas.

    Args:
        strategy: Strategy of the run.
        shard: Place of the shard among all.
        num_shards: Shards of a batch.
        totals: Sums over all shards, which `all_reduce` gives. None notes what would be summed.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        shard: tf.Tensor,
        num_shards: int,
        totals: Sequence[tf.Tensor] | None,
    ) -> None:
        outer = tf.distribute.get_replica_context()
        super().__init__(strategy, outer._replica_id_in_sync_group)
        self._shard = shard
        self._num_shards = num_shards
        self._totals = None if totals is None else list(totals)
        self._is_divided = False
        self.values: list[tf.Tensor] = []

    @property
    @override
    def num_replicas_in_sync(self) -> int:
        self._is_divided = True
        return self._num_shards

    @property
    @override
    def replica_id_in_sync_group(self) -> tf.Tensor:
        return self._shard

    @override
    def all_reduce(self, reduce_op: Any, value: Any, options: Any = None) -> Any:
        del options
        if self._totals is None:
            self.values.append(tf.convert_to_tensor(value))
            return value
        if not self._totals:
            return self.merge_call(None)
        total = self._totals.pop(0)
        is_sum = tf.distribute.ReduceOp(str(getattr(reduce_op, "value", reduce_op)).upper())
        return total if is_sum is tf.distribute.ReduceOp.SUM else total / self._num_shards

    @override
    def all_gather(self, value: Any, axis: Any, options: Any = None) -> Any:
        return self.merge_call(None)

    @override
    def merge_call(self, merge_fn: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise errors.ConfigError(
            "runtime.elastic: the training step needs values of the other shards in its midst, "
            "which are not computed at the same time. Only Task.weigh_replica may sum over them; "
            "leave out synchronized statistics and contrasts between replicas."
        )

    def check(self, optimizer: GradientKeeper) -> None:
        """Checks that a step gave gradients which add up over the shards.

        Raises:
            ConfigError: If it did not.
        """
        if optimizer.has_gradients and self._is_divided:
            return
        raise errors.ConfigError(
            "runtime.elastic: a train_step of one's own can only be split if it divides its loss "
            "by tf.distribute.get_replica_context().num_replicas_in_sync and calls "
            "optimizer.apply_gradients, or leaves both to Task.train_step."
        )


def _find_place(strategy: tf.distribute.Strategy) -> int:
    """Returns this replica's place among all, as a number of Python."""
    num_local = strategy.num_replicas_in_sync // cluster.num_workers(strategy)
    local = int(tf.distribute.get_replica_context()._replica_id or 0)
    return cluster.worker_index(strategy) * num_local + local


def _read(variable: Any) -> tf.Tensor:
    """Returns the value of this replica's copy of a variable."""
    return tf.raw_ops.ReadVariableOp(
        resource=fused_optimizer.get_handle(variable), dtype=tf.as_dtype(variable.dtype)
    )


def _read_all(variables: Sequence[Any]) -> list[tf.Tensor]:
    return [tf.ensure_shape(_read(variable), variable.shape) for variable in variables]


def _sum_tree(rows: Sequence[Sequence[tf.Tensor]]) -> list[tf.Tensor]:
    """Returns the sums of neighbours' sums: of 0 and 1, 2 and 3, then of both, and so on."""
    # Or TensorFlow would join the additions to one, in another order.
    add = tf.function(
        lambda left, right: [tf.add(*pair) for pair in zip(left, right, strict=True)],
        autograph=False,
        experimental_attributes={"_noinline": True},
    )
    rows = [list(row) for row in rows]
    while len(rows) > 1:
        rows = [add(rows[at], rows[at + 1]) for at in range(0, len(rows), 2)]
    return list(rows[0])


def _sum_replicas(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Returns the sums over the replicas of this process, whose tensors it can reach."""

    def add(strategy: tf.distribute.Strategy, *values: Any) -> list[tf.Tensor]:
        copies = [strategy.experimental_local_results(value) for value in values]
        return _sum_tree(list(zip(*copies, strict=True)))

    sums: list[tf.Tensor] = tf.distribute.get_replica_context().merge_call(add, args=tuple(tensors))
    return sums


def _sum_workers(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Returns the sums over the replicas of all workers: each gets all, and sums them alike."""
    context = tf.distribute.get_replica_context()
    results = list(tensors)
    for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
        places = [place for place, part in enumerate(tensors) if part.dtype == dtype]
        parts = [tensors[place] for place in places]
        row = tf.concat([tf.reshape(part, [-1]) for part in parts], axis=0)
        rows = context.all_gather(row[tf.newaxis], axis=0)
        [total] = _sum_tree([[each] for each in tf.unstack(rows, context.num_replicas_in_sync)])
        sizes = [part.shape.num_elements() for part in parts]
        for place, part in zip(places, tf.split(total, sizes), strict=True):
            results[place] = tf.reshape(part, tensors[place].shape)
    return results
