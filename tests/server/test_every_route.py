"""Every address that there is gets values that nobody means well with; none of them is a fault.

Mutations are drawn from a seed. `QUINTAIN_FUZZ_ROUNDS=200 pytest tests/server/test_every_route.py`
takes minutes.
"""

import contextlib
import hashlib
import io
import json
import logging
import os
import random
import sqlite3
import tarfile
import types
import urllib.parse

import pytest
import urllib3

from quintain.client.home import token_files
from quintain.cluster.agents import agent_launcher, agent_protocol
from quintain.master import master as master_lib
from quintain.master.placing import slots
from quintain.master.processes import launch_tokens
from quintain.records.rows import checkpoint
from quintain.records.views import master_status
from quintain.server import app as app_lib
from quintain.server import direct_calls, exports, tensorboards
from quintain.server.security import path_rules
from quintain.store import store as store_lib
from quintain.testing import idle_launcher
from tests.programs import hostile_requests

TOKEN = "the-token"
KEY = launch_tokens.LaunchKey(bytes(32))
UUID = "0b1c2d3e-0000-0000-0000-000000000001"
CONFIG = """
name: digits
entrypoint: model_def:Digits
searcher: {name: single, metric: accuracy, max_length: {batches: 100}}
"""
NUM_ROUNDS = int(os.environ.get("QUINTAIN_FUZZ_ROUNDS", "1"))
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "BREW")

HOSTILE_PARTS = [
    "", "0", "-1", "99", "1.5", "1e3", "one", "true", "null", "%00", "1%00", "%2e%2e", "..", "~",
    "%2F..%2F..%2Fetc%2Fpasswd", "a" * 5000, "%ff%fe", "%ed%a0%80", "ä".encode().hex(), "%F0%9F",
    str(2**31), str(2**63 - 1), str(2**63), str(-(2**63) - 1), "9" * 4000, "٣", "'; drop table--",
    "*", "[1]", "?", "%25", " ", "%0d%0aX: y",
]  # fmt: skip
HOSTILE_VALUES = [
    None, True, 0, -1, 5, 1.5, 1e308, 2**31, 2**63, 2**64, -(2**70), 10**400, "", "a", "\0", "\x1b",
    "a" * 5000, "x/" * 3000, "../nowhere" * 100, "/dev/zero", "\u202e", "NaN", [], [1], [[]],
    ["a"] * 300,
    {}, {"": 0}, {"a": {"b": [None]}}, [None, {}], {"kind": "TRAIN"}, {"type": "log"},
    {"__class__": "x"}, {"name": "single"},
]  # fmt: skip
HOSTILE_BODIES = [
    b"", b"{", b"[]", b"null", b"1", b'"a"', b"\xff", b"[" * 30_000, b'{"a":' * 30_000, b"NaN",
    b'{"overrides": [NaN]}', b"1e999", b"9" * 5000, b'{"a": "\\ud800"}', b'{"\\udfff": 1}',
    b'{"a": 1, "a": 2}', b"\x00", b"a=b&c=d", b"{}" * 2, b'{"config_text": "\\u0000"}',
    b'{"config_text": "\\u0007: 1"}', b'{"config_text": "a", "model_dir": "\\u0000"}',
    b'{"config_text": "%s"}' % (b"[" * 30_000), b'{"overrides": ["a=%s"]}' % (b"[" * 30_000),
]  # fmt: skip
QUERIES = [
    "state", "label", "after", "limit", "last", "source", "contains", "group", "wait", "where",
    "sort", "fields", "offset", "metric", "evaluator", "level", "before", "trial_id",
    "summary", "from",
]  # fmt: skip


@pytest.fixture
def store(home):
    opened = store_lib.open_store(str(home.database))
    yield opened
    opened.close()


@pytest.fixture
def master(store, home, tmp_path):
    """Returns a master with an experiment that was ended, with code, a trial and a checkpoint."""
    code = tmp_path / "code"
    (code / "data").mkdir(parents=True)
    (code / "model_def.py").write_text("class Digits: ...\n")
    (code / "data" / "a b.txt").write_text("ä")
    made = master_lib.Master(
        store, idle_launcher.IdleLauncher(), [slots.Slot(0)], home.path, launch_key=KEY
    )
    made.recover()
    made.commands.create_experiment(CONFIG, code, activate=False)
    made.commands.apply(1, "cancel")
    made.tick()
    (home.checkpoints / UUID).mkdir()
    (home.checkpoints / UUID / "weights").write_bytes(b"w")
    with store.transaction() as session:
        assert session.get_experiment(1).state.is_terminal
        session.add_checkpoint(checkpoint.Checkpoint(UUID, 1, 1, 100, files={"weights": 1}))
    return made


@pytest.fixture
def app(store, home, master):
    info = master_status.MasterInfo("1.2.3", str(home.path), "http://testserver", 12, 34.5)
    calls = direct_calls.DirectCalls(store, home, master.status)
    agents = agent_launcher.AgentLauncher(idle_launcher.IdleLauncher())
    return app_lib.build_app(
        calls,
        master,
        info,
        token=TOKEN,
        launch_key=KEY,
        stop=lambda drain: None,
        services=app_lib.Services(agents=agents),
    )


@pytest.fixture
def ask(url, home, caplog):
    """Returns a function that sends a request and holds that the answer is none of a fault.

    Addresses of agents are asked with the token of agents.
    """
    agents = f"{agent_protocol.PATH}/"
    tokens = {True: token_files.load(home.agent_token), False: TOKEN}
    with urllib3.PoolManager(maxsize=1, retries=False, timeout=60) as pool:

        def send(method, path, body=None, **headers):
            given = {"Authorization": f"Bearer {tokens[path.startswith(agents)]}"}
            if body is not None:
                given["Content-Type"] = "application/json"
            answer = pool.urlopen(
                method, url + path, headers={**given, **headers}, body=body, assert_same_host=False
            )
            shown = f"{method} {path[:200]} {body and body[:300]}: {answer.data[:500]}"
            assert answer.status < 500, shown
            assert answer.status < 400 or len(answer.data) < 20_000, shown
            assert [one for one in caplog.records if one.levelno >= logging.ERROR] == [], shown
            return types.SimpleNamespace(status=answer.status, data=answer.data, shown=shown)

        yield send


@pytest.fixture
def dump(home):
    """Returns a function that returns all rows of the store by table."""

    def read():
        with contextlib.closing(sqlite3.connect(home.database)) as database:
            found = database.execute("select name from sqlite_master where type = 'table'")
            tables = [name for (name,) in found]
            return {name: list(database.execute(f"select * from {name}")) for name in tables}

    return read


def fill(path, choice, *, hostile):
    """Returns an address with values in place of its parameters, some or none of them hostile."""
    good = {"launch_id": "1-1", "uuid": "0b1c2d3e", "name": "weights", "command": "pause"}
    parts = []
    for part in path.split("/"):
        name = part.strip("{}").partition(":")[0]
        if not part.startswith("{"):
            parts.append(part)
        else:
            parts.append(choice.choice(HOSTILE_PARTS) if hostile else good.get(name, "1"))
    return "/".join(parts)


@pytest.fixture(autouse=True)
def _no_tensorboard(monkeypatch):
    """Starts no process for what happens to be a good request."""
    monkeypatch.setattr(tensorboards.TensorBoards, "open", lambda *_, **__: "")
    monkeypatch.setattr(exports.Exports, "_run", lambda _, __, target: target.mkdir())


@pytest.fixture
def routes(ask):
    """Returns (method, path, schema of the body) of all addresses."""
    schema = json.loads(ask("GET", "/api/v1/openapi.json").data)
    found = []
    for path, methods in schema["paths"].items():
        for method, route in methods.items():
            body = route.get("requestBody", {}).get("content", {}).get("application/json", {})
            name = body.get("schema", {}).get("$ref", "").rpartition("/")[2]
            fields = schema["components"]["schemas"].get(name, {}).get("properties", {})
            found.append((method.upper(), path, list(fields)))
    assert len(found) >= 30
    return found


@pytest.mark.slow
def test_hostile_addresses_change_nothing(ask, routes, dump):
    choice, before = random.Random(1), dump()
    for _ in range(NUM_ROUNDS):
        for method, path, _ in routes:
            if "{" not in path:
                continue
            for _ in range(8):
                address = fill(path, choice, hostile=True)
                query = f"?{choice.choice(QUERIES)}={choice.choice(HOSTILE_PARTS)}"
                body = b"{}" if method in ("POST", "PATCH") else None
                answer = ask(method, address + choice.choice(["", query, "/", "?" * 200]), body)
                assert method == "GET" or answer.status >= 400, answer.shown
    assert dump() == before


def test_the_token_of_a_launch_that_has_ended_opens_nothing(ask, dump):
    facts = {
        "trial_id": "1", "experiment_id": "1", "launch_id": "1-1", "name": "weights", "number": 1,
        "uuid": UUID, "total_batches": 0, "choice": random.Random(1),
    }  # fmt: skip
    before, tried = dump(), 0
    for method, path in hostile_requests.list_addresses(path_rules.Client.LAUNCH):
        body = hostile_requests.build_body(method, path, facts)
        is_bytes = method == "PUT" and "/files/" in path
        headers = {
            "Authorization": f"Bearer {KEY.build_token(1, '1-1')}",
            "Content-Type": "application/octet-stream" if is_bytes else "application/json",
        }
        address = path.replace(":path", "").format(**facts)
        data = b"bytes" if is_bytes else None if body is None else json.dumps(body).encode()
        answer = ask(method, f"/api/v1{address}", data, **headers)
        assert answer.status == 410, answer.shown
        tried += 1
    assert tried >= 18
    assert dump() == before


@pytest.mark.slow
def test_hostile_queries_are_answered(ask, routes):
    choice = random.Random(2)
    for method, path, _ in routes * NUM_ROUNDS:
        if method != "GET":
            continue
        for name in QUERIES:
            value = choice.choice(HOSTILE_PARTS)
            ask("GET", f"{fill(path, choice, hostile=False)}?{name}={value}&{name}={value}&wait=0")
    assert ask("GET", "/api/v1/experiments?" + "a" * 100_000).status == 414
    assert ask("GET", "/api/v1/experiments?" + "label=a&" * 1000).status == 200
    assert ask("GET", "/" + "a/" * 5000).status == 404


@pytest.mark.slow
def test_other_methods_and_broken_bodies_change_nothing(ask, routes, dump):
    choice, before = random.Random(3), dump()
    for path in sorted({path for _, path, _ in routes}):
        address = fill(path, choice, hostile=False)
        known = {method for method, each, _ in routes if each == path}
        for method in METHODS:
            if method not in known:
                # `POST /experiments/1/COMMAND` is next to `GET /experiments/1/trials`, and
                # `POST /experiments/check` to `GET /experiments/1`.
                refused = (400, 403, 404, 405) if path.endswith("/check") else (403, 404, 405)
                assert ask(method, address).status in refused
        for method in known & {"POST", "PATCH"}:
            for body in HOSTILE_BODIES:
                answer = ask(method, address, body)
                # These take no body, or one without any field that is needed.
                free = ("{command}", "/kill", "/rerun", "/export", "-all", "/uploads", "/commit")
                is_free = path.endswith(free) or not body
                assert answer.status >= 400 or is_free, answer.shown
    for table, rows in dump().items():
        assert len(rows) >= len(before[table]), table
    assert dump()["experiments"][: len(before["experiments"])] == before["experiments"]


@pytest.mark.slow
def test_hostile_values_in_bodies_are_answered(ask, routes, dump):
    choice = random.Random(4)
    fields_by_path = {"runs": ["pid", "start_time", "launch_id"], "{experiment_id}": [
        "description", "labels", "weight", "max_slots", "priority", "max_trials",
        "checkpoint_storage",
    ], "results": ["workload", "start_time", "end_time", "metrics", "checkpoint"]}  # fmt: skip
    for method, path, fields in routes * NUM_ROUNDS:
        if method not in ("POST", "PATCH"):
            continue
        address = fill(path, choice, hostile=False)
        fields = fields or fields_by_path.get(path.rpartition("/")[2], [])
        for field in fields:
            for value in choice.sample(HOSTILE_VALUES, 15):
                good = {"config_text": "name: a", "launch_id": "1-1", "pid": 1, "start_time": 1.0}
                body = {name: good[name] for name in fields if name in good} | {field: value}
                ask(method, address, json.dumps(body).encode())
    assert ask("GET", "/api/v1/experiments/1").status == 200


@pytest.mark.slow
def test_a_body_of_many_mistakes_costs_no_more_than_one_of_a_single_one(ask, routes):
    """To list all of millions takes a minute and gigabytes, in which nobody else is answered."""
    for method, path, fields in routes:
        if method not in ("POST", "PATCH"):
            continue
        address = fill(path, random.Random(4), hostile=False)
        for body in (
            {name: [None] * 1000 for name in fields if name != "sizes"},
            {f"a{number}": 0 for number in range(1000)},
        ):
            answer = ask(method, address, json.dumps(body).encode())
            if answer.status >= 400:
                message = json.loads(answer.data)["error"]["message"]
                assert len(message.splitlines()) <= 12, answer.shown


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"labels": 5}, "labels: got 5, input should be"),
        ({"labels": "a"}, "labels: got 'a', "),
        ({"labels": [1]}, "labels.0: got 1, input should be a valid string"),
        ({"max_trials": "a"}, "max_trials: got 'a', input should be a valid integer"),
        ({"weight": True}, "weight: got True"),
        ({"checkpoint_storage": [1]}, "checkpoint_storage: got [1]"),
    ],
)
def test_changes_of_the_wrong_type_are_named(ask, changes, words):
    answer = ask("PATCH", "/api/v1/experiments/1", json.dumps(changes).encode())
    assert answer.status == 400
    assert words in json.loads(answer.data)["error"]["message"]


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30])
def test_a_number_beyond_64_bits_is_the_mistake_of_who_asks(ask, number):
    for path in (f"experiments/{number}", f"trials/{number}/logs", f"trials/1/logs?after={number}"):
        assert ask("GET", f"/api/v1/{path}").status in (400, 404)


def test_links_that_lead_out_of_the_code_are_not_followed(ask, home, tmp_path):
    (tmp_path / "secret").write_text("secret")
    model_dir = home.experiments / "1" / "model_dir"
    (model_dir / "inside").symlink_to("model_def.py")
    (model_dir / "outside").symlink_to(tmp_path / "secret")
    (model_dir / "up").symlink_to(tmp_path)
    path = "/api/v1/experiments/1/files"
    assert json.loads(ask("GET", path).data) == ["data/a b.txt", "inside", "model_def.py"]
    for name in ("outside", "up/secret", "../../../secret", urllib.parse.quote(str(tmp_path))):
        assert ask("GET", f"{path}/{name}").status == 404


def test_code_that_was_sent_becomes_that_of_an_experiment_within_its_limits(ask, home):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        info = tarfile.TarInfo("pkg/model_def.py")
        info.size = 1000
        archive.addfile(info, io.BytesIO(b"#" * 1000))

    def send(**fields):
        name = hashlib.sha256(made.getvalue()).hexdigest()
        kind = {"Content-Type": "application/octet-stream"}
        ask("PUT", f"/api/v1/uploads/{name}", made.getvalue(), **kind)
        body = {"config_text": CONFIG, "upload": name, "activate": False, **fields}
        return ask("POST", "/api/v1/experiments", json.dumps(body))

    refused = send(overrides=["code.max_files=1"])
    assert (refused.status, b"code.max_files" in refused.data) == (400, True)
    assert json.loads(ask("GET", "/api/v1/experiments").data)[-1]["id"] == 1
    record = json.loads(send().data)
    assert json.loads(ask("GET", f"/api/v1/experiments/{record['id']}/files").data) == [
        "pkg/model_def.py"
    ]
