"""Real entries and files; one small vocabulary serves all tests."""

import gzip
import importlib
import itertools
import sys

import pytest
import tensorflow as tf

from quintain import errors
from quintain.checkpoints import checkpoint_state
from quintain.nlp.data import tokenizers, wmt_dataloader
from quintain.nlp.data.corpora import bundled_corpora

_PAIRS = bundled_corpora.get_pairs("numbers_and_dates/validation")[:200]
_OTHERS = bundled_corpora.get_pairs("numbers_and_dates/validation")[200:300]


@pytest.fixture(scope="module")
def directory(tmp_path_factory, request):
    directory = tmp_path_factory.mktemp("data")
    sys.path.insert(0, str(request.path.parent))
    try:
        importlib.import_module("tiny_translate").prepare(str(directory), _PAIRS)
    finally:
        sys.path.pop(0)
    sides = (side for pair in [*_PAIRS, *_OTHERS] for side in pair)
    tokenizers.train_sentencepiece(sides, str(directory / "v.model"), vocab_size=300)
    pairs, others = (
        "".join(f"{source}\t{target}\n" for source, target in part).encode()
        for part in (_PAIRS, _OTHERS)
    )
    (directory / "pairs.tsv").write_bytes(pairs)
    (directory / "others.tsv.gz").write_bytes(gzip.compress(others))
    return directory


@pytest.fixture
def make_params(directory):
    def make(**fields):
        defaults = {
            "is_training": True,
            "global_batch_size": 640,
            "batch_by": "pairs",
            "sentencepiece_model_path": str(directory / "v.model"),
            "seed": 3,
        }
        return wmt_dataloader.WMTDataConfig(**(defaults | fields))

    return make


@pytest.fixture
def make_tfds_params(make_params, directory):
    def make(**fields):
        defaults = {
            "tfds_name": "tiny_translate",
            "tfds_split": "train",
            "tfds_data_dir": str(directory),
            "src_lang": "en",
            "tgt_lang": "de",
        }
        return make_params(**(defaults | fields))

    return make


@pytest.fixture
def mixture(directory):
    return {
        "pairs": {"path": str(directory / "pairs.tsv"), "weight": 1},
        "others": {"path": str(directory / "others.tsv.gz"), "weight": 3},
    }


def _take(dataset, num):
    batches = itertools.islice(dataset, num)
    return [{name: value.numpy().tolist() for name, value in batch.items()} for batch in batches]


def _load(params, context=None):
    return wmt_dataloader.WMTDataLoader(params).load(context)


def _read_back(params, num):
    """The pairs of the first batches, as text."""
    tokenizer = tokenizers.SentencePieceTokenizer(params.sentencepiece_model_path)
    pairs = []
    for batch in itertools.islice(_load(params), num):
        sides = (tokenizer.detokenize(batch[name]).numpy() for name in ("inputs", "targets"))
        pairs += [(source.decode(), target.decode()) for source, target in zip(*sides, strict=True)]
    return pairs


def test_an_entry_is_read_whole_for_vocabularies_and_references(make_tfds_params):
    assert sorted(wmt_dataloader.read_pairs(make_tfds_params())) == sorted(_PAIRS)


def test_training_leaves_out_empty_sides_that_evaluation_keeps(make_tfds_params):
    params = make_tfds_params(tfds_split="validation")

    assert len(wmt_dataloader.read_pairs(params)) == 20
    assert ("", "leer") in wmt_dataloader.read_pairs(params.replace(is_training=False))


@pytest.mark.slow
def test_training_on_an_entry_streams_its_pairs(make_tfds_params):
    seen = set(_read_back(make_tfds_params(), 60))

    assert seen <= set(_PAIRS)
    assert len(seen) > 180  # The longest may still wait for their bucket to fill.


def test_evaluation_on_an_entry_sees_every_pair_once(make_tfds_params):
    params = make_tfds_params(tfds_split="validation", is_training=False, global_batch_size=8)

    batches = _take(_load(params), None)

    ids = [number for batch in batches for number in batch["unique_id"]]
    assert sorted(ids) == list(range(21))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"src_lang": "eng"}, r"src_lang: got 'eng', expected a text feature of 'tiny_translate'"),
        ({"tgt_lang": ""}, r"tgt_lang: got '', expected the name of the feature"),
        ({"tfds_split": "trian"}, r"tfds_split: got 'trian', .*Did you mean 'train'"),
    ],
)
def test_a_wrong_language_or_split_is_an_error(make_tfds_params, fields, message):
    with pytest.raises(errors.ConfigError, match=message):
        _load(make_tfds_params(**fields))


@pytest.mark.long("test_pair_mixture.py draws by weight in every run")
@pytest.mark.slow
def test_sources_are_mixed_by_weight(make_params, mixture):
    pairs = _read_back(make_params(input_path=mixture), 300)

    share = sum(pair in set(_OTHERS) for pair in pairs) / len(pairs)
    # Four standard deviations of as many draws with probability 3/4.
    assert abs(share - 0.75) < 4 * (0.75 * 0.25 / len(pairs)) ** 0.5


def test_a_mixture_is_read_whole_for_vocabularies_and_references(make_params, mixture):
    assert wmt_dataloader.read_pairs(make_params(input_path=mixture)) == [*_PAIRS, *_OTHERS]


def test_a_mixture_of_formats_is_an_error(make_params, mixture):
    mixture["pairs"]["path"] = "bundled:numbers_and_dates/test"

    with pytest.raises(errors.ConfigError, match="got bundled and tsv data, expected all sources"):
        _load(make_params(input_path=mixture))


def test_a_wrong_line_of_a_mixture_is_named(make_params, mixture, tmp_path):
    path = tmp_path / "wrong.tsv"
    path.write_text("one\teins\ntwo zwei\n")
    mixture["pairs"]["path"] = str(path)

    with pytest.raises(errors.DataError, match=r"wrong\.tsv:2: got 0 tabs"):
        _load(make_params(input_path=mixture))


@pytest.mark.long("Further cases of a test of which some run every time", but=["True-5"])
@pytest.mark.slow
@pytest.mark.parametrize("position", [0, 5])
@pytest.mark.parametrize("is_mixture", [False, True])
def test_an_interrupted_run_goes_on_with_the_same_batches(
    make_params, make_tfds_params, mixture, position, is_mixture
):
    params = make_params(input_path=mixture) if is_mixture else make_tfds_params()
    uninterrupted = _take(_load(params), position + 8)
    first = iter(_load(params))
    _take(first, position)
    saved = checkpoint_state.DataPosition(lambda: first, lambda: position).serialize()

    second = iter(_load(params))
    checkpoint_state.DataPosition(lambda: second, lambda: 0).deserialize(saved)

    assert _take(second, 8) == uninterrupted[position:]


@pytest.fixture(scope="module")
def service():
    """Address of a dispatcher with a worker."""
    dispatcher = tf.data.experimental.service.DispatchServer()
    config = tf.data.experimental.service.WorkerConfig(
        dispatcher_address=dispatcher.target.partition("://")[2]
    )
    worker = tf.data.experimental.service.WorkerServer(config)
    yield dispatcher.target
    del worker, dispatcher


@pytest.mark.slow
def test_a_service_reads_the_text_which_is_tokenised_here(make_params, directory, service):
    params = make_params(
        input_path=str(directory / "pairs.tsv"),
        enable_tf_data_service=True,
        tf_data_service_address=service,
    )

    seen = set(_read_back(params, 60))

    assert seen <= set(_PAIRS)
    assert len(seen) > 180


def test_a_service_is_not_used_for_evaluation_and_says_so(make_params, directory, service, caplog):
    params = make_params(
        input_path=str(directory / "pairs.tsv"),
        is_training=False,
        enable_tf_data_service=True,
        tf_data_service_address=service,
    )

    assert sum(len(batch["unique_id"]) for batch in _take(_load(params), None)) == len(_PAIRS)
    assert "evaluation pairs are held in memory" in caplog.text


@pytest.mark.slow
def test_blank_lines_of_any_kind_are_left_out_of_a_stream(make_params, mixture, tmp_path):
    rows = [f"{source}\t{target}" for source, target in _PAIRS]
    blank = ["", "  ", "\u2028", "\x85", "\r", "\t"]
    (tmp_path / "a.tsv").write_bytes("\n".join([*blank, *rows, *blank]).encode())
    paths = {**mixture, "pairs": {"path": str(tmp_path / "a.tsv"), "weight": 1}}

    seen = set(_read_back(make_params(input_path=paths), 30))

    assert seen & set(_PAIRS)
    assert seen <= {*_PAIRS, *_OTHERS}
