"""Parameters of a test of which a few stand for all in every run."""

import pytest


def keep(values, *kept, reason):
    """Returns values for `parametrize`; those that are not kept make their tests `long`."""
    missing = [value for value in kept if value not in values]
    assert not missing, missing
    mark = pytest.mark.long(reason)
    return [
        value
        if value in kept
        else pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=mark)
        for value in values
    ]
