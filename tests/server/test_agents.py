"""What agents ask, over HTTP."""

import dataclasses
import threading
import time

import pytest

from quintain import errors
from quintain.client import address, connection, token_files
from quintain.cluster import agent_client, agent_launcher, agent_protocol
from quintain.records import log, master_status, slot
from quintain.scheduler import launch_tokens
from quintain.scheduler import launcher as launcher_lib
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
        calls, master, info, token=TOKEN, launch_key=KEY, stop=lambda drain: None, agents=launcher
    )


@pytest.fixture
def client(url, home):
    token = token_files.load(home.agent_token)
    where = address.Address(url, token)
    with connection.Connection(where, retries=connection.Retries(0.0)) as connected:
        yield agent_client.AgentClient(connected, "one")


def start(launcher, launch_id="t7-a"):
    launcher.start(
        launcher_lib.Launch(
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
    asking.join(20)
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
            kwargs={"after": 0, "kept": 0, "wait_secs": 9},
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
        each.join(20)
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
