"""Machines over HTTP: they are listed, drained and used again."""

import pytest

from quintain.master import node_commands, shared_state
from quintain.records.rows import node as node_lib
from quintain.records.rows import slot as slot_lib


@pytest.fixture
def shared(store, home):
    made = shared_state.SharedState(store, home.path, [slot_lib.Slot(0)])
    slots = (slot_lib.Slot(0), slot_lib.Slot(1))
    leaving = node_lib.NodeState.DRAINING
    made.nodes.refresh(
        [
            node_lib.Node("a", slots, {"zone": "x"}),
            node_lib.Node("b", slots[:1], {}, leaving, "The spot machine is reclaimed."),
        ]
    )
    made.nodes.hold(7, "a", (1,))
    return made


@pytest.fixture
def nodes(master, shared):
    master.nodes = node_commands.NodeCommands(shared)
    return master.nodes


def test_machines_are_listed_with_what_they_have(nodes, http):
    found = http("GET", "/api/v1/nodes").json

    assert [(each["name"], each["state"], each["slots"]) for each in found] == [
        ("master", "ACTIVE", [0]),
        ("a", "ACTIVE", [1, 2]),
        ("b", "DRAINING", [3]),
    ]
    assert (found[1]["labels"], found[1]["num_held"], found[1]["trials"]) == ({"zone": "x"}, 1, [7])


def test_a_drained_machine_stays_drained_until_it_is_activated(nodes, shared, http, store):
    drained = http("POST", "/api/v1/nodes/a/drain").json
    assert (drained["state"], drained["reason"]) == ("DRAINING", "A user drains it.")
    shared.nodes.refresh([])
    shared.nodes.refresh([node_lib.Node("a", (slot_lib.Slot(0), slot_lib.Slot(1)))])
    assert http("GET", "/api/v1/nodes").json[1]["state"] == "DRAINING"
    with store.reading() as session:
        (kept,) = session.list_nodes()
    assert (kept.name, kept.is_drained) == ("a", True)

    assert http("POST", "/api/v1/nodes/a/activate").json["state"] == "ACTIVE"
    assert http("POST", "/api/v1/nodes/master/drain").json["state"] == "DRAINING"
    assert http("POST", "/api/v1/nodes/master/activate").json["slots"] == [0]


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("aa/drain", 404, "machine 'aa': there is none. Did you mean 'a'? Known: a, b, master."),
        ("b/activate", 409, "Machine b is DRAINING: The spot machine is reclaimed. No user"),
        ("a/stop", 404, ""),
    ],
)
def test_what_can_not_be_done_is_said(nodes, http, path, status, message):
    answer = http("POST", f"/api/v1/nodes/{path}")

    assert answer.status == status
    assert message in answer.json["error"]["message"]
