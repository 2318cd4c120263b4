import contextlib

import pytest
import tensorflow as tf

from quintain.garden.common import distribute_utils


def test_a_strategy_is_built_from_its_name_in_any_case():
    strategy = distribute_utils.get_distribution_strategy("One_Device", num_packs=2)

    assert isinstance(strategy, tf.distribute.OneDeviceStrategy)
    assert distribute_utils.get_distribution_strategy("off") is tf.distribute.get_strategy()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"distribution_strategy": False}, "must be a string but got: False. Quote 'off'"),
        ({"num_gpus": -1}, "`num_gpus` can not be negative"),
        ({"distribution_strategy": "mirored"}, "Did you mean 'mirrored'"),
        ({"distribution_strategy": "off", "num_gpus": 2}, "at most 1"),
        ({"default_shard_dimm": 0}, "Did you mean 'default_shard_dim'"),
    ],
)
def test_what_gives_no_strategy_is_an_error(arguments, message):
    with pytest.raises(ValueError, match=message):
        distribute_utils.get_distribution_strategy(**arguments)


def test_the_scope_of_no_strategy_does_nothing():
    assert isinstance(distribute_utils.get_strategy_scope(None), contextlib.nullcontext)
