import pytest

from quintain import errors
from quintain.records.config import lengths

UNITS = lengths.LengthUnits(batches_per_step=100, records_per_epoch=1_000, global_batch_size=32)


@pytest.mark.parametrize(
    ("length", "batches"),
    [
        (7, 7),
        ({"batches": 7}, 7),
        ({"records": 320}, 10),
        ({"records": 351}, 10),  # a last batch that is not full doesn't count
        ({"records": 5}, 1),  # but there is always one
        ({"epochs": 2}, 62),
    ],
)
def test_lengths_are_kept_in_whole_batches(length, batches):
    assert UNITS.to_batches(length, "here") == batches


def test_plain_numbers_count_what_their_field_counts():
    assert UNITS.to_batches(3, "here", plain_unit=UNITS.batches_per_step) == 300
    assert UNITS.to_batches({"batches": 3}, "here", plain_unit=UNITS.batches_per_step) == 3


@pytest.mark.parametrize(
    ("length", "message"),
    [
        (0, "here: got 0, expected a whole number >= 1"),
        (True, "here: got True, expected one of"),
        (1.5, "here: got 1.5, expected one of"),
        ({"records": -1}, "here.records: got -1, expected a whole number >= 1"),
        ({"batchs": 1}, "here.batchs: unknown unit.*Did you mean 'batches'"),
        ({"batches": 1, "epochs": 1}, "expected one of"),
    ],
)
def test_what_is_no_length_is_refused(length, message):
    with pytest.raises(errors.ConfigError, match=message):
        UNITS.to_batches(length, "here")


def test_epochs_need_their_number_of_examples():
    with pytest.raises(errors.ConfigError, match=r"here\.epochs.*records_per_epoch is not set"):
        lengths.LengthUnits(global_batch_size=32).to_batches({"epochs": 1}, "here")


@pytest.mark.parametrize("length", [{"records": 5}, {"epochs": 5}])
def test_examples_need_a_batch_size_that_is_a_constant(length):
    with pytest.raises(errors.ConfigError, match="global_batch_size is not a constant"):
        lengths.LengthUnits(records_per_epoch=10).to_batches(length, "here")
