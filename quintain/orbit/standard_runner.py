"""Trainers and evaluators that iterate over a dataset; only the step is left to write."""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from typing_extensions import override

from quintain.orbit import finite_data, iterators, loop_functions, optional_summaries, runner
from quintain.orbit import interruption as interruption_lib


@dataclasses.dataclass(frozen=True)
class StandardTrainerOptions:
    """Options of a `StandardTrainer`'s loop."""

    use_tf_function: bool = True
    """Whether `train_step` runs inside of a `tf.function`."""

    use_tf_while_loop: bool = True
    """Whether the whole loop is one graph. Needs `use_tf_function`."""

    use_tpu_summary_optimization: bool = False
    """Whether summaries are recorded by a second program that runs only the first step of a loop in
    which they are due. Needs `use_tf_while_loop`."""

    def __post_init__(self) -> None:
        if self.use_tf_while_loop and not self.use_tf_function:
            raise ValueError(
                "`use_tf_while_loop=True` needs `use_tf_function=True`: the loop is part of the "
                "graph. Got `use_tf_function=False`."
            )
        if self.use_tpu_summary_optimization and not self.use_tf_while_loop:
            raise ValueError(
                "`use_tpu_summary_optimization=True` needs `use_tf_while_loop=True`. Got "
                "`use_tf_while_loop=False`."
            )


class StandardTrainer(runner.AbstractTrainer, metaclass=abc.ABCMeta):
    """Runs `train_step` over a dataset, by default as one graph for the whole loop.

    Override `train_step`, and `train_loop_begin` and `train_loop_end` as needed. The iterator lives
    as long as the trainer: every loop goes on where the last one ended. If the data ends in the
    middle of a loop, the loop ends, and `train_data_exhausted` is True.
    """

    def __init__(self, train_dataset: Any, options: StandardTrainerOptions | None = None) -> None:
        """Stores the dataset; nothing is read from it yet.

        Args:
            train_dataset: A nested structure of `tf.data.Dataset`s or distributed datasets.
            options: None for the defaults.
        """
        self._train_options = options or StandardTrainerOptions()
        self._train_dataset = train_dataset
        self._train_iterator: Any = None
        self._train_loop_fn: Callable[..., Any] | None = None
        self._train_loop_interruption: interruption_lib.Interruption | None = None

    @override
    def train(self, num_steps: tf.Tensor) -> runner.Output | None:
        """Runs `num_steps` steps, or fewer if the data ends or the process is asked to stop."""
        self.train_loop_begin()
        iterator = self.ensure_train_iterator()
        loop_fn = self._ensure_train_loop_fn()
        self.train_data_exhausted = False
        num_steps_done = self._run_train_loop(loop_fn, iterator, num_steps)
        if self.train_data_exhausted or num_steps_done is None or num_steps_done >= int(num_steps):
            return self.train_loop_end()
        if _is_stop_agreed(self):
            return None
        self.train_data_exhausted = True
        return self.train_loop_end()

    def compile_train_loop(self) -> None:
        """Compiles the loop ahead of the first one, where it is a graph.

        It runs no step: no data are read, and nothing changes.
        """
        if self._train_options.use_tf_while_loop:
            iterator = self.ensure_train_iterator()
            self._ensure_train_loop_fn()(iterator, tf.constant(0))

    def _ensure_train_loop_fn(self) -> Callable[..., Any]:
        if self._train_loop_fn is None or self._train_loop_interruption is not self.interruption:
            self._train_loop_interruption = self.interruption
            self._train_loop_fn = self.create_train_loop_fn()
        return self._train_loop_fn

    def _run_train_loop(
        self, loop_fn: Callable[..., Any], iterator: Any, num_steps: tf.Tensor
    ) -> int | None:
        """Returns the steps done, or None if the loop does not tell."""
        try:
            result = loop_fn(iterator, num_steps)
        except tf.errors.OutOfRangeError:
            # Several datasets, or a step that takes several elements: see `finite_data.may_end`.
            self.train_data_exhausted = True
            return None
        is_count = tf.is_tensor(result) or isinstance(result, int)
        return int(result) if is_count and tf.rank(result) == 0 else None

    def train_loop_begin(self) -> None:
        """Runs in Python before every loop. Does nothing unless overridden."""

    @abc.abstractmethod
    def train_step(self, iterator: Any) -> None:
        """Runs one step; traced into a graph if `use_tf_function`.

        Called in the cross-replica context, so it may call `strategy.run`, and take as many
        elements as it needs.

        Args:
            iterator: The structure of `train_dataset` with an iterator for every dataset.
        """

    def train_loop_end(self) -> runner.Output | None:
        """Runs in Python after every completed loop; what it returns is logged and summarised.

        Override it to read, and reset, the metrics that the steps updated. It is not called when a
        loop is interrupted.
        """
        return None

    def create_train_loop_fn(self) -> Callable[..., Any]:
        """Creates `loop_fn(iterator, num_steps)`; called once, before the first loop."""
        options, step = self._train_options, self.traced_train_step
        if not options.use_tf_while_loop:
            step_fn = self._create_train_step_fn() if options.use_tf_function else self.train_step
            return self._count_steps(
                loop_functions.create_loop_fn(step_fn, after_step=self._after_train_step)
            )
        loop_fn = loop_functions.create_tf_while_loop_fn(
            step,
            stop_flag=None if self.interruption is None else self.interruption.flag,
            data_may_end=finite_data.may_end(self.train_dataset),
            elements_per_step=self.elements_per_step,
            take=self.take_train_elements,
        )
        if options.use_tpu_summary_optimization:
            return optional_summaries.LoopFnWithSummaries(loop_fn)
        is_converted = step == self.train_step or loop_functions.needs_autograph()
        compiled: Callable[..., Any] = tf.function(loop_fn, autograph=is_converted)
        return compiled

    def take_train_elements(self, take_fn: Callable[[], Any]) -> Any:
        """Takes the elements of a step before it, where the data may end; part of the graph."""
        return take_fn()

    @property
    def elements_per_step(self) -> int:
        """Elements that `train_step` takes of a dataset that ends. Override it if not 1."""
        return 1

    @property
    def traced_train_step(self) -> Callable[[Any], Any]:
        """`train_step` as graphs are made of it. Override it to leave AutoGraph out."""
        return self.train_step

    @property
    def train_dataset(self) -> Any:
        """The structure of datasets. Assigning another one drops the iterator of the old one."""
        return self._train_dataset

    @train_dataset.setter
    def train_dataset(self, train_dataset: Any) -> None:
        self._train_dataset = train_dataset
        self._train_loop_fn = None  # it depends on whether the data may end
        self.train_iterator = None

    @property
    def train_iterator(self) -> Any:
        """The structure of iterators, or None before the first loop. None starts the data again."""
        return self._train_iterator

    @train_iterator.setter
    def train_iterator(self, iterator: Any) -> None:
        self._train_iterator = iterator
        self.train_data_exhausted = False

    def ensure_train_iterator(self) -> Any:
        """Returns the structure of iterators, and creates it at the first call.

        A checkpoint that should hold the position in the data needs it before it is restored.
        """
        if self._train_iterator is None:
            self.train_iterator = tf.nest.map_structure(iterators.create, self.train_dataset)
        return self._train_iterator

    def _create_train_step_fn(self) -> Callable[[Any], Any]:
        """Compiles `train_step`; at the end of the data it raises before it changes anything."""
        compiled: Callable[[Any], Any]
        if not finite_data.may_end(self.train_dataset):
            compiled = tf.function(self.traced_train_step)
            return compiled
        guarded = finite_data.skip_step_without_data(
            self.traced_train_step, self.elements_per_step, self.take_train_elements
        )
        compiled = tf.function(guarded)

        def step_fn(iterator: Any) -> None:
            if not compiled(iterator):
                raise StopIteration

        return step_fn

    def _count_steps(self, loop_fn: Callable[..., Any]) -> Callable[..., int]:
        return lambda iterator, num_steps: loop_fn(
            iterator, num_steps, state=0, reduce_fn=lambda count, _: count + 1
        )

    def _after_train_step(self, num_steps_done: int) -> bool:
        del num_steps_done
        return _is_stop_agreed(self)


@dataclasses.dataclass(frozen=True)
class StandardEvaluatorOptions:
    """Options of a `StandardEvaluator`'s loop."""

    use_tf_function: bool = True
    """Whether `eval_step` runs inside of a `tf.function`."""

    use_tf_while_loop: bool = False
    """Whether the whole loop, with `eval_reduce`, is one graph. Needs `use_tf_function`, and a
    number of steps instead of -1."""

    recreate_iterator_for_each_eval: bool = True
    """Whether every evaluation starts at the beginning of the data."""

    def __post_init__(self) -> None:
        if self.use_tf_while_loop and not self.use_tf_function:
            raise ValueError(
                "`use_tf_while_loop=True` needs `use_tf_function=True`: the loop is part of the "
                "graph. Got `use_tf_function=False`."
            )


class StandardEvaluator(runner.AbstractEvaluator, metaclass=abc.ABCMeta):
    """Runs `eval_step` over a dataset and folds the outputs of the steps.

    Override `eval_step`, and the others as needed. The state that `eval_begin` returns goes through
    `eval_reduce` after every step and ends in `eval_end`.
    """

    def __init__(self, eval_dataset: Any, options: StandardEvaluatorOptions | None = None) -> None:
        """Stores the dataset; nothing is read from it yet.

        Args:
            eval_dataset: A nested structure of `tf.data.Dataset`s or distributed datasets.
            options: None for the defaults.
        """
        self._eval_options = options or StandardEvaluatorOptions()
        self._eval_dataset = eval_dataset
        self._eval_iterator: Any = None
        self._eval_loop_fn: Callable[..., Any] | None = None
        self._eval_loop_has_state = False
        self._eval_loop_interruption: interruption_lib.Interruption | None = None

    @override
    def evaluate(self, num_steps: tf.Tensor) -> runner.Output | None:
        """Evaluates `num_steps` steps, or all of the data for -1.

        Raises:
            ValueError: If `num_steps` is -1 and `use_tf_while_loop` is set.
            EvaluationInterrupted: If the process was asked to stop before all steps were done.
        """
        if self._eval_options.use_tf_while_loop and int(num_steps) == -1:
            raise ValueError(
                "`num_steps`: got -1 (evaluate until the data ends), which a graph's loop cannot "
                "do. Give the number of steps, or set `use_tf_while_loop=False`."
            )
        is_complete = False
        try:
            state = self._run_eval_loop(num_steps)
            if _is_stop_agreed(self):
                raise interruption_lib.EvaluationInterrupted
            is_complete = True
        finally:
            if not is_complete:
                self.eval_abort()
            if self._eval_options.recreate_iterator_for_each_eval:
                self._eval_iterator = None
        return self.eval_end() if state is None else self.eval_end(state)

    def _run_eval_loop(self, num_steps: tf.Tensor) -> Any:
        state = self.eval_begin()
        if self._eval_iterator is None:
            self._eval_iterator = tf.nest.map_structure(iterators.create, self.eval_dataset)
        has_state = state is not None
        if (
            self._eval_loop_fn is None
            or self._eval_loop_has_state != has_state
            or self._eval_loop_interruption is not self.interruption
        ):
            self._eval_loop_has_state = has_state
            self._eval_loop_interruption = self.interruption
            self._eval_loop_fn = self.create_eval_loop_fn(has_state)
        if self._eval_options.use_tf_while_loop and not has_state:
            self._eval_loop_fn(self._eval_iterator, num_steps)
            return None
        return self._eval_loop_fn(
            self._eval_iterator, num_steps, state=state, reduce_fn=self.eval_reduce
        )

    def eval_begin(self) -> Any:
        """Runs in Python before an evaluation; returns the first state, or None for no state."""
        return None

    @abc.abstractmethod
    def eval_step(self, iterator: Any) -> Any:
        """Runs one step; traced into a graph if `use_tf_function`.

        Called in the cross-replica context, as `StandardTrainer.train_step` is.

        Args:
            iterator: The structure of `eval_dataset` with an iterator for every dataset.

        Returns:
            What `eval_reduce` takes as `step_outputs`.
        """

    def eval_reduce(self, state: Any = None, step_outputs: Any = None) -> Any:
        """Returns the next state from the last one and the outputs of a step.

        Runs in Python, except that it is part of the graph if `use_tf_while_loop`.
        """
        del state, step_outputs

    def eval_end(self, *args: Any) -> runner.Output | None:
        """Runs in Python after a complete evaluation; what it returns is logged and summarised.

        Args:
            *args: The last state. Nothing if it is None.
        """
        del args
        return None

    def eval_abort(self) -> None:
        """Runs in place of `eval_end` if an evaluation is interrupted or fails.

        Override it to undo what `eval_begin` did to the model. Does nothing by default.
        """

    def create_eval_loop_fn(self, has_state: bool) -> Callable[..., Any]:
        """Creates the loop; called before the first evaluation.

        Args:
            has_state: Whether `eval_begin` returned a state.

        Returns:
            `loop_fn(iterator, num_steps, state=None, reduce_fn=None)`, or, without state and with
            `use_tf_while_loop`, `loop_fn(iterator, num_steps)`.
        """
        options = self._eval_options
        if not options.use_tf_while_loop:
            step_fn: Callable[[Any], Any] = self.eval_step
            if options.use_tf_function:
                step = self.traced_eval_step
                step_fn = finite_data.compile_step(
                    step, self.eval_dataset, self._eval_iterator, autograph=step == self.eval_step
                )
            return loop_functions.create_loop_fn(step_fn, after_step=self._after_eval_step)
        flag = None if self.interruption is None else self.interruption.flag
        create = (
            loop_functions.create_tf_while_loop_fn_with_state
            if has_state
            else loop_functions.create_tf_while_loop_fn
        )
        loop_fn = create(self.traced_eval_step, stop_flag=flag)
        compiled_loop_fn: Callable[..., Any] = tf.function(loop_fn)
        return compiled_loop_fn

    @property
    def traced_eval_step(self) -> Callable[[Any], Any]:
        """`eval_step` as graphs are made of it. Override it to leave AutoGraph out."""
        return self.eval_step

    @property
    def eval_dataset(self) -> Any:
        """The structure of datasets. Assigning another one drops the iterator of the old one."""
        return self._eval_dataset

    @eval_dataset.setter
    def eval_dataset(self, eval_dataset: Any) -> None:
        self._eval_dataset = eval_dataset
        self._eval_iterator = None

    def _after_eval_step(self, num_steps_done: int) -> bool:
        if self.eval_step_listener is not None:
            self.eval_step_listener(num_steps_done)
        return _is_stop_agreed(self)


def _is_stop_agreed(part: runner.AbstractTrainer | runner.AbstractEvaluator) -> bool:
    return interruption_lib.is_stop_agreed(part.interruption, tf.distribute.get_strategy())
