"""Random batches: who takes part, how often, and in what room."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from quintain import errors
from quintain.input import input_reader, poisson_sampling
from quintain.settings import config_definitions as cfg


def draw(num_steps, *, num_examples=50, batch_size=10, **options):
    """Returns the examples (their numbers) that each step drew."""
    dataset = poisson_sampling.sample(
        tf.data.Dataset.range(num_examples),
        num_examples=num_examples,
        batch_size=batch_size,
        seed=3,
        **options,
    )
    batches = list(dataset.take(num_steps))
    assert all(int(batch.num_dropped) == 0 for batch in batches)
    return [batch.inputs.numpy()[batch.is_real.numpy()] for batch in batches]


@pytest.mark.slow
def test_every_example_takes_part_with_the_given_probability_independently():
    steps = draw(2000)

    counts = np.bincount(np.concatenate(steps), minlength=50)
    sizes = np.array([len(step) for step in steps])
    # Binomial(2000, 0.2) has standard deviation 17.9, Binomial(50, 0.2) has variance 8.
    assert np.all(np.abs(counts - 400) < 4 * 17.9)
    assert stats.chisquare(counts).pvalue > 1e-3
    assert sizes.mean() == pytest.approx(10, abs=4 * np.sqrt(8 / 2000))
    assert sizes.var() == pytest.approx(8, rel=0.15)
    assert all(len(set(step)) == len(step) for step in steps)
    together = np.mean([np.isin([7, 8], step).all() for step in steps])
    assert together == pytest.approx(0.04, abs=4 * np.sqrt(0.04 / 2000))


@pytest.mark.slow
def test_batches_of_the_replicas_are_parts_of_one_random_batch():
    shares = [poisson_sampling.Share(4, 2, pipeline) for pipeline in (0, 1)]

    first, second = (draw(1000, num_examples=51, share=share) for share in shares)

    for number, batch in enumerate(first[:2] + second[:2]):
        assert set(batch % 4) <= {number}
    counts = np.bincount(np.concatenate(first + second), minlength=51)
    rate = 10 / 51
    assert np.all(np.abs(counts - 500 * rate) < 4.5 * np.sqrt(500 * rate * (1 - rate)))


def test_position_can_be_saved_and_restored(tmp_path):
    dataset = poisson_sampling.sample(
        tf.data.Dataset.range(50), num_examples=50, batch_size=10, seed=1
    )
    iterator = iter(dataset)
    for _ in range(3):
        next(iterator)
    path = tf.train.Checkpoint(data=iterator).write(str(tmp_path / "position"))
    expected = [next(iterator).inputs.numpy() for _ in range(3)]

    restored = iter(dataset)
    tf.train.Checkpoint(data=restored).read(path).assert_consumed()

    np.testing.assert_array_equal([next(restored).inputs.numpy() for _ in range(3)], expected)


@pytest.mark.parametrize(("num_examples", "rate"), [(50, 0.2), (60000, 256 / 60000), (10, 1.0)])
def test_room_of_a_batch_is_exceeded_by_nearly_none(num_examples, rate):
    size = poisson_sampling.choose_max_size(num_examples, rate)

    overflow = stats.binom.sf(size, num_examples, rate)
    assert overflow <= poisson_sampling.OVERFLOW_PROBABILITY
    assert size <= num_examples * rate + 8 * np.sqrt(num_examples * rate * (1 - rate)) + 10


def test_examples_without_room_are_counted(monkeypatch):
    monkeypatch.setattr(poisson_sampling, "choose_max_size", lambda num_examples, rate: 4)

    dataset = poisson_sampling.sample(
        tf.data.Dataset.range(10), num_examples=10, batch_size=10, seed=1
    )

    batch = next(iter(dataset))
    assert batch.is_real.numpy().all()
    assert len(batch.inputs) == 4
    assert int(batch.num_dropped) == 6


def test_examples_of_different_sizes_are_padded_to_the_largest():
    examples = tf.data.Dataset.range(1, 5).map(lambda size: {"tokens": tf.ones([size], tf.int32)})

    dataset = poisson_sampling.sample(examples, num_examples=4, batch_size=4, seed=1)

    assert next(iter(dataset)).inputs["tokens"].numpy().sum(axis=1).tolist() == [1, 2, 3, 4]
    assert dataset.element_spec.inputs["tokens"].shape == (4, 4)


@pytest.mark.parametrize(("num_examples", "found"), [(9, "more than 9"), (11, "10 examples")])
def test_wrong_number_of_examples_is_an_error(num_examples, found):
    with pytest.raises(errors.DataError, match=rf"num_examples: got {num_examples}.*{found}"):
        poisson_sampling.sample(
            tf.data.Dataset.range(10), num_examples=num_examples, batch_size=2, seed=1
        )


@pytest.fixture
def numbers_path(tmp_path):
    path = str(tmp_path / "numbers.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for number in range(20):
            writer.write(str(number).encode())
    return path


@pytest.mark.slow
def test_input_reader_draws_training_batches(numbers_path):
    params = cfg.DataConfig(
        input_path=numbers_path, is_training=True, global_batch_size=5, poisson_num_examples=20
    )
    reader = input_reader.InputReader(
        params,
        parser_fn=lambda record: (tf.strings.to_number(record), record),
        postprocess_fn=lambda number, record: (number + 100.0, record),
    )

    dataset = reader.read()

    assert poisson_sampling.is_sampled(dataset)
    batches = list(dataset.take(200))
    drawn = np.concatenate([poisson_sampling.get_real(batch)[0] for batch in batches])
    assert set(drawn) == set(np.arange(100.0, 120.0))
    assert len(drawn) == pytest.approx(1000, abs=4 * np.sqrt(200 * 20 * 0.25 * 0.75))


def test_input_reader_evaluates_without_chance(numbers_path):
    params = cfg.DataConfig(
        input_path=numbers_path, is_training=False, global_batch_size=5, poisson_num_examples=20
    )

    assert not poisson_sampling.is_sampled(input_reader.InputReader(params).read())
