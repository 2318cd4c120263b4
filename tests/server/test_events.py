import asyncio
import contextlib
import dataclasses
import json
import socket

import pytest
import urllib3

from quintain import errors
from quintain.records import team
from quintain.records.rows import experiment, log, metric, states, trial
from quintain.server import app as app_lib
from quintain.server.feed import feed as feed_lib
from quintain.web import http_server

HOME = "0123456789abcdef"
VALIDATION = metric.MetricGroup.VALIDATION


@dataclasses.dataclass
class Event:
    kind: str
    id: str
    data: dict


def read_events(answer):
    """Yields the events of an answer; what has only an id is of the kind `id`."""
    fields = {}
    for line in read_lines(answer):
        name, _, value = line.partition(": ")
        if line:
            fields[name] = value
        elif fields:
            kind = fields.get("event", "id")
            yield Event(kind, fields.get("id", ""), json.loads(fields.get("data", "{}")))
            fields = {}


def read_lines(answer):
    rest = b""
    while piece := answer.read1():
        *lines, rest = (rest + piece).split(b"\n")
        yield from (line.decode() for line in lines)


@pytest.fixture
def store(store):
    with store.transaction() as session:
        session.set_home_id(HOME)
    return store


@pytest.fixture
def follow(url):
    """Returns a function that gives the events of the feed, as an iterator."""
    with contextlib.ExitStack() as opened:
        pool = opened.enter_context(urllib3.PoolManager(retries=False, timeout=20))

        def start(query="", url=url, cursor=None, token="the-token"):
            headers = {"Authorization": f"Bearer {token}"}
            if cursor is not None:
                headers["Last-Event-ID"] = cursor
            address = f"{url}/api/v1/events{query}"
            answer = pool.request("GET", address, headers=headers, preload_content=False)
            opened.callback(answer.close)
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            return read_events(answer)

        yield start


def next_of(events, kind):
    return next(event for event in events if event.kind == kind)


def add_metrics(store, trial_id, batches, value):
    with store.transaction() as session:
        session.add_metrics(
            [metric.MetricRow(trial_id, VALIDATION, batches, {"accuracy": value}, 1, 2.0)]
        )


def find_newest(store):
    with store.reading() as session:
        return f"{HOME[:8]}-{session.get_change_bounds()[1]}"


def test_it_begins_now_with_what_runs_where(follow, store):
    events = follow()

    assert next_of(events, "id").id == find_newest(store)
    status = next_of(events, "status").data
    assert status["slots"][0]["trial_id"] == 1
    assert status["time"] > 1e9


def test_members_of_a_project_are_told_of_slots_of_others_that_they_are_in_use(follow, home, app):
    app.state.parts.roles.grant("anna", team.Role.VIEWER, "speech")
    events = follow(token=home.user_tokens.load("anna"))
    status = next_of(events, "status").data
    (slot,) = status["slots"]
    assert (slot["trial_id"], slot["experiment_id"], status["experiments"]) == (0, 0, [])


def test_what_changes_is_told_as_it_is_now(follow, store):
    events = follow()
    next_of(events, "status")
    with store.transaction() as session:
        record = session.get_trial(1)
        session.update_trial(dataclasses.replace(record, state=states.TrialState.COMPLETED))
        session.add_metrics(
            [metric.MetricRow(1, VALIDATION, 200, {"accuracy": float("nan")}, 1, 2.0)]
        )
        session.add_logs([log.LogRow(1, 3.0, log.LogSource.STDOUT, "hello")])

    told = next_of(events, "changes")

    assert told.id == told.data["cursor"] == find_newest(store)
    assert told.data["trials"][0]["state"] == "COMPLETED"
    assert told.data["experiments"][0]["num_trials"] == {"ACTIVE": 1, "COMPLETED": 1}
    assert "original_config" not in told.data["experiments"][0]
    assert told.data["metrics"] == [[1, "validation", 200, 2.0, {"accuracy": "NaN"}]]
    assert told.data["logs"] == [[1, 6]]
    assert "cuts" not in told.data


def test_who_comes_back_is_told_what_was_missed(follow, store):
    cursor = find_newest(store)
    add_metrics(store, 1, 200, 0.6)
    add_metrics(store, 2, 300, 0.7)

    told = next_of(follow(cursor=cursor), "changes")

    assert [row[0] for row in told.data["metrics"]] == [1, 2]
    assert told.id == find_newest(store)
    assert next_of(follow(cursor=told.id), "id").id == told.id


def test_a_cursor_outlives_the_master(follow, calls, master, store):
    cursor = find_newest(store)
    add_metrics(store, 1, 200, 0.6)
    with (
        feed_lib.Feed(store, master.status) as feed,
        contextlib.closing(http_server.listen(0, 0)) as listener,
        http_server.serve(build(calls, master, feed), listener),
    ):
        other = f"http://127.0.0.1:{listener.getsockname()[1]}"
        told = next_of(follow(url=other, query=f"?cursor={cursor}"), "changes")

    assert told.data["metrics"][0][2] == 200


def build(calls, master, feed):
    info = app_lib.master_status.MasterInfo("1", "/h", "http://testserver", 12, 3.0)
    key = app_lib.launch_tokens.LaunchKey(bytes(32))
    return app_lib.build_app(
        calls,
        master,
        info,
        token="the-token",
        launch_key=key,
        stop=lambda drain: None,
        services=app_lib.Services(feed=feed),
    )


def test_what_was_taken_back_comes_before_what_is_new(follow, store):
    cursor = find_newest(store)
    add_metrics(store, 1, 200, 0.6)
    with store.transaction() as session:
        session.delete_metrics_after(1, 100)
    add_metrics(store, 1, 150, 0.7)

    told = next_of(follow(cursor=cursor), "changes").data

    assert told["cuts"] == [[1, 100]]
    assert told["metrics"] == [[1, "validation", 150, 2.0, {"accuracy": 0.7}]]
    assert list(told).index("cuts") < list(told).index("metrics")


@pytest.mark.parametrize("cursor", ["other-1", "01234567-999999", "01234567-", "x", "01234567--1"])
def test_a_cursor_that_is_not_known_asks_for_everything_anew(follow, store, cursor):
    told = next_of(follow(cursor=cursor), "reset")

    assert told.id == find_newest(store)


def test_only_what_belongs_to_an_experiment_or_a_trial_is_told(follow, store):
    with store.transaction() as session:
        session.add_experiment(
            experiment.Experiment(0, states.ExperimentState.ACTIVE, {}, "", "/code")
        )
        session.add_trial(trial.TrialRecord(0, 2, "r", states.TrialState.ACTIVE, {}, 1))
    cursor = find_newest(store)
    for trial_id in (3, 2, 1):
        add_metrics(store, trial_id, 200, 0.6)

    def list_trials(query):
        return [row[0] for row in next_of(follow(query, cursor=cursor), "changes").data["metrics"]]

    assert list_trials("") == [3, 2, 1]
    assert list_trials("?experiment_id=1") == [2, 1]
    assert list_trials("?trial_id=1") == [1]


def test_a_deleted_experiment_is_told_and_nothing_else_of_it(follow, store):
    cursor = find_newest(store)
    add_metrics(store, 1, 200, 0.6)
    with store.transaction() as session:
        session.update_trial(dataclasses.replace(session.get_trial(1), restarts=1))
        session.delete_experiment(1)

    told = next_of(follow(cursor=cursor), "changes").data

    assert told == {"cursor": find_newest(store), "deleted_experiments": [1]}


@pytest.mark.parametrize("query", ["experiment_id=9", "trial_id=9"])
def test_what_is_not_there_can_not_be_followed(http, query):
    answer = http("GET", f"/api/v1/events?{query}")

    assert answer.status == 404
    assert "There is no" in answer.json["error"]["message"]


def test_who_does_not_read_is_given_up(store, master):
    async def follow_slowly(feed):
        follower = feed_lib.Follower(asyncio.get_running_loop(), most_waiting=2)
        feed.add(follower)
        for _ in range(3):
            follower.tell(master.status())
        await asyncio.sleep(0)
        return [await follower.next(), await follower.next()]

    with feed_lib.Feed(store, master.status) as feed:
        assert asyncio.run(follow_slowly(feed)) == [None, None]


def test_the_end_of_the_server_is_not_kept_by_who_does_not_read(calls, master, store, caplog):
    with contextlib.ExitStack() as parts:
        client = parts.enter_context(socket.socket())
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listener = parts.enter_context(contextlib.closing(http_server.listen(0, 0)))
        feed = feed_lib.Feed(store, master.status)
        parts.enter_context(http_server.serve(build(calls, master, feed), listener))
        parts.enter_context(feed)
        cursor = find_newest(store)
        with store.transaction() as session:
            record = dataclasses.replace(session.get_trial(1), reason="x" * 8_000_000)
            session.update_trial(record)
        client.connect(listener.getsockname())
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        client.sendall(
            f"GET /api/v1/events?cursor={cursor} HTTP/1.1\r\nHost: {host}\r\n"
            "Authorization: Bearer the-token\r\n\r\n".encode()
        )
        assert client.recv(12) == b"HTTP/1.1 200"

    assert [one.getMessage() for one in caplog.records if one.levelname != "INFO"] == []


def test_the_end_of_the_feed_ends_what_is_told(follow, feed):
    events = follow()
    next_of(events, "status")

    feed.__exit__()

    assert [event.kind for event in events if event.kind != "status"] == []


def test_why_nothing_can_be_read_is_told_and_is_no_fault(follow, store, monkeypatch, caplog):
    def refuse():
        raise errors.StoreAwayError("its disk is gone")

    monkeypatch.setattr(store, "reading", refuse)

    events = follow()

    assert next_of(events, "status").data["slots"][0]["trial_id"] == 1
    assert list(events) == []  # It comes again, and goes on from where it was.
    assert not caplog.records
