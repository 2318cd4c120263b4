import json
import os
import signal
import sys
import textwrap
import threading
import time

import pytest

from quintain.cli.training import local_cluster

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster(tmp_path):
    """Returns a function that makes a cluster of a Python program, and the messages it told."""
    messages = []

    def make(program, num_tasks=None, **kwargs):
        path = tmp_path / "program.py"
        path.write_text(_PRELUDE + textwrap.dedent(program))
        return local_cluster.LocalCluster(
            [sys.executable, str(path)],
            num_tasks or {"worker": 2},
            log_dir=tmp_path / "logs",
            environment={"DIRECTORY": str(tmp_path)},
            tell=messages.append,
            **kwargs,
        )

    make.messages = messages
    return make


_PRELUDE = """\
import json, os, pathlib, signal, sys, time
task = json.loads(os.environ["TF_CONFIG"])["task"]
directory = pathlib.Path(os.environ["DIRECTORY"])
def is_first_time(name):
    path = directory / name
    first = not path.exists()
    path.touch()
    return first
"""


def test_every_task_gets_its_place_in_the_same_cluster(cluster, tmp_path):
    code = cluster(
        """
        (directory / f"{task['type']}-{task['index']}.json").write_text(os.environ["TF_CONFIG"])
        """,
        {"chief": 1, "worker": 2},
    ).run()

    configs = [
        json.loads((tmp_path / f"{name}.json").read_text())
        for name in ("chief-0", "worker-0", "worker-1")
    ]
    assert code == 0
    assert configs[0]["cluster"] == configs[1]["cluster"] == configs[2]["cluster"]
    addresses = [one for kind in configs[0]["cluster"].values() for one in kind]
    assert len(set(addresses)) == 3
    assert all(address.startswith("127.0.0.1:") for address in addresses)


def test_the_leader_is_shown_and_the_others_are_logged(cluster, tmp_path, capfd):
    code = cluster('print("I am", task["index"])').run()

    assert code == 0
    assert capfd.readouterr().out == "I am 0\n"
    assert (tmp_path / "logs" / "worker-1.log").read_text() == "I am 1\n"


def test_a_killed_worker_restarts_all_of_them(cluster, tmp_path):
    code = cluster(
        """
        with (directory / "starts").open("a") as file:
            file.write(f"{task['index']}\\n")
        if task["index"] == 1 and is_first_time("killed"):
            time.sleep(0.3)
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60 if is_first_time("waits") else 0.5)
        """
    ).run()

    assert code == 0
    assert sorted((tmp_path / "starts").read_text().split()) == ["0", "0", "1", "1"]
    assert "Worker 1 was killed by SIGKILL. Its log is" in cluster.messages[0]
    assert "restart 1 of 3" in cluster.messages[1]


def test_restarts_are_limited(cluster):
    code = cluster(
        """
        if task["index"] == 1:
            sys.exit("the disk is on fire")
        """,
        max_restarts=1,
    ).run()

    assert code == 1
    assert any("the disk is on fire" in message for message in cluster.messages)
    assert "Giving up after 1 restarts" in cluster.messages[-1]


def test_bad_input_is_not_tried_again_even_if_another_worker_failed_first(cluster, tmp_path):
    code = cluster(
        """
        with (directory / "starts").open("a") as file:
            file.write(f"{task['index']}\\n")
        if task["index"] == 1:
            time.sleep(0.5)
            print("Error: no such field")
            sys.exit(2)
        sys.exit(1)
        """
    ).run()

    assert code == 2
    assert sorted((tmp_path / "starts").read_text().split()) == ["0", "1"]
    assert "Error: no such field" in cluster.messages[-1]


def test_servers_are_stopped_when_the_others_are_done(cluster):
    one = cluster(
        "time.sleep(600 if task['type'] == 'ps' else 0.2)",
        {"chief": 1, "ps": 2},
        servers=("ps",),
    )

    code = one.run()

    assert code == 0
    assert all(process.returncode is not None for process in one.processes.values())
    assert sorted(process.returncode for process in one.processes.values())[:2] == [-15, -15]


def test_a_task_that_may_die_is_started_again_alone(cluster, tmp_path):
    code = cluster(
        """
        with (directory / "starts").open("a") as file:
            file.write(f"{task['type']}\\n")
        if task["type"] == "worker" and is_first_time("killed"):
            os.kill(os.getpid(), signal.SIGKILL)
        while task["type"] == "worker" or not (directory / "again").exists():
            if task["type"] == "worker":
                (directory / "again").touch()
            time.sleep(0.1)
        """,
        {"chief": 1, "worker": 1},
        servers=("worker",),
        restarted_alone=("worker",),
    ).run()

    assert code == 0
    assert sorted((tmp_path / "starts").read_text().split()) == ["chief", "worker", "worker"]


def test_a_server_that_dies_and_may_not_is_a_failure(cluster):
    code = cluster(
        "sys.exit(3) if task['type'] == 'ps' else time.sleep(60)",
        {"chief": 1, "ps": 1},
        servers=("ps",),
        max_restarts=0,
    ).run()

    assert code == 1
    assert "Ps 0 ended with exit code 3" in cluster.messages[0]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_is_handed_on_and_all_end_in_order(cluster, tmp_path, number, code):
    one = cluster(
        """
        def stop(number, frame):
            (directory / f"saved-{task['index']}").touch()
            sys.exit(128 + number)
        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        (directory / f"ready-{task['index']}").touch()
        time.sleep(60)
        """
    )

    def send():
        while not all((tmp_path / f"ready-{index}").exists() for index in (0, 1)):
            time.sleep(0.05)
        os.kill(os.getpid(), number)

    sender = threading.Thread(target=send)
    sender.start()
    result = one.run()
    sender.join()

    assert result == code
    assert all((tmp_path / f"saved-{index}").exists() for index in (0, 1))


def test_one_worker_asked_to_stop_stops_all_without_a_restart(cluster, tmp_path):
    code = cluster(
        """
        with (directory / "starts").open("a") as file:
            file.write(f"{task['index']}\\n")
        time.sleep(0.2 * task["index"])
        sys.exit(143)
        """
    ).run()

    assert code == 143
    assert sorted((tmp_path / "starts").read_text().split()) == ["0", "1"]
