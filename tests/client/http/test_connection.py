import socket
import threading

import pytest
import urllib3

from quintain import errors
from quintain.client import address
from quintain.client.http import connection

QUICK = connection.Retries(total_secs=60.0, first_pause_secs=0.01, max_pause_secs=0.05)
NONE = connection.Retries(total_secs=0.0)


def connect(master, **options):
    return connection.Connection(
        address.Address(master.url, "secret"), **{"retries": QUICK, **options}
    )


def test_a_request_carries_its_token_query_and_body(master):
    master.answers = [(200, {"a": [1, None]})]
    with connect(master) as conn:
        answer = conn.request(
            "POST", "/x/y", body={"b": 2}, query={"all": True, "n": 3, "not_given": None}
        )
    assert answer == {"a": [1, None]}
    request = master.requests[0]
    assert request["token"] == "Bearer secret"
    assert (request["method"], request["path"]) == ("POST", "/x/y")
    assert request["query"] == {"all": "true", "n": "3"}
    assert request["body"] == {"b": 2}


def test_an_empty_answer_is_none(master):
    master.answers = [(204, "")]
    with connect(master) as conn:
        assert conn.request("GET", "/") is None


def test_requests_share_one_tcp_connection(master):
    with connect(master) as conn:
        for _ in range(3):
            conn.request("GET", "/")
    assert len({request["client"] for request in master.requests}) == 1


@pytest.mark.parametrize("url", ["http://{}:{}", "https://{}:{}"])
def test_a_silent_machine_is_asked_whether_it_is_still_there(monkeypatch, url):
    connect_to, options = urllib3.util.connection.create_connection, {}

    def note(*args, **kwargs):
        opened = connect_to(*args, **kwargs)
        options["alive"] = opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        options["secs"] = opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
        options["at once"] = opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        return opened

    monkeypatch.setattr(urllib3.util.connection, "create_connection", note)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        where = address.Address(url.format(*listener.getsockname()))
        silent = connection.Connection(where, retries=NONE, timeout_secs=0.1)
        with silent, pytest.raises(errors.MasterUnreachableError):
            silent.request("GET", "/")
    assert options == {"alive": 1, "secs": 30, "at once": 1}


@pytest.mark.parametrize(
    ("status", "content", "kind", "message"),
    [
        (
            409,
            {"error": {"kind": "StateError", "message": "It has ended."}},
            errors.StateError,
            "It",
        ),
        (410, {"error": {"kind": "GoneError", "message": "Go."}}, errors.GoneError, "Go."),
        (
            400,
            {"error": {"kind": "UnknownKeyError", "message": "a: ?"}},
            errors.UnknownKeyError,
            "a",
        ),
        (404, {"error": {"kind": "NoSuchClass", "message": "m"}}, errors.NotFoundError, "m"),
        (401, {"error": {"kind": "Unauthorized", "message": "m"}}, errors.UnauthorizedError, "m"),
        (422, {"detail": "wrong type"}, errors.ConfigError, "wrong type"),
        (404, "<html>", errors.NotFoundError, "<html>"),
        (418, "", errors.ClusterError, "status 418"),
    ],
)
def test_refusals_are_raised_as_the_errors_of_the_master(master, status, content, kind, message):
    master.answers = [(status, content)]
    with connect(master) as conn, pytest.raises(kind, match=message) as caught:
        conn.request("POST", "/")
    assert type(caught.value) is kind
    assert len(master.requests) == 1


def test_a_name_that_is_no_error_of_ours_is_not_raised(master):
    master.answers = [(409, {"error": {"kind": "dataclasses", "message": "m"}})]
    with connect(master) as conn, pytest.raises(errors.StateError):
        conn.request("POST", "/")


def test_a_master_that_is_not_there_is_named_at_once_if_nothing_is_to_be_tried_again(replace_sleep):
    pauses = []
    replace_sleep(connection, pauses.append)
    conn = connection.Connection(address.Address("http://127.0.0.1:9"), retries=NONE)

    with pytest.raises(errors.MasterUnreachableError, match=r"http://127.0.0.1:9: .*refused"):
        conn.request("GET", "/")
    assert pauses == []


@pytest.fixture
def pauses(monkeypatch, replace_sleep):
    """Returns the pauses between requests; nothing else takes any time."""
    now, found = [0.0], []

    def sleep(secs):
        found.append(secs)
        now[0] += secs

    replace_sleep(connection, sleep)
    monkeypatch.setattr(connection.time, "monotonic", lambda: now[0])
    return found


def test_pauses_grow_until_the_time_is_over(pauses):
    conn = connection.Connection(
        address.Address("http://127.0.0.1:9"),
        retries=connection.Retries(total_secs=10.0, first_pause_secs=1.0, max_pause_secs=4.0),
    )
    with pytest.raises(errors.MasterUnreachableError):
        conn.request("GET", "/")
    assert pauses == [1.0, 2.0, 4.0, 3.0]


def test_a_request_waits_for_a_master_that_is_restarted(master, start_master):
    with connect(master) as conn:
        conn.request("GET", "/")
        master.stop()
        again = []
        timer = threading.Timer(0.3, lambda: again.append(start_master(master.port)))
        timer.start()
        conn.request("POST", "/late")
        timer.join()
    assert [request["path"] for request in again[0].requests] == ["/late"]


def test_a_master_that_moved_is_found(master, start_master):
    moved = start_master()
    found = address.Address(moved.url, "other")
    with connect(master, find_master=lambda: found) as conn:
        master.stop()
        conn.request("GET", "/")
        assert conn.address == found
    assert moved.requests[0]["token"] == "Bearer other"


def test_a_token_that_changed_is_read_again(master):
    master.answers = [(401, {}), (200, 1)]
    found = address.Address(master.url, "new")
    with connect(master, find_master=lambda: found) as conn:
        assert conn.request("GET", "/") == 1
    assert [request["token"] for request in master.requests] == ["Bearer secret", "Bearer new"]


@pytest.mark.parametrize("answer", ["hang up", (503, ""), (500, "")])
def test_a_lost_request_is_repeated_if_that_does_no_harm(master, answer):
    master.answers = [answer, answer, (200, 7)]
    with connect(master) as conn:
        assert conn.request("POST", "/", is_repeatable=True) == 7
    assert len(master.requests) == 3


@pytest.mark.parametrize(
    ("answer", "kind"),
    [("hang up", errors.MasterUnreachableError), ((500, ""), errors.ClusterError)],
)
def test_a_request_that_may_have_arrived_is_not_repeated_otherwise(master, answer, kind):
    master.answers = [answer]
    with connect(master) as conn, pytest.raises(kind):
        conn.request("POST", "/")
    assert len(master.requests) == 1


def test_a_fault_of_the_master_is_not_repeated_for_ever(master, pauses):
    master.answers = [(500, {"error": {"kind": "x", "message": "bug"}})]
    retries = connection.Retries(
        total_secs=60.0, first_pause_secs=1.0, max_pause_secs=4.0, total_fault_secs=5.0
    )
    with connect(master, retries=retries) as conn, pytest.raises(errors.ClusterError, match="bug"):
        conn.request("GET", "/")
    assert pauses == [1.0, 2.0, 2.0]
    assert len(master.requests) == 4


def test_a_stream_yields_line_by_line(master):
    master.answers = [(200, "data: 1\r\n\ndata: ä")]
    with connect(master) as conn:
        assert list(conn.stream("/", query={"after": 0})) == ["data: 1", "", "data: ä"]
    assert master.requests[0]["query"] == {"after": "0"}


def test_a_stream_raises_what_the_master_refuses(master):
    master.answers = [(404, {"error": {"kind": "NotFoundError", "message": "no trial 3"}})]
    with connect(master) as conn, pytest.raises(errors.NotFoundError, match="no trial 3"):
        list(conn.stream("/"))


@pytest.mark.parametrize(("status", "kind"), [(503, "StoreError"), (507, "StoreFullError")])
def test_a_master_that_can_not_write_is_waited_for_and_says_why_in_the_end(
    master, monkeypatch, caplog, status, kind
):
    full = {"error": {"kind": kind, "message": "the disk is full"}}
    master.answers = [(status, full), (200, 1)]
    with connect(master) as conn:
        assert conn.request("POST", "/") == 1
    with monkeypatch.context() as patch:
        patch.setattr(connection.time, "sleep", lambda _: None)
        master.answers = [(status, full), (200, 1)]
        slow = connection.Retries(total_secs=60.0, first_pause_secs=1.0)
        with connect(master, retries=slow) as conn:
            assert conn.request("POST", "/") == 1
    assert "The master can't do it now (POST /: the disk is full)" in caplog.text
    master.answers = [(status, full)]
    retries = connection.Retries(total_secs=0.1, first_pause_secs=0.01, max_pause_secs=0.05)
    with (
        connect(master, retries=retries) as conn,
        pytest.raises(errors.StoreError, match="disk is full"),
    ):
        conn.request("POST", "/")
