import pytest
import tensorflow as tf

from quintain.orbit import loop_functions


def _add_next(total):
    return lambda iterator: total.assign_add(next(iterator))


def test_python_loop_folds_the_outputs():
    loop_fn = loop_functions.create_loop_fn(next)

    state = loop_fn(iter([3, 4, 5]), 2, state=0, reduce_fn=lambda state, number: state + number)

    assert state == 7


def test_python_loop_runs_until_the_data_ends():
    loop_fn = loop_functions.create_loop_fn(next)

    state = loop_fn(iter([3, 4, 5]), -1, state=[], reduce_fn=lambda state, x: [*state, x])

    assert state == [3, 4, 5]


def test_python_loop_ends_when_the_listener_says_so():
    seen = []
    loop_fn = loop_functions.create_loop_fn(next, lambda done: seen.append(done) or done == 2)

    loop_fn(iter([3, 4, 5]), -1)

    assert seen == [1, 2]


def test_graph_loop_returns_the_number_of_steps():
    total = tf.Variable(0, dtype=tf.int64)
    loop_fn = tf.function(loop_functions.create_tf_while_loop_fn(_add_next(total)))

    num_steps = loop_fn(iter(tf.data.Dataset.range(10)), tf.constant(4))

    assert int(num_steps) == 4
    assert int(total) == 0 + 1 + 2 + 3


@pytest.mark.parametrize("autograph", [True, False])
@pytest.mark.parametrize(("data_may_end", "num_steps"), [(False, 3), (True, 4)])
def test_graph_loop_need_not_be_converted(data_may_end, num_steps, autograph):
    total = tf.Variable(0, dtype=tf.int64)
    loop_fn = tf.function(
        loop_functions.create_tf_while_loop_fn(
            _add_next(total), tf.Variable(False), data_may_end=data_may_end
        ),
        autograph=autograph,
    )

    assert int(loop_fn(iter(tf.data.Dataset.range(4)), tf.constant(3 + 2 * data_may_end))) == (
        num_steps
    )
    assert int(total) == sum(range(num_steps))


def test_graph_loop_ends_before_the_step_after_the_flag_is_set():
    flag = tf.Variable(False)
    total = tf.Variable(0)

    def step_fn(iterator):
        total.assign_add(1)
        flag.assign(total >= 3)

    loop_fn = tf.function(loop_functions.create_tf_while_loop_fn(step_fn, stop_flag=flag))

    assert int(loop_fn(None, tf.constant(1000))) == 3
    assert int(total) == 3


def test_graph_loop_without_protection_raises_at_the_end_of_the_data():
    total = tf.Variable(0, dtype=tf.int64)
    loop_fn = tf.function(loop_functions.create_tf_while_loop_fn(_add_next(total)))

    with pytest.raises(tf.errors.OutOfRangeError):
        loop_fn(iter(tf.data.Dataset.range(2)), tf.constant(4))


def test_graph_loop_with_protection_ends_with_the_data():
    total = tf.Variable(0, dtype=tf.int64)
    loop_fn = tf.function(
        loop_functions.create_tf_while_loop_fn(_add_next(total), data_may_end=True)
    )

    assert int(loop_fn(iter(tf.data.Dataset.range(3)), tf.constant(9))) == 3
    assert int(total) == 3


def test_protected_step_takes_further_elements_from_the_iterator():
    total = tf.Variable(0, dtype=tf.int64)

    def step_fn(iterator):
        total.assign_add(10 * next(iterator) + iterator.get_next())

    loop_fn = tf.function(loop_functions.create_tf_while_loop_fn(step_fn, data_may_end=True))

    assert int(loop_fn(iter(tf.data.Dataset.range(4)), tf.constant(2))) == 2
    assert int(total) == (10 * 0 + 1) + (10 * 2 + 3)


def test_graph_loop_with_state_stops_at_the_flag():
    flag = tf.Variable(True)
    loop_fn = tf.function(loop_functions.create_tf_while_loop_fn_with_state(next, stop_flag=flag))

    state = loop_fn(
        iter(tf.data.Dataset.range(4)), tf.constant(2), tf.constant(7, tf.int64), tf.add
    )

    assert int(state) == 7


def test_steps_in_a_graph_loop_are_not_named_after_the_loop():
    names = []

    def step_fn(iterator):
        names.append(tf.constant(1.0, name="marker").name)

    tf.function(loop_functions.create_tf_while_loop_fn(step_fn))(None, tf.constant(1))

    assert names == ["marker:0"] * len(names)
    assert names


@pytest.mark.parametrize(
    "create",
    [
        loop_functions.create_tf_while_loop_fn,
        loop_functions.create_tf_while_loop_fn_with_state,
    ],
)
def test_python_number_of_steps_is_an_error(create):
    arguments = (None, 3) if create is loop_functions.create_tf_while_loop_fn else (None, 3, 0, max)

    with pytest.raises(ValueError, match=r"`num_steps`: got 3, expected a `tf\.Tensor`"):
        create(lambda iterator: None)(*arguments)
