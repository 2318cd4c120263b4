"""Sources of every kind in one mixture; one small vocabulary serves all tests."""

import collections
import gzip
import importlib
import itertools
import sys

import pytest
import tensorflow as tf

from quintain import errors
from quintain.nlp.data import tokenizers, wmt_dataloader
from quintain.nlp.data.corpora import bundled_corpora
from quintain.nlp.data.pairs import length_buckets, pair_mixture

_ALL = bundled_corpora.get_pairs("numbers_and_dates/validation")[:400]
_PARTS = {"tsv": _ALL[:100], "text": _ALL[100:200], "entry": _ALL[200:300], "records": _ALL[300:]}


@pytest.fixture(scope="module")
def directory(tmp_path_factory, request):
    directory = tmp_path_factory.mktemp("data")
    sides = (side for pair in _ALL for side in pair)
    tokenizers.train_sentencepiece(sides, str(directory / "v.model"), vocab_size=300)
    lines = [f"{source}\t{target}\n" for source, target in _PARTS["tsv"]]
    (directory / "pairs.tsv").write_text("".join(lines))
    for side, name in enumerate(("en.gz", "de.gz")):
        text = "".join(f"{pair[side]}\n" for pair in _PARTS["text"])
        (directory / name).write_bytes(gzip.compress(text.encode()))
    sys.path.insert(0, str(request.path.parent))
    try:
        importlib.import_module("tiny_translate").prepare(str(directory), _PARTS["entry"])
    finally:
        sys.path.pop(0)
    with tf.io.TFRecordWriter(str(directory / "pairs.tfrecord")) as writer:
        for pair in _PARTS["records"]:
            feature = {
                name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()]))
                for name, text in zip(("en", "de"), pair, strict=True)
            }
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())
    return directory


@pytest.fixture
def mixture(directory):
    return {
        "tsv": {"input_path": str(directory / "pairs.tsv"), "weight": 4},
        "text": {
            "input_path": str(directory / "en.gz"),
            "target_path": str(directory / "de.gz"),
            "weight": 3,
        },
        "entry": {
            "tfds_name": "tiny_translate",
            "tfds_split": "train",
            "tfds_data_dir": str(directory),
            "src_lang": "en",
            "tgt_lang": "de",
            "weight": 2,
        },
        "records": {
            "input_path": str(directory / "pairs.tfrecord"),
            "src_lang": "en",
            "tgt_lang": "de",
        },
    }


@pytest.fixture
def make_params(directory, mixture):
    def make(**fields):
        defaults = {
            "mixture": mixture,
            "is_training": True,
            "global_batch_size": 640,
            "batch_by": "pairs",
            "max_seq_length": 40,
            "sentencepiece_model_path": str(directory / "v.model"),
            "seed": 3,
        }
        return wmt_dataloader.WMTDataConfig(**(defaults | fields))

    return make


def _load(params, context=None):
    return wmt_dataloader.WMTDataLoader(params).load(context)


def _take(dataset, num):
    batches = itertools.islice(dataset, num)
    return [{name: value.numpy().tolist() for name, value in batch.items()} for batch in batches]


def _count_sources(params, num_batches):
    tokenizer = tokenizers.SentencePieceTokenizer(params.sentencepiece_model_path)
    name_of = {pair[0]: name for name, pairs in _PARTS.items() for pair in pairs}
    counts = collections.Counter()
    for batch in itertools.islice(_load(params), num_batches):
        texts = tokenizer.detokenize(batch["inputs"]).numpy()
        counts.update(name_of[text.decode()] for text in texts)
    return counts


@pytest.mark.slow
def test_pairs_are_drawn_by_weight_from_sources_of_every_kind(make_params):
    counts = _count_sources(make_params(), 150)

    total = counts.total()
    assert total > 3000
    for name, share in (("tsv", 0.4), ("text", 0.3), ("entry", 0.2), ("records", 0.1)):
        # Four standard deviations of as many draws.
        assert abs(counts[name] / total - share) < 4 * (share * (1 - share) / total) ** 0.5


@pytest.mark.slow
def test_a_list_is_a_mixture_of_equal_weights(make_params, mixture):
    entries = [{**mixture[name], "weight": 1} for name in ("tsv", "records")]

    counts = _count_sources(make_params(mixture=entries), 60)

    assert abs(counts["tsv"] / counts.total() - 0.5) < 4 * (0.25 / counts.total()) ** 0.5


@pytest.mark.long("test_wmt_dataloader.py shows the seed")
@pytest.mark.slow
def test_the_same_seed_gives_the_same_batches_and_another_seed_others(make_params):
    first, second, other = (_take(_load(make_params(seed=seed)), 5) for seed in (3, 3, 4))

    assert first == second
    assert first != other


@pytest.mark.long("Further cases of a test of which some run every time", but=["True"])
@pytest.mark.slow
@pytest.mark.parametrize("static_batch", [False, True])
def test_a_restored_iterator_of_a_fresh_dataset_goes_on_exactly(
    make_params, tmp_path, static_batch
):
    params = make_params(static_batch=static_batch)
    iterator = iter(_load(params))
    _take(iterator, 25)
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "position"))
    expected = _take(iterator, 25)

    restored = iter(_load(params))
    tf.train.Checkpoint(iterator=restored).read(path)

    assert _take(restored, 25) == expected


@pytest.mark.long("Further cases of a test of which some run every time", but=["True"])
@pytest.mark.slow
@pytest.mark.parametrize("static_batch", [False, True])
def test_batches_keep_to_the_buckets(make_params, static_batch):
    plan = length_buckets.plan(40, 640, is_static=static_batch)

    for batch in itertools.islice(_load(make_params(static_batch=static_batch)), 40):
        length = max(batch["inputs"].shape[1], batch["targets"].shape[1])
        assert batch["inputs"].shape[0] in plan.batch_sizes
        assert length * batch["inputs"].shape[0] <= 640
        if static_batch:
            assert length == 40


def test_evaluation_reads_every_source_once_in_order(make_params):
    params = make_params(is_training=False, global_batch_size=64)

    pairs = wmt_dataloader.read_pairs(params)
    ids = [number for batch in _take(_load(params), None) for number in batch["unique_id"]]

    # The prepared entry has its own order.
    assert pairs[:200] == _ALL[:200]
    assert sorted(pairs) == sorted(_ALL)
    assert ids == list(range(400))


@pytest.mark.slow
def test_workers_draw_from_their_own_part(make_params, mixture):
    params = make_params(mixture=[mixture["tsv"]], global_batch_size=1280)
    seen = []
    for index in range(2):
        context = tf.distribute.InputContext(2, index, 2)
        batches = _take(_load(params, context), 60)
        seen.append({tuple(row) for batch in batches for row in batch["inputs"]})

    assert len(seen[0] & seen[1]) < 5  # Equal texts, padded alike.


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mixture": "pairs.tsv"}, r"mixture: got 'pairs.tsv', expected a list"),
        ({"mixture": ["pairs.tsv"]}, r"mixture\[0\]: got 'pairs.tsv', expected a mapping"),
        ({"mixture": [{"weight": 2}]}, r"mixture\[0\].input_path: got ''"),
        ({"mixture": {"a": {"input_pth": "b"}}}, r"mixture\.a\.input_pth: .*'input_path'"),
        ({"mixture": {"a": {"input_path": "b.tsv", "weight": 0}}}, r"mixture\.a\.weight: got 0"),
        ({"mixture": {"a": {"input_path": "b.tsv", "weight": True}}}, r"a\.weight: got True"),
        ({"mixture": [{"mixture": [{"input_path": "b.tsv"}]}]}, r"\[0\]\.mixture: a mixture can't"),
        ({"input_path": "b.tsv"}, r"mixture: got .* and input_path 'b.tsv'; expected one"),
    ],
)
def test_a_wrong_mixture_is_an_error(make_params, change, message):
    with pytest.raises(errors.ConfigError, match=message):
        _load(make_params(**change))


def test_parts_take_what_they_do_not_set_from_the_whole(make_params):
    parts = pair_mixture.get_parts(make_params(src_lang="en"))

    assert [part.field for part in parts] == [
        "mixture.tsv", "mixture.text", "mixture.entry", "mixture.records",
    ]  # fmt: skip
    assert [part.weight for part in parts] == [4, 3, 2, 1]
    assert {part.params.max_seq_length for part in parts} == {40}
    assert [part.params.seed for part in parts] == [3, 4, 5, 6]
    assert parts[0].params.src_lang == "en"
