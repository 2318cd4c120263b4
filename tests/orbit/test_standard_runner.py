import pathlib

import pytest
import tensorflow as tf

from quintain import orbit

_LOOPS = {
    "graph loop": orbit.StandardTrainerOptions(),
    "python loop over a graph": orbit.StandardTrainerOptions(use_tf_while_loop=False),
    "python": orbit.StandardTrainerOptions(use_tf_while_loop=False, use_tf_function=False),
    "graph loop with summaries apart": orbit.StandardTrainerOptions(
        use_tpu_summary_optimization=True
    ),
}


@pytest.mark.parametrize("options", _LOOPS.values(), ids=_LOOPS)
def test_every_loop_runs_the_steps_it_is_told_to(make_counter, options):
    counter = make_counter(options=options)

    outputs = [counter.train(tf.constant(num_steps)) for num_steps in (3, 2)]

    assert outputs == [{"total": 0 + 1 + 2}, {"total": 3 + 4}]
    assert int(counter.global_step) == 5


@pytest.mark.parametrize("options", _LOOPS.values(), ids=_LOOPS)
def test_a_loop_that_is_compiled_ahead_takes_no_step_and_no_data(make_counter, options):
    counter = make_counter(options=options)

    counter.compile_train_loop()

    assert int(counter.global_step) == 0
    assert counter.train(tf.constant(3)) == {"total": 0 + 1 + 2}


def test_a_loop_that_is_compiled_ahead_is_not_traced_again(make_counter):
    counter = make_counter()
    traces = []
    take_step, counter.train_step = (
        counter.train_step,
        lambda iterator: (
            traces.append(1),
            take_step(iterator),
        ),
    )

    counter.compile_train_loop()
    num_traces = len(traces)
    counter.train(tf.constant(3))

    assert num_traces == len(traces) > 0


@pytest.mark.parametrize("options", _LOOPS.values(), ids=_LOOPS)
def test_every_loop_ends_with_its_data(make_counter, options):
    counter = make_counter(num_examples=4, options=options)

    outputs = [counter.train(tf.constant(3)) for _ in range(3)]

    assert outputs == [{"total": 0 + 1 + 2}, {"total": 3}, {"total": 0}]
    assert counter.train_data_exhausted


@pytest.mark.parametrize(
    "name", ["graph loop", "python loop over a graph", "graph loop with summaries apart"]
)
def test_end_of_the_data_leaves_no_trace_of_a_step(make_counter, name):
    # The step counter comes before the data in `Counter.train_step`, so an ordinary `next` at the
    # end of the data would count a step too many.
    counter = make_counter(num_examples=4, options=_LOOPS[name])

    counter.train(tf.constant(10))

    assert int(counter.global_step) == 4


def test_several_datasets_may_end_too():
    class Pairs(orbit.StandardTrainer):
        def __init__(self):
            self.total = tf.Variable(0, dtype=tf.int64)
            super().__init__({"a": tf.data.Dataset.range(3), "b": tf.data.Dataset.range(100)})

        def train_step(self, iterator):
            self.total.assign_add(next(iterator["a"]) + next(iterator["b"]))

        def train_loop_end(self):
            return {"total": int(self.total)}

    trainer = Pairs()

    assert trainer.train(tf.constant(10)) == {"total": 6}
    assert trainer.train_data_exhausted


def test_iterator_lives_as_long_as_the_dataset(make_counter):
    counter = make_counter()
    iterator = counter.ensure_train_iterator()
    counter.train(tf.constant(2))

    assert counter.train_iterator is iterator

    counter.train_dataset = tf.data.Dataset.range(7, 9)

    assert counter.train_iterator is None
    assert counter.train(tf.constant(2)) == {"total": 7 + 8}


def test_none_as_iterator_starts_the_data_again(make_counter):
    counter = make_counter()
    counter.train(tf.constant(2))

    counter.train_iterator = None

    assert counter.train(tf.constant(2)) == {"total": 0 + 1}


def test_a_new_number_of_steps_does_not_trace_the_loop_again(make_counter):
    counter = make_counter()
    traces = []
    train_step = counter.train_step
    counter.train_step = lambda iterator: traces.append(1) or train_step(iterator)
    counter.train(tf.constant(1))
    num_traces = len(traces)

    counter.train(tf.constant(5))

    assert len(traces) == num_traces


@pytest.mark.parametrize("use_tf_while_loop", [False, True])
def test_evaluation_starts_at_the_beginning_of_the_data(make_counter, use_tf_while_loop):
    options = orbit.StandardEvaluatorOptions(use_tf_while_loop=use_tf_while_loop)
    counter = make_counter(eval_options=options)

    totals = [int(counter.evaluate(tf.constant(2))["eval_total"]) for _ in range(2)]

    assert totals == [0 + 1, 0 + 1]


def test_evaluation_may_go_on_where_it_ended(make_counter):
    options = orbit.StandardEvaluatorOptions(recreate_iterator_for_each_eval=False)
    counter = make_counter(eval_options=options)
    counter.eval_dataset = tf.data.Dataset.range(10)

    totals = [int(counter.evaluate(tf.constant(2))["eval_total"]) for _ in range(2)]

    assert totals == [0 + 1, 2 + 3]


class _Collector(orbit.StandardEvaluator):
    """Concatenates the numbers of all steps into a growing state."""

    def eval_begin(self):
        return {"numbers": tf.zeros([0], tf.int64)}

    def eval_step(self, iterator):
        return next(iterator)

    def eval_reduce(self, state, step_outputs):
        return {"numbers": tf.concat([state["numbers"], [step_outputs]], axis=0)}

    def eval_end(self, state):
        return {"numbers": state["numbers"].numpy().tolist()}


@pytest.mark.parametrize("use_tf_while_loop", [False, True])
def test_state_goes_through_all_steps_and_may_grow(use_tf_while_loop):
    options = orbit.StandardEvaluatorOptions(use_tf_while_loop=use_tf_while_loop)
    evaluator = _Collector(tf.data.Dataset.range(10), options)

    assert evaluator.evaluate(tf.constant(4)) == {"numbers": [0, 1, 2, 3]}


def test_failing_evaluation_is_undone(make_counter):
    counter = make_counter()
    aborted = []
    counter.eval_abort = lambda: aborted.append(True)
    # The second number is a division by zero.
    counter.eval_dataset = tf.data.Dataset.range(3).map(lambda number: 1 // (1 - number))

    with pytest.raises(tf.errors.InvalidArgumentError):
        counter.evaluate(tf.constant(-1))

    assert aborted == [True]


def test_complete_evaluation_in_a_graph_loop_is_an_error(make_counter):
    counter = make_counter(eval_options=orbit.StandardEvaluatorOptions(use_tf_while_loop=True))

    with pytest.raises(ValueError, match="`num_steps`: got -1"):
        counter.evaluate(tf.constant(-1))


@pytest.mark.parametrize(
    ("options_class", "arguments"),
    [
        (orbit.StandardTrainerOptions, {"use_tf_function": False}),
        (
            orbit.StandardTrainerOptions,
            {"use_tf_while_loop": False, "use_tpu_summary_optimization": True},
        ),
        (
            orbit.StandardEvaluatorOptions,
            {"use_tf_function": False, "use_tf_while_loop": True},
        ),
    ],
)
def test_options_that_exclude_each_other_are_errors(options_class, arguments):
    with pytest.raises(ValueError, match="needs `use_tf_"):
        options_class(**arguments)


@pytest.mark.slow
@pytest.mark.e2e
def test_finite_data_ends_cleanly_under_every_strategy(run_python):
    program = pathlib.Path(__file__).parents[1] / "programs" / "finite_data.py"

    result = run_python(program)

    assert result.stdout.splitlines() == ["7 378"] * 3, result.stderr


def test_a_step_may_take_parts_out_of_its_batch():
    class Popper(orbit.StandardEvaluator):
        def eval_begin(self):
            return []

        def eval_step(self, iterator):
            batch = next(iterator)
            label = batch.pop("label")
            return label, len(batch)

        def eval_reduce(self, state=None, step_outputs=None):
            return [*state, int(step_outputs[0])]

        def eval_end(self, state):
            return {"labels": state}

    data = tf.data.Dataset.from_tensor_slices({"label": [1, 2, 3], "features": [0.0, 0.0, 0.0]})

    assert Popper(data).evaluate(tf.constant(-1)) == {"labels": [1, 2, 3]}
