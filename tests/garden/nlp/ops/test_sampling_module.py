import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.nlp.modeling.ops import decoding, sampling_module

LOGITS = np.log([[0.5, 0.3, 0.15, 0.05], [0.1, 0.2, 0.3, 0.4]]).astype(np.float32)


def finite(values):
    return np.isfinite(np.asarray(values)).tolist()


def test_greedy_takes_the_largest():
    values, ids = sampling_module.greedy(tf.constant(LOGITS))

    assert ids.numpy().tolist() == [[0], [3]]
    np.testing.assert_allclose(values, np.log([[0.5], [0.4]]), rtol=1e-6)


def test_a_temperature_divides():
    np.testing.assert_allclose(
        sampling_module.sample_logits_with_temperature(tf.constant(LOGITS), 0.5), LOGITS * 2
    )


@pytest.mark.parametrize(("top_k", "kept"), [(1, 1), (2, 2), (9, 4), (0, 1)])
def test_top_k_leaves_the_largest(top_k, kept):
    left = sampling_module.sample_top_k(tf.constant(LOGITS), top_k).numpy()

    assert finite(left[0]) == [True] * kept + [False] * (4 - kept)
    assert finite(left[1]) == [False] * (4 - kept) + [True] * kept
    np.testing.assert_array_equal(left[0, :kept], LOGITS[0, :kept])


@pytest.mark.parametrize(("top_p", "kept"), [(0.01, 1), (0.49, 1), (0.6, 2), (0.85, 3), (0.99, 4)])
def test_top_p_leaves_the_fewest_that_reach_it(top_p, kept):
    left = sampling_module.sample_top_p(tf.constant(LOGITS), top_p).numpy()

    assert finite(left[0]) == [True] * kept + [False] * (4 - kept)


def build_module(**kwargs):
    """A model whose next id does not depend on those before: 1 ends."""
    table = tf.constant(LOGITS[1])
    return sampling_module.SamplingModule(
        lambda ids, index, cache: (
            tf.tile(table[tf.newaxis], [tf.shape(ids)[0], 1]),
            {"steps": cache["steps"] + 1.0},
        ),
        vocab_size=4,
        max_decode_length=kwargs.pop("max_decode_length", 6),
        eos_id=1,
        padded_decode=kwargs.pop("padded_decode", False),
        **kwargs,
    )


def generate(module, size=3, **kwargs):
    return module.generate(tf.zeros([size], tf.int32), {"steps": tf.zeros([size, 1])}, **kwargs)


@pytest.mark.parametrize("padded_decode", [False, True])
def test_greedy_decoding_that_never_ends_returns_what_there_is(padded_decode):
    ids, scores = generate(build_module(padded_decode=padded_decode))

    assert ids.numpy().tolist() == [[0] + [3] * 6] * 3
    np.testing.assert_allclose(scores, [[6 * np.log(0.4)]] * 3, rtol=1e-5)


def test_scores_are_normalised_by_the_function_given():
    module = build_module(length_normalization_fn=lambda length, dtype: tf.cast(length, dtype) * 2)

    _, scores = generate(module)

    np.testing.assert_allclose(scores, [[6 * np.log(0.4) / 14]] * 3, rtol=1e-5)


def test_log_probabilities_may_start_anywhere():
    _, scores = generate(build_module(), initial_log_probs=tf.constant([[-1.0], [0.0], [-2.0]]))

    np.testing.assert_allclose(scores[:, 0] - scores[1, 0], [-1.0, 0.0, -2.0], atol=1e-5)


def test_the_cache_of_the_first_step_is_returned_where_wanted():
    _, _, cache = generate(build_module(extra_cache_output=True))

    np.testing.assert_array_equal(cache["steps"], [[1.0]] * 3)


def test_a_cache_of_another_type_is_an_error():
    with pytest.raises(TypeError, match="float64"):
        build_module().generate(tf.constant([0]), {"steps": tf.zeros([1, 1], tf.float64)})


def sample(size=4000, **kwargs):
    module = build_module(enable_greedy=False, max_decode_length=1, **kwargs)
    return generate(module, size)[0][:, 1].numpy()


def test_ids_are_drawn_with_their_probabilities():
    shares = np.bincount(sample(seed=1), minlength=4) / 4000

    # Four standard deviations of a share of 4,000 draws.
    np.testing.assert_allclose(shares, [0.1, 0.2, 0.3, 0.4], atol=4 * 0.008)


def test_temperature_top_k_and_top_p_apply_in_this_order():
    # A temperature of 0.5 gives 1, 4, 9 and 16 thirtieths; the three largest of them 4, 9 and 16
    # of 29; 0.8 is reached by the two largest, 9 and 16 of 25.
    drawn = sample(seed=2, sample_temperature=0.5, top_k=3, top_p=0.8)

    shares = np.bincount(drawn, minlength=4) / 4000
    np.testing.assert_allclose(shares, [0, 0, 9 / 25, 16 / 25], atol=4 * 0.008)


def test_seeds_repeat_and_their_absence_does_not():
    np.testing.assert_array_equal(sample(100, seed=5), sample(100, seed=5))
    assert (sample(100, seed=5) != sample(100, seed=6)).any()
    module = build_module(enable_greedy=False)
    assert (generate(module, 50)[1].numpy() != generate(module, 50)[1].numpy()).any()


def test_the_score_is_the_probability_that_the_model_gives():
    ids, scores = generate(build_module(enable_greedy=False, sample_temperature=3.0, seed=1), 20)

    for row, score in zip(ids.numpy(), scores.numpy()[:, 0], strict=True):
        end = list(row[1:]).index(1) + 2 if 1 in row[1:] else len(row)
        expected = sum(LOGITS[1][word] for word in row[1:end])
        np.testing.assert_allclose(score, expected, rtol=1e-5)
        assert not row[end:].any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam_size": 0}, "beam_size: got 0"),
        ({"num_outputs": 5}, "num_outputs: got 5.*beam_size=4"),
        ({"top_k": 3}, "give sampling_temperature"),
        ({"top_p": 0.5}, "give sampling_temperature"),
        ({"sampling_temperature": 1.0, "top_p": 0.0}, "top_p: got 0.0"),
        ({"sampling_temperature": -1.0}, "sampling_temperature: got -1.0"),
        ({"sampling_temperature": 1.0, "top_k": -1}, "top_k: got -1"),
        ({"alpha": float("nan")}, "alpha: got nan"),
        ({"alpha": float("inf")}, "alpha: got inf, expected a finite number"),
        ({"sampling_temperature": float("inf")}, "got inf, expected a finite number"),
        ({"beam_size": 100_000}, "beam_size: got 100000, expected an integer from 1 to 4,096"),
        ({"min_length": 2**64}, "min_length: got 18446744073709551616, expected an integer from 0"),
        ({"precision": "int4"}, "precision: got 'int4'"),
    ],
)
def test_options_out_of_their_range_are_errors(options, message):
    with pytest.raises(errors.ConfigError, match=message):
        decoding.DecodingOptions(**options)
