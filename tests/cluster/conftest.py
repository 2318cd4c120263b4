"""A machine whose processes are only pretended, agents of it, and the master's side of them."""

import contextlib
import threading
import time

import pytest

from quintain import errors
from quintain.client import address as address_lib
from quintain.cluster.agents import agent_directory, agent_launcher, node_agent
from quintain.master.processes import launcher as launcher_lib
from quintain.master.processes import process_files
from quintain.records import process_identity
from quintain.records.rows import log, slot, trial
from quintain.testing import idle_launcher

DEADLINE_SECS = 60.0


class Machine:
    """Processes that go on whatever happens to agents, as those of supervisors do."""

    def __init__(self):
        self.started = []
        self.killed = []
        self.alive = {}
        self.fails_to_start = ""
        self.may_start = threading.Event()
        self.may_start.set()

    def write(self, launch_id, *texts):
        files = self.alive[launch_id]
        with open(files.log_path, "a", encoding="utf-8") as file:
            for text in texts:
                file.write(f'[1.5, "stdout", "{text}"]\n')

    def end(self, launch_id, *, exit_code=None, signal=None):
        self.alive.pop(launch_id).write_exit(process_files.Exit(exit_code, signal, ("last",)))


class Processes:
    """What an agent starts processes by: one for each agent, all of the same machine."""

    def __init__(self, machine):
        self.machine = machine
        self.watched = {}

    def start(self, launch):
        machine = self.machine
        machine.may_start.wait(DEADLINE_SECS)
        if machine.fails_to_start:
            raise errors.ClusterError(machine.fails_to_start)
        files = process_files.ProcessFiles(launch.scratch_dir, launch.launch_id)
        files.make_directory()
        machine.started.append(launch)
        machine.alive[launch.launch_id] = self.watched[launch.launch_id] = files
        return trial.ProcessIdentity(len(machine.started), 1.0, launch.launch_id, "mark")

    def adopt(self, launch_id, trial_id, identity, scratch_dir):
        files = process_files.ProcessFiles(scratch_dir, launch_id)
        self.watched[launch_id] = files
        return launch_id in self.machine.alive or files.read_exit() is not None

    def kill(self, launch_id):
        if launch_id in self.machine.alive:
            self.machine.killed.append(launch_id)
            self.machine.end(launch_id, signal=15)

    def poll_ended(self):
        exits = []
        for launch_id, files in list(self.watched.items()):
            if (found := files.read_exit()) is not None:
                del self.watched[launch_id]
                exits.append(
                    launcher_lib.ProcessExit(
                        launch_id, 0, found.exit_code, found.signal, found.last_lines
                    )
                )
        return exits

    def release(self, launch_id):
        assert launch_id not in self.watched

    def close(self, *, kill):
        assert not kill


class Network:
    """What is between agents and the master."""

    def __init__(self):
        self.is_down = False
        self.refusal = None
        self.num_lost_answers = 0

    @contextlib.contextmanager
    def carry(self):
        if self.is_down:
            raise errors.MasterUnreachableError("the network is down")
        if self.refusal is not None:
            raise self.refusal
        yield
        if self.is_down or self.num_lost_answers > 0:
            self.num_lost_answers -= 1
            raise errors.MasterUnreachableError("the answer was lost")


class DirectClient:
    """An `AgentClient` without HTTP."""

    address = address_lib.Address("https://seen-from-here:1", "agents", "ab")

    def __init__(self, cluster, name):
        self.cluster = cluster
        self.name = name

    def register(self, hello):
        with self.cluster.network.carry():
            return self.cluster.master.register(hello)

    def find_orders(self, session, *, after, kept, wait_secs):
        woken = threading.Event()
        master = self.cluster.master
        self.cluster.num_asked += 1
        with self.cluster.network.carry(), master.waker_registered(self.name, woken.set):
            found = master.find_orders(self.name, session, after=after, kept=kept)
            if found is None and woken.wait(0.2):
                found = master.find_orders(self.name, session, after=after, kept=kept)
            return found or node_agent.agent_protocol.Orders(kept=kept)

    def report(self, session, report):
        with self.cluster.network.carry():
            self.cluster.master.receive(self.name, session, report)

    def leave(self, session):
        with self.cluster.network.carry():
            self.cluster.master.leave(self.name, session)


class Cluster:
    """A master's launcher, and agents in threads."""

    def __init__(self, path):
        self.path = path
        self.network = Network()
        self.machines = {}
        self.agents = {}
        self.secs = 1000.0
        self.num_asked = 0
        self.exits = []
        self.rows = []
        self.restart_master()

    def restart_master(self, **options):
        self.master = agent_launcher.AgentLauncher(
            idle_launcher.IdleLauncher(), clock=lambda: self.secs, **options
        )

    def join(self, name="one", *, num_slots=2, labels=None, waits=True, **others):
        machine = self.machines.setdefault(name, Machine())
        directory = agent_directory.AgentDirectory(self.path / name)
        settings = node_agent.AgentSettings(
            name,
            tuple(slot.Slot(number, num_threads=1) for number in range(num_slots)),
            labels or {},
            {"QUINTAIN_MASTER": "https://master:1"},
            **others,
        )
        made = node_agent.NodeAgent(
            DirectClient(self, name), Processes(machine), directory, settings
        )
        raised = []

        def run():
            try:
                with directory.hold():
                    made.run()
            except errors.QuintainError as error:
                raised.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        made.thread, made.raised = thread, raised
        self.agents[name] = made
        if waits:
            self.wait(lambda: self.find_state(name) == "ACTIVE")
        return machine

    def kill_agent(self, name="one"):
        """Ends an agent without a word, as `kill -9` does."""
        self.agents[name].stop()
        self.agents[name].thread.join(DEADLINE_SECS)

    def launch(self, launch_id, trial_id=7, node="one"):
        return self.master.start(
            launcher_lib.LaunchRequest(
                launch_id=launch_id,
                trial_id=trial_id,
                experiment_id=3,
                slots=(slot.Slot(5, num_threads=1, node=node),),
                environment={"QUINTAIN_MASTER": "unix:/home", "QUINTAIN_TOKEN": "secret"},
                scratch_dir="/nowhere",
                node=node,
            )
        )

    def find_state(self, name="one"):
        found = {node.name: node.state.value for node in self.master.list_nodes()}
        return found.get(name)

    def tick(self):
        """Does what the scheduler does, which keeps lines before it takes exits."""
        exits = self.master.poll()
        self.rows += self.master.read_logs()
        for ended in exits:
            self.exits.append((ended, [row.text for row in self.rows]))
            self.master.forget(ended.launch_id)

    def wait(self, condition, *, ticks=True):
        """Waits for something, while the scheduler goes on or stands still."""
        deadline = time.monotonic() + DEADLINE_SECS
        while not condition():
            assert time.monotonic() < deadline, (self.exits, self.rows, self.machines)
            if ticks:
                self.tick()
            time.sleep(0.01)

    def wait_for_exits(self, count=1):
        self.wait(lambda: len(self.exits) == count)
        return self.exits[-1][0]

    @property
    def texts(self):
        return [row.text for row in self.rows if row.source is log.LogSource.STDOUT]

    def close(self):
        for made in self.agents.values():
            made.stop()
        for made in self.agents.values():
            made.thread.join(DEADLINE_SECS)


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    monkeypatch.setattr(node_agent, "_PAUSE_SECS", 0.02)
    monkeypatch.setattr(node_agent, "_FAREWELL_SECS", 0.1)
    monkeypatch.setattr(process_identity, "is_alive", lambda identity: False)
    made = Cluster(tmp_path)
    yield made
    made.close()
