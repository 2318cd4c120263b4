import contextlib
import errno
import json
import socket

import pytest

from quintain import errors
from quintain.process import held_ports
from quintain.records.rows import trial
from quintain.storage import retries
from quintain.trials.process import peer_addresses

A = trial.Peer("a", "10.0.0.1", "10.0.0.1", 1)
B = trial.Peer("b", "10.0.0.2", "10.0.0.2", 2)
OWN = trial.Peer("", "127.0.0.1", "10.0.0.9", 3)


@pytest.mark.parametrize(
    ("peers", "addresses"),
    [
        ([A, A], ["127.0.0.1:1", "127.0.0.1:1"]),
        ([A, B], ["10.0.0.1:1", "10.0.0.2:2"]),
        ([OWN, A], ["10.0.0.9:3", "10.0.0.1:1"]),
        ([OWN, trial.Peer("x", "127.0.0.1", "10.0.0.9", 4)], ["127.0.0.1:3", "127.0.0.1:4"]),
        ([A, trial.Peer("c", "fd00::1", "fd00::1", 5)], ["10.0.0.1:1", "[fd00::1]:5"]),
    ],
)
def test_processes_are_reached_by_addresses_that_all_of_them_can_use(peers, addresses):
    assert peer_addresses.list_addresses(peers) == addresses


def test_a_machine_that_others_can_not_reach_is_named():
    hidden = trial.Peer("far", "127.0.0.1", "127.0.0.1", 3)

    peer_addresses.await_reachable([A, hidden], 0)
    with pytest.raises(errors.ConfigError, match="QUINTAIN_HOST: missing on machine 'far'"):
        peer_addresses.list_addresses([A, hidden])


def test_tensorflow_is_told_which_worker_a_process_is():
    assert json.loads(peer_addresses.tf_config([A, B], 1)) == {
        "cluster": {"worker": ["10.0.0.1:1", "10.0.0.2:2"]},
        "task": {"type": "worker", "index": 1},
    }


def test_the_own_address_is_that_by_which_the_master_is_reached():
    environment = {"QUINTAIN_NODE": "a"}

    for url in ("http://127.0.0.1:8080", "https://127.0.0.2:1", "unix:/run/master.sock"):
        found = peer_addresses.find_own(url, 7, environment)
        assert (found.node, found.port) == ("a", 7)
        assert found.host.startswith("127.")
    given = peer_addresses.find_own(
        "http://127.0.0.1:1", 7, environment | {"QUINTAIN_HOST": "10.1.1.1"}
    )
    assert (given.host, given.outside) == ("10.1.1.1", "10.1.1.1")


def test_a_process_that_keeps_its_port_can_be_reached_before_it_listens():
    with contextlib.closing(held_ports.hold("127.0.0.2")) as held:
        port = held.getsockname()[1]
        other = trial.Peer("b", "127.0.0.2", "10.0.0.2", port)
        mixed = trial.Peer("a", "127.0.0.1", "10.0.0.1", port)
        peer_addresses.await_reachable([mixed, other], 0, patience_secs=0.0)


def test_who_can_not_be_reached_is_named_and_waited_for(monkeypatch):
    asked, told = [], []

    def connect(place, timeout):
        asked.append(place)
        if len(asked) < 3:
            raise TimeoutError("timed out")
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", connect)
    monkeypatch.setattr("time.sleep", lambda _: None)
    with retries.wait_listener(told.append):
        peer_addresses.await_reachable([A, A, B], 0)
    assert asked == [("10.0.0.2", 2)] * 3
    assert told[0].endswith("at 10.0.0.2:2, on machine b: timed out")
    assert told[-1] == ""


def test_after_long_it_is_said_what_machines_that_train_together_need(monkeypatch):
    def connect(place, timeout):
        raise OSError(errno.EHOSTUNREACH, "No route to host")

    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(errors.ClusterError, match=r"10\.0\.0\.1:1, on machine a: No route to host"):
        peer_addresses.await_reachable([A, B], 1, patience_secs=0.0)
