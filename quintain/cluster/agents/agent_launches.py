"""Launches that an agent has: their processes, output and exits."""

import collections
import contextlib
import dataclasses
import logging
import signal
import threading
from collections.abc import Iterable, Mapping
from typing import Final

from quintain import errors
from quintain.cluster.agents import agent_directory, agent_protocol
from quintain.files import disk_errors
from quintain.master.processes import launcher as launcher_lib
from quintain.master.processes import process_files, process_launcher, usage_meter
from quintain.records.rows import log

logger = logging.getLogger(__name__)

_MOST_LINES_BYTES: Final = 2**20
"""Bytes of logs after which a report is full; as many of one more log may come with them. The
master takes reports of 8 MiB."""

_MOST_EXITS: Final = 16
"""Exits in a report."""

_MOST_CHARACTERS: Final = 1000
"""Characters of each of the last lines of a process that are told."""

_TAKING: Final = (signal.SIGTERM, signal.SIGKILL)
_TAKEN: Final = "It was ended with its machine, which was about to leave."

_MOST_UNKEPT_BYTES: Final = 8 * 2**20
"""Bytes of logs that are sent before the master has stored them."""


@dataclasses.dataclass
class _Held:
    """A launch."""

    record: agent_directory.LaunchRecord
    files: process_files.ProcessFiles
    reader: process_files.LogReader
    """Reads what is sent in this session."""
    kept_offset: int = 0
    """Bytes of the log that the master has stored."""
    exit: agent_protocol.Exit | None = None
    is_start_told: bool = False
    is_exit_told: bool = False
    is_killed: bool = False
    is_dropped: bool = False


class AgentLaunches:
    """The launches of an agent. All methods may be called from several threads."""

    def __init__(
        self,
        launcher: process_launcher.ProcessLauncher,
        directory: agent_directory.AgentDirectory,
        name: str,
    ) -> None:
        self._launcher = launcher
        self._directory = directory
        self._name = name
        self._lock = threading.RLock()
        self._held: dict[str, _Held] = {}
        self._unkept: collections.deque[tuple[int, dict[str, int]]] = collections.deque()

    def adopt_all(self) -> None:
        """Takes over what the agent before has noted."""
        for record in self._directory.list_records():
            held = self._add(record)
            if record.reason:
                held.exit = agent_protocol.Exit(record.launch_id, reason=record.reason)
            elif record.identity is None:
                # It may be there, or come: it will hear that it is not wanted.
                self._note_loss(held, "Its agent was ended while it started the process.")
            elif not self._launcher.adopt(
                record.launch_id,
                record.trial_id,
                record.identity,
                str(self._directory.scratch_dir(record.launch_id)),
            ):
                self._note_loss(held, "The process was lost while no agent watched it.")

    def begin_session(self, offsets: Mapping[str, int]) -> None:
        """Tells everything anew, but no lines that the master has."""
        with self._lock:
            self._unkept.clear()
            for launch_id, held in self._held.items():
                held.is_start_told = held.is_exit_told = False
                offset = max(held.kept_offset, offsets.get(launch_id, 0))
                held.reader = process_files.LogReader(held.files, held.record.trial_id, offset)

    def list_names(self) -> tuple[str, ...]:
        """Returns all launches that the master may want to hear of."""
        with self._lock:
            return tuple(name for name, held in self._held.items() if not held.is_dropped)

    @property
    def is_idle(self) -> bool:
        """True if there is no process, and everything about former ones was told."""
        with self._lock:
            return not self._unkept and all(
                held.exit is not None and (held.is_exit_told or held.is_dropped)
                for held in self._held.values()
            )

    def start(self, launch: launcher_lib.LaunchRequest) -> None:
        """Starts a process, unless this was done before; if it can't, its exit says why."""
        record = agent_directory.LaunchRecord(
            launch.launch_id,
            launch.trial_id,
            devices=tuple(slot.device for slot in launch.slots if slot.device),
        )
        with self._lock:
            if launch.launch_id in self._held:
                return
            held = self._add(record)
        try:
            self._directory.save(record)
            identity = self._launcher.start(launch)
            held.record = dataclasses.replace(record, identity=identity)
            self._directory.save(held.record)
        except Exception as error:  # noqa: BLE001 - other launches go on.
            cause = str(error) if isinstance(error, errors.QuintainError) else repr(error)
            cause = disk_errors.explain(error) or cause
            self._launcher.kill(launch.launch_id)
            self._note_loss(held, f"The process could not be started on {self._name}: {cause}")

    def refuse(self, launch_id: str, trial_id: int, reason: str) -> None:
        """Starts no process, and lets its exit say why."""
        with self._lock:
            if launch_id not in self._held:
                record = agent_directory.LaunchRecord(launch_id, trial_id)
                self._note_loss(self._add(record), reason)

    def kill(self, launch_id: str) -> None:
        """Ends a process, whose exit is told."""
        with self._lock:
            if (held := self._held.get(launch_id)) is not None:
                held.is_killed = True
        self._launcher.kill(launch_id)

    def drop(self, launch_id: str) -> None:
        """Forgets a launch, as soon as its process has ended."""
        with self._lock:
            held = self._held.get(launch_id)
            if held is None:
                return
            held.is_dropped = True
            if held.exit is None:
                self._launcher.kill(launch_id)
            else:
                self._forget(held)

    def watch(self, *, is_leaving: bool = False) -> None:
        """Notes the exits of processes.

        Args:
            is_leaving: Whether the machine is about to be taken away. What ends a process then
                without having been asked to is no fault of its trial.
        """
        for ended in self._launcher.poll_ended():
            with self._lock:
                held = self._held.get(ended.launch_id)
                if held is None or held.exit is not None:
                    continue
                is_taken = is_leaving and ended.signal in _TAKING and not held.is_killed
                held.exit = agent_protocol.Exit(
                    ended.launch_id,
                    ended.exit_code,
                    None if is_taken else ended.signal,
                    tuple(line[:_MOST_CHARACTERS] for line in ended.last_lines),
                    ended.out_of_memory and not is_taken,
                    _TAKEN if is_taken else ended.reason,
                )
                if held.is_dropped:
                    self._forget(held)

    def take_started(self) -> tuple[str, ...]:
        """Returns the launches whose processes are there, which was not told before."""
        with self._lock:
            found = [
                held
                for held in self._held.values()
                if held.record.identity is not None and not held.is_start_told
            ]
            for held in found:
                held.is_start_told = True
            return tuple(held.record.launch_id for held in found)

    def take_lines(
        self, number: int, *, only_ended: bool
    ) -> tuple[list[tuple[str, float, log.LogSource, str]], dict[str, int]]:
        """Reads what processes have written and was not sent before.

        Args:
            number: Number of the report that it is sent with.
            only_ended: Whether only processes matter that have ended.

        Returns:
            (lines, the bytes of each log up to the last of them).
        """
        lines: list[tuple[str, float, log.LogSource, str]] = []
        offsets: dict[str, int] = {}
        with self._lock:
            num_unkept, num_bytes = self._count_unkept(), 0
            for held in list(self._held.values()):
                if held.is_dropped or (only_ended and held.exit is None):
                    continue
                has_more = True
                while has_more:
                    if (
                        num_bytes >= _MOST_LINES_BYTES
                        or num_unkept + num_bytes >= _MOST_UNKEPT_BYTES
                    ):
                        break
                    num_read = self._read_piece(held, lines)
                    num_bytes += num_read
                    if num_read:
                        offsets[held.record.launch_id] = held.reader.offset
                        # The others come first the next time.
                        self._held[held.record.launch_id] = self._held.pop(held.record.launch_id)
                    has_more = num_read > 0 and held.exit is not None
            if offsets:
                self._unkept.append((number, offsets))
        return lines, offsets

    def take_exits(self) -> tuple[agent_protocol.Exit, ...]:
        """Returns the exits of processes whose last lines were read, each of them once."""
        found: list[agent_protocol.Exit] = []
        with self._lock:
            for held in self._held.values():
                is_due = held.reader.is_at_end and not held.is_exit_told and not held.is_dropped
                if held.exit is not None and is_due and len(found) < _MOST_EXITS:
                    held.is_exit_told = True
                    found.append(held.exit)
        return tuple(found)

    def note_kept(self, number: int) -> None:
        """Notes that the master has stored the lines of a report, and of those before."""
        with self._lock:
            while self._unkept and self._unkept[0][0] <= number:
                for launch_id, offset in self._unkept.popleft()[1].items():
                    if (held := self._held.get(launch_id)) is not None:
                        held.kept_offset = offset
                        with contextlib.suppress(OSError):
                            held.files.write_offset(offset)

    def list_running(self) -> list[usage_meter.Process]:
        """Returns the processes that are there."""
        with self._lock:
            return [
                usage_meter.Process(name, held.record.identity, held.record.devices)
                for name, held in self._held.items()
                if held.exit is None and held.record.identity is not None
            ]

    @staticmethod
    def _read_piece(held: _Held, lines: list[tuple[str, float, log.LogSource, str]]) -> int:
        """Reads the next lines of a log, and returns how many bytes they have."""
        name, begin = held.record.launch_id, held.reader.offset
        try:
            # Twice that may come at once, which is still more than any line has.
            rows = held.reader.read(
                is_over=held.exit is not None, most_bytes=_MOST_LINES_BYTES // 2
            )
        except OSError as error:
            logger.error("The log of %s can't be read: %s", name, error)  # noqa: TRY400
            return 0
        lines += [(name, row.time, row.source, row.text) for row in rows]
        return max(held.reader.offset - begin, 0)

    def _count_unkept(self) -> int:
        names: Iterable[str] = {name for _, offsets in self._unkept for name in offsets}
        held = (self._held.get(name) for name in names)
        return sum(each.reader.offset - each.kept_offset for each in held if each is not None)

    def _add(self, record: agent_directory.LaunchRecord) -> _Held:
        scratch_dir = str(self._directory.scratch_dir(record.launch_id))
        files = process_files.ProcessFiles(scratch_dir, record.launch_id)
        offset = files.read_offset()
        reader = process_files.LogReader(files, record.trial_id, offset)
        held = _Held(record, files, reader, offset)
        self._held[record.launch_id] = held
        return held

    def _note_loss(self, held: _Held, reason: str) -> None:
        with self._lock:
            held.record = dataclasses.replace(held.record, reason=reason)
            held.exit = agent_protocol.Exit(
                held.record.launch_id, reason=reason, last_lines=held.files.read_last_lines(20)
            )
            try:
                self._directory.save(held.record)
            except OSError as error:
                logger.error("%s", error)  # noqa: TRY400
            if held.is_dropped:
                self._forget(held)

    def _forget(self, held: _Held) -> None:
        launch_id = held.record.launch_id
        del self._held[launch_id]
        self._launcher.release(launch_id)
        self._directory.delete(launch_id)
