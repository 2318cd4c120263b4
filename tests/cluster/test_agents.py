"""Agents and the master's launcher, whatever is killed, lost or cut between them."""

import dataclasses
import json

import pytest

from quintain import errors
from quintain.cluster.agents import agent_protocol, agent_state
from quintain.records.rows import log
from quintain.records.rows import node as node_lib


def test_a_process_is_started_by_an_agent_and_its_lines_come_before_its_exit(cluster):
    machine = cluster.join(labels={"gpu": "a100"})

    assert cluster.launch("t7-a") is None
    cluster.wait(lambda: "t7-a" in machine.alive)
    machine.write("t7-a", "first", "second")
    machine.end("t7-a", exit_code=0)
    ended = cluster.wait_for_exits()

    assert (ended.launch_id, ended.trial_id, ended.exit_code) == ("t7-a", 7, 0)
    assert ended.last_lines == ("last",)
    assert cluster.exits[0][1] == ["first", "second"]
    assert [row.trial_id for row in cluster.rows] == [7, 7]
    (node,) = cluster.master.list_nodes()
    assert node.labels == {"gpu": "a100"}
    assert [each.id for each in node.slots] == [0, 1]
    (launch,) = machine.started
    scratch = cluster.path / "one" / "scratch" / "t7-a"
    assert launch.environment == {
        # Not what the master is called on its own machine.
        "QUINTAIN_MASTER": "https://seen-from-here:1",
        "QUINTAIN_FINGERPRINT": "ab",
        "QUINTAIN_TOKEN": "secret",
        "QUINTAIN_CACHE": str(cluster.path / "one"),
        "QUINTAIN_NODE": "one",
        "QUINTAIN_SCRATCH": str(scratch),
    }
    # It is forgotten after its files are deleted.
    cluster.wait(lambda: not list((cluster.path / "one" / "agent" / "launches").iterdir()))
    assert not scratch.exists()


def test_answers_that_are_lost_change_nothing(cluster):
    machine = cluster.join()
    for number in range(6):
        launch_id = f"t7-{number}"
        cluster.network.num_lost_answers = 3
        cluster.launch(launch_id)
        cluster.wait(lambda name=launch_id: name in machine.alive)
        cluster.network.num_lost_answers = 3
        machine.write(launch_id, f"a{number}")
        machine.end(launch_id, exit_code=number)

    cluster.wait_for_exits(6)
    cluster.wait(lambda: len(cluster.texts) >= 6)
    assert sorted(cluster.texts) == [f"a{number}" for number in range(6)]
    assert len(machine.started) == 6
    assert sorted(each.exit_code for each, _ in cluster.exits) == [0, 1, 2, 3, 4, 5]


def test_the_next_agent_takes_processes_over_and_repeats_no_line(cluster):
    machine = cluster.join()
    cluster.launch("t7-a")
    cluster.launch("t8-a", 8)
    cluster.wait(lambda: len(machine.alive) == 2)
    # They are received, but nobody has said yet that they are stored.
    machine.write("t7-a", "one")
    cluster.wait(lambda: cluster.texts == ["one"])
    cluster.kill_agent()
    machine.write("t7-a", "two")
    machine.end("t8-a", exit_code=1)

    cluster.join()
    cluster.wait_for_exits()
    machine.write("t7-a", "three")
    machine.end("t7-a", exit_code=0)
    cluster.wait_for_exits(2)

    assert cluster.texts == ["one", "two", "three"]
    assert machine.killed == []
    assert len(machine.started) == 2


def test_the_next_master_gets_everything_that_the_former_one_did_not_keep(cluster):
    machine = cluster.join()
    cluster.launch("t7-a")
    cluster.launch("t8-a", 8)
    cluster.launch("t9-a", 9)
    cluster.wait(lambda: len(machine.alive) == 3)
    machine.write("t7-a", "kept")
    cluster.wait(lambda: cluster.texts == ["kept"])
    offset_file = cluster.path / "one" / "scratch" / "t7-a" / "t7-a.read"
    cluster.wait(offset_file.exists)
    # This exit is received by a master that is killed before it has kept it.
    machine.end("t8-a", exit_code=3)
    cluster.wait(lambda: bool(cluster.master._exits), ticks=False)
    cluster.restart_master()
    for launch_id, trial_id in (("t7-a", 7), ("t8-a", 8)):
        assert cluster.master.adopt(launch_id, trial_id, None, "", "one")
    machine.write("t7-a", "new")

    ended = cluster.wait_for_exits()
    assert (ended.trial_id, ended.exit_code) == (8, 3)
    cluster.wait(lambda: cluster.texts == ["kept", "new"])
    # The one that the next master does not know is ended.
    cluster.wait(lambda: machine.killed == ["t9-a"])
    assert list(machine.alive) == ["t7-a"]


def test_a_process_of_a_machine_that_does_not_come_back_is_given_up(cluster):
    assert cluster.master.adopt("t7-a", 7, None, "", "gone")
    cluster.tick()
    assert cluster.master.list_nodes() == []
    for _ in range(16):
        cluster.secs += 2.0
        cluster.tick()

    ended = cluster.wait_for_exits()
    assert (ended.exit_code, ended.signal) == (None, None)
    assert ended.reason == "Machine gone is gone: nothing was heard of it for 32 s."


def test_a_machine_that_is_silent_for_too_long_is_lost_and_its_processes_ended_later(cluster):
    machine = cluster.join()
    cluster.launch("t7-a")
    cluster.wait(lambda: "t7-a" in machine.alive)
    machine.write("t7-a", "before")
    cluster.wait(lambda: cluster.texts == ["before"])
    cluster.network.is_down = True
    for _ in range(16):
        cluster.secs += 2.0
        cluster.tick()
    assert cluster.find_state() == "LOST"
    assert cluster.wait_for_exits().reason.startswith("Machine one is gone: nothing was heard")
    assert list(machine.alive) == ["t7-a"]
    machine.write("t7-a", "of no use")

    cluster.network.is_down = False
    cluster.wait(lambda: cluster.find_state() == "ACTIVE" and not machine.alive)
    assert machine.killed == ["t7-a"]
    cluster.launch("t7-b")
    cluster.wait(lambda: "t7-b" in machine.alive)
    assert cluster.texts == ["before"]
    assert len(cluster.exits) == 1


def test_an_agent_is_heard_while_a_process_takes_long_to_start(cluster):
    cluster.restart_master(node_timeout_secs=0.3)
    machine = cluster.join()
    machine.may_start.clear()
    cluster.launch("t7-a")
    for _ in range(4):
        before = cluster.num_asked
        cluster.wait(lambda seen=before: cluster.num_asked >= seen + 2)
        cluster.secs += 0.25
        cluster.tick()
    assert cluster.find_state() == "ACTIVE"

    machine.may_start.set()
    cluster.wait(lambda: "t7-a" in machine.alive)
    assert cluster.exits == []


def test_a_master_that_was_stopped_gives_no_machine_up(cluster):
    cluster.join()

    cluster.secs += 3600.0
    cluster.tick()
    cluster.secs += 1.0
    cluster.tick()
    assert cluster.find_state() == "ACTIVE"


def test_an_order_reaches_an_agent_that_was_restarted_before_it_got_it(cluster):
    machine = cluster.join()
    cluster.kill_agent()
    cluster.launch("t7-a")
    cluster.tick()
    assert machine.alive == {}

    cluster.join()
    cluster.wait(lambda: "t7-a" in machine.alive)
    assert cluster.exits == []


def test_a_launch_whose_agent_ended_while_it_was_started_is_nobodys_fault(cluster):
    machine = cluster.join()
    cluster.launch("t7-a")
    cluster.wait(lambda: "t7-a" in machine.alive)
    path = cluster.path / "one" / "agent" / "launches" / "t7-a.json"
    cluster.wait(lambda: json.loads(path.read_text())["identity"] is not None)
    cluster.kill_agent()
    path.write_text(json.dumps({**json.loads(path.read_text()), "identity": None}))

    cluster.join(waits=False)
    ended = cluster.wait_for_exits()
    assert (ended.exit_code, ended.signal) == (None, None)
    assert ended.reason == "Its agent was ended while it started the process."


def test_a_process_that_cannot_be_started_says_why(cluster):
    cluster.join().fails_to_start = "the disk is full"
    cluster.launch("t7-a")

    assert "the disk is full" in cluster.wait_for_exits().reason
    cluster.launch("t7-b", node="nowhere")
    assert cluster.wait_for_exits(2).reason == "Machine nowhere is gone."


def test_a_process_that_is_killed_ends_once(cluster):
    machine = cluster.join()
    cluster.launch("t7-a")
    cluster.wait(lambda: "t7-a" in machine.alive)
    cluster.master.kill("t7-a")
    cluster.master.kill("t7-a")

    assert cluster.wait_for_exits().signal == 15
    assert machine.killed == ["t7-a"]


def test_an_agent_that_drains_starts_nothing_and_leaves_when_its_trials_have_ended(cluster):
    machine = cluster.join()
    cluster.launch("t7-a")
    cluster.wait(lambda: "t7-a" in machine.alive)
    cluster.agents["one"].drain("maintenance")
    cluster.wait(lambda: cluster.find_state() == "DRAINING")
    cluster.launch("t8-a", 8)
    assert "maintenance" in cluster.wait_for_exits().reason
    machine.write("t7-a", "saved")
    machine.end("t7-a", exit_code=0)

    cluster.wait(lambda: cluster.find_state() is None)
    cluster.agents["one"].thread.join(60)
    assert not cluster.agents["one"].thread.is_alive()
    assert cluster.texts == ["saved"]
    assert len(machine.started) == 1


def test_what_takes_a_machine_away_is_no_fault_of_its_trials(cluster):
    machine = cluster.join()
    for number in (1, 2):
        cluster.launch(f"t{number}-a", number)
    cluster.wait(lambda: len(machine.alive) == 2)
    cluster.agents["one"].drain("the queue wants it back")
    cluster.master.kill("t1-a")
    assert cluster.wait_for_exits().signal == 15
    machine.end("t2-a", signal=15)

    ended = cluster.wait_for_exits(2)
    assert (ended.exit_code, ended.signal) == (None, None)
    assert ended.reason == "It was ended with its machine, which was about to leave."


def test_an_agent_that_drains_does_not_wait_for_a_master_that_has_ended(cluster):
    cluster.join("one")
    cluster.network.is_down = True
    cluster.agents["one"].drain("the machine is switched off")
    cluster.agents["one"].thread.join(60)
    assert not cluster.agents["one"].thread.is_alive()


def test_a_drain_that_others_tell_of_can_be_taken_back(cluster):
    machine = cluster.join()
    cluster.master.drain("one", "the machine is sold")
    assert cluster.find_state() == "DRAINING"
    cluster.launch("t7-a")
    cluster.wait(lambda: "t7-a" in machine.alive)
    assert cluster.find_state() == "DRAINING"

    cluster.master.drain("one", "")
    assert cluster.find_state() == "ACTIVE"
    cluster.master.report_lost("one", "it burns.")
    assert cluster.wait_for_exits().reason == "Machine one is gone: it burns."


def test_two_agents_of_one_name_or_one_directory_are_told_apart(cluster, monkeypatch, caplog):
    cluster.join()
    cluster.path = cluster.path / "elsewhere"
    former = cluster.agents["one"]
    cluster.join(waits=False)
    cluster.wait(lambda: "Waiting for 90 s." in caplog.text)
    monkeypatch.setattr("quintain.cluster.agents.node_agent._RIVAL_SECS", 0.0)
    cluster.agents["one"].thread.join(60)
    (error,) = cluster.agents["one"].raised
    assert "Another agent is called 'one'" in str(error)

    cluster.path = cluster.path.parent
    cluster.join(waits=False)
    cluster.agents["one"].thread.join(60)
    (error,) = cluster.agents["one"].raised
    assert "Another agent runs in" in str(error)
    former.stop()
    former.thread.join(60)


@pytest.mark.parametrize("is_working", [False, True])
@pytest.mark.parametrize(
    "refusal", [errors.UntrustedMasterError("another one"), errors.UnauthorizedError("no token")]
)
def test_an_agent_ends_at_once_where_waiting_does_not_help(cluster, refusal, is_working):
    machine = cluster.join()
    if is_working:
        cluster.launch("t7-a")
        cluster.wait(lambda: "t7-a" in machine.alive)
    cluster.network.refusal = refusal

    agent = cluster.agents["one"]
    agent.thread.join(60)
    assert agent.raised == [refusal]
    # The next agent takes it over.
    assert machine.killed == []
    assert len(machine.alive) == is_working


def test_an_agent_that_is_told_its_address_waits_for_it(cluster):
    cluster.join(is_told_address=True)
    cluster.network.refusal = errors.UntrustedMasterError("another one")
    cluster.agents["one"].thread.join(3)
    assert cluster.agents["one"].thread.is_alive()
    cluster.network.refusal = None
    cluster.launch("t7-a")
    cluster.wait(lambda: "t7-a" in cluster.machines["one"].alive)


def test_an_agent_without_processes_waits_less_for_its_master(cluster):
    machine = cluster.join("busy", idle_patience_secs=0.5)
    cluster.launch("t7-a", node="busy")
    cluster.wait(lambda: "t7-a" in machine.alive)
    cluster.join("idle", idle_patience_secs=0.5)
    cluster.network.is_down = True

    cluster.agents["idle"].thread.join(60)
    assert isinstance(cluster.agents["idle"].raised[0], errors.MasterUnreachableError)
    assert cluster.agents["busy"].thread.is_alive()
    # What ends meanwhile is told by the next agent.
    machine.end("t7-a", exit_code=0)
    cluster.agents["busy"].thread.join(60)
    cluster.network.is_down = False
    cluster.join("busy")
    assert cluster.wait_for_exits().exit_code == 0


HELLO = agent_protocol.Hello(name="one", agent_id="a", place="here")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": "0.0.1"}, "Quintain 0.0.1 under Python"),
        ({"python": "2.7"}, "under Python 2.7"),
        ({"protocol": 99}, "protocol 99"),
        ({"name": "a/b"}, "name: got 'a/b'"),
        ({"name": "master"}, "name: got 'master'"),
        ({"name": ""}, "name: got ''"),
        ({"labels": {str(number): "" for number in range(101)}}, "labels: got 101"),
    ],
)
def test_an_agent_that_does_not_fit_is_refused(cluster, changes, message):
    with pytest.raises(errors.ConfigError, match=message):
        cluster.master.register(dataclasses.replace(HELLO, **changes))


def test_reports_of_launches_that_are_not_its_own_are_of_no_use(cluster):
    session = cluster.master.register(HELLO).session
    other = dataclasses.replace(HELLO, name="two", agent_id="b")
    rival = cluster.master.register(other).session
    cluster.launch("t7-a")
    exits = (agent_protocol.Exit("t7-a", 0), agent_protocol.Exit("t1-z", 0))
    lines = (("t7-a", 1.0, log.LogSource.STDOUT, "forged"),)
    cluster.master.receive(
        "two", rival, agent_protocol.Report(1, lines=lines, offsets={"t7-a": 9}, exits=exits)
    )

    with pytest.raises(errors.GoneError):
        cluster.master.receive("one", rival, agent_protocol.Report(1))
    cluster.tick()
    assert (cluster.rows, cluster.exits) == ([], [])
    orders = cluster.master.find_orders("two", rival, after=0, kept=0).orders
    assert [(each.kind.value, each.launch_id) for each in orders] == [
        ("drop", "t7-a"),
        ("drop", "t1-z"),
    ]
    (order,) = cluster.master.find_orders("one", session, after=0, kept=0).orders
    assert order.kind is agent_protocol.OrderKind.START


def test_long_logs_come_in_parts_and_keep_no_other_process_waiting(cluster, monkeypatch):
    monkeypatch.setattr("quintain.cluster.agents.agent_launches._MOST_LINES_BYTES", 3000)
    monkeypatch.setattr("quintain.cluster.agents.agent_launches._MOST_UNKEPT_BYTES", 9000)
    sizes = []
    receive = cluster.master.receive

    def note(name, session, report):
        sizes.append(len(json.dumps(agent_protocol.to_plain(report))))
        receive(name, session, report)

    cluster.master.receive = note
    machine = cluster.join()
    for number in (1, 2):
        cluster.launch(f"t{number}-a", number)
    cluster.wait(lambda: len(machine.alive) == 2)
    many = [f"{number} " + "ä" * 20 for number in range(2000)]
    machine.write("t1-a", *many)
    machine.write("t2-a", "short")
    machine.end("t1-a", exit_code=0)
    machine.end("t2-a", exit_code=0)

    cluster.wait_for_exits(2)
    assert [row.text for row in cluster.rows if row.trial_id == 1] == many
    assert cluster.exits[0][0].launch_id == "t2-a"
    assert max(sizes) < 16_000


def test_what_lines_say_waits_while_the_store_is_away(cluster, monkeypatch):
    monkeypatch.setattr("quintain.cluster.agents.agent_launcher._MOST_WAITING_LINES", 1)
    session = cluster.master.register(HELLO).session
    cluster.launch("t7-a")
    lines = (("t7-a", 1.0, log.LogSource.STDOUT, "a"), ("t7-a", 1.0, log.LogSource.STDOUT, "b"))
    report = agent_protocol.Report(1, lines=lines, offsets={"t7-a": 9})
    cluster.master.receive("one", session, report)

    with pytest.raises(errors.StoreError):
        cluster.master.receive("one", session, dataclasses.replace(report, number=2))
    assert cluster.master.find_orders("one", session, after=1, kept=0) is None
    cluster.tick()
    assert cluster.master.find_orders("one", session, after=1, kept=0) is None
    cluster.tick()
    assert cluster.master.find_orders("one", session, after=1, kept=0).kept == 1
    cluster.master.receive("one", session, dataclasses.replace(report, number=2))


def test_a_machine_that_was_lost_for_long_is_not_shown_any_more(cluster):
    cluster.master.register(HELLO)
    states = []
    for _ in range(2000):
        cluster.secs += 2.0
        cluster.tick()
        states.append(cluster.find_state())

    assert states[0] == node_lib.NodeState.ACTIVE
    assert states[100] == node_lib.NodeState.LOST
    assert states[-1] is None


def test_the_more_agents_there_are_the_less_often_each_calls_but_always_in_time():
    few, many, most = (agent_state.find_paces(count, 30.0) for count in (3, 250, 10_000))

    assert [each["wait_secs"] for each in (few, many, most)] == [10.0, 12.5, 15.0]
    assert [each["log_secs"] for each in (few, many, most)] == [0.2, 0.5, 20.0]
