"""A master that speaks TLS and an agent, with trials on both: nothing shows a secret."""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import urllib.parse

import pytest
import urllib3

from quintain.client.home import home as home_lib
from quintain.master.processes import launch_tokens

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

MODEL_DIR = pathlib.Path(__file__).parents[2] / "tests" / "e2e" / "toy_trial"
CONFIG = """
name: toy
entrypoint: model_def:ToyTrial
data: {secs_per_batch: 0.2, slow_until: HURRY}
hyperparameters:
  rate: {type: double, minval: 0.1, maxval: 1.0}
scheduling_unit: 5
searcher:
  name: random
  metric: error
  max_length: {batches: 100}
  max_trials: 2
"""
HOLDERS = {
    "agent.token", "user.token", "master.json", "server.json", "sessions.json", "login.json",
    "master.pem",
}  # fmt: skip
LAUNCH_TOKEN = re.compile(rb"[0-9]+/[0-9A-Za-z.-]+/[0-9a-f]{64}")


class Shell:
    """Runs commands of two home directories."""

    def __init__(self, directory):
        self.directory = directory
        self.started = []

    def start(self, where, *arguments):
        log = (self.directory / f"out-{len(self.started)}").open("wb")
        process = subprocess.Popen(
            [sys.executable, "-m", "quintain.cli.main", *map(str, arguments)],
            stdout=log,
            stderr=log,
            env={**os.environ, "QUINTAIN_HOME": str(self.directory / where)},
        )
        self.started.append((process, log))
        return process, log

    def run(self, where, *arguments):
        process, log = self.start(where, *arguments)
        assert process.wait(120) == 0, (arguments, pathlib.Path(log.name).read_text())
        return pathlib.Path(log.name).read_text()


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path)
    yield shell
    for process, log in reversed(shell.started):
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
            process.kill()
        process.wait()
        log.close()


def read_files(directory, skipped=HOLDERS):
    """Returns what all files below a directory hold, by their paths."""
    found = {}
    for path in directory.rglob("*"):
        with contextlib.suppress(OSError):
            if path.is_file() and path.name not in skipped:
                found[str(path)] = path.read_bytes()
    return found


def read_processes():
    """Returns arguments and variables of all processes: what `ps` shows, and what `/proc` does."""
    found = {}
    for name in ("cmdline", "environ"):
        for path in pathlib.Path("/proc").glob(f"[0-9]*/{name}"):
            with contextlib.suppress(OSError):
                found[str(path)] = path.read_bytes()
    return found


def read_page(url, fingerprint, shell):
    """Returns what a browser that is signed in is told, and what answers to mistakes say."""
    link = shell.run("there", "ui", "--no_browser").split()[-1]
    parts = urllib.parse.urlsplit(link)
    page = f"{url}/{parts.path.split('/')[1]}/"
    found = {}
    with urllib3.PoolManager(assert_fingerprint=fingerprint, cert_reqs="CERT_NONE") as pool:
        answer = pool.request("GET", f"{url}{parts.path}?{parts.query}", redirect=False)
        cookie = answer.headers["Set-Cookie"].partition(";")[0]
        headers = {"Cookie": cookie, "Origin": url}
        for path in (
            "", "static/app.js", "api/v1/master", "api/v1/experiments", "api/v1/experiments/1",
            "api/v1/experiments/1/logs", "api/v1/nothing",
            "api/v1/experiments/99", "api/v1/timeline", "api/v1/slots",
            "api/v1/experiments/1/table",
        ):  # fmt: skip
            found[path] = pool.request("GET", page + path, headers=headers).data
        events = pool.request("GET", f"{page}api/v1/events", headers=headers, preload_content=False)
        found["events"] = events.read1(2**20)
        events.close()
        for token in ("Bearer wrong", "Bearer 1/t1-a/00", "Basic x"):
            answer = pool.request("GET", f"{url}/api/v1/master", headers={"Authorization": token})
            found[token] = answer.data
    return found, cookie.partition("=")[2]


def test_secrets_are_where_they_belong_and_nowhere_else(shell, tmp_path):
    home = home_lib.Home(tmp_path / "there")
    shell.start("there", "master", "start", "--tls", "--slots", 1)
    deadline_secs = time.monotonic() + 60
    while home_lib.find_master(home) is None:
        assert time.monotonic() < deadline_secs
        time.sleep(0.1)
    info = json.loads(shell.run("there", "master", "status", "--json"))["master"]
    shell.run("there", "master", "token", "--user", "--output", tmp_path / "user.token")
    shell.run("there", "master", "token", "--agent", "--output", tmp_path / "agent.token")
    known = ("--fingerprint", info["fingerprint"])
    shell.start(
        "agent", "agent", "--master", info["url"], "--token_file", tmp_path / "agent.token",
        "--slots", 1, "--name", "other", "--cache", tmp_path / "cache", *known,
    )  # fmt: skip
    shell.run("here", "login", info["url"], "--token_file", tmp_path / "user.token", *known)
    hurry = tmp_path / "hurry"
    (tmp_path / "toy.yaml").write_text(CONFIG.replace("HURRY", str(hurry)))

    shell.run("here", "experiment", "create", tmp_path / "toy.yaml", MODEL_DIR, "--detach")
    commands, nodes = {}, set()
    while len(nodes) < 2:
        commands.update(read_processes())
        status = json.loads(shell.run("there", "master", "status", "--json"))["status"]
        nodes |= {slot["node"] for slot in status["slots"] if slot["trial_id"] is not None}
        assert status["experiments"], "It has ended too soon."
    while "trained to" not in shell.run("there", "trial", "logs", 1):
        pass
    told, cookie = read_page(info["url"], info["fingerprint"], shell)
    hurry.touch()
    shell.run("here", "experiment", "wait", 1)
    shell.run("here", "experiment", "export-data", 1, tmp_path / "exported", "--logs")

    secrets = [
        json.loads((home.path / "master.json").read_text())["token"],
        json.loads(home.server_file.read_text())["launch_key"],
        json.loads(home.sessions_file.read_text())["key"],
        home.agent_token.read_text().strip(),
        home.user_token.read_text().strip(),
        cookie,
    ]
    key = launch_tokens.LaunchKey.from_text(secrets[1])
    seen = {**commands, **told, **read_files(tmp_path)}
    assert b"trained to" in told["api/v1/experiments/1/logs"]
    assert b"id:" in told["events"]
    assert len(seen) > 30
    assert nodes == {"", "other"}
    for path, content in seen.items():
        for secret in secrets:
            assert secret.encode() not in content, path
        assert b"PRIVATE KEY" not in content, path
        # Others' masters may run on this machine as well.
        for token in LAUNCH_TOKEN.findall(content):
            assert key.find_launch(token.decode()) is None, path
    for name in HOLDERS:
        for path in tmp_path.rglob(name):
            assert not path.stat().st_mode & 0o077, path
