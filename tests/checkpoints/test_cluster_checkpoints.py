import logging
import types

import pytest
import tensorflow as tf

from quintain.checkpoints import cluster_checkpoints
from quintain.orbit import cluster


class State(tf.train.experimental.PythonState):
    def __init__(self, value=b""):
        self.value = value

    def serialize(self):
        return self.value

    def deserialize(self, string_value):
        self.value = string_value


@pytest.fixture
def workers(monkeypatch):
    """Returns a function that makes this process worker `index` of some, with their states."""

    def become(index, states):
        monkeypatch.setattr(cluster, "num_workers", lambda strategy: len(states))
        monkeypatch.setattr(cluster, "worker_index", lambda strategy: index)
        monkeypatch.setattr(
            cluster,
            "gather",
            lambda strategy, own: [
                own if place == index else state for place, state in enumerate(states)
            ],
        )
        return cluster_checkpoints.PerWorkerState(types.SimpleNamespace(), State(states[index]))

    return become


STATES = [b"first", b"\x00\n{}", b""]


@pytest.mark.parametrize("index", [0, 1, 2])
def test_every_worker_finds_its_own_state_in_what_all_saved(workers, index):
    saved = workers(0, STATES).serialize()
    restored = workers(index, STATES)
    restored.state.value = b"other"

    restored.deserialize(saved)

    assert restored.state.value == STATES[index]


def test_one_worker_saves_its_bare_state(workers):
    state = workers(0, [b"alone"])

    assert state.serialize() == b"alone"
    state.deserialize(b"restored")
    assert state.state.value == b"restored"


def test_another_number_of_workers_is_no_exact_continuation(workers, caplog):
    saved = workers(0, STATES).serialize()
    workers(0, [b"alone"])
    foreign = []
    state = cluster_checkpoints.PerWorkerState(None, State(b"kept"), foreign.append, warns=True)
    silent = cluster_checkpoints.PerWorkerState(None, State(b"kept"), foreign.append)

    with caplog.at_level(logging.WARNING):
        state.deserialize(saved)
        silent.deserialize(saved)

    assert foreign == [b"first"] * 2
    assert len(caplog.messages) == 1
    assert state.state.value == b"kept"
    assert "is of 3 workers, now there are 1: this run is not an exact" in caplog.text
