"""The process of a master: its parts, its HTTP server, and the rule that a home has only one."""

import contextlib
import ctypes
import dataclasses
import functools
import gc
import logging
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Self

import fastapi

import quintain
from quintain import errors
from quintain.client.home import home as home_lib
from quintain.client.home import home_database, master_file
from quintain.client.http import unix_sockets
from quintain.cluster.agents import agent_launcher
from quintain.files import disk_errors
from quintain.master import master as master_lib
from quintain.master.cleanup import home_identity
from quintain.master.placing import slots as slots_lib
from quintain.master.processes import launch_tokens
from quintain.master.processes import launcher as launcher_lib
from quintain.records import process_identity
from quintain.records.rows import states
from quintain.records.views import master_status
from quintain.server import alerts, direct_calls
from quintain.server import app as app_lib
from quintain.server import launchers as launchers_lib
from quintain.server import tensorboards as tensorboards_lib
from quintain.server.feed import feed as feed_lib
from quintain.server.http import home_watch
from quintain.server.http import network as network_lib
from quintain.server.runs import run_index
from quintain.server.security import access
from quintain.server.security import sessions as sessions_lib
from quintain.server.security import sign_in as sign_in_lib
from quintain.store import store as store_lib
from quintain.web import http_server

logger = logging.getLogger(__name__)

_IDLE_CHECK_SECS: Final = 1.0
_DRAIN_POLL_SECS: Final = 0.1
_M_ARENA_MAX: Final = -8


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Settings of a master's process."""

    port: int = 0
    """Port to listen on; 0 for a free one."""

    is_embedded: bool = False
    """Whether it lives in a command that follows its own experiment."""

    launchers: launchers_lib.LauncherSettings = launchers_lib.LauncherSettings()
    """Where processes are started."""

    database: home_database.Database | None = None
    """Where experiments are kept; what the home says if None."""

    accept_new_database: bool = False
    """Whether the database becomes this home's even if it knows nothing of its checkpoints."""

    run_dirs: Sequence[str] = ()
    """Directories whose runs of `quintain train` its page shows."""

    allowed_hosts: Sequence[str] = ()
    """Names of proxies under which it is asked."""

    proxy: access.TrustedProxy | None = None
    """The proxy that names users in a header, if there is one."""

    network: network_lib.Network = network_lib.Network()
    """Where it listens, and whether it speaks TLS there."""


class MasterServer:
    """A master with its store, its launcher and its HTTP server, in threads of this process.

    Example:
        with daemon.MasterServer(home) as server:
            server.master.commands.create_experiment(...)
    """

    def __init__(
        self,
        home: home_lib.Home,
        *,
        slots: Sequence[slots_lib.Slot],
        launcher: launcher_lib.Launcher | None = None,
        settings: ServerSettings | None = None,
    ) -> None:
        """Stores its settings.

        Args:
            home: The home directory.
            slots: What trials may use.
            launcher: Starts processes, and is closed with the server; one that is built as
                `settings.launchers` says if None.
            settings: How it listens, and what it keeps where; the defaults if None.
        """
        self._home = home
        self._slots = tuple(slots)
        self._launcher = launcher
        self._settings = settings or ServerSettings()
        self._parts = contextlib.ExitStack()
        self._stop_request = threading.Event()
        self._is_stopping = threading.Event()
        self._drains = True
        self._kills = False
        self._loss = ""

    def __enter__(self) -> Self:
        """Starts everything.

        Raises:
            MasterRunningError: If another master runs for this home directory; the message has
                its number.
        """
        with contextlib.ExitStack() as parts:
            self._start(parts)
            self._parts = parts.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops everything. Processes of trials go on unless `kill_on_exit` was called."""
        self._parts.close()

    @property
    def calls(self) -> direct_calls.DirectCalls:
        """Read interface of users, without HTTP."""
        return self._calls

    @property
    def master(self) -> master_lib.Master:
        """The master."""
        return self._master

    @property
    def url(self) -> str:
        """Address over TCP, as browsers take it."""
        return self._url

    @property
    def fingerprint(self) -> str:
        """SHA-256 of its certificate; empty if it speaks plain text."""
        return self._fingerprint

    @property
    def run_dirs(self) -> tuple[str, ...]:
        """Directories whose runs its page shows, as far as they are still there."""
        runs: run_index.RunIndex = self._app.state.parts.runs
        return tuple(str(path) for path in runs.directories if path.is_dir())

    @property
    def sign_in(self) -> sign_in_lib.SignIn:
        """Makes links to the page."""
        return self._sign_in

    @property
    def file(self) -> master_file.MasterFile:
        """Content of master.json."""
        return self._file

    def request_stop(self, drain: bool = True) -> None:
        """Makes `wait` return.

        Args:
            drain: Whether trials are to finish their workload and save themselves.
        """
        self._drains = drain
        self._stop_request.set()

    @property
    def is_stop_requested(self) -> bool:
        """True if somebody asked to stop."""
        return self._stop_request.is_set()

    def drain(self) -> None:
        """Lets all trials save themselves and end, unless somebody asks to stop at once.

        Their experiments go on when the next master starts.
        """
        found, active = self._master.summary().experiments, states.ExperimentState.ACTIVE
        content = {"experiments": [each.experiment_id for each in found if each.state is active]}
        try:
            home_lib.write_private(self._home.resume_file, content)
        except OSError as error:  # A full disk keeps experiments from being paused as well.
            text = disk_errors.explain(error) or str(error)
            logger.warning("Trials do not save themselves; the next master takes over: %s", text)
            return
        draining = threading.Thread(target=self._master.drain, name="quintain-drain", daemon=True)
        draining.start()
        while draining.is_alive() and self._drains:
            draining.join(_DRAIN_POLL_SECS)

    def kill_on_exit(self) -> None:
        """Makes the end of the server end all processes of trials."""
        self._kills = True

    def wait(self, *, idle_timeout_secs: float | None = None) -> bool:
        """Waits until somebody asks to stop, and returns whether trials are to be drained.

        Args:
            idle_timeout_secs: Stop after so many seconds in which no experiment was active and
                nobody had the page open; never if None.

        Raises:
            StoreError: If another master has taken over the database.
        """
        idle_since_secs = time.monotonic()
        # In pieces, because signals are handled between two of them only.
        while not self._stop_request.wait(_IDLE_CHECK_SECS):
            if idle_timeout_secs is None:
                continue
            if self.has_work() or self._sign_in.is_page_open:
                idle_since_secs = time.monotonic()
            elif time.monotonic() - idle_since_secs > idle_timeout_secs:
                logger.info("Nothing to do for %.0f s; the master ends.", idle_timeout_secs)
                return True
        self.check()
        return self._drains

    def check(self) -> None:
        """Makes sure that the database is this master's.

        Raises:
            StoreError: If another master has taken it over.
        """
        if self._loss:
            raise errors.StoreError(self._loss)

    def _note_loss(self, loss: str) -> None:
        """Ends at once: trials are the other master's now."""
        logger.error("%s", loss)
        self._loss = loss
        self.request_stop(drain=False)

    def has_work(self) -> bool:
        """Returns whether an experiment is active, or has processes that still end."""
        return any(
            status.state is states.ExperimentState.ACTIVE
            or status.state.is_stopping
            or status.num_running
            for status in self._master.summary().experiments
        )

    def _start(self, parts: contextlib.ExitStack) -> None:
        settings = self._settings
        _share_arena()
        parts.enter_context(home_lib.write_privately())
        self._home.create()
        lock = parts.enter_context(home_watch.hold_lock(self._home))
        former_port, launch_key = _read_secrets(self._home)
        # A new one each time: what a former master's users have seen is worth nothing now.
        token = secrets.token_urlsafe(32)
        listener = parts.enter_context(
            network_lib.listen(
                settings.network, self._home, port=settings.port, former_port=former_port
            )
        )
        local_listener = parts.enter_context(
            contextlib.closing(unix_sockets.listen(self._home.socket))
        )
        _write_secrets(self._home, listener.port, launch_key)
        self._url, self._fingerprint = listener.url, listener.fingerprint
        sessions = sessions_lib.Sessions.load(
            self._home.sessions_file,
            port=listener.port,
            read_token=self._home.user_tokens.read,
        )
        self._sign_in = sign_in_lib.SignIn(
            self._url, sessions, hosts=settings.allowed_hosts, own_hosts=listener.hosts
        )
        database = settings.database or self._home.database
        store = parts.enter_context(
            _open_store(
                self._home,
                database,
                self._note_loss,
                accept_new_database=settings.accept_new_database,
            )
        )
        self._place = store.place
        launcher = self._launcher or launchers_lib.build(
            settings.launchers, self._home, store, has_slots=bool(self._slots)
        )
        parts.callback(lambda: launcher.close(kill=self._kills))
        identity = process_identity.find(os.getpid())
        assert identity is not None
        self._file = master_file.MasterFile(self._home.address, token, identity.pid, identity.mark)
        self._start_time = identity.start_time
        self._master = master_lib.Master(
            store,
            launcher,
            self._slots,
            self._home.path,
            address=self._home.address,
            launch_key=launch_key,
            accept_new_database=settings.accept_new_database,
        )
        told = self._master.recent_status, self._master.summary, self._master.describe
        self._calls = direct_calls.DirectCalls(store, self._home, *told)
        # The sockets listen already: who asks before the master has recovered is answered then.
        self._master.start()
        parts.callback(self._master.stop)
        home_database.bind(self._home.path, database)
        self._resume()
        parts.enter_context(alerts.Alerts(store, self._home))
        self._tensorboards = tensorboards_lib.TensorBoards(self._home)
        parts.callback(self._tensorboards.close)
        feed = feed_lib.Feed(store, self._master.told_status)
        agents = launchers_lib.find_agents(launcher)
        self._app = self._build_app(launch_key, feed, agents)
        gc.freeze()  # Nobody waits for a search for garbage in what was imported.
        # Before the first answer: who waited with the former master's token finds the new one.
        forget = functools.partial(home_lib.remove_master, self._home, identity.pid)
        parts.callback(forget)
        master_file.write(self._home.path, self._file)
        parts.enter_context(
            http_server.serve(self._app, listener.socket, local_listener, tls=listener.tls)
        )
        parts.enter_context(home_watch.HomeWatch(self._home, lock, on_loss=self._note_loss))
        # It ends first, and with it the answers that go on for ever.
        parts.enter_context(feed)
        if agents is not None:
            parts.callback(agents.release)
        launchers_lib.join(launcher, self._home, url=self._url, fingerprint=self._fingerprint)
        parts.callback(self._is_stopping.set)
        parts.callback(forget)

    def _resume(self) -> None:
        """Goes on with the experiments that the master before has drained."""
        content = home_lib.read_own(self._home.resume_file)
        found = content.get("experiments") if isinstance(content, dict) else []
        if not isinstance(found, list):
            found = []
        if content is None and self._home.resume_file.exists():
            logger.warning(
                "Which experiments the former master has paused is not known any more; `quintain "
                "experiment activate ID` goes on with one."
            )
        for experiment_id in found:
            with contextlib.suppress(errors.StateError, errors.NotFoundError):
                if self._calls.get_experiment(experiment_id).state is states.ExperimentState.PAUSED:
                    self._master.commands.apply(experiment_id, "activate")
        self._home.resume_file.unlink(missing_ok=True)

    def _build_app(
        self,
        launch_key: launch_tokens.LaunchKey,
        feed: feed_lib.Feed,
        agents: agent_launcher.AgentLauncher | None,
    ) -> fastapi.FastAPI:
        info = master_status.MasterInfo(
            version=quintain.__version__,
            home=str(self._home.path),
            url=self._url,
            pid=self._file.pid,
            start_time=self._start_time,
            is_embedded=self._settings.is_embedded,
            run_dirs=tuple(self._settings.run_dirs),
            fingerprint=self._fingerprint,
            database=self._place,
        )
        return app_lib.build_app(
            self._calls,
            self._master,
            info,
            token=self._file.token,
            launch_key=launch_key,
            stop=self.request_stop,
            is_stopping=self._is_stopping.is_set,
            services=app_lib.Services(
                self._sign_in, feed, agents, self._tensorboards, self._settings.proxy
            ),
        )


@contextlib.contextmanager
def _open_store(
    home: home_lib.Home,
    database: home_database.Database,
    on_loss: Callable[[str], None],
    *,
    accept_new_database: bool,
) -> Iterator[store_lib.Store]:
    """Gives the store of a home's master, who is its only one.

    Processes that are started meanwhile don't inherit what opens it.

    Args:
        home: The home directory.
        database: What to open.
        on_loss: Is told, from any thread, why this is not its only master any more.
        accept_new_database: Whether the home may leave the database that it had, though never for
            that of another home.

    Raises:
        StateError: If the home has another database, or the database another home.
        StoreError: If it can't be opened, or has a master.
    """
    store = store_lib.open_store(database)
    try:
        problem = home_identity.find_rebinding(home.path, database, store)
        with store.reading() as session:
            is_foreign = home_identity.is_foreign(home.path, session.get_home_id())
        if problem and is_foreign:
            raise errors.StateError(f"{problem} Nothing was started.")
        if problem and not accept_new_database:
            raise errors.StateError(
                f"{problem} Nothing was started. To leave what is there, and go on with this one: "
                "`quintain master start --new-database`."
            )
        store.hold(on_loss)
        with home_database.hidden_from_children(database):
            yield store
    finally:
        store.close()


def find_slots(num_slots: int | None, threads_per_slot: int | None) -> list[slots_lib.Slot]:
    """Returns the slots of this machine.

    Args:
        num_slots: How many; what the machine has if None.
        threads_per_slot: CPU threads of each; an equal share if None.
    """
    return list(slots_lib.find_slots(num_slots, threads_per_slot))


def _share_arena() -> None:
    """Lets all threads take memory from one place, where the library (glibc) can.

    Otherwise each of up to eight threads a core has a place of its own, and what one of them has
    freed is not used by the others. Threads wait for the interpreter anyway.
    """
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError):  # Other libraries have no such setting.
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def _read_secrets(home: home_lib.Home) -> tuple[int, launch_tokens.LaunchKey]:
    """Returns the port of the master before, and the key of its processes' tokens.

    They are new if there are none that can be read. Processes of the former master can't say then
    whose they are; their trials go back to their last checkpoints.
    """
    content = home_lib.read_own(home.server_file)
    try:
        return int(content["port"]), launch_tokens.LaunchKey.from_text(content["launch_key"])
    except (ValueError, TypeError, KeyError):
        return 0, launch_tokens.LaunchKey.generate()


def _write_secrets(home: home_lib.Home, port: int, launch_key: launch_tokens.LaunchKey) -> None:
    home_lib.write_private(home.server_file, {"port": port, "launch_key": launch_key.to_text()})
