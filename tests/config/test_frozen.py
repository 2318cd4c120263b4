import copy
import dataclasses
import pickle
from typing import Any

import pytest

from quintain import errors
from quintain.config import base_config, frozen, yaml_io


@dataclasses.dataclass
class Layer(base_config.Config):
    width: int = 1


@dataclasses.dataclass
class Net(base_config.Config):
    sizes: list[int] = dataclasses.field(default_factory=lambda: [1, 2])
    named: dict[str, Any] = dataclasses.field(default_factory=lambda: {"a": {"b": [1]}})
    layers: dict[str, Layer] = dataclasses.field(default_factory=lambda: {"first": Layer()})
    pair: tuple[list[int], ...] = ([3],)


@pytest.fixture
def net():
    config = Net()
    config.lock()
    return config


@pytest.mark.parametrize(
    "change",
    [
        lambda net: net.sizes.append(3),
        lambda net: net.sizes.extend([3]),
        lambda net: net.sizes.__setitem__(0, 3),
        lambda net: net.sizes.__iadd__([3]),
        lambda net: net.sizes.clear(),
        lambda net: net.sizes.sort(),
        lambda net: net.named.update(c=1),
        lambda net: net.named.setdefault("c", 1),
        lambda net: net.named["a"].pop("b"),
        lambda net: net.named["a"]["b"].append(2),
        lambda net: net.named.__ior__({"c": 1}),
        lambda net: net.pair[0].append(4),
        lambda net: setattr(net.layers["first"], "width", 2),
        lambda net: net.layers.__delitem__("first"),
    ],
)
def test_nothing_in_a_locked_config_can_be_changed(net, change):
    with pytest.raises(errors.ConfigError, match="lock"):
        change(net)

    assert net == Net()


def test_locked_containers_read_as_usual(net):
    assert net.sizes == [1, 2]
    assert isinstance(net.sizes, list)
    assert {**net.named} == {"a": {"b": [1]}}
    assert [*net.sizes, 3] == [1, 2, 3]
    assert repr(net) == repr(Net())


def test_plain_data_of_a_locked_config_is_ordinary(net):
    plain = net.as_dict()
    plain["sizes"].append(3)
    plain["named"]["a"]["b"].append(2)

    assert type(plain["sizes"]) is list
    assert yaml_io.load_text(yaml_io.dump(net.as_dict()))["sizes"] == [1, 2]
    assert net == Net()


def test_a_changed_copy_can_be_changed_again(net):
    changed = net.replace(sizes=[5])
    changed.sizes.append(6)
    changed.named["a"]["b"].append(2)
    changed.layers["first"].width = 3

    assert changed.sizes == [5, 6]
    assert changed.named == {"a": {"b": [1, 2]}}
    assert net == Net()


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
def test_copies_of_a_locked_config_are_locked(net, duplicate):
    twin = duplicate(net)

    assert twin == net
    with pytest.raises(errors.ConfigError, match="belongs to a locked config"):
        twin.named["a"]["b"].append(1)


def test_containers_taken_out_of_a_locked_config_can_be_changed_elsewhere(net):
    other = Net(sizes=net.sizes, named=net.named)
    other.sizes.append(3)
    other.named["a"]["b"].append(2)

    assert (other.sizes, other.named) == ([1, 2, 3], {"a": {"b": [1, 2]}})


def test_freezing_is_undone_by_thawing():
    value = [1, {"a": ([2],)}]

    thawed = frozen.thaw(frozen.freeze(value))

    assert thawed == value
    assert type(thawed) is list
    assert type(thawed[1]["a"][0]) is list
