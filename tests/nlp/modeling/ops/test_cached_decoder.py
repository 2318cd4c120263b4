"""The cache and the leaving of settled sentences must not change what is found."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.nlp.modeling.models import seq2seq_transformer, transformer_stacks
from quintain.nlp.modeling.ops import beam_search, candidate_loop, decoding

VOCAB_SIZE, WIDTH, EXTRA = 130, 8, 6


def build_model(*, norm_first=True, eos_id=1):
    layers = {
        "num_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "norm_first": norm_first,
        "use_bias": not norm_first,
    }
    model = seq2seq_transformer.Seq2SeqTransformer(
        VOCAB_SIZE,
        WIDTH,
        encoder_layer=transformer_stacks.TransformerEncoder(**layers),
        decoder_layer=transformer_stacks.TransformerDecoder(**layers),
        extra_decode_length=EXTRA,
        eos_id=eos_id,
    )
    generator = np.random.default_rng(7)
    for variable in model.trainable_variables:
        variable.assign(variable + generator.normal(scale=0.3, size=variable.shape))
    return model


@pytest.fixture(scope="module", autouse=True)
def _fixed_seed():
    keras.utils.set_random_seed(5)


@pytest.fixture(scope="module")
def sources():
    """Sentences of 1 to 14 ids, so that some settle long before others."""
    generator = np.random.default_rng(1)
    lengths = [1, 2, 3, 14, 4, 9]
    rows = np.zeros([len(lengths), max(lengths)], np.int32)
    for row, length in zip(rows, lengths, strict=True):
        row[:length] = generator.integers(2, VOCAB_SIZE, length)
    return rows


def search_without_cache(model, run, source, options):
    """Searches with the whole decoder run anew for every id, each sentence by itself."""
    source = source[source != 0][np.newaxis]
    limit = source.shape[1] + EXTRA

    def predict(ids, index, cache):
        targets = tf.concat([ids[:, 1:], tf.ones_like(ids[:, :1])], axis=1)
        repeated = tf.repeat(tf.constant(source), tf.shape(ids)[0], axis=0)
        return run(repeated, targets)[:, -1], cache

    ids, scores = beam_search.sequence_beam_search(
        predict,
        tf.constant([0]),
        {},
        VOCAB_SIZE,
        options.beam_size,
        options.alpha,
        limit,
        model.eos_id,
        num_results=options.num_outputs,
        min_length=options.min_length,
        no_repeat_ngram_size=options.no_repeat_ngram_size,
    )
    return ids[0, : options.num_outputs, 1:].numpy(), scores[0, : options.num_outputs].numpy()


@pytest.mark.long("Further cases of a test of which some run every time", but=["options3"])
@pytest.mark.slow
@pytest.mark.parametrize(
    ("model_arguments", "options"),
    [
        ({}, {"beam_size": 4}),
        ({"norm_first": False}, {"beam_size": 3, "num_outputs": 3, "alpha": 0.0}),
        ({"eos_id": [1, 9, 77]}, {"beam_size": 4, "num_outputs": 2, "min_length": 3}),
        ({}, {"beam_size": 4, "num_outputs": 4, "no_repeat_ngram_size": 2, "min_length": 12}),
        ({}, {"beam_size": 1, "alpha": 0.0}),
    ],
)
def test_the_search_finds_what_it_finds_without_a_cache(sources, model_arguments, options):
    model, options = build_model(**model_arguments), decoding.DecodingOptions(**options)

    found = tf.function(lambda ids: model.decode(ids, options))(tf.constant(sources))

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)] * 2)
    def run(inputs, targets):
        return model({"inputs": inputs, "targets": targets})

    for row, source in enumerate(sources):
        expected, scores = search_without_cache(model, run, source, options)
        outputs = found["outputs"][row].numpy()
        width = min(outputs.shape[1], expected.shape[1])
        np.testing.assert_array_equal(outputs[:, :width], expected[:, :width])
        assert not outputs[:, width:].any()
        assert not expected[:, width:].any()
        np.testing.assert_allclose(found["scores"][row], scores, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.slow
def test_candidates_do_not_see_the_pasts_of_others_through_huge_scores(sources):
    model = build_model()
    for block in model.decoder.blocks:
        kernel = block.self_attention.query_key_value.kernel
        kernel.assign(kernel * 1000.0)
    options = decoding.DecodingOptions(beam_size=4, num_outputs=4)

    found = model.decode(sources, options)

    ids, scores = (found[name].numpy() for name in ("outputs", "scores"))  # [B, 4, L], [B, 4]
    targets = ids.reshape(-1, ids.shape[2])
    logits = model({"inputs": tf.repeat(sources, 4, axis=0), "targets": targets})
    log_probs = tf.nn.log_softmax(logits).numpy().reshape(*ids.shape, -1)
    chosen = np.take_along_axis(log_probs, ids[..., np.newaxis], axis=3)[..., 0]
    has_ended = (ids == 1).any(axis=2)
    limits = np.count_nonzero(sources, axis=1)[:, np.newaxis] + EXTRA
    lengths = np.where(has_ended, np.argmax(ids == 1, axis=2) + 1, limits)
    totals = np.where(np.arange(ids.shape[2]) < lengths[..., np.newaxis], chosen, 0).sum(axis=2)
    expected = totals / np.where(has_ended, ((5 + lengths) / 6) ** options.alpha, 1.0)
    np.testing.assert_allclose(scores, expected, rtol=1e-3, atol=1e-3)


def test_a_sentence_gets_the_same_in_any_batch(sources):
    model, options = build_model(), decoding.DecodingOptions(beam_size=4, num_outputs=4)
    together = model.decode(tf.constant(sources), options)

    alone = model.decode(tf.constant(sources[2:3, :3]), options)

    width = alone["outputs"].shape[-1]
    np.testing.assert_array_equal(together["outputs"][2, :, :width], alone["outputs"][0])
    np.testing.assert_allclose(together["scores"][2], alone["scores"][0], rtol=1e-5)


@pytest.mark.slow
def test_settled_sentences_leave_the_batch(sources, monkeypatch):
    sizes = []
    leave = candidate_loop.CandidateLoop._leave

    def note(self, state):
        left = leave(self, state)
        sizes.append(len(left.rows))
        return left

    monkeypatch.setattr(candidate_loop.CandidateLoop, "_leave", note)
    build_model().decode(tf.constant(sources))

    assert sizes[-1] == 0
    assert any(0 < size < len(sources) for size in sizes)
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.slow
def test_bfloat16_finds_nearly_the_same_scores(sources):
    model = build_model()
    exact = model.decode(tf.constant(sources), decoding.DecodingOptions())
    options = decoding.DecodingOptions(precision="bfloat16")

    rounded = model.decode(tf.constant(sources), options)

    assert rounded["scores"].dtype == tf.float32
    assert np.abs(rounded["scores"] - exact["scores"]).max() > 0
    np.testing.assert_allclose(rounded["scores"], exact["scores"], rtol=0.1)


@pytest.mark.slow
def test_prefixes_of_unequal_length_are_kept(sources):
    model = build_model()
    prefix = np.zeros([len(sources), 3], np.int32)
    prefix[0, :2], prefix[3, :3], prefix[5, :1] = [40, 41], [9, 9, 9], [100]
    options = decoding.DecodingOptions(no_repeat_ngram_size=1, min_length=4)

    free = model.decode(tf.constant(sources), options)["outputs"][:, 0].numpy()
    outputs = model.decode(tf.constant(sources), options, prefix=tf.constant(prefix))
    outputs = outputs["outputs"][:, 0].numpy()

    for row, start in enumerate(prefix):
        start = start[start != 0]
        np.testing.assert_array_equal(outputs[row, : len(start)], start)
        if not len(start):
            width = min(free.shape[1], outputs.shape[1])
            np.testing.assert_array_equal(outputs[row, :width], free[row, :width])


@pytest.mark.slow
def test_samples_are_those_of_the_seed(sources):
    model = build_model()
    options = decoding.DecodingOptions(sampling_temperature=1.0, num_outputs=3)

    first, second, other = (
        model.decode(tf.constant(sources), options, seed=tf.constant([seed, 0]))
        for seed in (3, 3, 4)
    )

    np.testing.assert_array_equal(first["outputs"], second["outputs"])
    np.testing.assert_array_equal(first["scores"], second["scores"])
    assert first["outputs"].shape != other["outputs"].shape or np.any(
        first["outputs"] != other["outputs"]
    )
    samples = first["outputs"][3].numpy()
    assert len({tuple(sample) for sample in samples}) == 3


@pytest.mark.slow
def test_sampling_without_randomness_is_greedy(sources):
    model = build_model()
    searched = dataclasses.replace(model.decoding, beam_size=1)
    greedy = dataclasses.replace(searched, sampling_temperature=0.0)
    nearly = dataclasses.replace(searched, sampling_temperature=1.0, top_k=1)

    expected = model.decode(tf.constant(sources), greedy)["outputs"]

    np.testing.assert_array_equal(model.decode(tf.constant(sources), nearly)["outputs"], expected)


def test_a_vocabulary_may_have_fewer_ids_than_the_beam_has_continuations():
    layers = {"num_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    model = seq2seq_transformer.Seq2SeqTransformer(
        4,
        WIDTH,
        encoder_layer=transformer_stacks.TransformerEncoder(**layers),
        decoder_layer=transformer_stacks.TransformerDecoder(**layers),
        extra_decode_length=EXTRA,
        beam_size=4,
    )

    found = model({"inputs": tf.constant([[2, 3, 1], [3, 1, 0]])})

    assert tf.reduce_max(found["outputs"]) < 4
    assert tf.reduce_min(found["scores"]) > candidate_loop.WORST_SCORE
