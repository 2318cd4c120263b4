"""The native cross entropy against TensorFlow's operations, and in closed form.

Bounds: the loss is within 4 units in the last place of float32 at the logits' size, the gradient
within 2e-6 of an upstream gradient of 1 (and the rounding to bfloat16 where logits are that).
"""

import numpy as np
import pytest
import tensorflow as tf

from quintain.kernels import (
    casts,
    cross_entropy,
    library,
    modes,
    selection,
    sources,
)
from quintain.modeling import token_losses, token_metrics
from tests.kernels import native_steps

pytestmark = pytest.mark.skipif(
    library.find_reason() is not None, reason=f"No native kernels: {library.find_reason()}"
)

_SHAPES = [(1, 1), (5, 7), (3, 64), (2, 65), (7, 1001), (0, 9), (64, 130)]


def _draw(num_rows, num_classes, scale=5.0, seed=0):
    random = np.random.default_rng(seed)
    logits = random.normal(size=(num_rows, num_classes)) * scale
    return logits.astype(np.float32), random.integers(0, num_classes, size=num_rows)


def _compute(mode, logits, labels, smoothing=0.1, weights=None):
    """Returns loss, gradient and accuracy of a mode's kernels."""
    labels = tf.constant(labels, tf.int32)
    with selection.training_scope(mode), tf.GradientTape() as tape:
        tape.watch(logits)
        in_float = tf.cast(logits, tf.float32) if mode == "tensorflow" else logits
        loss = token_losses.smoothed_cross_entropy(in_float, labels, smoothing)
        total = tf.reduce_sum(loss if weights is None else loss * weights)
    with selection.training_scope(mode):
        right = token_metrics.TokenAccuracy().measure(labels, logits)
    gradient = tf.cast(tape.gradient(total, logits), tf.float32)
    return loss.numpy(), gradient.numpy(), right.numpy()


def _compute_both(*args, **kwargs):
    modes_ = (modes.KernelMode.NATIVE, modes.KernelMode.TENSORFLOW)
    return [_compute(mode, *args, **kwargs) for mode in modes_]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
@pytest.mark.parametrize("shape", _SHAPES)
def test_equals_tensorflows_operations(shape, dtype, smoothing):
    logits, labels = _draw(*shape)
    weights = np.random.default_rng(1).normal(size=shape[0]).astype(np.float32)

    native, plain = _compute_both(tf.cast(logits, dtype), labels, smoothing, weights)

    np.testing.assert_allclose(native[0], plain[0], rtol=1e-6, atol=8e-6)
    rounding = 2.0**-8 if dtype is tf.bfloat16 else 1e-6
    np.testing.assert_allclose(native[1], plain[1], rtol=rounding, atol=2e-6)
    np.testing.assert_array_equal(native[2], plain[2])


def test_gradient_is_that_of_finite_differences():
    logits, labels = _draw(3, 5, scale=1.0)
    _, gradient, _ = _compute(modes.KernelMode.NATIVE, tf.constant(logits), labels)
    step = 1e-2
    differences = np.zeros_like(logits)
    for place in np.ndindex(logits.shape):
        moved = np.stack([logits, logits])
        moved[(0, *place)] += step
        moved[(1, *place)] -= step
        up, down = (_compute(modes.KernelMode.NATIVE, tf.constant(one), labels)[0] for one in moved)
        differences[place] = (up.sum(dtype=float) - down.sum(dtype=float)) / (2 * step)

    np.testing.assert_allclose(gradient, differences, atol=2e-4)


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1e4, 1e30])
def test_bears_huge_and_tiny_values(scale):
    logits, labels = _draw(4, 100, scale=scale)

    native, plain = _compute_both(tf.constant(logits), labels)

    np.testing.assert_allclose(native[0], plain[0], rtol=1e-6, atol=8e-6)
    np.testing.assert_allclose(native[1], plain[1], rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize("place", [0, 63, 64, 99])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_row_with_nan_or_infinity_gives_nan(value, place):
    """As the softmax in closed form does; that of oneDNN keeps NaN to the place where it was."""
    logits, _ = _draw(2, 100)
    logits[1, place] = value

    native, plain = _compute_both(tf.constant(logits), [3, 5])

    np.testing.assert_allclose(native[0], [plain[0][0], np.nan], rtol=1e-6)
    np.testing.assert_allclose(native[1][0], plain[1][0], atol=2e-6)
    assert np.isnan(native[1][1]).all()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_class_can_be_impossible(smoothing):
    logits, _ = _draw(2, 100)
    logits[1, 7] = -np.inf

    native, plain = _compute_both(tf.constant(logits), [3, 5], smoothing)

    np.testing.assert_allclose(native[0], plain[0], rtol=1e-6, atol=8e-6)
    np.testing.assert_allclose(native[1], plain[1], atol=2e-6)


def test_the_first_of_equals_is_the_likeliest():
    logits = tf.constant([[1.0, 2.0, 2.0], [1.0, 2.0, 2.0], [0.0, 0.0, 0.0]])

    _, _, right = _compute(modes.KernelMode.NATIVE, logits, [1, 2, 0])

    assert right.tolist() == [1.0, 0.0, 1.0]


_STRANGE = [np.nan, np.inf, -np.inf, np.finfo(np.float32).min, -3e38, -0.0, 0.0, 1.0]


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16], ids=lambda one: one.name)
@pytest.mark.parametrize("num_classes", [1, 4, 67])
def test_the_likeliest_of_strange_numbers_is_that_of_tensorflow(num_classes, dtype):
    random = np.random.default_rng(num_classes)
    rows = random.choice(np.float32(_STRANGE), size=(3000, num_classes))
    rows[1000:] = random.choice(np.float32(_STRANGE[:4]), size=(2000, num_classes))
    rows[2000:] = random.choice(np.float32([np.nan, -np.inf]), size=(1000, num_classes))
    rows[-2], rows[-1] = np.nan, -np.inf
    logits = tf.cast(rows, dtype)
    likeliest = tf.argmax(tf.cast(logits, tf.float32), axis=-1, output_type=tf.int32)
    assert 0 in likeliest[-2:]
    limit = library.load().functions.quintain_limit_isa

    for isa in range(1, 1 + limit(len(sources.INSTRUCTION_SETS))):
        limit(isa)
        right, wrong = (
            cross_entropy.find_right(logits, (likeliest + shift) % num_classes).numpy()
            for shift in (0, 1)
        )

        assert right.all()
        assert num_classes == 1 or not wrong.any()


@pytest.mark.parametrize("label", [-1, 7])
def test_names_a_label_that_is_no_class(label):
    logits, _ = _draw(2, 7)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=rf"labels\[1\]: got {label}, .* in \[0, 7\)"
    ):
        _compute(modes.KernelMode.NATIVE, tf.constant(logits), [0, label])


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
def test_every_instruction_set_and_every_split_gives_the_same_bits(dtype):
    logits, labels = _draw(97, 1003)
    logits[5, 70], logits[6, 80] = np.nan, -np.inf
    logits = tf.cast(logits, dtype)
    limit = library.load().functions.quintain_limit_isa
    results = []
    for isa in range(1, 1 + len(sources.INSTRUCTION_SETS)):
        limit(isa)
        results.append(_compute(modes.KernelMode.NATIVE, logits, labels))
    limit(len(sources.INSTRUCTION_SETS))
    rows = [
        _compute(modes.KernelMode.NATIVE, logits[row : row + 1], labels[row : row + 1])
        for row in range(0, 97, 12)
    ]

    for result in results[1:]:
        np.testing.assert_array_equal(result[0], results[0][0])
        np.testing.assert_array_equal(result[1], results[0][1])
    np.testing.assert_array_equal([row[0][0] for row in rows], results[0][0][::12])


def test_a_graph_reads_bfloat16_logits_once_for_loss_and_accuracy():
    logits, labels = _draw(6, 30)
    labels = tf.constant(labels.reshape(2, 3), tf.int32)

    accuracy = token_metrics.TokenAccuracy()

    def compute(given):
        with tf.GradientTape() as tape:
            tape.watch(given)
            scores = tf.reshape(tf.cast(given, tf.float32), [2, 3, 30])
            losses, _ = token_losses.padded_cross_entropy(scores, labels, smoothing=0.1)
            loss = tf.reduce_sum(losses)
        return (
            loss,
            tape.gradient(loss, given),
            accuracy.measure(labels, scores),
        )

    given = tf.cast(logits, tf.bfloat16)
    step = native_steps.trace(compute)
    native, plain = step(given), tf.function(compute)(given)
    operations = step.get_concrete_function(given).graph.get_operations()

    kernels = [one for one in operations if one.type.startswith("Quintain")]
    assert {one.inputs[0].dtype for one in kernels} == {tf.bfloat16}
    assert len({one.inputs[0].op.inputs[0].name for one in kernels}) == 1
    np.testing.assert_allclose(native[0], plain[0], rtol=1e-6)
    np.testing.assert_allclose(
        tf.cast(native[1], tf.float32), tf.cast(plain[1], tf.float32), rtol=2.0**-8, atol=2e-6
    )
    np.testing.assert_array_equal(native[2], plain[2])


def test_neither_logits_nor_their_gradient_are_cast():
    accuracy = token_metrics.TokenAccuracy()

    def compute(given):
        labels = tf.zeros(tf.shape(given)[:2], tf.int32)
        with tf.GradientTape() as tape:
            tape.watch(given)
            numbers = tf.reshape(tf.reshape(given, [-1, 7]) * 2, tf.shape(given))
            scores = casts.widen(numbers)
            losses, _ = token_losses.padded_cross_entropy(scores, labels, smoothing=0.1)
        return losses, accuracy.measure(labels, scores), tape.gradient(losses, given)

    spec = tf.TensorSpec([None, 5, 7], tf.bfloat16)
    graph = native_steps.trace(compute).get_concrete_function(spec).graph

    assert any(one.type.startswith("Quintain") for one in graph.get_operations())
    needed, waiting = set(), [graph.outputs[0].op, graph.outputs[1].op, graph.outputs[2].op]
    while waiting:
        one = waiting.pop()
        if one.name not in needed:
            needed.add(one.name)
            waiting += [source.op for source in one.inputs]
    of_logits = [
        one.name
        for one in graph.get_operations()
        if one.type == "Cast" and tf.bfloat16 in (one.inputs[0].dtype, one.outputs[0].dtype)
    ]
    assert len(of_logits) >= 2
    assert not needed & set(of_logits)


def test_logits_that_were_cast_have_a_gradient_of_their_own():
    x, labels = tf.cast(_draw(6, 30)[0], tf.bfloat16), tf.zeros([2, 3], tf.int32)

    def compute(given):
        with tf.GradientTape() as tape:
            tape.watch(given)
            scores = tf.identity(tf.reshape(tf.cast(given, tf.float32), [2, 3, 30]))
            losses = _differentiate_within(scores, labels)
            losses += token_losses.smoothed_cross_entropy(scores, labels + 1)
        return tape.gradient(losses, [scores, given])

    ours, through = native_steps.trace(compute)(x)

    theirs, expected = tf.function(compute)(x)
    np.testing.assert_allclose(ours, theirs, atol=2.0**-6)
    np.testing.assert_allclose(
        tf.cast(through, tf.float32), tf.cast(expected, tf.float32), atol=2.0**-6
    )


@tf.custom_gradient
def _differentiate_within(scores, labels):
    """Returns a loss whose gradient is computed at once, and clipped."""
    with tf.GradientTape() as tape:
        tape.watch(scores)
        losses = token_losses.smoothed_cross_entropy(scores, labels)
    gradient = tf.clip_by_value(tape.gradient(losses, scores), -0.5, 0.5)
    return losses, lambda upstream: (upstream[..., tf.newaxis] * gradient, None)


def test_evaluation_and_exports_have_operations_of_tensorflow_only():
    function = tf.function(lambda scores: _compute_loss(scores))
    graph = function.get_concrete_function(tf.TensorSpec([4, 7], tf.float32)).graph

    assert not [one for one in graph.get_operations() if one.type.startswith("Quintain")]


def _compute_loss(scores):
    return token_losses.smoothed_cross_entropy(scores, tf.zeros([4], tf.int32))


def test_flatten_keeps_logits_whose_classes_are_others():
    @tf.function
    def flatten(given):
        return cross_entropy.flatten(tf.reshape(tf.cast(given, tf.float32), [4, 3]))

    assert flatten(tf.ones([2, 6], tf.bfloat16)).dtype == tf.float32


def test_a_second_derivative_is_an_error_that_says_what_to_do():
    scores = tf.ones([4, 7])
    with tf.GradientTape() as outer:
        outer.watch(scores)
        with selection.training_scope(modes.KernelMode.NATIVE), tf.GradientTape() as inner:
            inner.watch(scores)
            loss = tf.reduce_sum(_compute_loss(scores))
        gradient = inner.gradient(loss, scores)

    what = r"QuintainCrossEntropyGradient: .*Set runtime\.kernels to 'tensorflow'"
    with pytest.raises(library.SecondDerivativeError, match=what):
        outer.gradient(gradient, scores)
