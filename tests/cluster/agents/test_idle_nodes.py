"""Which nodes leave when they have nothing to do, and come again when something waits."""

from quintain.cluster.agents import idle_nodes
from quintain.master.placing import demand, pools
from quintain.records.rows import node as node_lib
from quintain.records.rows import slot


def make(name, count=2, **labels):
    return node_lib.Node(name, tuple(slot.Slot(each, node=name) for each in range(count)), labels)


def want(num_slots=1, **labels):
    return (demand.Wanted(pools.Needs(tuple(labels.items())), num_slots, 1, 1),)


def idle_for(idle, nodes, *times, busy=(), wanted=()):
    return [idle.decide(nodes, busy, wanted, secs) for secs in times]


def test_a_node_is_drained_first_and_released_when_nothing_was_started_meanwhile():
    idle, nodes = idle_nodes.IdleNodes(60.0), {"a": make("a"), "b": make("b")}

    found = idle_for(idle, nodes, 0.0, 59.0, 60.0, 60.5, busy=["b"])

    assert [each.drain for each in found] == [(), (), ("a",), ()]
    assert not idle.released
    idle_for(idle, nodes, 61.0, busy=["b"])
    assert list(idle.released) == ["a"]


def test_a_node_that_is_wanted_while_it_is_drained_is_used_again():
    idle, nodes = idle_nodes.IdleNodes(1.0), {"a": make("a")}
    idle_for(idle, nodes, 0.0, 1.0)

    assert idle_for(idle, nodes, 1.5, wanted=want())[0].resume == ("a",)
    assert not idle_for(idle, nodes, 9.0, wanted=want())[0].drain
    assert [each.drain for each in idle_for(idle, nodes, 10.0, 11.0)] == [(), ("a",)]


def test_only_what_could_run_on_it_keeps_a_node_or_brings_it_back():
    idle, nodes = idle_nodes.IdleNodes(1.0), {"a": make("a", zone="a"), "b": make("b", zone="b")}

    idle_for(idle, nodes, 0.0, 1.0, 2.0, wanted=want(zone="a"))
    assert list(idle.released) == ["b"]
    idle_for(idle, {}, 3.0, wanted=want(num_slots=3))
    assert list(idle.released) == ["b"]
    idle_for(idle, {}, 4.0, wanted=want(num_slots=2, zone="b"))
    assert not idle.released


def test_a_node_that_is_used_though_it_was_released_is_not_left_so():
    idle, nodes = idle_nodes.IdleNodes(1.0), {"a": make("a")}
    idle_for(idle, nodes, 0.0, 1.0, 2.0)

    idle_for(idle, nodes, 3.0, busy=["a"])

    assert not idle.released
