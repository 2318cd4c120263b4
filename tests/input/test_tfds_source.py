import importlib
import itertools
import sys

import pytest
import tensorflow as tf

from quintain import errors
from quintain.input import input_reader
from quintain.settings import config_definitions as cfg


@pytest.fixture(scope="module")
def tiny(request):
    sys.path.insert(0, str(request.path.parents[0]))
    try:
        yield importlib.import_module("tiny_tfds")
    finally:
        sys.path.pop(0)


@pytest.fixture(scope="module")
def data_dir(tiny, tmp_path_factory):
    directory = tmp_path_factory.mktemp("tfds")
    tiny.prepare(str(directory))
    return str(directory)


@pytest.fixture
def make_params(data_dir):
    def make(**fields):
        defaults = {
            "tfds_name": "tiny_pairs",
            "tfds_split": "train",
            "tfds_data_dir": data_dir,
            "global_batch_size": 4,
            "is_training": False,
            "seed": 1,
        }
        return cfg.DataConfig(**(defaults | fields))

    return make


def _numbers(params, num=None, context=None):
    reader = input_reader.InputReader(params, decoder_fn=lambda example: example["number"])
    batches = (batch.numpy().tolist() for batch in reader.read(context))
    return list(itertools.chain.from_iterable(itertools.islice(batches, num)))


def _context(num_pipelines, pipeline):
    return tf.distribute.InputContext(num_pipelines, pipeline, num_pipelines)


@pytest.mark.slow
def test_evaluation_sees_every_example_once_and_in_the_same_order(make_params, tiny):
    numbers = _numbers(make_params(global_batch_size=3))

    assert sorted(numbers) == list(range(tiny.NUM_TRAIN))
    assert numbers == _numbers(make_params(global_batch_size=7))


def test_a_part_of_a_split_can_be_read(make_params, tiny):
    first = _numbers(make_params(tfds_split="train[:80%]"))
    rest = _numbers(make_params(tfds_split="train[80%:]"))

    assert len(first) == 16
    assert first + rest == _numbers(make_params())


def test_training_is_shuffled_by_seed_and_never_ends(make_params, tiny):
    params = make_params(is_training=True)

    numbers = _numbers(params, 60)

    assert len(numbers) == 240
    assert set(numbers) == set(range(tiny.NUM_TRAIN))
    assert numbers == _numbers(params, 60)
    assert numbers != _numbers(params.replace(seed=2), 60)


def test_cached_training_sees_every_example_in_every_epoch(make_params, tiny):
    numbers = _numbers(make_params(is_training=True, cache=True), 10)

    assert sorted(numbers[:20]) == sorted(numbers[20:]) == list(range(tiny.NUM_TRAIN))
    assert numbers[:20] != numbers[20:]


@pytest.mark.long("Further cases of a test of which some run every time", but=["2-False", "7-True"])
@pytest.mark.slow
@pytest.mark.parametrize(
    ("num_pipelines", "cache"), [(2, False), (4, False), (2, True), (4, True), (7, True)]
)
def test_workers_train_on_their_own_examples(make_params, tiny, num_pipelines, cache):
    params = make_params(
        is_training=True, global_batch_size=num_pipelines, shuffle_buffer_size=0, cache=cache
    )

    shares = [_numbers(params, 20, _context(num_pipelines, i)) for i in range(num_pipelines)]

    seen = [set(share) for share in shares]
    assert set.union(*seen) == set(range(tiny.NUM_TRAIN))
    assert sum(map(len, seen)) == tiny.NUM_TRAIN


@pytest.mark.slow
def test_more_workers_than_files_share_out_the_examples_of_an_endless_stream(make_params):
    params = make_params(is_training=True, global_batch_size=7, shuffle_buffer_size=0)

    shares = [_numbers(params, 20, _context(7, i)) for i in range(7)]

    whole = _numbers(params.replace(global_batch_size=1), 140)
    assert shares == [whole[i::7] for i in range(7)]


@pytest.mark.long("Further cases of a test of which some run every time", but=["7"])
@pytest.mark.slow
@pytest.mark.parametrize("num_pipelines", [2, 7])
def test_workers_share_evaluation_without_gap_or_overlap(make_params, tiny, num_pipelines):
    params = make_params(global_batch_size=num_pipelines * 2)

    shares = [_numbers(params, None, _context(num_pipelines, i)) for i in range(num_pipelines)]

    assert sorted(itertools.chain(*shares)) == list(range(tiny.NUM_TRAIN))


def test_supervised_examples_are_pairs(make_params):
    params = make_params(tfds_as_supervised=True, tfds_split="test", global_batch_size=5)

    text, number = next(iter(input_reader.InputReader(params).read()))

    assert text.numpy().tolist() == [f"text {i}".encode() for i in number.numpy()]


def test_a_skipped_feature_stays_encoded(make_params):
    params = make_params(tfds_skip_decoding_feature=" image ", tfds_split="test")

    batch = next(iter(input_reader.InputReader(params).read()))

    assert batch["image"].dtype == tf.string
    assert tf.io.decode_png(batch["image"][0])[0, 0, 0] == tf.cast(batch["number"][0], tf.uint8)


@pytest.mark.slow
def test_entries_are_mixed_by_weight(make_params):
    params = make_params(
        tfds_name={
            "low": {"name": "tiny_pairs", "weight": 3},
            "high": {"name": "tiny_pairs", "weight": 1, "split": "test"},
        },
        is_training=True,
        global_batch_size=100,
    )

    numbers = _numbers(params, 20)

    share = sum(number < 100 for number in numbers) / len(numbers)
    assert abs(share - 0.75) < 4 * (0.75 * 0.25 / 2_000) ** 0.5


def test_named_entries_can_be_combined(make_params):
    params = make_params(tfds_name={"a": "tiny_pairs", "b": "tiny_pairs"}, tfds_split="test")
    reader = input_reader.InputReader(
        params,
        decoder_fn=lambda example: example["number"],
        combine_fn=lambda datasets: tf.data.Dataset.zip(datasets["a"], datasets["b"]),
        parser_fn=lambda a, b: b - a,
    )

    assert next(iter(reader.read())).numpy().tolist() == [0, 0, 0, 0]
    assert set(reader.tfds_info) == {"a", "b"}


def test_the_reader_tells_about_the_entry(make_params, tiny):
    reader = input_reader.InputReader(make_params())

    assert reader.tfds_info.splits["train"].num_examples == tiny.NUM_TRAIN
    with pytest.raises(errors.ConfigError, match="tfds_name: got ''"):
        _ = input_reader.InputReader(cfg.DataConfig(input_path=__file__)).tfds_info


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"tfds_name": "tiny_pears"}, errors.ConfigError, r"'tiny_pears', which is neither in"),
        ({"tfds_name": "mnits"}, errors.ConfigError, r"Did you mean 'mnist'\?"),
        ({"tfds_name": "mnist"}, errors.DataError, r"'mnist' is not prepared .* tfds_download=tr"),
        ({"tfds_name": "mldataset.a"}, errors.ConfigError, r"prefix 'mldataset\.' names a catalog"),
        ({"tfds_split": "tset"}, errors.ConfigError, r"got 'tset', expected .*Did you mean 'test'"),
        ({"tfds_split": "train[:x]"}, errors.ConfigError, r"tfds_split: got 'train\[:x\]'"),
        ({"tfds_split": ""}, errors.ConfigError, r"tfds_split: got ''"),
        ({"input_path": "x"}, errors.ConfigError, r"tfds_name: got 'tiny_pairs', and input_path"),
        ({"tfds_name": ["a", "b"]}, errors.ConfigError, r"expected the name of one TensorFlow"),
    ],
)
def test_a_wrong_entry_is_an_error_that_says_what_to_do(make_params, fields, error, message):
    with pytest.raises(error, match=message):
        input_reader.InputReader(make_params(**fields))


def test_a_wrong_feature_is_an_error(make_params):
    params = make_params(tfds_skip_decoding_feature="imag")

    with pytest.raises(errors.ConfigError, match=r"got 'imag', .*Did you mean 'image'\?"):
        input_reader.InputReader(params).read()


@pytest.mark.parametrize("is_training", [True, False])
def test_an_empty_part_is_an_error(make_params, is_training):
    params = make_params(tfds_split="train[:0]", is_training=is_training)

    with pytest.raises(errors.DataError, match=r"got 'train\[:0\]', which holds no example"):
        input_reader.InputReader(params).read()


def test_pairs_of_an_entry_without_labels_are_an_error(make_params, monkeypatch):
    reader = input_reader.InputReader(make_params(tfds_as_supervised=True))
    monkeypatch.setattr(type(reader.tfds_info), "supervised_keys", None)

    with pytest.raises(errors.ConfigError, match="tfds_as_supervised: got True, but 'tiny_pairs'"):
        reader.read()


def test_a_download_that_fails_is_an_error(make_params, monkeypatch):
    tfds = importlib.import_module("tensorflow_datasets")

    def fail(*args, **kwargs):
        raise OSError("no network")

    monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", fail)

    with pytest.raises(errors.DataError, match=r"'mnist' can't be downloaded \(OSError: no netw"):
        input_reader.InputReader(make_params(tfds_name="mnist", tfds_download=True))


def test_a_missing_package_is_an_error_that_says_how_to_install_it(make_params, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)

    with pytest.raises(errors.ConfigError, match=r'pip install "quintain\[tfds\]"'):
        input_reader.InputReader(make_params())
