import contextlib
import functools

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import op_def_pb2
from tensorflow.python.client import pywrap_tf_session
from tensorflow.python.ops import control_flow_util, gen_random_ops, random_ops

from quintain.input.diagnosis import random_watch
from quintain.trials.graphs import repeatable_random


def draw(step):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        with repeatable_random.random_ops_by_step(tf.constant(step, tf.int64)):
            values = tf.compat.v1.random_uniform([3], seed=7)
        return session.run(values).tolist()


def test_a_step_draws_the_same_again_and_another_step_other_numbers():
    assert draw(5) == draw(5)
    assert draw(5) != draw(6)


def test_tensorflow_is_as_before_after_a_block_that_fails():
    before = vars(gen_random_ops).copy()

    with pytest.raises(ZeroDivisionError):
        _fail_within(repeatable_random.random_ops_by_step(tf.constant(0, tf.int64)))

    assert vars(gen_random_ops) == before


def _fail_within(block):
    with block:
        raise ZeroDivisionError


@pytest.fixture(params=["loops of TensorFlow 1", "loops of TensorFlow 2"])
def kind_of_loop(request, monkeypatch):
    is_new = request.param.endswith("2")
    monkeypatch.setattr(control_flow_util, "ENABLE_CONTROL_FLOW_V2", is_new)


def run_loops(step):
    def collect(is_going_on, draw):
        def append(number, drawn):
            return number + 1, tf.concat([drawn, draw()], axis=0)

        shapes = (tf.TensorShape([]), tf.TensorShape([None]))
        start = (tf.constant(0), tf.zeros([0]))
        return tf.while_loop(
            is_going_on, append, start, shape_invariants=shapes, maximum_iterations=200
        )[1]

    def draw_one():
        return tf.compat.v1.random_uniform([1])

    def weigh(example):
        return tf.nn.dropout(example * weight, rate=0.5)

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(3)
        with repeatable_random.random_ops_by_step(tf.constant(step, tf.int64)):
            nested = collect(
                lambda number, _: number < 3,
                lambda: collect(lambda number, _: number < 2, draw_one),
            )
            until = collect(lambda *_: draw_one()[0] < 0.95, draw_one)
            weight = tf.ones([4])
            mapped = tf.map_fn(weigh, tf.ones([5, 4]))
            gradient = tf.gradients(mapped, weight)[0]
        return [each.tolist() for each in session.run([nested, until, mapped, gradient])]


@pytest.mark.slow
def test_each_iteration_of_a_loop_draws_numbers_of_its_own(kind_of_loop):
    nested, until, mapped, gradient = run_loops(5)

    assert len(set(nested)) == 6
    assert len(set(until)) == len(until) > 0
    assert len({tuple(row) for row in mapped}) > 1
    assert gradient == [sum(column) for column in zip(*mapped, strict=True)]
    assert run_loops(5) == [nested, until, mapped, gradient]
    assert run_loops(6)[0] != nested


def test_a_loop_around_the_block_changes_nothing(kind_of_loop):
    def draw_in_block(_):
        with repeatable_random.random_ops_by_step(tf.constant(5, tf.int64)):
            return tf.compat.v1.random_uniform([], seed=3)

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        drawn = session.run(tf.map_fn(draw_in_block, tf.zeros([3])))
    assert len(set(drawn.tolist())) == 1


def test_a_graph_whose_loops_draw_can_be_exported_and_read(kind_of_loop):
    with tf.Graph().as_default():
        with repeatable_random.random_ops_by_step(tf.constant(1, tf.int64)):
            tf.identity(tf.map_fn(lambda _: tf.compat.v1.random_uniform([]), tf.zeros([3])), "out")
        exported = tf.compat.v1.train.export_meta_graph()
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.train.import_meta_graph(exported)
        assert len(set(session.run("out:0").tolist())) == 3


def test_operations_without_a_seed_draw_numbers_of_their_own():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        with repeatable_random.random_ops_by_step(tf.constant(1, tf.int64)):
            draws = [tf.raw_ops.RandomUniform(shape=[2], dtype=tf.float32) for _ in range(2)]
        first, second = session.run(draws)
    assert first.tolist() != second.tolist()


SAMPLERS = {
    "uniform": tf.random.uniform_candidate_sampler,
    "log_uniform": tf.random.log_uniform_candidate_sampler,
    "fixed_unigram": functools.partial(
        tf.random.fixed_unigram_candidate_sampler,
        unigrams=list(range(1, 28)),
        distortion=0.75,
        num_reserved_ids=3,
    ),
}


def sample(sampler, unique, is_replaced):
    """Returns how often classes were drawn, and means of the expected counts."""
    num = 400
    drawn, true, sampled = np.zeros(30), np.zeros(2), 0.0
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(1)
        step = tf.compat.v1.placeholder_with_default(tf.constant(0, tf.int64), [])
        block = (
            repeatable_random.random_ops_by_step(step) if is_replaced else contextlib.nullcontext()
        )
        with block:
            tensors = sampler([[5], [20]], 1, 12, unique, 30)
        if is_replaced:
            assert [each.shape.as_list() for each in tensors] == [[12], [2, 1], [12]]
            assert not random_watch.find_draws(step.graph)
        draw = session.make_callable(list(tensors), [step])
        for number in range(num):
            classes, of_true, of_drawn = draw(number)
            assert not unique or len(set(classes.tolist())) == 12
            np.add.at(drawn, classes, 1 / num)
            true += of_true[:, 0] / num
            sampled += of_drawn.sum() / num
        assert draw(3)[0].tolist() == draw(3)[0].tolist() or not is_replaced
    return drawn, true, sampled


@pytest.mark.long(
    "Further cases of a test of which some run every time",
    but=["uniform-True", "fixed_unigram-False"],
)
@pytest.mark.slow
@pytest.mark.parametrize("unique", [True, False])
@pytest.mark.parametrize("name", SAMPLERS)
def test_candidates_are_drawn_as_tensorflow_draws_them(name, unique):
    drawn, true, sampled = sample(SAMPLERS[name], unique, True)
    as_is = sample(SAMPLERS[name], unique, False)

    assert drawn == pytest.approx(as_is[0], abs=0.2)
    assert true == pytest.approx(as_is[1], rel=0.02)
    assert sampled == pytest.approx(as_is[2], rel=0.02)


def test_more_different_candidates_than_classes_are_an_error():
    with (
        tf.Graph().as_default(),
        repeatable_random.random_ops_by_step(tf.constant(0, tf.int64)),
        pytest.raises(ValueError, match="Of 3 classes num_sampled=4"),
    ):
        tf.random.uniform_candidate_sampler([[1]], 1, 4, True, 3)


def test_other_operations_draw_what_they_drew_before():
    box = tf.constant([[[0.1, 0.1, 0.9, 0.9]]])
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        with repeatable_random.random_ops_by_step(tf.constant(2, tf.int64)):
            poisson = tf.random.poisson([2000], [2.0, 5.0])
            truncated = random_ops.parameterized_truncated_normal(
                [2, 2000], [0.0, 5.0], [1.0, 1.0], [-1.0, 4.0], [1.0, 6.0]
            )
            boxes = [
                tf.image.sample_distorted_bounding_box([50, 60, 3], box.numpy())[0]
                for _ in range(2)
            ]
        poisson, truncated, boxes = session.run([poisson, truncated, boxes])
    assert poisson.mean(axis=0) == pytest.approx([2.0, 5.0], abs=0.15)
    assert truncated.mean(axis=1) == pytest.approx([0.0, 5.0], abs=0.05)
    assert np.abs(truncated - [[0.0], [5.0]]).max() <= 1.0
    assert boxes[0].tolist() != boxes[1].tolist()


def test_what_has_a_state_that_can_not_be_kept_is_named_with_its_line(caplog):
    with tf.Graph().as_default(), repeatable_random.random_ops_by_step(tf.constant(2, tf.int64)):
        tf.nn.fractional_max_pool(tf.ones([1, 8, 8, 1]), 1.4, seed=1)
        assert not caplog.messages
        tf.random.learned_unigram_candidate_sampler([[1]], 1, 2, True, 9)
    (message,) = caplog.messages
    assert message.startswith(f"LearnedUnigramCandidateSampler ({__file__}:")


def test_every_stateful_random_operation_is_replaced_or_warned_of():
    buffer = pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList())
    table = op_def_pb2.OpList.FromString(buffer)
    drawing = {
        each.name
        for each in table.op
        if "seed2" in {one.name for one in each.attr}
        and (each.is_stateful or "deterministic" in {one.name for one in each.attr})
        and "Dataset" not in each.name
        and not each.name.startswith("CudnnRNN")  # Their weights are no variables of a graph's.
    }
    known = {
        name.replace("_", "")
        for _, name in (*repeatable_random._REPLACEMENTS, *repeatable_random._STATEFUL)
    }
    # What Python has no function for any more, what draws nothing, and queues, whose
    # position is not kept.
    others = {
        "allcandidatesampler",
        "randomcrop",
        "randompoisson",
        "randomshufflequeue",
        "randomshufflequeuev2",
        "sampledistortedboundingbox",
        "threadunsafeunigramcandidatesampler",
    }
    assert {name.lower() for name in drawing} == known | others
