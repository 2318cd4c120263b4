"""Real TFRecord files of small numbers, so that every order and share can be read off."""

import itertools

import pytest
import tensorflow as tf

from quintain import errors
from quintain.input import input_files, input_reader
from quintain.settings import config_definitions as cfg

_NUM_RECORDS = 12


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """Four files of three records: 0 1 2, 3 4 5, 6 7 8 and 9 10 11."""
    directory = tmp_path_factory.mktemp("records")
    for file in range(4):
        with tf.io.TFRecordWriter(str(directory / f"part-{file}.tfrecord")) as writer:
            for i in range(3):
                writer.write(str(3 * file + i).encode())
    return directory


@pytest.fixture
def make_params(directory):
    def make(**fields):
        defaults = {
            "input_path": str(directory / "part-*.tfrecord"),
            "global_batch_size": 5,
            "is_training": False,
            "seed": 1,
        }
        return cfg.DataConfig(**(defaults | fields))

    return make


def _to_number(record):
    return tf.strings.to_number(record, tf.int32)


def _reader(params, **stages):
    return input_reader.InputReader(params, decoder_fn=_to_number, **stages)


def _batches(dataset, num=100):
    return [batch.numpy().tolist() for batch in itertools.islice(dataset, num)]


def _numbers(dataset, num=100):
    return list(itertools.chain.from_iterable(_batches(dataset, num)))


def _context(num_pipelines, pipeline):
    return tf.distribute.InputContext(num_pipelines, pipeline, num_pipelines)


# Evaluation


def test_evaluation_keeps_the_order_and_the_tail(make_params):
    batches = _batches(_reader(make_params(drop_remainder=True)).read())

    assert batches == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11]]


@pytest.mark.parametrize("num_pipelines", [2, 3, 5])
def test_workers_share_evaluation_without_gap_or_overlap(make_params, num_pipelines):
    params = make_params(global_batch_size=num_pipelines * 2)

    shares = [
        _numbers(_reader(params).read(_context(num_pipelines, i))) for i in range(num_pipelines)
    ]

    assert sorted(itertools.chain(*shares)) == list(range(_NUM_RECORDS))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_workers_without_sharding_all_read_everything(make_params):
    params = make_params(global_batch_size=4, sharding=False)

    assert _numbers(_reader(params).read(_context(2, 1))) == list(range(_NUM_RECORDS))


# Training


def test_training_is_shuffled_and_never_ends(make_params):
    params = make_params(is_training=True, global_batch_size=6, shuffle_buffer_size=2)

    epochs = _batches(_reader(params).read(), 40)

    counts = [sum(batch.count(i) for batch in epochs) for i in range(_NUM_RECORDS)]
    assert min(counts) >= 17
    assert max(counts) <= 23
    assert epochs[0] != epochs[2]


def test_training_batches_are_full_unless_asked_otherwise(make_params):
    params = make_params(is_training=True, cache=True, shuffle_buffer_size=0)
    finite = {"sample_fn": lambda dataset: dataset.take(7)}

    full = _batches(_reader(params, **finite).read(), 4)
    assert [len(batch) for batch in full] == [5, 5, 5, 5]


@pytest.mark.parametrize(("drop_remainder", "sizes"), [(True, [5]), (False, [5, 2])])
def test_drop_remainder_drops_the_last_training_batch(make_params, drop_remainder, sizes):
    params = make_params(is_training=True, drop_remainder=drop_remainder)
    reader = _reader(params, sample_fn=lambda dataset: dataset.take(7))

    assert [len(batch) for batch in _batches(reader.read())] == sizes


@pytest.mark.slow
def test_the_same_seed_gives_the_same_order(make_params):
    orders = [
        _numbers(_reader(make_params(is_training=True, seed=seed)).read(), 12)
        for seed in (1, 1, 2, None, None)
    ]

    assert orders[0] == orders[1]
    assert orders[0] != orders[2]
    assert orders[3] == orders[4]


@pytest.mark.long("Further cases of a test of which some run every time", but=["4"])
@pytest.mark.slow
@pytest.mark.parametrize("num_pipelines", [2, 4, 6])
def test_workers_train_on_their_own_records(make_params, num_pipelines):
    params = make_params(is_training=True, global_batch_size=num_pipelines, shuffle_buffer_size=0)
    num_batches = _NUM_RECORDS // num_pipelines

    shares = [
        _numbers(_reader(params).read(_context(num_pipelines, i)), num_batches)
        for i in range(num_pipelines)
    ]

    assert sorted(itertools.chain(*shares)) == list(range(_NUM_RECORDS))


def test_workers_without_sharding_train_in_different_order(make_params):
    params = make_params(is_training=True, global_batch_size=8, sharding=False)

    first, second = (_numbers(_reader(params).read(_context(2, i)), 6) for i in range(2))

    assert first != second


@pytest.mark.long("Further cases of a test of which some run every time", but=["4"])
@pytest.mark.slow
@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize("position", [0, 1, 4, 13])
def test_a_restored_iterator_goes_on_exactly(make_params, tmp_path, position, cache):
    params = make_params(is_training=True, shuffle_buffer_size=4, cache=cache)
    iterator = iter(_reader(params).read())
    _batches(iterator, position)
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "position"))
    expected = _batches(iterator, 10)

    fresh = iter(_reader(params).read())
    if not cache:
        _batches(fresh, 3)
    tf.train.Checkpoint(iterator=fresh).read(path).assert_consumed()

    assert _batches(fresh, 10) == expected


# Stages


def test_stages_run_in_their_order(make_params):
    seen = []

    def stage(name, result):
        def run(dataset, *args):
            seen.append(name)
            return result(dataset)

        return run

    reader = _reader(
        make_params(),
        sample_fn=stage("sample", lambda dataset: dataset.take(6)),
        parser_fn=lambda number: number * 10,
        filter_fn=lambda number: number > 0,
        transform_and_batch_fn=stage("batch", lambda dataset: dataset.batch(3)),
        postprocess_fn=lambda batch: batch + 1,
    )

    assert _batches(reader.read()) == [[11, 21, 31], [41, 51]]
    assert seen == ["sample", "batch"]


def test_named_sources_are_combined(make_params, directory):
    params = make_params(
        input_path={"a": f"{directory}/part-0.*", "b": f"{directory}/part-1.*"},
        global_batch_size=3,
    )
    reader = _reader(
        params,
        combine_fn=lambda datasets: tf.data.Dataset.zip(datasets["a"], datasets["b"]),
        parser_fn=lambda a, b: a * 100 + b,
    )

    assert _batches(reader.read()) == [[3, 104, 205]]


def test_named_sources_need_a_combine_fn_and_only_they_do(make_params, directory):
    for input_path, combine_fn in (({"a": "x"}, None), ("x", lambda datasets: datasets["x"])):
        with pytest.raises(errors.ConfigError, match="A mapping of sources needs a combine_fn"):
            _reader(make_params(input_path=input_path), combine_fn=combine_fn)


# Options and mistakes


def test_options_of_the_config_reach_the_pipeline(make_params):
    params = make_params(
        deterministic=False, ram_budget=2, autotune_algorithm="hill_climb", prefetch_buffer_size=1
    )

    options = _reader(params).read().options()

    assert options.deterministic is False
    assert options.autotune.ram_budget == 2 * 2**30
    assert options.autotune.autotune_algorithm == tf.data.experimental.AutotuneAlgorithm.HILL_CLIMB
    assert options.experimental_distribute.auto_shard_policy == (
        tf.data.experimental.AutoShardPolicy.OFF
    )
    assert _reader(make_params()).read().options().deterministic is True


def test_an_unknown_tuning_algorithm_is_an_error(make_params):
    with pytest.raises(errors.ConfigError, match="autotune_algorithm: got 'best', expected one of"):
        _reader(make_params(autotune_algorithm="best")).read()


@pytest.mark.parametrize("size", [0, 5])
def test_a_batch_that_the_replicas_cannot_share_is_an_error(make_params, size):
    with pytest.raises(errors.ConfigError, match="multiple of the number of replicas, 2"):
        _reader(make_params(global_batch_size=size)).read(_context(2, 0))


@pytest.fixture(scope="module")
def torn_directory(tmp_path_factory):
    """Two files of three records; the first is torn in its second record, the other has a word."""
    directory = tmp_path_factory.mktemp("torn")
    for file, values in enumerate([["0", "1", "2"], ["3", "x", "5"]]):
        with tf.io.TFRecordWriter(str(directory / f"part-{file}")) as writer:
            for value in values:
                writer.write(value.encode())
    content = bytearray((directory / "part-0").read_bytes())
    content[17 + 12] ^= 255  # in the content of the second record
    (directory / "part-0").write_bytes(content)
    return directory


def test_corrupt_records_are_refused_or_left_out(make_params, torn_directory):
    fields = {"input_path": str(torn_directory / "*"), "deterministic": True}

    with pytest.raises(tf.errors.DataLossError):
        _numbers(_reader(make_params(**fields)).read())
    assert _numbers(_reader(make_params(corrupt_records="skip", **fields)).read()) == [0, 3, 5]
    training = make_params(corrupt_records="skip", is_training=True, **fields)
    assert set(_numbers(_reader(training).read(), num=10)) == {0, 3, 5}


def test_records_are_counted_up_to_the_damage(torn_directory):
    first, second = (
        input_files.count_records(str(torn_directory / name)) for name in ("part-0", "part-1")
    )

    assert (first.num_records, second.num_records, second.fault) == (1, 3, None)
    assert "corrupted record" in first.fault
