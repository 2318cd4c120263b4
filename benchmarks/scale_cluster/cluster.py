"""Machines that only pretend: agents without processes, as the master sees them."""

import asyncio
import random
import time
from typing import Any

from scale_cluster import http_pool, processes

from quintain.cluster.agents import agent_protocol
from quintain.records.rows import slot

_GONE = 410


class Cluster:
    """Machines whose agents and processes are tasks of this event loop.

    Attributes:
        num_running: Processes that are there.
        num_trained: Trainings that have begun.
        num_ended: Processes that have ended.
        pauses: Seconds between the exit of a process and the start of the next one on its slot.
        num_repeated: Processes of trials that had been started before.
        num_unwanted: Processes that were told that nobody wants them.
        num_sessions: Times that machines have registered.
        refusal: What the master refused of what a process said; empty if nothing.
    """

    def __init__(self, url: str, token: str, *, secs: float, draw: random.Random) -> None:
        """Stores where the master is, and for how many seconds a training is to take."""
        self.url = url
        self.secs = secs
        self.draw = draw
        self.num_running = 0
        self.num_trained = 0
        self.num_ended = 0
        self.pauses: list[float] = []
        self.num_repeated = self.num_unwanted = self.num_sessions = 0
        self.refusal = ""
        self._seen: set[int] = set()
        self._token = token
        self._tasks: list[asyncio.Task[None]] = []

    async def join(self, num_nodes: int, num_slots: int) -> None:
        """Registers machines, a hundred at a time."""
        joining = asyncio.Semaphore(100)

        async def register(number: int) -> None:
            agent = Agent(self, number, num_slots, self._token)
            async with joining:
                await agent.register()
            self._tasks += [asyncio.create_task(agent.take_orders())]
            self._tasks += [asyncio.create_task(agent.report())]

        await asyncio.gather(*(register(number) for number in range(num_nodes)))

    def note_training(self) -> None:
        """Counts a training that begins."""
        self.num_trained += 1

    def note_start(self, trial_id: int) -> None:
        """Counts a process that starts."""
        self.num_running += 1
        self.num_repeated += trial_id in self._seen
        self._seen.add(trial_id)

    def note_end(self, *, is_wanted: bool) -> None:
        """Counts a process that ends."""
        self.num_running -= 1
        self.num_ended += 1
        self.num_unwanted += not is_wanted

    async def leave(self) -> None:
        """Ends all at once."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Agent:
    """One machine."""

    def __init__(self, cluster: Cluster, number: int, num_slots: int, token: str) -> None:
        """Makes the two connections that an agent has."""
        self._cluster = cluster
        self._name = f"node-{number}"
        self._address = f"127.1.{number // 250}.{number % 250 + 1}"
        self._path = f"{agent_protocol.PATH}/{self._name}"
        self._slots = tuple(slot.Slot(number, num_threads=1) for number in range(num_slots))
        self._orders = http_pool.Client(cluster.url, token, self._address)
        self._reports = http_pool.Client(cluster.url, token, self._address)
        self._welcome: dict[str, Any] = {}
        self._held: dict[str, agent_protocol.Exit | None] = {}
        self._last_report = 0
        self._started: list[str] = []
        self._exits: list[agent_protocol.Exit] = []
        self._freed: dict[int, float] = {}
        self._seen: set[int] = set()
        self._processes: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()

    async def register(self) -> None:
        """Begins a session, and says which processes there are."""
        hello = agent_protocol.Hello(
            name=self._name,
            agent_id=self._name,
            place=self._name,
            slots=self._slots,
            launches=tuple(self._held),
        )
        status, self._welcome = await self._orders.ask(
            "PUT", self._path, agent_protocol.to_plain(hello)
        )
        assert status == 200, self._welcome
        self._cluster.num_sessions += 1
        self._last_report = 0
        self._started = []
        self._exits = [each for each in self._held.values() if each is not None]
        self._wake.set()

    async def take_orders(self) -> None:
        """Carries out what the master orders; registers again with the next master."""
        done, session = 0, ""
        while True:
            if session != self._welcome["session"]:
                done, session = 0, self._welcome["session"]
            query = f"session={session}&after={done}&wait={self._welcome['wait_secs']}"
            status, orders = await self._orders.ask("GET", f"{self._path}/orders?{query}")
            if status == _GONE:
                await self.register()
                continue
            if status != 200:
                await asyncio.sleep(1.0)
                continue
            for order in orders["orders"]:
                done = max(done, order["number"])
                if order["kind"] == agent_protocol.OrderKind.DROP:
                    self._held.pop(order["launch_id"], None)
                if order["kind"] == agent_protocol.OrderKind.START:
                    self._held[order["launch_id"]] = None
                    task = asyncio.create_task(self._run(order))
                    self._processes.add(task)
                    task.add_done_callback(self._processes.discard)

    async def report(self) -> None:
        """Tells which processes have started and ended, as agents do: at once."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            if not (self._started or self._exits):
                continue
            session, self._last_report = self._welcome["session"], self._last_report + 1
            report = agent_protocol.Report(
                self._last_report, started=tuple(self._started), exits=tuple(self._exits)
            )
            self._started, self._exits = [], []
            path = f"{self._path}/reports?session={session}"
            plain = agent_protocol.to_plain(report)
            # The next session begins with all that is told here.
            while (
                session == self._welcome["session"]
                and (await self._reports.ask("POST", path, plain))[0] >= 400
            ):
                await asyncio.sleep(1.0)

    async def _run(self, order: dict[str, Any]) -> None:
        launch = order["launch"] | {"launch_id": order["launch_id"]}
        number = launch["slots"][0]["id"]
        if number in self._freed:
            self._cluster.pauses.append(time.monotonic() - self._freed.pop(number))
        first = number not in self._seen
        self._seen.add(number)
        self._cluster.note_start(launch["trial_id"])
        self._started.append(order["launch_id"])
        self._wake.set()
        cluster = self._cluster
        try:
            is_wanted = await processes.run(
                cluster.url,
                self._address,
                launch,
                secs=cluster.secs,
                draw=cluster.draw,
                first=first,
                note_training=cluster.note_training,
            )
        except processes.RefusedError as error:
            cluster.refusal = str(error)
            return
        cluster.note_end(is_wanted=is_wanted)
        self._freed[number] = time.monotonic()
        ended = self._held[order["launch_id"]] = agent_protocol.Exit(order["launch_id"], 0)
        self._exits.append(ended)
        self._wake.set()
