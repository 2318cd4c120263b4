"""One small vocabulary serves all tests; files are real and small."""

import itertools
import re

import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.nlp.data import tokenizers, wmt_dataloader
from quintain.nlp.data.corpora import bundled_corpora

_PAIRS = bundled_corpora.get_pairs("numbers_and_dates/validation")


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("vocabulary") / "vocabulary.model")
    tokenizers.train_sentencepiece((side for pair in _PAIRS for side in pair), path, vocab_size=400)
    return path


@pytest.fixture(scope="module")
def tokenizer(vocabulary):
    return tokenizers.SentencePieceTokenizer(vocabulary)


@pytest.fixture(scope="module")
def tsv(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "pairs.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in _PAIRS))
    return str(path)


def _write_records(path, pairs, unique_ids=None):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for i, (source, target) in enumerate(pairs):
            feature = {
                name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()]))
                for name, text in (("en", source), ("de", target))
            }
            if unique_ids is not None:
                feature["unique_id"] = tf.train.Feature(
                    int64_list=tf.train.Int64List(value=[unique_ids[i]])
                )
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())
    return str(path)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    directory = tmp_path_factory.mktemp("records")
    for i in range(3):
        _write_records(directory / f"train.tfrecord-{i}", _PAIRS[i::3])
    return str(directory / "train.tfrecord-*")


@pytest.fixture
def make_params(vocabulary, tsv):
    def make(**fields):
        defaults = {
            "input_path": tsv,
            "is_training": True,
            "global_batch_size": 640,
            "batch_by": "pairs",
            "max_seq_length": 64,
            "sentencepiece_model_path": vocabulary,
            "seed": 3,
        }
        return wmt_dataloader.WMTDataConfig(**(defaults | fields))

    return make


def _record_params(make_params, records, **fields):
    return make_params(input_path=records, src_lang="en", tgt_lang="de", **fields)


def _load(params, input_context=None):
    return wmt_dataloader.WMTDataLoader(params).load(input_context)


def _take(iterator, num):
    return [
        {name: value.numpy() for name, value in batch.items()}
        for batch in itertools.islice(iterator, num)
    ]


def _equal(left, right):
    return all(
        np.array_equal(a[name], b[name]) for a, b in zip(left, right, strict=True) for name in a
    )


def _decode(tokenizer, batches, name):
    return [
        text.decode() for batch in batches for text in tokenizer.detokenize(batch[name]).numpy()
    ]


def _context(num_pipelines, pipeline, num_replicas=None):
    return tf.distribute.InputContext(num_pipelines, pipeline, num_replicas or num_pipelines)


# Training batches from memory


def _epoch(params):
    """The batches of the first epoch of a corpus that is read whole."""
    batches, num_pairs = [], 0
    for batch in _load(params):
        batches.append({name: value.numpy() for name, value in batch.items()})
        num_pairs += len(batch["inputs"])
        if num_pairs >= len(_PAIRS):
            return batches
    raise AssertionError("The data ended.")


def test_an_epoch_holds_every_pair_once(make_params, tokenizer):
    batches = _epoch(make_params())

    sources = _decode(tokenizer, batches, "inputs")
    targets = _decode(tokenizer, batches, "targets")
    assert sorted(zip(sources, targets, strict=True)) == sorted(_PAIRS)


def test_batches_keep_to_the_token_budget_and_are_mostly_full(make_params):
    batches = _epoch(make_params())

    sizes = [max(batch["inputs"].size, batch["targets"].size) for batch in batches]
    assert max(sizes) <= 640
    assert np.median(sizes) > 480
    assert min(len(batch["inputs"]) for batch in batches) >= 4


def test_batches_waste_little_on_padding(make_params):
    batches = _epoch(make_params())

    tokens = np.concatenate([batch[name].ravel() for batch in batches for name in batch])
    assert np.mean(tokens != 0) > 0.8


@pytest.mark.slow
def test_the_next_epoch_has_other_batches_of_the_same_pairs(make_params):
    num_batches = len(_epoch(make_params()))
    iterator = iter(_load(make_params()))

    first, second = _take(iterator, num_batches), _take(iterator, num_batches)

    assert not any(
        np.array_equal(a["inputs"], b["inputs"]) for a, b in itertools.product(first, second)
    )
    assert sum(a["inputs"].sum() for a in first) == sum(b["inputs"].sum() for b in second)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_batches_and_another_seed_others(make_params):
    first, again = (_take(iter(_load(make_params())), 5) for _ in range(2))
    other = _take(iter(_load(make_params(seed=4))), 5)

    assert _equal(first, again)
    assert not _equal(first, other)


def test_no_seed_means_a_fixed_one(make_params):
    first, again = (_take(iter(_load(make_params(seed=None))), 5) for _ in range(2))

    assert _equal(first, again)


def test_pairs_too_long_are_left_out_with_a_warning(make_params, caplog):
    batches = _take(iter(_load(make_params(max_seq_length=12))), 60)

    assert max(batch["targets"].shape[1] for batch in batches) <= 12
    assert "more than max_seq_length=12 tokens" in caplog.text


def test_all_pairs_too_long_is_an_error(make_params):
    with pytest.raises(errors.DataError, match="all 500 training pairs are longer"):
        _load(make_params(max_seq_length=2))


def test_static_batches_all_have_the_same_shape(make_params):
    dataset = _load(make_params(static_batch=True))

    assert dataset.element_spec["inputs"].shape == (10, 64)
    batches = _take(iter(dataset), 60)
    assert {batch[name].shape for batch in batches for name in batch} == {(10, 64)}


@pytest.mark.slow
def test_static_batches_run_through_epochs_without_a_seam(make_params, tokenizer):
    batches = _take(iter(_load(make_params(static_batch=True))), 150)

    counts = {source: 0 for source, _ in _PAIRS}
    for source in _decode(tokenizer, batches, "inputs"):
        counts[source] += 1
    assert set(counts.values()) == {3}


@pytest.mark.parametrize("static_batch", [False, True])
def test_a_budget_smaller_than_a_sentence_is_an_error(make_params, static_batch):
    with pytest.raises(errors.ConfigError, match="token budget is too small"):
        _load(make_params(global_batch_size=63, static_batch=static_batch))


# Position


@pytest.mark.long("Further cases of a test of which some run every time", but=["17"])
@pytest.mark.slow
@pytest.mark.parametrize("position", [0, 1, 17, 60])
@pytest.mark.parametrize("kind", ["dynamic", "static", "records"])
def test_a_restored_iterator_of_a_fresh_dataset_goes_on_exactly(
    make_params, records, tmp_path, kind, position
):
    if kind == "records":
        params = _record_params(make_params, records, shuffle_buffer_size=50)
    else:
        params = make_params(static_batch=kind == "static")
    iterator = iter(_load(params))
    _take(iterator, position)
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "position"))
    expected = _take(iterator, 60)  # More than an epoch.

    fresh = iter(_load(params))
    _take(fresh, 2)
    tf.train.Checkpoint(iterator=fresh).read(path).assert_consumed()

    assert _equal(_take(fresh, 60), expected)


def test_a_position_is_small_because_the_corpus_is_not_in_it(make_params, tmp_path):
    iterator = iter(_load(make_params(prefetch_buffer_size=1)))
    _take(iterator, 17)

    tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "position"))

    size = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert size < 40_000


# Evaluation


def test_evaluation_sees_every_pair_once_in_order_and_keeps_the_tail(make_params, tokenizer):
    dataset = _load(make_params(is_training=False, global_batch_size=64, drop_remainder=True))

    batches = _take(iter(dataset), 100)

    assert [len(batch["inputs"]) for batch in batches] == [64] * 7 + [52]
    assert np.concatenate([batch["unique_id"] for batch in batches]).tolist() == list(range(500))
    assert _decode(tokenizer, batches, "inputs") == [source for source, _ in _PAIRS]
    assert _decode(tokenizer, batches, "targets") == [target for _, target in _PAIRS]


def test_evaluation_cuts_long_sentences_still_ends_them_and_says_so(make_params, tokenizer, caplog):
    dataset = _load(make_params(is_training=False, global_batch_size=500, max_seq_length=10))

    (batch,) = _take(iter(dataset), 2)

    assert batch["inputs"].shape[1] == 10
    assert np.all(np.sum(batch["inputs"] == tokenizer.eos_id, axis=1) == 1)
    assert re.search(
        r"Cut \d+ of 500 evaluation pairs .* to max_seq_length=10 tokens; the first is number",
        caplog.text,
    )


def test_static_evaluation_pads_to_the_maximum(make_params):
    dataset = _load(make_params(is_training=False, global_batch_size=400, static_batch=True))

    assert [batch["targets"].shape for batch in _take(iter(dataset), 5)] == [(400, 64), (100, 64)]


def test_evaluation_keeps_empty_sides_that_training_leaves_out(make_params, tmp_path, caplog):
    path = tmp_path / "pairs.tsv"
    path.write_text("one\teins\n\tnichts\ntwo\tzwei\n", encoding="utf-8")
    evaluation = make_params(input_path=str(path), is_training=False, global_batch_size=8)

    (batch,) = _take(iter(_load(evaluation)), 2)

    assert batch["unique_id"].tolist() == [0, 1, 2]
    assert (batch["inputs"][1] != 0).sum() == 1  # EOS alone.
    assert len(wmt_dataloader.read_pairs(make_params(input_path=str(path)))) == 2
    assert "left out 1 of 3 pairs" in caplog.text


# Workers


def test_workers_share_the_evaluation_without_gap_or_overlap(make_params):
    params = make_params(is_training=False, global_batch_size=66)

    shares = [_take(iter(_load(params, _context(3, i))), 100) for i in range(3)]

    ids = [np.concatenate([batch["unique_id"] for batch in share]).tolist() for share in shares]
    assert sorted(itertools.chain(*ids)) == list(range(500))
    assert len(shares[0][0]["inputs"]) == 22


@pytest.mark.slow
def test_workers_train_on_their_own_pairs_with_their_part_of_the_budget(make_params, tokenizer):
    params = make_params(global_batch_size=1280)
    seen = []
    for i in range(2):
        batches = _take(iter(_load(params, _context(2, i))), 40)
        assert max(batch["targets"].size for batch in batches) <= 640
        seen.append(set(_decode(tokenizer, batches, "inputs")))

    assert not seen[0] & seen[1]
    assert seen[0] | seen[1] == {source for source, _ in _PAIRS}


@pytest.mark.slow
def test_workers_without_sharding_see_everything_in_different_order(make_params):
    params = make_params(global_batch_size=800, sharding=False)

    first, second = (_take(iter(_load(params, _context(2, i))), 5) for i in range(2))

    assert not _equal(first, second)


def test_a_batch_that_the_replicas_cannot_share_is_an_error(make_params):
    with pytest.raises(errors.ConfigError, match="positive multiple of the number of replicas, 3"):
        _load(make_params(), _context(1, 0, num_replicas=3))


# Formats


def test_the_bundled_corpus_needs_no_file(make_params):
    params = make_params(input_path="bundled:numbers_and_dates/validation")

    assert wmt_dataloader.read_pairs(params) == _PAIRS
    assert next(iter(_load(params)))["inputs"].dtype == tf.int32


def test_an_unknown_bundled_corpus_names_the_nearest(make_params):
    with pytest.raises(errors.ConfigError, match="Did you mean 'bundled:numbers_and_dates/train'"):
        wmt_dataloader.read_pairs(make_params(input_path="bundled:number_and_dates/train"))


def test_two_text_files_are_read_line_by_line(make_params, tmp_path):
    (tmp_path / "a.en").write_text("one\ntwo\n", encoding="utf-8")
    (tmp_path / "a.de").write_text("eins\nzwei\n", encoding="utf-8")
    params = make_params(input_path=str(tmp_path / "a.en"), target_path=str(tmp_path / "a.de"))

    assert wmt_dataloader.read_pairs(params) == [("one", "eins"), ("two", "zwei")]


@pytest.mark.slow
def test_records_are_streamed_in_training(make_params, records, tokenizer):
    batches = _take(iter(_load(_record_params(make_params, records))), 100)

    sources = _decode(tokenizer, batches, "inputs")
    targets = _decode(tokenizer, batches, "targets")
    seen = set(zip(sources, targets, strict=True))
    assert seen <= set(_PAIRS)
    assert len(seen) > 490  # The longest may still wait for their bucket to fill.
    assert max(max(batch["inputs"].size, batch["targets"].size) for batch in batches) <= 640


@pytest.mark.slow
def test_static_batches_of_records_have_one_shape(make_params, records):
    params = _record_params(make_params, records, static_batch=True)

    batches = _take(iter(_load(params)), 55)

    assert {batch[name].shape for batch in batches for name in batch} == {(10, 64)}


def test_evaluation_by_tokens_gives_the_batches_of_the_reference(make_params, tmp_path):
    pairs = [("1 " * n, "2") for n in (3, 1, 3, 2, 1, 1)]
    path = _write_records(tmp_path / "e.tfrecord", pairs, unique_ids=range(6))
    params = _record_params(
        make_params, path, is_training=False, batch_by=None, max_seq_length=10,
        global_batch_size=24, has_unique_id=True,
    )  # fmt: skip

    batches = _take(iter(_load(params)), 10)

    # Pairs of less than 8 tokens by three, whatever is left at the end.
    assert [batch["unique_id"].tolist() for batch in batches] == [[0, 1, 2], [3, 4, 5]]
    assert batches[0]["unique_id"].dtype == np.int32
    with pytest.raises(errors.ConfigError, match="token budget is too small"):
        _load(params.replace(global_batch_size=10))


def test_records_for_evaluation_are_ordered_by_their_unique_id(make_params, tmp_path):
    path = _write_records(tmp_path / "e.tfrecord", _PAIRS[:3], unique_ids=[2, 0, 1])
    params = _record_params(
        make_params, path, is_training=False, has_unique_id=True, global_batch_size=2
    )

    assert wmt_dataloader.read_pairs(params) == [_PAIRS[1], _PAIRS[2], _PAIRS[0]]
    assert [batch["unique_id"].tolist() for batch in _take(iter(_load(params)), 5)] == [[0, 1], [2]]


def test_raw_pairs_can_be_had_without_a_vocabulary(make_params, records):
    params = _record_params(
        make_params, records, is_training=False, transform_and_batch=False,
        sentencepiece_model_path="",
    )  # fmt: skip

    (example,) = _take(iter(_load(params)), 1)

    assert example == {"en": _PAIRS[0][0].encode(), "de": _PAIRS[0][1].encode(), "unique_id": 0}


# Mistakes


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"input_path": ""}, "input_path: got ''"),
        (
            {"tfds_name": "wmt", "input_path": ""},
            "src_lang: got '', expected the name of the feature",
        ),
        ({"input_path": "pairs.csv"}, "cannot tell what 'pairs.csv' holds. Set file_format"),
        ({"file_format": "text"}, "target_path: got '', but file_format='text' needs"),
        ({"file_format": "tsv", "target_path": "x"}, "has both sides in one file"),
        ({"input_path": __file__, "file_format": "tfrecord"}, "src_lang: got ''"),
        ({"sentencepiece_model_path": ""}, "sentencepiece_model_path: got ''"),
        ({"global_batch_size": 0}, "global_batch_size: got 0"),
    ],
)
def test_a_contradictory_config_is_an_error(make_params, fields, message):
    with pytest.raises(errors.ConfigError) as caught:
        _load(make_params(**fields))

    assert message in str(caught.value)


def test_a_missing_file_names_the_nearest(make_params, tsv):
    with pytest.raises(
        errors.DataError, match=r"no file '.*pair\.tsv'. Did you mean '.*pairs\.tsv'"
    ):
        _load(make_params(input_path=tsv.replace("pairs", "pair")))


# Odd text

_ODD = [
    "a" * 100_000,
    "one two " * 12_500,
    "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd",
    "\u202eabc\u202c",
    "\U0001f469\u200d\U0001f680 \U0001f525",
    "bell\x07 escape\x1b[2J nul\x00 feed\x0c",
    "next\x85 line\u2028 paragraph\u2029",
    "\u200b",
    "   ",
    "",
]


@pytest.fixture
def odd(tmp_path):
    path = tmp_path / "odd.tsv"
    rows = [*((text, "eins") for text in _ODD), *(("one", text) for text in _ODD), ("two", "zwei")]
    path.write_bytes("".join(f"{source}\t{target}\n" for source, target in rows).encode())
    return str(path), rows


def test_evaluation_keeps_every_odd_line_in_its_place(make_params, odd, tokenizer):
    path, rows = odd
    params = make_params(input_path=path, is_training=False, global_batch_size=4)

    batches = _take(iter(_load(params)), 100)

    assert wmt_dataloader.read_pairs(params) == rows
    assert np.concatenate([batch["unique_id"] for batch in batches]).tolist() == list(range(21))
    for batch in batches:
        for name in ("inputs", "targets"):
            assert batch[name].shape[1] <= 64
            assert (np.sum(batch[name] == tokenizer.eos_id, axis=1) == 1).all()
    assert b"".join(tokenizer.detokenize(batches[-1]["targets"]).numpy()) == b"zwei"


@pytest.mark.slow
@pytest.mark.parametrize("is_streamed", [False, True])
def test_training_leaves_out_what_is_empty_or_too_long_and_takes_the_rest(
    make_params, odd, tokenizer, caplog, is_streamed
):
    path, _ = odd
    source = {"odd": {"path": path, "weight": 1}, "again": {"path": path, "weight": 1}}
    params = make_params(input_path=source if is_streamed else path)

    batches = _take(iter(_load(params)), 30)

    sources = {
        text.decode() for batch in batches for text in tokenizer.detokenize(batch["inputs"]).numpy()
    }
    assert {"one", "two"} <= sources
    assert max(batch["inputs"].shape[1] for batch in batches) <= 64
    assert "left out 4 of 21 pairs because one side is empty" in caplog.text
    assert ("of the first 17" if is_streamed else "Left out 6 of 17 training pairs") in caplog.text
