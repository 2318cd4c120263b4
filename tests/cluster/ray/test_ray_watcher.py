"""The watcher with a module in the place of Ray's, for what needs no cluster."""

import io
import json
import os
import socket
import sys
import types

import pytest

from quintain.cluster.ray import ray_connection, ray_messages, ray_watcher


class FakeRay:
    """What the watcher uses of the module."""

    exceptions = types.SimpleNamespace(ActorUnavailableError=ConnectionError)

    def __init__(self):
        self.found = []
        self.answers = {}
        self.made = []
        self.killed = []
        self.asked = []

    def add(self, name, answer, *, cpus=2.0, gpus=0.0, is_alive=True, reason=""):
        self.found.append(
            {
                "NodeID": f"0123456789-{name:->8}",
                "NodeManagerHostname": socket.gethostname(),
                "Alive": is_alive,
                "DeathReasonMessage": reason,
                "Resources": {"CPU": cpus, "GPU": gpus},
            }
        )
        self.answers[f"agent-0123456789-{name:->8}"] = answer

    def nodes(self):
        return self.found

    def remote(self, actor):
        del actor
        return types.SimpleNamespace(options=self._options)

    def _options(self, **options):
        self.made.append(options)
        answer = self.answers.get(options["name"])
        handle = types.SimpleNamespace(
            join=types.SimpleNamespace(remote=lambda *_: answer),
            leave=types.SimpleNamespace(remote=lambda: "left"),
            retire=types.SimpleNamespace(remote=lambda: "left"),
            keep=types.SimpleNamespace(remote=lambda *given: self.asked.append(given) or ""),
            name=options["name"],
        )
        return types.SimpleNamespace(remote=lambda *_: handle)

    def wait(self, references, num_returns=1, timeout=0):
        del num_returns, timeout
        return [each for each in references if each != "never"], []

    def get(self, reference):
        if isinstance(reference, Exception):
            raise reference
        return reference

    def kill(self, handle, *, no_restart):
        assert no_restart
        self.killed.append(handle.name)


UP = {"problem": "", "is_stale": False}


@pytest.fixture
def ray(monkeypatch):
    made = FakeRay()
    strategies = types.SimpleNamespace(
        NodeAffinitySchedulingStrategy=lambda node_id, soft: (node_id, soft)
    )
    monkeypatch.setattr(
        ray_watcher.importlib, "import_module", lambda name: strategies if name else None
    )
    return made


def look(ray, *, settings=None, url="http://127.0.0.1:80"):
    watcher = ray_watcher.Watcher(ray, settings or ray_messages.Settings())
    watcher.join("home", {"url": url, "token": "t", "fingerprint": ""})
    return watcher, {each.name.partition("-")[2]: each for each in _strip(watcher.look())}


def _strip(news):
    prefix = socket.gethostname() + "-"
    return [
        ray_messages.NodeNews("-" + each.name.removeprefix(prefix)[-3:], *_rest(each))
        for each in news
    ]


def _rest(news):
    return news.is_alive, news.is_up, news.problem


def test_each_node_that_computes_gets_an_agent_that_holds_what_it_has(ray):
    ray.add("aaa", UP, cpus=3.0, gpus=2.0)
    ray.add("bbb", UP, cpus=0.0)

    _, news = look(ray)

    assert [news["aaa"].is_up, "bbb" in news] == [True, False]
    [options] = ray.made
    assert (options["num_cpus"], options["num_gpus"], options["max_restarts"]) == (3.0, 2.0, -1)
    assert (options["lifetime"], options["namespace"]) == ("detached", "quintain-home")
    assert options["scheduling_strategy"] == ("0123456789------aaa", False)


def test_slots_that_were_asked_for_hold_no_more_than_they_use(ray):
    ray.add("aaa", UP, cpus=8.0)

    look(ray, settings=ray_messages.Settings(slots=2, threads_per_slot=3))

    assert ray.made[0]["num_cpus"] == 6


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (RuntimeError("ModuleNotFoundError: No module named 'quintain'"), "is not installed there"),
        (RuntimeError("The actor is not schedulable: ..."), "about to remove the node"),
        (RuntimeError("Traceback:\n\nClusterError: Quintain 0.0.1 is installed there"), "0.0.1"),
        ({"problem": "no", "is_stale": False}, "no"),
    ],
)
def test_an_agent_that_cannot_run_says_why(ray, answer, message):
    ray.add("aaa", answer)

    _, news = look(ray)

    assert not news["aaa"].is_up
    assert message in news["aaa"].problem


def test_a_node_that_is_busy_with_other_things_is_waited_for(ray, monkeypatch):
    monkeypatch.setattr(ray_watcher, "_PATIENCE_SECS", -1.0)
    ray.add("aaa", "never")

    _, news = look(ray)

    assert "waits for 2 CPUs of this node" in news["aaa"].problem


def test_an_agent_of_other_settings_is_replaced(ray):
    ray.add("aaa", {"problem": "old", "is_stale": True})

    look(ray)

    assert ray.killed == ["agent-0123456789------aaa"]


def test_a_node_elsewhere_cannot_reach_the_loopback_device(ray):
    ray.add("aaa", UP)
    ray.found[0]["NodeManagerHostname"] = "another"

    watcher = ray_watcher.Watcher(ray, ray_messages.Settings())
    watcher.join("home", {"url": "http://127.0.0.1:80", "token": "t", "fingerprint": ""})

    [news] = watcher.look()
    assert "--host=ADDRESS" in news.problem
    assert not ray.made


def test_nodes_are_asked_for_and_those_that_are_released_get_no_agent_until_they_are_wanted(ray):
    ray.add("aaa", UP)
    watcher, _ = look(ray)
    name = ray_messages.name_node(socket.gethostname(), "0123456789------aaa")
    wanted = [{"num_slots": 1, "count": 1, "labels": {}, "gpu": None}]

    watcher.ask({"wanted": [], "busy": [], "released": [name]})
    watcher.look()
    assert ray.killed == ["agent-0123456789------aaa"]
    assert not ray.asked
    watcher.look()
    assert len(ray.made) == 1
    watcher.ask({"wanted": wanted, "busy": [name], "released": []})
    watcher.look()
    bundles = [{"resources": {"CPU": 2.0}, "labels": {}}, {"resources": {"CPU": 1.0}, "labels": {}}]
    assert [each["name"] for each in ray.made[1:]] == ["agent-0123456789------aaa", "demand"]
    assert ray.asked == [("home", bundles)]
    watcher.withdraw()
    assert ray.asked[1:] == [("home", [])]


def test_idle_agents_leave_and_are_not_started_again(ray):
    ray.add("aaa", UP)
    ray.add("bbb", UP)
    watcher, _ = look(ray)

    watcher.leave([ray_messages.name_node(socket.gethostname(), "0123456789------bbb")])
    watcher.look()

    assert ray.killed == ["agent-0123456789------aaa"]
    assert len(ray.made) == 2


def test_a_node_that_has_died_is_told_with_the_reason(ray):
    ray.add("aaa", UP, is_alive=False, reason="no heartbeats")

    _, news = look(ray)

    assert news["aaa"] == ray_messages.NodeNews("-aaa", False, problem="Ray: no heartbeats")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("here", "Give auto, local, HOST:PORT or ray://HOST:PORT"),
        ("ray://:1", "Give auto, local, HOST:PORT or ray://HOST:PORT"),
        ("127.0.0.1:1", "nobody answers at '127.0.0.1:1'"),
    ],
)
def test_an_address_without_a_cluster_is_told_at_once(address, message):
    told = io.StringIO()
    settings = json.dumps({"kind": "settings", "address": address})

    code = ray_watcher.run(io.StringIO(settings), told)

    assert code == 1
    assert message in json.loads(told.getvalue())["message"]


@pytest.mark.parametrize(
    ("address", "variables", "is_made"),
    [("local", {}, True), ("local", {"RAY_AUTH_MODE": "disabled"}, False), ("auto", {}, False)],
)
def test_a_cluster_of_its_own_has_a_token_of_its_own(monkeypatch, address, variables, is_made):
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    seen = {}
    fake = types.SimpleNamespace(init=lambda **_: seen.update(os.environ))
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setattr(os, "environ", {**os.environ, **variables})

    ray_connection.connect(ray_messages.Settings(address=address))

    # Ray writes none to the home of the user where it finds one.
    assert len(seen.get("RAY_AUTH_TOKEN", "")) == 64 * is_made
    assert seen.get("RAY_AUTH_MODE") == ("token" if is_made else variables.get("RAY_AUTH_MODE"))


def test_a_missing_package_is_told(monkeypatch):
    def fail(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(ray_connection.importlib, "import_module", fail)

    with pytest.raises(ray_connection.ConnectError, match=r"pip install 'quintain\[ray\]'"):
        ray_connection.connect(ray_messages.Settings())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Version mismatch: Ray: 2.59.0", "another version of Ray or Python"),
        ("Could not find any running Ray instance.", "no Ray cluster runs on this machine"),
        ("Can't find a raylet", "is no node of the Ray cluster"),
        ("something else", "There is no connection to the Ray cluster at 'auto': something else"),
    ],
)
def test_what_ray_says_of_a_connection_becomes_advice(text, message):
    assert message in ray_connection._explain_connection("auto", RuntimeError(text))


def test_a_cluster_that_asks_for_a_token_is_told_as_such():
    error = ConnectionError("Failed to connect to Ray cluster at 127.0.0.1:6379")
    error.__cause__ = RuntimeError("RPC error: InvalidAuthToken: Authentication token is missing.")

    told = ray_connection._explain_connection("127.0.0.1:6379", error)

    assert told.startswith("The Ray cluster at '127.0.0.1:6379' asks for a token")
    assert "RAY_AUTH_TOKEN" in told
