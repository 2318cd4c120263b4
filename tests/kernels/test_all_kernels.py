"""What all native kernels have in common: strange numbers, instruction sets, threads."""

import numpy as np
import pytest
import tensorflow as tf

from quintain.kernels import library, sources
from tests.kernels import kernel_table, operation_table

pytestmark = pytest.mark.skipif(
    library.find_reason() is not None, reason=f"No native kernels: {library.find_reason()}"
)

NEWEST = "avx2" if library.find_reason() else library.load().instruction_set
SETS = list(enumerate(sources.INSTRUCTION_SETS, 1))[
    : 1 + list(sources.INSTRUCTION_SETS).index(NEWEST)
]
TYPES = [tf.float32, tf.bfloat16]
VALUES = [np.nan, np.inf, -np.inf, 1e30, -1e30, 1e-30, 1e-40, -0.0]


@pytest.fixture(name="limit", params=SETS, ids=lambda one: one[1])
def _limit(request):
    """Runs a test with every instruction set of this machine."""
    limit = library.load().functions.quintain_limit_isa
    assert limit(request.param[0]) == request.param[0]
    yield
    limit(len(sources.INSTRUCTION_SETS))


def _draw_rows(shape, dtype):
    """Returns rows: the first ones have a strange number each, or are full of it."""
    rows = np.random.default_rng(shape[1]).normal(size=shape).astype(np.float32)
    if shape[1]:
        for place, value in enumerate(VALUES[: shape[0] // 2]):
            rows[2 * place, place % shape[1]] = value
            rows[2 * place + 1] = value
    return tf.cast(rows, dtype)


@pytest.mark.long("Further cases of a test of which some run every time", but=["float32"])
@pytest.mark.slow
@pytest.mark.parametrize("dtype", TYPES, ids=lambda one: one.name)
@pytest.mark.parametrize("name", kernel_table.KERNELS)
def test_strange_numbers_spoil_the_same_rows_as_in_tensorflow(limit, name, dtype):
    kernel = kernel_table.KERNELS[name]
    for shape in [(0, 5), (17, 13), (19, 130), *([(3, 1)] if name != "loss" else [])]:
        x = _draw_rows(shape, dtype)

        ours, theirs = (
            kernel_table.run(kernel, compute, x) for compute in (kernel.native, kernel.plain)
        )

        for found, expected in zip(ours, theirs, strict=True):
            assert found.shape == expected.shape
            flat, plain = (
                one.reshape([shape[0], one.size // max(shape[0], 1)]) for one in (found, expected)
            )
            is_fine, is_plain_fine = (np.isfinite(one).all(axis=1) for one in (flat, plain))
            if name == "gelu":  # TensorFlow's spoils more: it overflows in a large number's cube.
                is_fine &= is_plain_fine
            np.testing.assert_array_equal(is_fine, is_plain_fine)
            size = np.abs(plain[is_fine]).max(axis=1, keepdims=True, initial=1e-30)
            if name == "loss" and found is ours[0]:  # Its terms are of the size of the logits.
                logits = np.abs(tf.cast(x, tf.float32).numpy()[is_fine])
                size = np.maximum(size, logits.max(axis=1, keepdims=True, initial=0.0))
            bound = 2**-5 if kernel.rounds or dtype == tf.bfloat16 else 2e-5
            distance = np.abs(flat[is_fine] - plain[is_fine])
            assert (distance <= bound * size).all()


@pytest.mark.slow
@pytest.mark.e2e
def test_numbers_of_threads_give_the_same_bits(run_program, is_long):
    numbers = (1, 2, 3, 7) if is_long else (1, 3)
    found = [run_program("hash_kernels.py", threads) for threads in numbers]

    assert len(found[0]) == 2 * len(SETS) * len(kernel_table.KERNELS)
    assert found == found[:1] * len(numbers)


@pytest.mark.slow
@pytest.mark.e2e
def test_whatever_operations_are_given_they_compute_or_say_what_they_expect(run_program):
    counts = run_program("fuzz_kernels.py", "--calls", 1000, is_fresh=True)

    assert counts.pop("failures", {}) == {}
    assert set(counts) == set(library.list_gradients(library.get()))
    assert all(one["right"] > 0 for one in counts.values())
    assert all(one["refused"] > 0 for name, one in counts.items() if "HalfSquares" not in name)


def test_every_operation_of_the_library_is_in_the_table():
    found = {
        one
        for kernel in kernel_table.KERNELS.values()
        for one in kernel_table.list_operations(kernel)
    }

    assert found == set(library.list_gradients(library.get()))
    assert found == {*operation_table.SHAPES, *operation_table.OF_LISTS}


@pytest.mark.parametrize(
    "name", [name for name, one in kernel_table.KERNELS.items() if one.has_gradient]
)
def test_second_derivatives_are_refused_and_never_wrong(name):
    x = _draw_rows((3, 5), tf.float32) * 0 + 0.5
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            result = tf.reduce_sum(kernel_table.KERNELS[name].native(x) ** 2)
        gradient = inner.gradient(result, x)

    with pytest.raises(library.SecondDerivativeError, match=r"runtime\.kernels"):
        outer.gradient(gradient, x)
