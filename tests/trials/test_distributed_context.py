import hmac
import pathlib
import pickle
import threading

import pytest

from quintain import errors
from quintain.trials import distributed_context

NODES = ["a", "b", "a"]


class Exchange:
    """Connects contexts in threads."""

    def __init__(self, size):
        self.barrier = threading.Barrier(size)
        self.data = [b""] * size

    def connect(self, rank):
        def exchange(data):
            self.data[rank] = data
            self.barrier.wait(10)
            found = list(self.data)
            self.barrier.wait(10)
            return found

        return exchange


def call_all(call):
    """Returns what a call returns on each of three processes."""
    exchange, found = Exchange(3), {}

    def run(rank):
        context = distributed_context.DistributedContext(rank, NODES, key=b"secret")
        context.connect(exchange.connect(rank))
        found[rank] = call(context)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[rank] for rank in range(3)]


def test_each_process_knows_its_place():
    def place(context):
        return (
            *(context.rank, context.size, context.local_rank, context.local_size),
            *(context.cross_rank, context.cross_size, context.get_num_agents()),
        )

    assert call_all(place) == [
        (0, 3, 0, 2, 0, 2, 2),
        (1, 3, 0, 1, 1, 2, 2),
        (2, 3, 1, 2, 0, 2, 2),
    ]


@pytest.mark.parametrize(
    ("method", "found"),
    [
        ("allgather", [["r0", "r1", "r2"]] * 3),
        ("gather", [["r0", "r1", "r2"], None, None]),
        ("broadcast", ["r0"] * 3),
        ("allgather_local", [["r0", "r2"], ["r1"], ["r0", "r2"]]),
        ("gather_local", [["r0", "r2"], ["r1"], None]),
        ("broadcast_local", ["r0", "r1", "r0"]),
    ],
)
def test_processes_tell_each_other(method, found):
    assert call_all(lambda context: getattr(context, method)(f"r{context.rank}")) == found


class Payload:
    """Runs code when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return pathlib.Path.touch, (self.path,)


def test_no_code_of_somebody_else_is_run(tmp_path):
    foreign = pickle.dumps(Payload(tmp_path / "ran"))
    context = distributed_context.DistributedContext(0, NODES, key=b"secret")
    forged = hmac.digest(b"guess", b"1/1/" + foreign, "sha256") + foreign

    for sent in (foreign, forged, b""):
        context.connect(lambda own, sent=sent: [own, sent, own])
        with pytest.raises(errors.ClusterError, match="process 1 of this trial is not from it"):
            context.allgather("mine")

    assert not (tmp_path / "ran").exists()


def test_a_message_counts_once_and_in_the_name_of_its_process_only():
    first, second = (
        distributed_context.DistributedContext(rank, ["a"] * 2, key=b"secret") for rank in (0, 1)
    )
    sent = []
    second.connect(lambda own: sent.append(own) or [own, own])
    with pytest.raises(errors.ClusterError, match="name of process 0"):
        second.allgather("b")
    first.connect(lambda own: [own, sent[0]])

    assert first.allgather("a") == ["a", "b"]
    with pytest.raises(errors.ClusterError, match="name of process 1"):
        first.allgather("a")


def test_processes_that_are_not_connected_say_so():
    with pytest.raises(errors.StateError, match="before its model is built"):
        distributed_context.DistributedContext(0, NODES).allgather(1)
