import math

import pytest

from quintain.records.rows import curve, metric


def build_points(start, end):
    return [(10 * number, 1 / (number + 1), number + 0.25) for number in range(start, end)]


def choose(points):
    """Returns the points that are kept, as the module's text says it."""
    stride = next(
        stride
        for stride in (2**power for power in range(64))
        if len({*range(0, len(points), stride), len(points) - 1}) <= curve.MAX_POINTS
    )
    return [points[each] for each in sorted({*range(0, len(points), stride), len(points) - 1})]


@pytest.mark.parametrize("size", [1, 7, 127, 3000])
def test_a_long_curve_keeps_its_first_and_newest_points_and_every_so_many_between(size):
    points = build_points(0, 10_000)
    found = curve.Curve(1, 2, metric.MetricGroup.TRAINING, "loss")
    lengths, strides = set(), set()

    for start in range(0, len(points), size):
        found = found.extend(points[start : start + size])
        batches, _, _ = unpacked = curve.unpack(found.points)
        lengths.add(len(batches))
        strides.add(curve.find_stride(found.num_points))
        assert (batches[0], batches[-1]) == (0, points[found.num_points - 1][0])
        assert found.is_whole

    assert [tuple(point) for point in zip(*unpacked, strict=True)] == choose(points)
    assert max(lengths) <= curve.MAX_POINTS
    assert strides <= {1, 2, 4, 8, 16, 32, 64, 128}
    assert (found.num_points, found.last_batches) == (10_000, 99_990)
    assert (found.last, found.min, found.max) == (1 / 10_000, 1 / 10_000, 1.0)


@pytest.mark.parametrize("num_points", [1, 2, 127, 128, 129, 130, 254, 255, 256, 257])
def test_the_stride_doubles_where_the_points_would_be_too_many(num_points):
    points = build_points(0, num_points)
    found = curve.Curve(1, 2, metric.MetricGroup.TRAINING, "loss").extend(points)
    assert list(zip(*curve.unpack(found.points), strict=True)) == choose(points)
    assert curve.count_kept(num_points) == len(choose(points))


def test_points_that_are_damaged_are_refused():
    with pytest.raises(ValueError, match="24 bytes each, got 23"):
        curve.unpack(b"x" * 23)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (1, 1.0),
        (-(10**400), -math.inf),
        ("-Infinity", -math.inf),
        ("nan", None),
        (False, None),
        ([1.0], None),
        (None, None),
    ],
)
def test_what_is_a_number(value, number):
    assert curve.to_number(value) == number
