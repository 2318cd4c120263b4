"""Asks a master that runs trials, here and on an agent, for what nobody means well.

    python tests/programs/fuzz_master.py [--requests 100000] [--seed 1]

Every address, as every kind of client: with the tokens of a launch that runs, of one that has
ended, of agents, of a user, of a browser, and with none. No answer may be that of a fault, hold a
secret or a file of others, and the search of somebody else, which runs meanwhile, ends as if there
was nothing. Writes as JSON how many requests were answered by which status, and what was wrong.
"""

import argparse
import collections
import contextlib
import dataclasses
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import urllib.parse

import urllib3

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from quintain.client import master_client
from quintain.client.home import home as home_lib
from quintain.client.home import token_files
from quintain.cluster.agents import agent_protocol
from quintain.master.processes import launch_tokens
from quintain.records.rows import launch, slot, states
from quintain.server.security import path_rules
from quintain.store import store as store_lib
from tests.programs import hostile_requests

MODEL_DIR = ROOT / "tests" / "e2e" / "toy_trial"
CONFIG = """
name: {name}
entrypoint: model_def:ToyTrial
data: {{secs_per_batch: 0.05}}
hyperparameters:
  rate: {{type: double, minval: 0.1, maxval: 1.0}}
scheduling_unit: 5
min_checkpoint_period: {{batches: 20}}
searcher: {{name: random, metric: error, max_length: {{batches: {batches}}}, max_trials: {trials}}}
max_restarts: {restarts}
resources: {{node_labels: {{role: good}}}}
"""
MARK = "a-secret-of-somebody-else"
WAIT_SECS = 120.0
FAULTS = ("Traceback", "ERROR", "The platform failed", "can't end in order")
CHECK_EVERY = 200
UNASKED = ("/master/stop", "/master/sign-out", "/master/sign-out-all", "/tensorboard")
"""What ends, or starts, more than a request should."""

RUN = "/trials/{trial_id}/runs/{launch_id}"
EXPERIMENT_PARTS = (
    "", "/table", "/table.csv", "/curves", "/search", "/logs", "/trials", "/checkpoints", "/events",
)  # fmt: skip
TRIAL_PARTS = ("", "/metrics", "/batch_metrics", "/logs", "/checkpoints")
Client = path_rules.Client


UNDISTURBED = (
    states.ExperimentState.ACTIVE,
    states.ExperimentState.STOPPING_COMPLETED,
    states.ExperimentState.COMPLETED,
)


class Cluster:
    """A master and an agent as processes, with a search that is to end well."""

    def __init__(self, path):
        self.path = path
        self.home = home_lib.Home(path / "home")
        self.environment = {**os.environ, "QUINTAIN_HOME": str(self.home.path)}
        self.log = path / "stderr.txt"
        self.started = []

    def __enter__(self):
        self.start("master", "start", "--slots=0")
        self.wait(lambda: home_lib.find_own_master(self.home) is not None)
        self.info = home_lib.find_own_master(self.home)
        self.calls = master_client.MasterClient.connect(self.home, self.info.address)
        self.url = self.calls.get_info().url
        self.start(
            "agent", f"--master={self.url}", f"--token_file={self.token_file()}",
            "--name=good", "--slots=3", "--label=role=good", f"--cache={self.path / 'cache'}",
        )  # fmt: skip
        self.wait(lambda: self.calls.get_status().slots)
        self.store = store_lib.open_store(str(self.home.database))
        return self

    def __exit__(self, *_):
        for process in reversed(self.started):
            if process.poll() is None:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(30)
                process.kill()
            process.wait()
        self.calls.__exit__()
        self.store.close()

    def token_file(self):
        token_files.load(self.home.agent_token)
        return self.home.agent_token

    def start(self, *arguments):
        with self.log.open("ab") as log:
            self.started.append(
                subprocess.Popen(
                    [sys.executable, "-m", "quintain.cli.main", *arguments],
                    stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self.environment,
                )
            )  # fmt: skip

    def wait(self, condition):
        deadline_secs = time.monotonic() + WAIT_SECS
        while not condition():
            assert time.monotonic() < deadline_secs, self.log.read_text()
            time.sleep(0.1)

    def create(self, code, name, *, batches, trials, restarts):
        text = CONFIG.format(name=name, batches=batches, trials=trials, restarts=restarts)
        return self.calls.create_experiment(text, code).id

    def list_runs(self):
        with self.store.reading() as session:
            return session.list_launches()

    def read(self, experiment_id):
        with self.store.reading() as session:
            return session.get_experiment(experiment_id), session.list_trials(experiment_id)


class Fuzzer:
    """Draws requests, sends them, and looks at what becomes of them."""

    def __init__(self, cluster, choice):
        self.cluster = cluster
        self.choice = choice
        self.drawer = hostile_requests.Drawer(choice)
        self.counts = collections.Counter()
        self.problems = []
        self.pool = urllib3.PoolManager(maxsize=2, retries=False, timeout=60)
        # What is refused early may end its connection, which the next request there finds out.
        self.calm_pool = urllib3.PoolManager(maxsize=2, retries=3, timeout=60)
        home = cluster.home
        self.key = launch_tokens.LaunchKey.from_text(
            json.loads(home.server_file.read_text())["launch_key"]
        )
        self.user = cluster.info.token
        self.agents = home.agent_token.read_text().strip()
        self.secrets = [self.user, self.agents, self.key.to_text(), MARK]
        self.secrets.append(json.loads(home.sessions_file.read_text())["key"])
        self.mine = self.other = None
        self.cookie = self.page = ""
        self.hostile_id = None
        self.session = ""

    def hello(self):
        slots = tuple(slot.Slot(number) for number in range(agent_protocol.MOST_SLOTS))
        labels = {"role": "evil", **{f"label-{number}": "a" for number in range(90)}}
        return agent_protocol.to_plain(
            agent_protocol.Hello(
                name="evil", agent_id="evil", place="evil", slots=slots, labels=labels
            )
        )

    def answer_of(self, method, path, token, body=None):
        answer = self.calm_pool.request(
            method, f"{self.cluster.url}/api/v1{path}", body=json.dumps(body),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )  # fmt: skip
        assert answer.status < 300, answer.data
        return answer.json()

    def sign_in(self):
        """Gets a cookie as a browser does."""
        link = self.answer_of("POST", "/master/sign-in", self.user, {})["url"]
        self.page = urllib.parse.urlsplit(link).path.split("/")[1]
        answer = self.calm_pool.request("GET", link, redirect=False)
        self.cookie = answer.headers["Set-Cookie"].partition(";")[0]
        self.secrets.append(self.cookie.partition("=")[2])

    def prepare(self, other_id):
        """Finds a launch of ours and one of somebody else; begins anew where ours has ended."""

        def find():
            if self.hostile_id is None or self.cluster.read(self.hostile_id)[0].state.is_terminal:
                self.hostile_id = self.cluster.create(
                    MODEL_DIR, "hostile", batches=10**6, trials=1, restarts=1000
                )
            found = {each.experiment_id: each for each in self.cluster.list_runs()}
            self.mine, self.other = found.get(self.hostile_id), found.get(other_id, self.other)
            return self.mine is not None and self.other is not None

        self.cluster.wait(find)
        with contextlib.suppress(AssertionError):  # What was drawn may have taken the name.
            found = self.answer_of("PUT", "/agents/evil", self.agents, self.hello())
            self.session = found["session"]
        own, others = self.mine, self.other
        with self.cluster.store.reading() as session:
            self.uuids = [each.uuid for each in session.list_checkpoints()][-20:]
        self._meant = {"good", *self.uuids, *map(str, range(1, self.hostile_id * 3))}
        self.drawer.known = [
            *self.uuids, own.launch_id, others.launch_id, f"{own.launch_id}.r1",
            f"{others.launch_id}.r1", launch.member_name(own.launch_id, 10**12),
            own.trial_id, others.trial_id, self.hostile_id, other_id, "good", "evil", self.session,
            str(self.cluster.home.path), f".{others.launch_id}.tmp",
        ]  # fmt: skip

    def facts(self, live, name="evil"):
        machine = self.choice
        return {
            "trial_id": str(live.trial_id), "experiment_id": str(live.experiment_id),
            "launch_id": live.launch_id, "name": name, "session": self.session,
            "uuid": machine.choice([*self.uuids, hostile_requests.UUID, "plain"]),
            "number": machine.choice([1, 2, 3, 7, 10**6]), "choice": machine,
            "total_batches": machine.choice([0, 5, 10, 20]), "command": "dance",
        }  # fmt: skip

    def list_roles(self):
        """Returns (name, what it may ask, headers, whose ids are its own) of all clients."""
        mine, other = self.mine, self.other
        gone = dataclasses.replace(other, launch_id=f"t{other.trial_id}-0123456789ab")
        own = self.key.build_token(mine.trial_id, mine.launch_id)
        ended = self.key.build_token(gone.trial_id, gone.launch_id)
        bearer = "Authorization"
        page = {"Cookie": self.cookie, "Origin": self.cluster.url}
        return [
            ("trial", Client.LAUNCH, {bearer: f"Bearer {own}"}, mine),
            ("trial", Client.LAUNCH, {bearer: f"Bearer {own}"}, mine),
            ("trial of others", Client.LAUNCH, {bearer: f"Bearer {own}"}, other),
            ("ended", Client.LAUNCH, {bearer: f"Bearer {ended}"}, gone),
            ("agent", Client.AGENT, {bearer: f"Bearer {self.agents}"}, other),
            ("user", Client.USER, {bearer: f"Bearer {self.user}"}, mine),
            ("page", Client.PAGE, page, mine),
            ("nobody", Client.USER, {bearer: "Bearer x"}, other),
        ]

    def ask(self):
        """Sends one request, and looks at the answer."""
        name, client, headers, live = self.choice.choice(self.list_roles())
        addresses = hostile_requests.list_addresses(client)
        if name == "trial":
            addresses += [("POST", f"{RUN}/results")] * 10
        method, path = self.choice.choice(addresses)
        if path in UNASKED:
            return
        facts = self.facts(live, self.choice.choice(["evil", "good"]))
        if name == "trial" and path.endswith("/results"):
            facts["work"] = self._find_work(live)
        request = self.drawer.draw(facts, method=method, path=path)
        is_command = method != "GET" and name in ("user", "page")
        if is_command and not self._meant.isdisjoint(request.path.split("/")):
            return  # It would be done.
        sent = {"Content-Type": "application/json", **headers, **request.headers}
        if ("/uploads/" in path and method == "PUT") or "/files/events/" in path:
            sent["Content-Type"] = "application/octet-stream"
        prefix = f"{self.cluster.url}/{self.page}" if name == "page" else self.cluster.url
        try:
            answer = self.pool.urlopen(
                method, prefix + request.target(), headers=sent, body=request.data(),
                redirect=False, preload_content=path != "/events",
            )  # fmt: skip
        except (urllib3.exceptions.HTTPError, ValueError, UnicodeError) as error:
            self.counts[f"{name}: {type(error).__name__}"] += 1
            if isinstance(error, urllib3.exceptions.TimeoutError):
                self.problems.append(f"no answer: {name}: {request}")
            return
        self.counts[f"{name}: {answer.status}"] += 1
        if path == "/events":
            answer.close()
            return
        self._look(name, client, request, answer)

    def _find_work(self, live):
        """Returns what a process of ours is asked to do now, so that its answer is looked into."""
        path = f"/api/v1/trials/{live.trial_id}/runs/{live.launch_id}/workload"
        token = self.key.build_token(live.trial_id, live.launch_id)
        headers = {"Authorization": f"Bearer {token}"}
        answer = self.calm_pool.request("GET", self.cluster.url + path, headers=headers)
        return answer.json() if answer.status == 200 else {}

    def _read_all(self, experiment_id, trial_id):
        """Reads what users read of what was told."""
        for path in (
            *(f"/experiments/{experiment_id}{part}" for part in EXPERIMENT_PARTS),
            *(f"/trials/{trial_id}{part}" for part in TRIAL_PARTS),
            "/slots", "/timeline", "/checkpoints", "/nodes", "/master/status",
        ):  # fmt: skip
            headers = {"Authorization": f"Bearer {self.user}"}
            answer = self.calm_pool.request(
                "GET", f"{self.cluster.url}/api/v1{path}", headers=headers
            )
            if answer.status >= 400:
                self.problems.append(f"{path}: {answer.status} {answer.data[:500]}")

    def _look(self, name, client, request, answer):
        shown = f"{name}: {request}: {answer.status} {answer.data[:300]}"
        if answer.status >= 500:
            self.problems.append(shown)
        if name in ("nobody", "ended", "trial of others") and answer.status < 300:
            self.problems.append(f"opened: {shown}")
        may_read = client in Client.USER | Client.PAGE and name != "nobody"
        for secret in self.secrets:
            is_own = secret == MARK and may_read
            is_asked = request.path == "/master/sign-in"
            if secret.encode() in answer.data and not is_own and not is_asked:
                self.problems.append(f"secret: {shown}")

    def check(self, other_id):
        """Looks at what others have of it."""
        log = self.cluster.log.read_text(errors="replace")
        found = [line for line in log.splitlines() if any(word in line for word in FAULTS)]
        if found:
            self.problems += ["log: " + line[:500] for line in found]
            self.problems.append(log[-5000:])
        for process in self.cluster.started:
            if process.poll() is not None:
                self.problems.append(f"a process of ours has ended: {process.args}")
        self._read_all(self.hostile_id, self.mine.trial_id)
        record, trials = self.cluster.read(other_id)
        if record.state not in UNDISTURBED:
            self.problems.append(f"the search of others: {record.state}: {record.reason}")
        for each in trials:
            if each.restarts or each.state is states.TrialState.ERROR:
                self.problems.append(f"a trial of others: {each}")
        with self.cluster.store.reading() as session:
            for each in session.list_experiments():
                if "The platform failed" in (each.reason or ""):
                    self.problems.append(f"experiment {each.id}: {each.reason}")
        self.problems = list(dict.fromkeys(self.problems))


def make_code(path):
    """Returns a directory of code with a file that is nobody else's."""
    path.mkdir()
    (path / "model_def.py").write_text((MODEL_DIR / "model_def.py").read_text())
    (path / "secret.txt").write_text(MARK)
    return path


def main():
    """Runs it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, Cluster(pathlib.Path(directory)) as cluster:
        plain = cluster.home.checkpoints / "plain"
        plain.mkdir(parents=True)
        (plain / "secret.txt").write_text(MARK)
        (cluster.home.checkpoints / "link").symlink_to(plain)
        own_code = make_code(cluster.path / "code")
        fuzzer = Fuzzer(cluster, random.Random(arguments.seed))
        fuzzer.sign_in()
        batches = max(100, arguments.requests // 20)
        other = cluster.create(own_code, "other", batches=batches, trials=2, restarts=0)
        for number in range(arguments.requests):
            if number % 50 == 0:
                fuzzer.prepare(other)
            fuzzer.ask()
            if number % CHECK_EVERY == CHECK_EVERY - 1:
                fuzzer.check(other)
            if len(fuzzer.problems) > 20:
                break
        if not fuzzer.problems:
            cluster.wait(lambda: cluster.read(other)[0].state.is_terminal)
        fuzzer.check(other)
        state = cluster.read(other)[0].state.value
    print(json.dumps({"counts": fuzzer.counts, "state": state, "problems": fuzzer.problems}))


if __name__ == "__main__":
    main()
