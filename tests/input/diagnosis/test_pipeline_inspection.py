"""Whatever the pipeline, a resumed run goes on with its batches, or was warned beforehand."""

import itertools
import os
import random

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.checkpoints import checkpoint_state
from quintain.input.diagnosis import pipeline_inspection

NUM_BATCHES = 14
POSITIONS = (1, 4, 5, 6, 9)
Dataset = tf.data.Dataset
NUM = 11
_SPEC = tf.TensorSpec([], tf.int64)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """The numbers below `NUM` in three text files and three TFRecord files."""
    directory = tmp_path_factory.mktemp("a [1] ü")
    for index, numbers in enumerate(np.array_split(np.arange(NUM), 3)):
        (directory / f"{index}.txt").write_text("".join(f"{number}\n" for number in numbers))
        with tf.io.TFRecordWriter(str(directory / f"{index}.tfrecord")) as writer:
            for number in numbers:
                writer.write(str(number).encode())
    return directory


def _files(directory, suffix):
    return [os.path.join(str(directory), f"{index}.{suffix}") for index in range(3)]


def _parse(line):
    return tf.strings.to_number(line, tf.int64)


def _names(directory):
    return Dataset.from_tensor_slices(_files(directory, "txt"))


def _read(names, **kwargs):
    return names.interleave(tf.data.TextLineDataset, cycle_length=2, **kwargs).map(_parse)


def _count():
    return iter(range(NUM))


def _escape(directory):
    return "".join(f"[{letter}]" if letter in "[*?" else letter for letter in str(directory))


def _list_files(directory, **kwargs):
    return _read(Dataset.list_files(f"{_escape(directory)}/*.txt", **kwargs))


SOURCES = {
    "range": lambda _: Dataset.range(NUM),
    "slices": lambda _: Dataset.from_tensor_slices(tf.range(NUM, dtype=tf.int64)),
    "text": lambda d: tf.data.TextLineDataset(_files(d, "txt")).map(_parse),
    "records": lambda d: tf.data.TFRecordDataset(_files(d, "tfrecord"), num_parallel_reads=2).map(
        _parse
    ),
    "list_files": _list_files,
    "listed_in_order": lambda d: _list_files(d, shuffle=False),
    "generator": lambda _: Dataset.from_generator(_count, output_signature=_SPEC),
    "interleaved": lambda d: _read(_names(d).shuffle(3, seed=1)),
    "in_parallel": lambda d: _read(_names(d).shuffle(3), num_parallel_calls=2),
    "by_chance": lambda d: _read(_names(d), num_parallel_calls=2, deterministic=False),
}
ENDS = {
    "plain": lambda data: data.batch(2).repeat(),
    "shuffle_batch_repeat": lambda data: data.shuffle(4).batch(2).repeat(),
    "shuffle_repeat_batch": lambda data: data.shuffle(4, seed=3).repeat().batch(2),
    "once_shuffled": lambda data: (
        data.shuffle(4, reshuffle_each_iteration=False).batch(2).repeat().prefetch(2)
    ),
}


def _range():
    return Dataset.range(NUM)


def _shuffled():
    return _range().shuffle(4, seed=3)


def _uniform(seed=None):
    return tf.random.uniform([], 0, 100, tf.int64, seed=seed)


def _add_random(number):
    return number + _uniform()


def _stateless(number):
    return number + tf.random.stateless_uniform([], [number, 1], 0, 100, tf.int64)


def _fill(number):
    return tf.fill([number % 3 + 1], number)


def _length(value):
    return tf.shape(value)[0]


def _increase(number):
    return number + 1


def _parity(number):
    return tf.cast(number % 2, tf.int32)


def _has_tail(number):
    return number % 3 != 0


def _is_below(number):
    return number < NUM - 2


def _halves(*, shuffled):
    parts = [Dataset.range(5), Dataset.range(5, NUM)]
    return [part.shuffle(4, seed=1) for part in parts] if shuffled else parts


_FEATURES = {"n": tf.io.FixedLenFeature([], tf.int64)}


def _examples():
    numbers = [tf.train.Int64List(value=[number]) for number in range(NUM)]
    features = [tf.train.Features(feature={"n": tf.train.Feature(int64_list=n)}) for n in numbers]
    return [tf.train.Example(features=one).SerializeToString() for one in features]


def _only(number):
    return number


def _endless():
    return [part.repeat() for part in _halves(shuffled=True)]


def _with_layer(_):
    layer = keras.layers.Dropout(0.5, seed=3)

    def drop(number):
        return layer(tf.cast(tf.fill([4], number), tf.float32), training=True)

    return _range().map(drop).batch(2).repeat()


def _with_generator(_):
    generator = tf.random.Generator.from_seed(3)

    def draw(number):
        return number + generator.uniform([], 0, 100, tf.int64)

    return _range().map(draw).batch(2).repeat()


def _with_variable(_):
    variable = tf.Variable(1, dtype=tf.int64)

    def add(number):
        return number + variable

    return _range().map(add).batch(2).repeat()


def _with_table(_):
    keys = tf.range(NUM, dtype=tf.int64)
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, 2 * keys), -1)
    return _range().map(table.lookup).shuffle(4, seed=3).batch(2).repeat()


def _chance():
    while True:
        yield np.random.randint(1000)


def _unordered(data):
    options = tf.data.Options()
    options.deterministic = False
    return data.with_options(options)


def _unfused(data):
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    return data.with_options(options)


def _captured(_):
    inner = _shuffled()

    def repeat(_):
        return inner

    return Dataset.range(9).flat_map(repeat).shuffle(3, seed=1).batch(2).repeat()


def _shuffle_lines(name):
    return tf.data.TextLineDataset(name).shuffle(3)


def _draw_numbers(start):
    return Dataset.range(start, start + 3).map(_add_random)


OTHERS = {
    "issue": lambda d: _read(_names(d).shuffle(3)).shuffle(4).batch(2).repeat(),
    "issue_repeated_early": lambda d: _read(_names(d).shuffle(3).repeat()).shuffle(4).batch(2),
    "repeat_shuffle": lambda _: _range().repeat().shuffle(4).batch(2),
    "unfused": lambda _: _unfused(_shuffled().repeat().batch(2)),
    "shuffle_map_repeat": lambda _: _unfused(_shuffled().map(_increase).repeat().batch(2)),
    "shuffle_twice": lambda _: _shuffled().shuffle(3, seed=4).batch(2).repeat(),
    "shuffle_batches": lambda _: _shuffled().batch(2).shuffle(2, seed=4).repeat(),
    "whole_batches": lambda _: _shuffled().batch(2, drop_remainder=True).repeat(),
    "repeat_within": lambda _: _shuffled().repeat(2).batch(3).repeat(),
    "prefetch_within": lambda _: _shuffled().batch(2).prefetch(2).repeat(),
    "inner_shuffle": lambda d: _names(d).interleave(_shuffle_lines, cycle_length=2).map(_parse)
    .batch(2).repeat(),
    "flat_map_shuffle": lambda d: _names(d).shuffle(3).flat_map(tf.data.TextLineDataset)
    .map(_parse).shuffle(4).batch(2).repeat(),
    "captured": _captured,
    "concatenate": lambda _: _halves(shuffled=True)[0].concatenate(_halves(shuffled=True)[1])
    .batch(2).repeat(),
    "concatenate_plain": lambda _: _range().concatenate(_range()).batch(2).repeat(),
    "zip": lambda _: Dataset.zip((_shuffled(), _range().shuffle(4))).batch(2).repeat(),
    "zip_of_repeated": lambda _: Dataset.zip(tuple(_endless())).batch(2),
    "zip_of_one": lambda _: (lambda data: Dataset.zip((data, data)).batch(2).repeat())(_shuffled()),
    "take": lambda _: _shuffled().take(7).batch(2).repeat(),
    "skip": lambda _: _shuffled().skip(3).batch(2).repeat(),
    "skip_endless": lambda _: _shuffled().repeat().skip(3).batch(2),
    "take_while": lambda _: _range().repeat().take_while(_is_below).batch(2).repeat(),
    "shard": lambda _: _range().shard(2, 1).batch(2).repeat(),
    "cache": lambda _: _range().cache().batch(2).repeat(),
    "cache_shuffle": lambda _: _range().cache().shuffle(4).batch(2).repeat(),
    "shuffle_cache": lambda _: _shuffled().cache().batch(2).repeat(),
    "map_stateless": lambda _: _range().map(_stateless).batch(2).repeat(),
    "map_stateful": lambda _: _range().map(_add_random).batch(2).repeat(),
    "map_stateful_parallel": lambda _: _range().map(_add_random, num_parallel_calls=4).batch(2)
    .repeat(),
    "interleave_stateful": lambda _: _range().interleave(_draw_numbers, cycle_length=2).batch(2)
    .repeat(),
    "interleave_stateful_parallel": lambda _: _range()
    .interleave(_draw_numbers, cycle_length=2, num_parallel_calls=2).batch(2).repeat(),
    "map_parallel": lambda _: _shuffled().repeat().map(_increase, num_parallel_calls=2).batch(2),
    "map_parallel_within": lambda _: _shuffled().map(_increase, num_parallel_calls=2).batch(2)
    .repeat(),
    "map_by_chance": lambda _: _range().repeat()
    .map(_increase, num_parallel_calls=2, deterministic=False).batch(2),
    "options_by_chance": lambda _: _unordered(
        _range().repeat().map(_increase, num_parallel_calls=2).batch(2)
    ),
    "keras_layer": _with_layer,
    "generator_in_map": _with_generator,
    "variable_in_map": _with_variable,
    "table_in_map": _with_table,
    "numpy_function": lambda _: _range()
    .map(lambda number: tf.numpy_function(lambda part: part, [number], tf.int64)).batch(2)
    .repeat(),
    "generator_of_chance": lambda _: Dataset.from_generator(_chance, output_signature=_SPEC)
    .batch(2),
    "filter": lambda _: _shuffled().filter(_has_tail).batch(2).repeat(),
    "filter_plain": lambda _: _range().filter(_has_tail).batch(2).repeat(),
    "padded": lambda _: _range().map(_fill).padded_batch(2, [3]).repeat(),
    "bucket": lambda _: _shuffled().repeat().map(_fill)
    .bucket_by_sequence_length(_length, [2], [3, 2], padded_shapes=[3]),
    "bucket_plain": lambda _: _range().map(_fill)
    .bucket_by_sequence_length(_length, [2], [3, 2], padded_shapes=[3]).repeat(),
    "sample": lambda _: Dataset.sample_from_datasets(_endless(), [0.5, 0.5]).batch(2),
    "sample_repeated": lambda _: Dataset.sample_from_datasets(
        _halves(shuffled=True), [0.5, 0.5], seed=3, rerandomize_each_iteration=True
    ).batch(2).repeat(),
    "choose": lambda _: Dataset.choose_from_datasets(_endless(), Dataset.range(2).repeat())
    .batch(2),
    "unbatch": lambda _: _range().batch(3).unbatch().batch(2).repeat(),
    "unbatch_shuffled": lambda _: _shuffled().batch(3).unbatch().batch(2).repeat(),
    "rejection": lambda _: _shuffled().repeat()
    .rejection_resample(_parity, [0.5, 0.5], [0.3, 0.7], seed=4).batch(2),
    "rejection_learned": lambda _: _range().repeat()
    .rejection_resample(_parity, [0.3, 0.7], seed=4).batch(2),
    "window": lambda _: _range().window(3, drop_remainder=True)
    .flat_map(lambda part: part.batch(3)).repeat(),
    "scan": lambda _: _range().scan(tf.constant(0, tf.int64), lambda a, b: (a + b, a + b))
    .batch(2).repeat(),
    "unique": lambda _: _range().unique().enumerate().batch(2).repeat(),
    "random": lambda _: Dataset.random(seed=4).take(NUM).batch(2).repeat(),
    "random_anew": lambda _: Dataset.random(seed=4, rerandomize_each_iteration=True).take(NUM)
    .batch(2).repeat(),
    "ragged": lambda _: _range().map(_fill).ragged_batch(2).repeat(),
    "rebatch": lambda _: _shuffled().batch(4).rebatch(3).repeat(),
    "finite": lambda _: Dataset.range(60).shuffle(4).batch(2),
    "counter": lambda _: Dataset.counter().shuffle(4).batch(2),
    "fused_shuffle": lambda _: _range()
    .apply(tf.data.experimental.shuffle_and_repeat(4, seed=3)).batch(2),
    "fused_shuffle_without_seed": lambda _: _range()
    .apply(tf.data.experimental.shuffle_and_repeat(4, count=2)).batch(2).repeat(),
    "fused_map": lambda _: _shuffled()
    .apply(tf.data.experimental.map_and_batch(_increase, 2, num_parallel_batches=2)).repeat(),
    "fused_map_stateful": lambda _: _range()
    .apply(tf.data.experimental.map_and_batch(_add_random, 2, num_parallel_calls=2)).repeat(),
    "former_interleave": lambda d: _names(d).apply(
        tf.data.experimental.parallel_interleave(tf.data.TextLineDataset, cycle_length=2)
    ).map(_parse).shuffle(4).batch(2).repeat(),
    "sloppy": lambda d: _names(d).apply(
        tf.data.experimental.parallel_interleave(tf.data.TextLineDataset, 2, sloppy=True)
    ).map(_parse).batch(2).repeat(),
    "csv": lambda d: tf.data.experimental.CsvDataset(_files(d, "txt"), [tf.int64]).map(_only)
    .shuffle(4).batch(2).repeat(),
    "csv_of_files": lambda d: tf.data.experimental.make_csv_dataset(
        [_escape(name) for name in _files(d, "txt")], 2, ["n"], [tf.int64], header=False,
        shuffle_buffer_size=4, shuffle_seed=3,
    ),
    "features": lambda _: Dataset.from_tensor_slices(_examples()).batch(2)
    .apply(tf.data.experimental.parse_example_dataset(_FEATURES, num_parallel_calls=2)).repeat(),
    "features_by_chance": lambda _: Dataset.from_tensor_slices(_examples()).batch(2).apply(
        tf.data.experimental.parse_example_dataset(_FEATURES, 2, deterministic=False)
    ).repeat(),
    "list": lambda _: tf.data.experimental.from_list(list(range(NUM))).batch(2).repeat(),
    "reduced": lambda _: _range().apply(tf.data.experimental.group_by_reducer(
        lambda number: number % 4, tf.data.experimental.Reducer(
            lambda _: tf.constant(0, tf.int64), lambda old, new: old + new, lambda total: total
        ))).shuffle(4).batch(2).repeat(),
    "sparse": lambda _: _range().map(_fill)
    .apply(tf.data.experimental.dense_to_sparse_batch(2, [3])).repeat(),
    "ignore_errors": lambda _: _range().map(lambda number: 12 // number).ignore_errors().batch(2)
    .repeat(),
}  # fmt: skip


NAMES = [*(f"{source}+{end}" for source in SOURCES for end in ENDS), *OTHERS]
READY = "in the order in which they get ready"
PYTHON = "runs Python code"
VARYING = {
    "captured": "made outside of its function",
    **{f"by_chance+{end}": READY for end in ENDS},
    **{f"generator+{end}": PYTHON for end in ENDS},
    "map_by_chance": READY,
    "options_by_chance": READY,
    "numpy_function": PYTHON,
    "generator_of_chance": PYTHON,
    "map_stateful_parallel": "for several elements at the same time",
    "interleave_stateful_parallel": "for several elements at the same time",
    "fused_map_stateful": "for several elements at the same time",
    "sloppy": READY,
    "features_by_chance": READY,
    "keras_layer": "changes a variable",
    "generator_in_map": "changes a variable",
    "variable_in_map": "reads a variable",
    "zip_of_one": "is used twice",
    "rejection": "is used twice",
}
"""Pipelines that are warned of, and by what words. All others must be exact."""


def _build(name, directory):
    """Builds a pipeline as a process does that has just been started."""
    random.seed(3)
    np.random.seed(3)
    tf.random.set_seed(3)
    source, _, end = name.partition("+")
    return ENDS[end](SOURCES[source](directory)) if end else OTHERS[name](directory)


def _draw(iterator, num):
    return [
        [part.numpy().tolist() for part in tf.nest.flatten(batch, expand_composites=True)]
        for batch in itertools.islice(iterator, num)
    ]


def _position(iterator, inspection, count=0):
    return checkpoint_state.DataPosition(lambda: iterator, lambda: count, inspection=inspection)


@pytest.mark.long(
    "Further cases of a test of which some run every time",
    but=[
        "finite",
        "generator+plain",
        "interleaved+plain",
        "list_files+once_shuffled",
        "map_stateful",
        "random_anew",
        "records+shuffle_repeat_batch",
        "shuffle_cache",
        "text+shuffle_batch_repeat",
        "variable_in_map",
        "take",
        "issue",
    ],
)
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Seed 3 from outer graph")  # TensorFlow, of nested functions
@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_pipeline_is_exact_or_warned_of(directory, name, caplog):
    dataset = _build(name, directory)
    inspection = pipeline_inspection.inspect(dataset)
    inspection.warn()
    assert VARYING.get(name, "") in caplog.text
    assert inspection.is_exact == (name not in VARYING)
    if not inspection.is_exact:
        return

    iterator, batches, saved = iter(dataset), [], {}
    for count in range(NUM_BATCHES):
        if count in POSITIONS:
            saved[count] = _position(iterator, inspection, count).serialize()
        batches += _draw(iterator, 1)

    for count, state in saved.items():
        resumed = iter(_build(name, directory))
        _position(resumed, inspection).deserialize(state)
        assert _draw(resumed, NUM_BATCHES - count) == batches[count:], count
    assert "can't be stored" not in caplog.text
