"""Master's handle on the process that is connected to a Ray cluster."""

import dataclasses
import json
import logging
import pathlib
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import IO, Any, Final

from quintain import errors
from quintain.client import address as address_lib
from quintain.cluster.ray import ray_messages

logger = logging.getLogger(__name__)

_CONNECT_SECS: Final = 60.0
_LEAVE_SECS: Final = 10.0
_PAUSE_SECS: Final = 2.0
_MOST_PAUSE_SECS: Final = 30.0
_MOST_LOG_BYTES: Final = 2**24


class RayProcess:
    """A `ray_watcher`. It is started again when it dies, or when the cluster was away.

    Args:
        settings: The cluster, and what its agents are to be like.
        log_path: File for what Ray says.
        take: Called with the news of the nodes, in a thread of its own.
    """

    def __init__(
        self,
        settings: ray_messages.Settings,
        log_path: pathlib.Path,
        take: Callable[[list[ray_messages.NodeNews]], None],
    ) -> None:
        self._settings = settings
        self._log_path = log_path
        self._take = take
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._thread: threading.Thread | None = None
        self._join: dict[str, str] | None = None
        self._demand: dict[str, Any] | None = None
        self._was_connected = False
        self._first_answer, self._left, self._closing = (threading.Event() for _ in range(3))
        self.problem = ""
        """Why there is no connection; empty if there is one."""
        self.demand_problem = ""
        """Why Ray's autoscaler can't be asked for nodes; empty if it can."""

    def start(self) -> None:
        """Connects to the cluster.

        Raises:
            ClusterError: If that is not possible.
        """
        self._thread = threading.Thread(target=self._run, name="quintain-ray", daemon=True)
        self._thread.start()
        has_answer = self._first_answer.wait(_CONNECT_SECS)
        if self._was_connected:
            return
        self.close()
        raise errors.ClusterError(
            self.problem
            if has_answer
            else f"The Ray cluster at {self._settings.address!r} has not answered within "
            f"{_CONNECT_SECS:g} s; what Ray says is in {self._log_path}."
        )

    def join(self, home_id: str, address: address_lib.Address) -> None:
        """Has an agent started on each node, now and whenever there is another one."""
        self._join = {"home_id": home_id, **dataclasses.asdict(address)}
        self._send("join", **self._join)

    def ask(self, demand: dict[str, Any]) -> None:
        """Sends a `demand` message, which holds until another one is sent."""
        if demand != self._demand:
            self._demand = demand
            self._send("demand", **demand)

    def leave(self, busy: list[str]) -> None:
        """Ends all agents but those named in `busy`, and waits for that."""
        self._left.clear()
        if self._send("leave", busy=busy):
            self._left.wait(_LEAVE_SECS)

    def close(self) -> None:
        """Ends the connection. The agents go on, except those of a cluster that ends with it."""
        self._closing.set()
        with self._lock:
            process = self._process
        if process is not None:
            assert process.stdin is not None
            with process.stdin:
                pass
            try:
                process.wait(_LEAVE_SECS)
            except subprocess.TimeoutExpired:
                process.kill()
        if self._thread is not None:
            self._thread.join()

    def _send(self, kind: str, **content: object) -> bool:
        with self._lock:
            if self._process is None or self._process.stdin is None:
                return False
            try:
                ray_messages.send(self._process.stdin, kind, **content)
            except (OSError, ValueError):
                return False
            return True

    def _run(self) -> None:
        pause_secs = _PAUSE_SECS
        while not self._closing.is_set():
            was_connected = self._follow()
            self._first_answer.set()
            if self._closing.is_set() or not self._was_connected:
                return
            logger.warning("%s It is tried again.", self.problem)
            pause_secs = _PAUSE_SECS if was_connected else min(2 * pause_secs, _MOST_PAUSE_SECS)
            self._closing.wait(pause_secs)

    def _open_log(self) -> IO[str]:
        size = self._log_path.stat().st_size if self._log_path.exists() else 0
        if size > _MOST_LOG_BYTES:
            self._log_path.write_text(f"{size} bytes omitted: the log was long.\n")
        return self._log_path.open("a", encoding="utf-8")

    def _follow(self) -> bool:
        """Runs one process until it ends; returns whether it was connected."""
        with self._open_log() as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "quintain.cluster.ray.ray_watcher"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        assert process.stdin is not None
        assert process.stdout is not None
        ray_messages.send(process.stdin, "settings", **dataclasses.asdict(self._settings))
        with self._lock:
            self._process = process
        self.problem, is_connected = self.problem or "Ray is being asked.", False
        with process.stdout:
            for line in process.stdout:
                message = json.loads(line)
                match message["kind"]:
                    case "connected":
                        is_connected = self._was_connected = True
                        self.problem = ""
                        if self._join is not None:
                            self._send("join", **self._join)
                        if self._demand is not None:
                            self._send("demand", **self._demand)
                        self._first_answer.set()
                    case "failed":
                        self.problem = message["message"]
                    case "nodes":
                        self._take(ray_messages.to_news(message["nodes"]))
                    case "demand":
                        self.demand_problem = message["problem"]
                    case "left":
                        self._left.set()
        code = process.wait()
        with self._lock:
            self._process = None
        process.stdin.close()
        if is_connected:
            self.problem = (
                f"The connection to the Ray cluster at {self._settings.address!r} has ended "
                f"(code {code}); what Ray says is in {self._log_path}."
            )
        self._left.set()
        return is_connected
