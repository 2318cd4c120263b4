import pytest

from quintain.garden.core import registry


def test_keys_are_paths_through_dictionaries():
    models = {}

    @registry.register(models, "bert/small")
    def build_small():
        pass

    registry.register(models, 3)("a number")

    assert models == {"bert": {"small": build_small}, 3: "a number"}
    assert registry.lookup(models, "bert/small") is build_small
    assert registry.lookup(models, 3) == "a number"


def test_a_key_is_registered_once():
    models = {"bert": {"small": 1}}

    with pytest.raises(KeyError, match="'bert/small' is registered already, as 1"):
        registry.register(models, "bert/small")(2)
    with pytest.raises(KeyError, match="'bert/small' is registered already, as 1; nothing can"):
        registry.register(models, "bert/small/wide")(2)


def test_an_unknown_key_is_an_error_with_the_nearest_one():
    with pytest.raises(LookupError, match=r"no 'smal' below 'bert'\. Did you mean 'small'"):
        registry.lookup({"bert": {"small": 1}}, "bert/smal")
