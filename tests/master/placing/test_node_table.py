"""Machines beside the master's: they join, leave, are drained and lost while experiments run."""

import pytest

from quintain import errors
from quintain.master.placing import node_table, pools
from quintain.records.rows import node as node_lib
from quintain.records.rows import slot as slot_lib

SEARCH = {"name": "random", "max_trials": 6, "max_length": {"batches": 12}}


def build_node(name, num_slots=2, **fields):
    return node_lib.Node(name, tuple(map(slot_lib.Slot, range(num_slots))), **fields)


def numbers_of(table, name):
    return [slot.id for slot in table.nodes[name].slots]


def test_slots_keep_their_numbers_whatever_joins_and_leaves():
    table = node_table.NodeTable([slot_lib.Slot(0)])
    table.refresh([build_node("a"), build_node("b", 1)])
    first = {name: numbers_of(table, name) for name in ("", "a", "b")}

    table.refresh([build_node("b", 1)])
    table.unsaved.clear()
    table.refresh([build_node("c"), build_node("b", 3), build_node("a")])

    assert first == {"": [0], "a": [1, 2], "b": [3]}
    assert [numbers_of(table, name) for name in ("a", "b", "c")] == [[1, 2], [3, 6, 7], [4, 5]]
    assert set(table.unsaved) == {"b", "c"}


def test_more_own_slots_take_no_numbers_of_other_machines():
    former = node_table.NodeTable([slot_lib.Slot(0)])
    former.refresh([build_node("a")])
    table = node_table.NodeTable([slot_lib.Slot(0), slot_lib.Slot(1)])

    table.restore(former.unsaved.values())
    table.refresh([build_node("a"), build_node("b", 1)])

    assert [numbers_of(table, name) for name in ("", "a", "b")] == [[0, 3], [1, 2], [4]]


def test_a_machine_that_left_is_seen_as_long_as_a_trial_holds_its_slots():
    table = node_table.NodeTable([])
    table.refresh([build_node("a")])
    table.hold(7, "a", [0])

    table.refresh([])
    assert table.nodes["a"].state is node_lib.NodeState.LOST
    table.release(7, "a", [0])

    assert list(table.nodes) == [""]
    assert not table.slots


@pytest.mark.parametrize(
    ("num_slots", "num_processes", "expected"),
    [
        (1, 1, [("small", 1)]),  # The machine that just suffices.
        (3, 1, [("large", 3)]),
        (5, 1, None),
        (4, 4, [("large", 1)] * 4),  # As few machines as possible.
        (6, 3, [("large", 2), ("large", 2), ("middle", 2)]),
        (7, 7, [("large", 1)] * 4 + [("middle", 1)] * 2 + [("small", 1)]),
        (8, 4, None),  # Two slots of each process are on one machine.
    ],
)
def test_processes_are_placed_on_as_few_and_as_small_machines_as_possible(
    num_slots, num_processes, expected
):
    table = node_table.NodeTable([])
    table.refresh([build_node("large", 4), build_node("middle", 2), build_node("small", 1)])

    found = table.get_pool(pools.Needs()).find(num_slots, num_processes)

    shown = None if found is None else [(place.node, len(place.slots)) for place in found]
    assert shown == expected


def test_slots_join_and_leave_while_an_experiment_runs(
    make_master, make_workers, fake_launcher, config_text, describe
):
    alone = make_master(num_slots=2)
    alone.commands.create_experiment(config_text(SEARCH), None)
    workers = make_workers(alone)
    used = set()

    def change(number):
        if number == 1:
            fake_launcher.join("a", "b")
        if number == 8:
            fake_launcher.lose("a")
        used.update(launch.node for launch in fake_launcher.alive.values())

    workers.run(on_round=change)

    shown = describe(1)
    assert shown["state"] == "COMPLETED"
    assert {each["state"] for each in shown["trials"]} == {"COMPLETED"}
    assert used == {"", "a", "b"}


def test_a_lost_machine_is_no_fault_of_its_trials(
    make_master, make_workers, fake_launcher, config_text, store
):
    fake_launcher.join("a", "b", num_slots=1)
    master = make_master(num_slots=0)
    master.commands.create_experiment(config_text(SEARCH, max_restarts=0), None)
    workers = make_workers(master)
    for _ in range(4):
        workers.run_round()
    (lost,) = fake_launcher.on("a")

    fake_launcher.lose("a")
    master.tick()

    assert fake_launcher.on("a") == []
    with store.reading() as session:
        lines = [row.text for row in session.list_logs(lost)]
    assert any("Machine a is gone." in line for line in lines)
    workers.run()
    with store.reading() as session:
        assert session.get_trial(lost).state.value == "COMPLETED"
        assert session.get_trial(lost).restarts == 0


def test_a_drained_machine_is_left_by_its_trials_with_a_checkpoint(
    make_master, make_workers, fake_launcher, config_text, store
):
    fake_launcher.join("a", "b", num_slots=1)
    master = make_master(num_slots=0)
    master.commands.create_experiment(config_text(SEARCH), None)
    workers = make_workers(master)
    for _ in range(2):
        workers.run_round()
    (moved,) = fake_launcher.on("a")

    fake_launcher.change("a", state=node_lib.NodeState.DRAINING)
    for _ in range(4):
        workers.run_round()

    assert fake_launcher.on("a") == []
    with store.reading() as session:
        assert session.get_trial(moved).latest_checkpoint is not None
        assert session.get_trial(moved).restarts == 0
    fake_launcher.change("a", state=node_lib.NodeState.ACTIVE)
    workers.run_round()
    assert fake_launcher.on("a") != []


def test_a_restarted_master_waits_for_machines_that_have_not_called_yet(
    make_master, make_workers, fake_launcher, config_text
):
    fake_launcher.join("a", "b", num_slots=2)
    master = make_master(num_slots=0)
    master.commands.create_experiment(config_text(SEARCH), None)
    workers = make_workers(master)
    workers.run_round()
    alive = dict(fake_launcher.alive)
    there, fake_launcher.nodes = fake_launcher.nodes, []

    workers.master = make_master(num_slots=0)
    workers.run_round()
    shown = {slot.id: slot.trial_id for slot in workers.master.status().slots}
    fake_launcher.nodes = there[::-1]
    workers.run_round()

    assert dict(fake_launcher.alive) == alive
    assert len(shown) == 4
    assert None not in shown.values()
    assert shown == {slot.id: slot.trial_id for slot in workers.master.status().slots}
    workers.run()


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"slots": 5}, r"resources.slots_per_trial: got 5, but no machine has more than 4 slots"),
        ({"slots": 8, "processes_per_trial": 8}, "got 8, but all machines together have 7 slots"),
        ({"node_labels": {"disk": "sdd"}}, "disk: got 'sdd', but no .*Did you mean 'ssd'"),
        ({"node_labels": {"zonne": "b"}}, "node_labels.zonne: .*Did you mean 'zone'"),
        ({"node_labels": {"zone": "b", "disk": "ssd"}}, "no machine has all of them"),
        ({"gpu": "H100"}, r"resources.gpu: got 'H100', but .* has GPUs of this kind"),
        ({"gpu": True, "node_labels": {"zone": "b"}}, "but no machine with the labels has slots"),
        ({"slots": 3, "gpu": True}, "more than 2 slots that fit node_labels and gpu. There are"),
    ],
)
def test_needs_that_no_machine_satisfies_are_refused_at_once(
    make_master, fake_launcher, config_text, store, resources, expected
):
    gpus = tuple(slot_lib.Slot(each, slot_lib.SlotKind.GPU, str(each)) for each in range(2))
    fake_launcher.nodes = [
        build_node("b", 4, labels={"zone": "b"}),
        node_lib.Node("g", gpus, {"gpu": "A100", "disk": "ssd"}),
    ]
    master = make_master(num_slots=1)
    master.tick()

    with pytest.raises(errors.ConfigError, match=expected):
        master.commands.create_experiment(config_text(SEARCH, resources=resources), None)

    with store.reading() as session:
        assert session.list_experiments() == []
    created = master.commands.create_experiment(
        config_text(SEARCH, resources=resources), None, activate=False
    )
    assert created.state.value == "PAUSED"


def test_trials_run_only_where_they_have_what_they_need(
    make_master, make_workers, fake_launcher, config_text
):
    fake_launcher.join("a", labels={"zone": "x"})
    fake_launcher.join("b", labels={"zone": "y"})
    master = make_master(num_slots=2)
    master.tick()
    wanted = {"node_labels": {"zone": "y"}}
    master.commands.create_experiment(config_text(SEARCH, resources=wanted), None)
    used = set()

    def note(_):
        used.update(launch.node for launch in fake_launcher.alive.values())

    make_workers(master).run(on_round=note)
    assert used == {"b"}


def test_a_trial_that_waits_for_a_machine_that_left_says_so(
    make_master, fake_launcher, config_text, store
):
    fake_launcher.join("a", labels={"zone": "x"})
    fake_launcher.join("b")
    master = make_master(num_slots=0)
    master.tick()
    resources = {"node_labels": {"zone": "x"}}
    master.commands.create_experiment(config_text(SEARCH, resources=resources), None)
    fake_launcher.nodes = fake_launcher.nodes[1:]

    for _ in range(3):
        master.tick()

    (shown,) = master.status().experiments
    assert "node_labels.zone: got 'x', but no machine has this label" in shown.lack
    with store.reading() as session:
        assert [row.text for row in session.list_logs(1)] == [f"The trial waits. {shown.lack}"]
    fake_launcher.join("c", labels={"zone": "x"})
    master.tick()
    assert master.status().experiments[0].lack == ""
    assert fake_launcher.on("c") == [1, 2]


def test_a_trial_is_not_started_again_on_a_machine_that_its_log_policy_excludes(
    make_master, fake_launcher, config_text
):
    fake_launcher.join("a", "b")
    master = make_master(num_slots=0)
    master.tick()
    policy = {"pattern": "ECC", "action": "exclude_node"}
    single = {"name": "single", "max_length": {"batches": 12}}
    master.commands.create_experiment(config_text(single, log_policies=[policy]), None)
    used = []
    for _ in range(2):
        master.tick()
        (launch,) = fake_launcher.alive.values()
        used.append(launch.node)
        fake_launcher.end(launch.launch_id, exit_code=1, last_lines=["ECC error"])
        master.tick()

    assert sorted(used) == ["a", "b"]
    assert fake_launcher.alive == {}
    assert master.status().experiments == ()


def test_lost_machines_are_named_and_their_slots_not_counted(make_master, fake_launcher):
    fake_launcher.join("a", "b", num_slots=3)
    master = make_master(num_slots=1)
    master.tick()
    assert (master.summary().num_slots, master.summary().lost_nodes) == (7, ())

    fake_launcher.change("b", state=node_lib.NodeState.LOST, reason="nothing was heard")
    master.tick()
    found = master.summary()
    assert (found.num_slots, found.num_remote_slots, found.lost_nodes) == (4, 3, ("b",))

    fake_launcher.change("b", state=node_lib.NodeState.ACTIVE, reason="")
    master.tick()
    assert (master.summary().num_slots, master.summary().lost_nodes) == (7, ())
