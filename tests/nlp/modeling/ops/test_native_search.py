"""Native searches find what TensorFlow's find, whatever else they are busy with."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.kernels import library, sources
from quintain.nlp.modeling.models import seq2seq_transformer, transformer_stacks
from quintain.nlp.modeling.ops import decoding, native_search

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _needs_native_code():
    if reason := library.find_reason():
        pytest.skip(reason)


VOCAB_SIZE, WIDTH, EXTRA = 131, 16, 6


def build_model(
    *, norm_first=True, eos_id=1, activation="relu", embed_start=True, vocab_size=VOCAB_SIZE
):
    layers = {
        "num_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 20,
        "norm_first": norm_first,
        "use_bias": not norm_first,
        "activation": activation,
    }
    keras.utils.set_random_seed(7)
    model = seq2seq_transformer.Seq2SeqTransformer(
        vocab_size,
        WIDTH,
        encoder_layer=transformer_stacks.TransformerEncoder(**layers),
        decoder_layer=transformer_stacks.TransformerDecoder(**layers),
        extra_decode_length=EXTRA,
        eos_id=eos_id,
        embed_start=embed_start,
    )
    generator = np.random.default_rng(7)
    for variable in model.trainable_variables:
        variable.assign(variable + generator.normal(scale=0.3, size=variable.shape))
    return model


def draw_sources(count, *, longest=9, vocab_size=VOCAB_SIZE):
    generator = np.random.default_rng(3)
    lengths = generator.integers(1, longest, count)
    return [np.append(generator.integers(3, vocab_size, n), 1).astype(np.int32) for n in lengths]


def strip(ids):
    """Returns ids without what may be padding at their end."""
    return ids[: np.max(np.nonzero(ids), initial=-1) + 1].tolist()


def search(model, sources_, options, prefixes=None, together=64):
    """Returns the ids and scores of each source, so many of them in the search at a time."""
    native = native_search.build_search(native_search.read(model, options), model, options)
    found, waiting = {}, list(enumerate(sources_))
    num_live = 0
    while waiting or num_live:
        while waiting and num_live < together:
            place, source = waiting.pop(0)
            prefix = None if prefixes is None else prefixes[place]
            limit = native_search.limit_length(model, source, prefix)
            native.add(place, source, max_length=limit, prefix=prefix)
            num_live += 1
        for one in native.run(2):
            found[one.key] = ([strip(ids) for ids in one.ids], one.scores)
            num_live -= 1
    return [found[place] for place in range(len(sources_))]


def search_by_tensorflow(model, sources_, options, prefixes=None):
    given = tf.ragged.constant([source.tolist() for source in sources_]).to_tensor()
    if prefixes is not None:
        prefixes = tf.ragged.constant([prefix.tolist() for prefix in prefixes]).to_tensor()
    found = model.decode(tf.cast(given, tf.int32), options, prefix=prefixes)
    outputs = []
    for ids, scores in zip(found["outputs"].numpy(), found["scores"].numpy(), strict=True):
        kept = scores > -1e6
        rows = [strip(row) for row in ids[kept]]
        outputs.append((rows, scores[kept].tolist()))
    return outputs


@pytest.mark.long(
    "Further cases of a test of which some run every time",
    but=["options0", "options3", "options6", "options8"],
)
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ({}, {}),
        ({"norm_first": False, "activation": "linear"}, {"alpha": 0.0, "num_outputs": 4}),
        ({"eos_id": [1, 5, 9], "embed_start": False}, {"beam_size": 3, "num_outputs": 2}),
        ({}, {"min_length": 3, "no_repeat_ngram_size": 2, "num_outputs": 3, "alpha": 1.5}),
        ({}, {"no_repeat_ngram_size": 1, "beam_size": 1}),
        ({"vocab_size": 11}, {"beam_size": 9, "num_outputs": 9, "min_length": 2}),
        ({"vocab_size": 5, "eos_id": [1, 2]}, {"beam_size": 7, "num_outputs": 7}),
        ({"vocab_size": 5}, {"no_repeat_ngram_size": 1, "min_length": 9}),
        ({"activation": "swiglu"}, {}),
    ],
)
def test_ids_and_scores_are_those_of_the_operations(kind, options):
    model = build_model(**kind)
    given = draw_sources(24, vocab_size=model.vocab_size)
    options = decoding.DecodingOptions(**options)

    native = search(model, given, options, together=7)

    for own, theirs in zip(native, search_by_tensorflow(model, given, options), strict=True):
        assert own[0] == theirs[0]
        np.testing.assert_allclose(own[1], theirs[1], rtol=1e-4, atol=1e-5)


def test_a_model_that_gives_no_numbers_finds_nothing_as_in_tensorflow():
    model, given = build_model(), draw_sources(3)
    model.trainable_variables[3].assign(model.trainable_variables[3] * np.nan)
    options = decoding.DecodingOptions(num_outputs=2)

    assert search(model, given, options) == [([], [])] * 3
    assert search_by_tensorflow(model, given, options) == [([], [])] * 3


def test_outputs_start_with_their_prefixes():
    model, given = build_model(), draw_sources(12)
    prefixes = [np.arange(3, 3 + place % 4, dtype=np.int32) for place in range(12)]
    options = decoding.DecodingOptions(no_repeat_ngram_size=1, min_length=4)

    native = search(model, given, options, prefixes)

    assert [one[0] for one in native] == [
        one[0] for one in search_by_tensorflow(model, given, options, prefixes)
    ]


@pytest.mark.long("Further cases of a test of which some run every time", but=["int8"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_neighbours_change_no_bit(precision):
    model, given = build_model(), draw_sources(20)
    options = decoding.DecodingOptions(num_outputs=4, precision=precision)

    alone = search(model, given, options, together=1)

    assert search(model, given, options, together=13) == alone


@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_all_instruction_sets_round_to_the_same_integers(activation):
    model, given = build_model(activation=activation), draw_sources(20)
    options = decoding.DecodingOptions(precision="int8")
    found = {}
    limit = library.load().functions.quintain_limit_isa
    try:
        for number, name in enumerate(sources.INSTRUCTION_SETS, start=1):
            if limit(number) == number:
                found[name] = search(model, given, options)
    finally:
        limit(len(sources.INSTRUCTION_SETS))

    for name, outputs in found.items():
        assert [one[0] for one in outputs] == [one[0] for one in found["avx2"]], name


def test_rounded_weights_are_those_of_the_operations():
    model, given = build_model(), draw_sources(24)
    exact = search(model, given, decoding.DecodingOptions(precision="float32"))
    options = decoding.DecodingOptions(precision="int8")

    native, theirs = search(model, given, options), search_by_tensorflow(model, given, options)

    # TensorFlow's does not round what is multiplied by them.
    same = [(a[1][0], b[1][0]) for a, b in zip(native, theirs, strict=True) if a[0] == b[0]]
    assert len(same) >= 0.7 * len(given)
    np.testing.assert_allclose(*zip(*same, strict=True), rtol=0.1, atol=0.1)
    assert [one[1] for one in native] != [one[1] for one in exact]


def test_what_only_tensorflow_can_do_is_told():
    model = build_model()
    sampled = decoding.DecodingOptions(sampling_temperature=1.0)

    assert native_search.find_reason(model, decoding.DecodingOptions()) is None
    assert "samples" in native_search.find_reason(model, sampled)
    assert "relu" in native_search.find_reason(
        build_model(activation="sigmoid"), decoding.DecodingOptions()
    )
