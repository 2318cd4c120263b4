import pytest

from quintain.cli.training import tune


@pytest.mark.parametrize(
    ("limit", "first", "most", "expected"),
    [(100, 8, None, 96), (7, 8, None, None), (10**9, 1, 64, 64), (50, 8, 40, 40), (9, 9, None, 9)],
)
def test_the_largest_size_that_fits_is_found(limit, first, most, expected):
    tried = []

    found = tune.find_largest(lambda size: tried.append(size) or size <= limit, first, most)

    assert found == expected
    assert len(set(tried)) == len(tried)
    assert most is None or max(tried) <= most


@pytest.mark.long("Starts a process for each size")
@pytest.mark.slow
def test_sizes_are_tried_in_processes_of_their_own(quintain):
    code, stdout, stderr = quintain(
        "tune", "batch", "--experiment=bert/local", "--start=2", "--most=2", "--memory=0.000001"
    )

    assert (code, stdout) == (2, "")
    assert "does not fit: it takes" in stderr


@pytest.mark.parametrize("options", [["--lowest=0"], ["--proxy-width=32", "--highest=0"]])
def test_a_learning_rate_of_zero_is_no_end_of_a_range(quintain, options):
    code, stdout, stderr = quintain("tune", "lr", "--experiment=tabular/local", *options)

    assert (code, stdout) == (2, "")
    assert "expected a range above 0" in stderr or "to 1 in 100 steps, expected" in stderr
