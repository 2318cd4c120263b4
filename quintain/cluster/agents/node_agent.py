"""Agent of a machine: starts, watches and ends processes as the master orders.

It connects to the master, never the other way round. It may be killed at any time, as the master
may be: processes go on, and the next agent of the same directory takes them over.
"""

import contextlib
import dataclasses
import logging
import threading
import time
from collections.abc import Mapping
from typing import Final

from quintain import errors
from quintain.cluster.agents import agent_client, agent_directory, agent_launches, agent_protocol
from quintain.master.processes import process_launcher, usage_meter
from quintain.records import process_identity
from quintain.records.rows import slot

logger = logging.getLogger(__name__)

PATIENCE_SECS: Final = 3600.0
"""An agent whose master is away for so long ends; its trials do so as well."""

FORK_SERVER_SECS: Final = 600.0
"""For so long after its last trial an agent keeps the process that trials are forked from, which
has imported TensorFlow and takes some 600 MB."""

_TICK_SECS: Final = 0.05
_PAUSE_SECS: Final = 1.0
"""Pause after the master did not answer. The connection has tried several times itself."""

_FAREWELL_SECS: Final = 1.0
"""So long after it is known that the agent leaves may the master still have sent a start."""

_SILENCE: Final = 1.5
"""So many times the longest wait for orders passes without a word to the master."""

_MEASURE_SECS: Final = 2.0
"""How often it is looked whether it is due to measure a process."""

_COMPLAINT_SECS: Final = 5.0
"""When the log says first that the master is away."""

_RIVAL_SECS: Final = 90.0
"""For so long an agent waits for another one of its name to be given up."""


@dataclasses.dataclass(frozen=True)
class AgentSettings:
    """Settings of an agent."""

    name: str
    """Name of the machine."""

    slots: tuple[slot.Slot, ...]
    """Shares of the machine, numbered from 0."""

    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """What experiments choose machines by."""

    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Variables of its processes that replace what the master says."""

    patience_secs: float = PATIENCE_SECS
    """The agent ends if the master is away for longer."""

    idle_patience_secs: float = PATIENCE_SECS
    """The same for an agent that has no processes: less for one that the next master starts."""

    is_told_address: bool = False
    """Whether somebody tells the agent where the master is and which certificate it has, so that
    it waits for that if another one is shown."""


class NodeAgent:
    """The agent of a machine.

    Args:
        client: Asks the master.
        launcher: Starts and ends processes of this machine; closed by `run`.
        directory: Where the agent keeps what the next one has to know; held by the caller.
        settings: What it is.
    """

    def __init__(
        self,
        client: agent_client.AgentClient,
        launcher: process_launcher.ProcessLauncher,
        directory: agent_directory.AgentDirectory,
        settings: AgentSettings,
    ) -> None:
        self._client = client
        self._launcher = launcher
        self._directory = directory
        self._settings = settings
        self._held = agent_launches.AgentLaunches(launcher, directory, settings.name)
        self._wake = threading.Event()
        self._orders_lock = threading.Lock()
        self._session: _Session | None = None
        self._drain_reason = ""
        self._is_ended = False
        self._heard_secs, self._next_complaint_secs = 0.0, _COMPLAINT_SECS
        self._trouble: errors.QuintainError | None = None

    def drain(self, reason: str) -> None:
        """Lets the trials save themselves, and then ends the agent."""
        self._drain_reason = self._drain_reason or reason
        self._wake.set()

    def stop(self) -> None:
        """Ends the agent at once, and leaves its processes to the next one."""
        self._is_ended = True
        self._wake.set()

    def run(self) -> None:
        """Does what the master orders, until the agent is asked to end.

        Raises:
            ConfigError: If the master is of another version.
            MasterUnreachableError: If the master is away for too long.
            StateError: If another agent of this name is there.
            UnauthorizedError: If the token is not that of the master's agents.
            UntrustedMasterError: If another certificate is shown than that of the master.
        """
        self._heard_secs = time.monotonic()
        self._held.adopt_all()
        try:
            while not self._is_ended:
                session = self._register()
                if session is not None and self._serve(session):
                    return
        finally:
            self._session = None
            self._launcher.close(kill=False)

    def _register(self) -> "_Session | None":
        """Begins a session; returns None if the agent is to end first."""
        began_secs, is_told = time.monotonic(), False
        while not self._is_ended:
            try:
                with self._orders_lock:
                    self._session = None
                    welcome = self._client.register(self._build_hello())
                    self._held.begin_session(welcome.offsets)
                    self._session = _Session(welcome)
            except (errors.ClusterError, errors.StoreError) as error:
                self._check_patience(error)
            except errors.StateError as error:
                if time.monotonic() - began_secs > _RIVAL_SECS:
                    raise
                if not is_told:
                    is_told = True
                    logger.warning("%s Waiting for %.0f s.", error, _RIVAL_SECS)
            else:
                self._note_answer()
                return self._session
            self._await_master()
        return None

    def _await_master(self) -> None:
        """Waits before the master is asked again; an agent without anything to tell need not."""
        self._held.watch(is_leaving=bool(self._drain_reason))
        if self._drain_reason and self._held.is_idle:
            self._is_ended = True
        self._pause()

    def _serve(self, session: "_Session") -> bool:
        """Works until the session ends; returns whether the agent is done."""
        for work in (self._take_orders, self._keep_heard):
            threading.Thread(
                target=work, args=(session,), name=f"quintain{work.__name__}", daemon=True
            ).start()
        try:
            while not self._is_ended:
                if self._session is not session:
                    return False
                self._check_patience(self._trouble)
                self._send_report(session)
                if self._may_leave(session):
                    with contextlib.suppress(errors.MasterUnreachableError):
                        self._client.leave(session.id)
                    return True
                self._wake.wait(_TICK_SECS)
                self._wake.clear()
        except errors.GoneError:
            logger.info("The session has ended; a new one begins.")
            return False
        return True

    def _send_report(self, session: "_Session") -> None:
        """Tells what has happened, if anything has; tries again until the master has it.

        Raises:
            GoneError: If the session has ended.
        """
        report = self._build_report(session)
        while report is not None and not self._is_ended:
            try:
                self._client.report(session.id, report)
            except (errors.ClusterError, errors.StoreError) as error:
                self._check_patience(error)
                self._await_master()
            else:
                self._note_answer()
                if report.draining and session.drain_told_secs is None:
                    session.drain_told_secs = time.monotonic()
                return

    def _build_report(self, session: "_Session") -> agent_protocol.Report | None:
        self._held.watch(is_leaving=bool(self._drain_reason))
        now_secs = time.monotonic()
        is_log_due = now_secs >= session.next_log_secs
        if is_log_due:
            session.next_log_secs = now_secs + session.welcome.log_secs
        number = session.num_reports + 1
        lines, offsets = self._held.take_lines(number, only_ended=not is_log_due)
        report = agent_protocol.Report(
            number=number,
            started=self._held.take_started(),
            lines=tuple(lines),
            offsets=offsets,
            exits=self._held.take_exits(),
            usage=session.measure(self._held),
            draining=self._drain_reason,
        )
        is_drain_new = bool(self._drain_reason) and session.drain_told_secs is None
        has_news = report.started or offsets or report.exits or report.usage
        if not (has_news or is_drain_new):
            return None
        session.num_reports = number
        return report

    def _may_leave(self, session: "_Session") -> bool:
        told_secs = session.drain_told_secs
        if told_secs is None or time.monotonic() - told_secs < _FAREWELL_SECS:
            return False
        with self._orders_lock:
            return self._held.is_idle

    def _take_orders(self, session: "_Session") -> None:
        """Carries out orders until the session ends; runs in a thread of its own."""
        kept = 0
        while self._session is session and not self._is_ended:
            try:
                found = self._client.find_orders(
                    session.id, after=session.done, kept=kept, wait_secs=session.welcome.wait_secs
                )
            except errors.GoneError:
                with self._orders_lock:
                    self._session = None if self._session is session else self._session
                break
            except errors.QuintainError as error:
                self._trouble = error
                time.sleep(_PAUSE_SECS)
                continue
            self._note_answer()
            kept = found.kept
            self._held.note_kept(kept)
            for order in found.orders:
                # What an ended session has ordered is ordered again by the next one, or not at all.
                with self._orders_lock:
                    if self._session is not session or self._is_ended:
                        return
                    self._carry_out(order)
                session.done = order.number
            self._wake.set()

    def _keep_heard(self, session: "_Session") -> None:
        """Lets the master hear of the agent while a process takes long to start.

        Orders and reports may have to wait then. Runs in a thread of its own.
        """
        most_secs = _SILENCE * session.welcome.wait_secs
        while self._session is session and not self._is_ended:
            left_secs = most_secs - (time.monotonic() - self._heard_secs)
            if left_secs > 0:
                time.sleep(min(left_secs, _PAUSE_SECS))
                continue
            try:
                self._client.find_orders(session.id, after=session.done, kept=0, wait_secs=0.0)
            except errors.QuintainError as error:
                logger.debug("Not heard: %s", error)
                time.sleep(_PAUSE_SECS)
            else:
                self._note_answer()

    def _carry_out(self, order: agent_protocol.Order) -> None:
        if order.kind is agent_protocol.OrderKind.KILL:
            self._held.kill(order.launch_id)
        elif order.kind is agent_protocol.OrderKind.DROP:
            self._held.drop(order.launch_id)
        elif order.launch is not None:
            new = order.launch
            if self._drain_reason:
                reason = f"The machine is about to leave: {self._drain_reason}"
                self._held.refuse(order.launch_id, new.trial_id, reason)
                return
            scratch_dir = str(self._directory.scratch_dir(order.launch_id))
            # What the master is called on its own machine may be nothing here.
            address = self._client.address
            own = {
                **self._settings.environment,
                "QUINTAIN_MASTER": address.url,
                "QUINTAIN_FINGERPRINT": address.fingerprint,
                "QUINTAIN_CACHE": str(self._directory.path),
                "QUINTAIN_SCRATCH": scratch_dir,
                "QUINTAIN_NODE": self._settings.name,
            }
            environment = {**new.environment, **own}
            self._held.start(
                dataclasses.replace(new, environment=environment, scratch_dir=scratch_dir)
            )
            self._wake.set()

    def _build_hello(self) -> agent_protocol.Hello:
        return agent_protocol.Hello(
            name=self._settings.name,
            agent_id=self._directory.find_id(),
            place=process_identity.find_place(),
            slots=self._settings.slots,
            labels=self._settings.labels,
            launches=self._held.list_names(),
            draining=self._drain_reason,
        )

    def _pause(self) -> None:
        # Who asks it to end need not wait.
        if self._wake.wait(_PAUSE_SECS):
            self._wake.clear()

    def _note_answer(self) -> None:
        self._heard_secs, self._next_complaint_secs = time.monotonic(), _COMPLAINT_SECS
        self._trouble = None

    def _check_patience(self, error: errors.QuintainError | None) -> None:
        """Raises an error if the master was away for too long, or waiting does not help."""
        settings = self._settings
        if isinstance(error, errors.UnauthorizedError) or (
            isinstance(error, errors.UntrustedMasterError) and not settings.is_told_address
        ):
            raise error
        silent_secs = time.monotonic() - self._heard_secs
        has_processes = bool(self._held.list_running())
        if silent_secs > (settings.patience_secs if has_processes else settings.idle_patience_secs):
            raise error or errors.MasterUnreachableError(
                f"The master has been away for {silent_secs:.0f} s."
            )
        if error is not None and silent_secs >= self._next_complaint_secs:
            self._next_complaint_secs *= 2.0
            logger.warning("The master has been away for %.0f s: %s", silent_secs, error)


@dataclasses.dataclass
class _Session:
    """A session with the master."""

    welcome: agent_protocol.Welcome
    done: int = 0
    """Number of the last order that was carried out."""
    num_reports: int = 0
    next_log_secs: float = 0.0
    drain_told_secs: float | None = None
    next_measure_secs: float = 0.0

    def __post_init__(self) -> None:
        self._meter = usage_meter.UsageMeter(sample_secs=self.welcome.usage_secs)

    def measure(self, held: agent_launches.AgentLaunches) -> dict[str, dict[str, float]]:
        """Returns what processes use, where it is due."""
        now_secs = time.monotonic()
        if now_secs < self.next_measure_secs:
            return {}
        self.next_measure_secs = now_secs + _MEASURE_SECS
        return self._meter.measure(held.list_running())

    @property
    def id(self) -> str:
        """Name of the session, which each request carries."""
        return self.welcome.session
