import contextlib
import os
import signal
import socket
import threading
import time

import pytest

from quintain.records.config import experiment_sections as sections
from quintain.server import alert_delivery

WAIT_SECS = 30


@pytest.fixture
def run(home):
    """Returns a function that delivers once; its `stop` gives up."""

    def deliver(command=None, *, webhook=None, report=None, timeout_secs=20.0):
        alert = sections.AlertConfig({"command": command, "webhook": webhook})
        alert_delivery.deliver(
            alert, report or {}, home, give_up=deliver.stop, timeout_secs=timeout_secs
        )

    deliver.stop = threading.Event()
    return deliver


def test_a_command_that_hangs_is_ended_with_what_it_started(run, home):
    with pytest.raises(alert_delivery.DeliveryError, match=r"more than 0\.3 s"):
        run("sleep 1000 & echo $! > pid; sleep 1000", timeout_secs=0.3)

    pid = int((home.path / "pid").read_text())
    while is_alive(pid):
        time.sleep(0.01)


def is_alive(pid):
    """Returns whether a process runs; one that nobody waits for is none."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.timeout(30)
@pytest.mark.parametrize("is_late", [True, False])
def test_nobody_waits_for_what_has_left_the_group_of_a_command(run, home, is_late):
    command = "setsid sh -c 'echo $$ > pid; exec sleep 1000' & while ! test -s pid; do :; done"
    begin = time.monotonic()

    if is_late:
        with pytest.raises(alert_delivery.DeliveryError, match=r"more than 0\.5 s"):
            run(f"{command}; sleep 1000", timeout_secs=0.5)
    else:
        run(command)

    assert time.monotonic() - begin < 10
    os.kill(int((home.path / "pid").read_text()), signal.SIGKILL)


def test_only_the_end_of_the_output_is_kept(run):
    with pytest.raises(alert_delivery.DeliveryError) as caught:
        run("head -c 20000000 /dev/zero; echo no luck; exit 3")

    assert str(caught.value) == "it ended with 3: no luck"


def test_output_may_be_closed(run):
    run("exec >&- 2>&-; sleep 0.2")


def test_a_command_is_ended_when_the_master_stops(run):
    threading.Timer(0.2, run.stop.set).start()

    with pytest.raises(alert_delivery.DeliveryError, match="stopped"):
        run("sleep 1000")


def test_a_command_gets_what_it_needs_and_no_secrets(run, home, monkeypatch):
    secret = ("QUINTAIN_DATABASE", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "HF_TOKEN", "DATA_DIR")
    passed = ("QUINTAIN_ALERT_KEY", "https_proxy", "LC_ALL", "TZ")
    for name in (*secret, *passed):
        monkeypatch.setenv(name, "x")

    run("env > env.txt", report={"experiment_id": 7, "reason": None})

    lines = (home.path / "env.txt").read_text().splitlines()
    names = {line.partition("=")[0] for line in lines}
    assert {*passed, "PATH", "HOME"} <= names
    assert not names & set(secret)
    assert {"QUINTAIN_EXPERIMENT_ID=7", "QUINTAIN_REASON=", f"QUINTAIN_HOME={home.path}"} <= {
        *lines
    }


@pytest.mark.slow
def test_an_answer_that_comes_byte_by_byte_has_the_same_deadline(run):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=drip, args=[listener], daemon=True).start()

        with pytest.raises(alert_delivery.DeliveryError, match="more than 4 s"):
            run(webhook=f"http://127.0.0.1:{listener.getsockname()[1]}/", timeout_secs=4.0)


def drip(listener):
    """Answers the first that asks, for ever."""
    connection, _ = listener.accept()
    with connection, contextlib.suppress(OSError):
        connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while True:
            connection.sendall(b"x")
            time.sleep(0.1)


@pytest.mark.parametrize(
    ("status", "exit_code"),
    [(204, 0), (500, 1), (429, 1), (302, 1), (404, alert_delivery.FINAL_EXIT)],
)
def test_the_exit_code_says_whether_to_try_again(hook, status, exit_code):
    hook.answers[:] = [status]

    found = alert_delivery.post(hook.url, {"a": 1})

    assert found == (exit_code, f"it answered {status}" if exit_code else "")
    assert hook.got.get(timeout=WAIT_SECS) == ("/hook", "application/json", {"a": 1})
    assert hook.got.empty()  # A redirection is not followed.


def test_an_address_without_a_server_is_tried_again():
    exit_code, message = alert_delivery.post("http://127.0.0.1:1/", {})

    assert exit_code == 1
    assert "NewConnectionError" in message
