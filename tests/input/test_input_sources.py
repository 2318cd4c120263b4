import itertools

import pytest
import tensorflow as tf

from quintain import errors
from quintain.input import input_reader, input_sources
from quintain.settings import config_definitions as cfg


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Two files: `small` with 0 to 9, `large` with 100 to 139."""
    directory = tmp_path_factory.mktemp("records")
    for name, numbers in (("small", range(10)), ("large", range(100, 140))):
        with tf.io.TFRecordWriter(str(directory / f"{name}.tfrecord")) as writer:
            for number in numbers:
                writer.write(str(number).encode())
    return directory


@pytest.fixture
def mixture(directory):
    return {
        "small": {"path": str(directory / "small.tfrecord"), "weight": 3},
        "large": {"path": str(directory / "large.*"), "weight": 1},
    }


def _read(params, num=None, **stages):
    reader = input_reader.InputReader(
        params, decoder_fn=lambda record: tf.strings.to_number(record, tf.int32), **stages
    )
    batches = (batch.numpy().tolist() for batch in reader.read())
    return list(itertools.chain.from_iterable(itertools.islice(batches, num)))


@pytest.mark.slow
@pytest.mark.parametrize("cache", [False, True])
def test_training_draws_from_the_sources_by_weight(mixture, cache):
    params = cfg.DataConfig(
        input_path=mixture, global_batch_size=100, is_training=True, cache=cache, seed=1
    )

    numbers = _read(params, 20)

    share = sum(number < 100 for number in numbers) / len(numbers)
    # Four standard deviations of 2,000 draws with probability 3/4.
    assert abs(share - 0.75) < 4 * (0.75 * 0.25 / 2_000) ** 0.5
    assert set(numbers) == {*range(10), *range(100, 140)}


def test_evaluation_sees_every_example_of_all_sources_once(mixture):
    params = cfg.DataConfig(input_path=mixture, global_batch_size=8, is_training=False)

    assert _read(params) == [*range(10), *range(100, 140)]


def test_a_weight_left_out_is_one(mixture):
    del mixture["large"]["weight"]
    params = cfg.DataConfig(input_path=mixture)

    sources = input_sources.get_sources(params)

    assert [(source.name, source.weight) for source in sources] == [("small", 3), ("large", 1)]


@pytest.mark.slow
def test_the_same_seed_draws_the_same_mixture(mixture):
    first, again, other = (
        _read(
            cfg.DataConfig(input_path=mixture, global_batch_size=9, is_training=True, seed=seed), 4
        )
        for seed in (1, 1, 2)
    )

    assert first == again
    assert first != other


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"path": "x", "wieght": 2}, r"input_path.a: got the unknown key 'wieght', .*'weight'\?"),
        ({"weight": 2}, r"input_path.a.path: missing"),
        ({"path": "x", "weight": 0}, r"input_path.a.weight: got 0, expected a number greater"),
        ({"path": "x", "weight": "2"}, r"input_path.a.weight: got '2', expected a number"),
    ],
)
def test_a_source_described_wrongly_is_an_error(entry, message):
    with pytest.raises(errors.ConfigError, match=message):
        input_sources.get_sources(cfg.DataConfig(input_path={"a": entry}))


def test_no_source_is_an_error():
    with pytest.raises(errors.ConfigError, match="input_path: got '', expected a file"):
        input_sources.get_sources(cfg.DataConfig())


def test_weights_and_a_combine_fn_are_an_error(mixture):
    params = cfg.DataConfig(input_path=mixture, global_batch_size=1)

    with pytest.raises(errors.ConfigError, match="got weights and a combine_fn"):
        input_reader.InputReader(params, combine_fn=lambda datasets: datasets["small"])


def test_a_missing_file_of_a_source_is_named_with_the_source(directory):
    params = cfg.DataConfig(input_path={"a": {"path": str(directory / "smal.tfrecord")}})

    with pytest.raises(errors.DataError, match=r"input_path\.a: no file .*Did you mean .*small"):
        input_reader.InputReader(params)
