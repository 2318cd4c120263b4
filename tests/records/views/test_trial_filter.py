import json
import pathlib
import time

import pytest

from quintain import errors
from quintain.records.views import trial_filter

VECTORS = pathlib.Path(__file__).with_name("filter_vectors.json")


def read_vectors():
    """Returns (expression, row, vector); a vector without a row has that of the one before."""
    row, found = None, []
    for vector in json.loads(VECTORS.read_text(encoding="utf-8")):
        row = vector.get("row", row)
        found.append(pytest.param(vector["where"], row, vector, id=vector["where"][:60]))
    return found


@pytest.mark.parametrize(
    ("where", "row", "vector"), [one for one in read_vectors() if "result" in one.values[2]]
)
def test_an_expression_chooses_what_it_says(where, row, vector):
    columns = {name: [value] for name, value in row.items()}

    assert trial_filter.parse(where, row).test(columns, 1) == [vector["result"]]


@pytest.mark.parametrize(
    ("where", "row", "vector"), [one for one in read_vectors() if "error" in one.values[2]]
)
def test_a_mistake_has_its_place_and_says_what_is_expected(where, row, vector):
    with pytest.raises(errors.ConfigError) as caught:
        trial_filter.parse(where, row)

    assert str(caught.value).startswith("where: ")
    assert vector["error"] in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_all_trials_are_tested_at_once():
    columns = {"hparams.lr": [0.1, None, 0.001], "state": ["ACTIVE", "ERROR", "ACTIVE"]}

    chosen = trial_filter.parse("lr < 0.01 or state = error", columns).test(columns, 3)

    assert chosen == [False, True, True]


def test_a_long_row_of_digits_is_read_once():
    begin = time.thread_time()

    trial_filter.check(f"a < {'1' * (trial_filter.MAX_LENGTH - 5)}x")

    assert time.thread_time() - begin < 0.3
