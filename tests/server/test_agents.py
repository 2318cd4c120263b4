"""What agents ask, over HTTP."""

import dataclasses
import json
import threading
import time

import pytest
import urllib3

from quintain import errors
from quintain.client import address
from quintain.client.home import token_files
from quintain.client.http import connection
from quintain.cluster.agents import agent_client, agent_launcher, agent_protocol
from quintain.master.processes import launch_tokens
from quintain.master.processes import launcher as launcher_lib
from quintain.records.rows import log, slot
from quintain.records.views import master_status
from quintain.server import app as app_lib
from quintain.testing import idle_launcher

TOKEN = "the-token"
KEY = launch_tokens.LaunchKey(bytes(32))
HELLO = agent_protocol.Hello(
    name="one", agent_id="a", place="here", slots=(slot.Slot(0),), labels={"gpu": "ä"}
)


@pytest.fixture
def launcher():
    return agent_launcher.AgentLauncher(idle_launcher.IdleLauncher())


@pytest.fixture
def app(calls, master, home, launcher):
    info = master_status.MasterInfo("1.2.3", str(home.path), "http://testserver", 12, 34.5)
    return app_lib.build_app(
        calls,
        master,
        info,
        token=TOKEN,
        launch_key=KEY,
        stop=lambda drain: None,
        services=app_lib.Services(agents=launcher),
    )


@pytest.fixture
def client(url, home):
    token = token_files.load(home.agent_token)
    where = address.Address(url, token)
    with connection.Connection(where, retries=connection.Retries(0.0)) as connected:
        yield agent_client.AgentClient(connected, "one")


def start(launcher, launch_id="t7-a"):
    launcher.start(
        launcher_lib.LaunchRequest(
            launch_id=launch_id,
            trial_id=7,
            experiment_id=3,
            slots=(slot.Slot(5, slot.SlotKind.GPU, "GPU-x", 2, "one"),),
            environment={"NAME": "värde"},
            scratch_dir="",
            node="one",
        )
    )


def test_an_agent_is_told_at_once_what_to_do(launcher, client):
    welcome = client.register(HELLO)
    found = []

    def ask():
        found.append(client.find_orders(welcome.session, after=0, kept=0, wait_secs=30))

    asking = threading.Thread(target=ask)
    asking.start()
    time.sleep(0.2)
    assert found == []
    start(launcher)
    asking.join(60)
    (order,) = found[0].orders
    assert order.launch.environment == {"NAME": "värde"}
    assert order.launch.slots == (slot.Slot(5, slot.SlotKind.GPU, "GPU-x", 2, "one"),)
    client.report(
        welcome.session,
        agent_protocol.Report(
            1,
            started=("t7-a",),
            lines=(("t7-a", 1.5, log.LogSource.STDERR, "Zeile"),),
            offsets={"t7-a": 20},
            exits=(agent_protocol.Exit("t7-a", 0, last_lines=("Zeile",)),),
            usage={"t7-a": {"cpu_percent": 12.5}},
        ),
    )
    (ended,), (row,) = launcher.poll(), launcher.read_logs()
    assert (ended.trial_id, ended.exit_code, row.text) == (7, 0, "Zeile")
    assert launcher.read_usage() == {"t7-a": {"cpu_percent": 12.5}}
    assert client.find_orders(welcome.session, after=1, kept=0, wait_secs=0).orders == ()
    client.leave(welcome.session)
    with pytest.raises(errors.GoneError):
        client.find_orders(welcome.session, after=1, kept=0, wait_secs=30)
    assert launcher.list_nodes() == []


def test_orders_that_wait_hold_no_thread(launcher, client, http):
    session = client.register(HELLO).session
    before = threading.active_count()
    waiting = [
        threading.Thread(
            target=client.find_orders,
            args=(session,),
            kwargs={"after": 0, "kept": 0, "wait_secs": 60},
        )
        for _ in range(60)
    ]
    for each in waiting:
        each.start()
    # Anyio has 40 threads for what waits in threads.
    assert http("GET", "/api/v1/master").status == 200
    assert threading.active_count() <= before + len(waiting) + 45
    launcher.release()
    start(launcher)
    for each in waiting:
        each.join(60)
        assert not each.is_alive()


def test_an_agent_of_another_version_is_refused_whatever_else_it_says(http, home):
    bearer = f"Bearer {token_files.load(home.agent_token)}"
    body = {"protocol": 2, "version": "9.9", "python": "3.99", "launches": {"of": "later"}}
    answer = http("PUT", "/api/v1/agents/one", authorization=bearer, body=body)

    assert answer.status == 400
    assert "Install the same versions" in answer.json["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        {"number": "one"},
        {"number": 1, "lines": [["a", 1.0, "stdout"]]},
        {"number": 1, "lines": [["a", 1.0, "master", "forged", 1]]},
        {"number": 1, "offsets": {"a": -1}},
        {"number": 1, "usage": {"a": {"x": "NaN"}}},
        b'{"number": 1, "usage": {"a": {"x": NaN}}}',
        b"[" * 30_000,
    ],
)
def test_reports_that_are_none_are_refused(client, http, home, body):
    session = client.register(HELLO).session
    bearer = f"Bearer {token_files.load(home.agent_token)}"
    path = f"/api/v1/agents/one/reports?session={session}"
    answer = http("POST", path, authorization=bearer, body=body)
    assert (answer.status, answer.json["error"]["kind"]) == (400, "ConfigError")


def test_hello_has_the_name_of_its_address(client):
    with pytest.raises(errors.ConfigError, match="expected 'one'"):
        client.register(dataclasses.replace(HELLO, name="two"))


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_strangers_and_trials_are_no_agents(http, method):
    launch = KEY.build_token(1, "1-1")
    for authorization, status in ((None, 401), ("Bearer x", 401), (f"Bearer {launch}", 403)):
        path = "/api/v1/agents/one?session=x"
        assert http(method, path, authorization=authorization, body={}).status == status


OTHER = dataclasses.replace(HELLO, name="two", agent_id="b")


def send(url, home, method, path, body):
    """Sends what no agent of ours would; returns the status and the message."""
    headers = {
        "Authorization": f"Bearer {token_files.load(home.agent_token)}",
        "Content-Type": "application/json",
    }
    with urllib3.PoolManager(retries=False) as pool:
        answer = pool.request(
            method, f"{url}{agent_protocol.PATH}/{path}", headers=headers, body=json.dumps(body)
        )
    return answer.status, answer.data.decode()


@pytest.mark.parametrize(
    "change",
    [
        {"slots": [{"id": 1}]},
        {"slots": [{"id": 0, "num_threads": 0}]},
        {"slots": [{"id": 0, "num_threads": -1}]},
        {"slots": [{"id": 0, "num_threads": 10**9}]},
        {"slots": [{"id": 0, "device": "a" * 1000}]},
        {"slots": [{"id": 0, "node": "one"}]},
        {"slots": [{"id": 2**70}]},
        {"slots": [{"id": number} for number in range(agent_protocol.MOST_SLOTS + 1)]},
        {"labels": {"a" * 1000: "b"}},
        {"labels": {"a": "b" * 1000}},
        {"labels": {str(number): "" for number in range(agent_protocol.MOST_LABELS + 1)}},
        {"name": "one"},
        {"name": "master"},
        {"name": "../two"},
        {"place": "a" * 1000},
        {"agent_id": ["b"]},
        {"launches": ["../t1-a"]},
        {"launches": ["a" * 1000]},
        {"draining": "a" * 1_000_000},
    ],
    ids=lambda change: str(change)[:40],
)
def test_what_no_machine_has_is_refused(url, home, launcher, change):
    hello = agent_protocol.to_plain(OTHER)
    status, message = send(url, home, "PUT", "two", hello | change)
    assert status == 400, message
    assert next(iter(change)) in message or "64 bits" in message
    assert launcher.list_nodes() == []


@pytest.mark.parametrize(
    "change",
    [
        {"number": 0},
        {"number": 2**63},
        {"started": ["a/b"]},
        {"lines": [["t7-a", 1e300, "stdout", "a"]]},
        {"lines": [["t7-a", -1.0, "stdout", "a"]]},
        {"lines": [["t7-a", 1.0, "master", "a", "b"]]},
        {"offsets": {"t7-a": -1}},
        {"offsets": {"t7-a": 2**64}},
        {"usage": {"t7-a": {str(number): 1.0 for number in range(1000)}}},
        {"usage": {"t7-a": {"a": "NaN"}}},
        {"exits": [{"launch_id": "t7-a", "signal": 0}]},
        {"exits": [{"launch_id": "t7-a", "signal": -9}]},
        {"exits": [{"launch_id": "t7-a", "signal": 10**9}]},
        {"exits": [{"launch_id": "t7-a", "exit_code": 2**40}]},
        {"exits": [{"launch_id": "t7-a", "last_lines": ["a"] * 10_000}]},
        {"exits": [{"launch_id": "a" * 1000, "exit_code": 1}]},
    ],
    ids=lambda change: str(change)[:40],
)
def test_what_no_agent_reports_is_refused(url, home, client, launcher, change):
    session = client.register(HELLO).session
    start(launcher)
    report = agent_protocol.to_plain(agent_protocol.Report(1)) | change
    status, message = send(url, home, "POST", f"one/reports?session={session}", report)
    assert status == 400, message
    assert launcher.poll() == []
    assert launcher.read_logs() == []


def test_an_agent_speaks_for_its_own_launches_and_under_its_own_name_only(
    url, home, client, launcher
):
    one = client.register(HELLO).session
    start(launcher)
    status, answer = send(url, home, "PUT", "two", agent_protocol.to_plain(OTHER))
    assert status == 200
    two = json.loads(answer)["session"]

    told = agent_protocol.Report(
        1,
        started=("t7-a",),
        lines=(("t7-a", 1.0, log.LogSource.STDOUT, "forged"),),
        offsets={"t7-a": 10**6},
        exits=(agent_protocol.Exit("t7-a", 1),),
        usage={"t7-a": {"cpu": 1.0}},
    )
    report = agent_protocol.to_plain(told)
    assert send(url, home, "POST", f"two/reports?session={two}", report)[0] == 200
    for name, session in (("one", two), ("two", one), ("three", two), ("one", "")):
        assert send(url, home, "POST", f"{name}/reports?session={session}", report)[0] == 410
        assert send(url, home, "DELETE", f"{name}?session={session}", {})[0] == 410
        assert send(url, home, "GET", f"{name}/orders?session={session}", {})[0] == 410
    stolen = agent_protocol.to_plain(OTHER) | {"name": "one"}
    status, message = send(url, home, "PUT", "one", stolen)
    assert (status, "Another agent is called" in message) == (409, True)
    hello = agent_protocol.to_plain(OTHER) | {"launches": ["t7-a"]}
    assert send(url, home, "PUT", "two", hello)[0] == 200

    assert launcher.poll() == []
    assert launcher.read_logs() == []
    assert launcher.read_usage() == {}
    orders = client.find_orders(one, after=0, kept=0, wait_secs=0).orders
    assert [(each.kind, each.launch_id) for each in orders] == [("start", "t7-a")]


def test_exits_that_nobody_asked_for_take_no_more_room_than_is_there(
    url, home, client, launcher, monkeypatch
):
    monkeypatch.setattr(agent_launcher, "_MOST_ORDERS", 10)
    session = client.register(HELLO).session
    exits = tuple(agent_protocol.Exit(f"t{number}", 0) for number in range(1000))
    report = agent_protocol.to_plain(agent_protocol.Report(1, exits=exits))
    assert send(url, home, "POST", f"one/reports?session={session}", report)[0] == 200
    assert len(client.find_orders(session, after=0, kept=0, wait_secs=0).orders) == 10


def test_only_agents_wait_for_orders(http, client):
    session = client.register(HELLO).session
    path = f"/api/v1/agents/one/orders?session={session}&wait=60"
    for authorization, status in (
        (None, 401),
        ("Bearer x", 401),
        (f"Bearer {TOKEN}", 403),
        (f"Bearer {KEY.build_token(1, '1-1')}", 403),
    ):
        assert http("GET", path, authorization=authorization).status == status


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("wait=0", 400),
        ("session=other&wait=60", 410),
        ("session=%s&after=-1&wait=60", 400),
        ("session=%s&wait=nan", 400),
        ("session=%s&after=x&wait=60", 400),
        ("session=%s&wait=0", 200),
    ],
)
def test_a_request_for_orders_that_is_wrong_is_answered_at_once(http, client, home, query, status):
    session = client.register(HELLO).session
    bearer = f"Bearer {token_files.load(home.agent_token)}"
    path = f"/api/v1/agents/one/orders?{query.replace('%s', session)}"
    answer = http("GET", path, authorization=bearer)

    assert answer.status == status
