"""Worker: `python -m quintain.trials.process.worker`, the process of one trial.

A launcher starts it. It gets its work from the master over HTTP, and survives the master's
restarts: it tries again for an hour, and keeps the result that it could not hand in yet in a file.

| variable | content |
|---|---|
| `QUINTAIN_MASTER` | address of the master; see `client.address.Address` |
| `QUINTAIN_TOKEN` | what the master recognises this launch by; it is taken out at once |
| `QUINTAIN_TOKEN_DESCRIPTOR` | in its place, for a fresh process: the pipe that it is in |
| `QUINTAIN_FINGERPRINT` | SHA-256 of the master's certificate, if it is known by that |
| `QUINTAIN_TRIAL_ID` | number of the trial |
| `QUINTAIN_LAUNCH_ID` | name of this start |
| `QUINTAIN_RANK`, `QUINTAIN_SIZE` | number of this process among those of the trial, and how many |
| `QUINTAIN_NODE`, `QUINTAIN_HOST` | its machine, and the address of that for others |

Those of `trial_files` say where files are.
"""

import contextlib
import ctypes
import dataclasses
import hmac
import json
import logging
import os
import pathlib
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeVar

from typing_extensions import override

from quintain import errors
from quintain.client import address as address_lib
from quintain.client import file_calls, worker_client
from quintain.client.home import handed_tokens
from quintain.client.http import connection as connection_lib
from quintain.files import atomic_write, disk_errors
from quintain.process import held_ports, process_end, start_up
from quintain.records import process_identity
from quintain.records.config import checkpoint_storage_config
from quintain.records.rows import codec, exit_codes, launch, trial, workload
from quintain.storage import checkpoint_storage, retries
from quintain.trials.process import peer_addresses, trial_files, workload_loop, workload_source

logger = logging.getLogger(__name__)

T = TypeVar("T")

RETRIES: Final = connection_lib.Retries(
    total_secs=3600.0, first_pause_secs=0.1, max_pause_secs=3.0, total_fault_secs=60.0
)
"""An hour is long enough to repair a machine's master, and short enough to leave no orphans. The
pauses stay short: a trial that sleeps on after its master is back holds up a whole search."""

_ONCE: Final = connection_lib.Retries(total_secs=0.0)
_NOTE_SECS: Final = 5.0
_WAIT_SECS: Final = 20.0
_MEETING_PAUSE_SECS: Final = 0.1
_THREAD_VARIABLES: Final = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
_OPENMP: Final = re.compile(r"/lib[gi]?omp[-.0-9a-z]*\.so[.0-9]*$")

# The first of its kind imports and builds what checks it: once, in the process that is copied.
checkpoint_storage_config.CheckpointStorageConfig()


def main(environment: Mapping[str, str] | None = None) -> int:
    """Runs the trial that the environment names.

    Args:
        environment: Variables; those of the process if None.

    Returns:
        A number of `records.rows.exit_codes.ExitCode`.
    """
    start_up.prepare()
    try:
        settings = Settings.from_environment(os.environ if environment is None else environment)
    except errors.ConfigError as error:
        return _fail(error)
    for name in (handed_tokens.VARIABLE, handed_tokens.DESCRIPTOR):
        os.environ.pop(name, None)
    with connection_lib.Connection(settings.address, retries=RETRIES) as connection:
        return run(settings, connection)


def run(settings: "Settings", connection: connection_lib.Connection) -> int:
    """Runs a trial over a connection, and returns the exit code."""
    source = HttpWorkloadSource(settings, connection)
    try:
        with retries.wait_listener(source.note_wait):
            code = workload_loop.run(source)
    except (errors.GoneError, errors.UnauthorizedError) as error:
        logger.warning(
            "This launch of trial %d is not wanted any more: %s", settings.trial_id, error
        )
        return exit_codes.ExitCode.NOT_WANTED
    except errors.MasterUnreachableError as error:
        _fail(error)
        return exit_codes.ExitCode.LOST_MASTER
    except errors.QuintainError as error:
        if not retries.is_about_room(error):
            return _fail(error)
        sys.stderr.write(f"{exit_codes.DISK_FAILS}{error}\n")
        return exit_codes.ExitCode.NO_ROOM
    finally:
        source.close()
    return exit_codes.ExitCode.LOST_MASTER if source.is_lost else code


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings that the environment holds."""

    address: address_lib.Address
    """Where the master is, and what it recognises this process by."""

    trial_id: int
    launch_id: str
    machine: trial_files.Machine
    rank: int = 0
    """Number of this process among those of the trial."""

    size: int = 1
    """Processes of the trial."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Settings":
        """Reads the variables.

        Raises:
            ConfigError: If one is missing or not what is expected.
        """
        for name in ("QUINTAIN_MASTER", "QUINTAIN_TRIAL_ID", "QUINTAIN_LAUNCH_ID"):
            if not environment.get(name):
                raise errors.ConfigError(
                    f"{name}: missing; a launcher sets it. Workers are not "
                    "started by hand, see `quintain experiment create`."
                )
        numbers = {"QUINTAIN_TRIAL_ID": 0, "QUINTAIN_RANK": 0, "QUINTAIN_SIZE": 1}
        for name in numbers:
            text = environment.get(name, "")
            if text and not text.isdecimal():
                raise errors.ConfigError(f"{name}: got {text!r}, expected a number.")
            numbers[name] = int(text or numbers[name])
        return cls(
            address_lib.Address(
                environment["QUINTAIN_MASTER"],
                handed_tokens.read(environment),
                environment.get("QUINTAIN_FINGERPRINT", ""),
            ),
            numbers["QUINTAIN_TRIAL_ID"],
            environment["QUINTAIN_LAUNCH_ID"],
            trial_files.Machine.from_environment(environment),
            numbers["QUINTAIN_RANK"],
            numbers["QUINTAIN_SIZE"],
        )

    def find_identity(self) -> trial.ProcessIdentity:
        """Returns the identity of this process, the same that the launcher has."""
        pid = os.getpid()
        found = process_identity.find(pid, launch.member_name(self.launch_id, self.rank))
        if found is None:
            raise errors.ClusterError(f"The system does not know process {pid}, which is this one.")
        return found


class HttpWorkloadSource(workload_source.WorkloadSource):
    """Gets work from a master.

    A result is written to a file before it is sent, so that it can be handed in by a process of
    the same launch that comes after this one. The master takes each result once.

    Args:
        settings: Trial and launch.
        connection: Connection to the master. Its retries decide how long the master may be away.
    """

    def __init__(self, settings: Settings, connection: connection_lib.Connection) -> None:
        self._settings = settings
        self._calls = worker_client.WorkerClient(
            connection, trial_id=settings.trial_id, launch_id=settings.launch_id
        )
        self._file_calls = file_calls.FileCalls(
            connection, trial_id=settings.trial_id, launch_id=settings.launch_id
        )
        self._files = trial_files.TrialFiles(settings.machine, self._file_calls)
        self._spool_path = settings.machine.scratch_dir / f"{settings.launch_id}.spool"
        self._is_lost = False
        self._next: workload.Workload | None = None
        self._port: socket.socket | None = None
        self._peers: tuple[trial.Peer, ...] = ()

    @property
    def is_lost(self) -> bool:
        """True if the master was away for too long; nothing is sent any more."""
        return self._is_lost or self._file_calls.is_lost

    @override
    def start(self) -> trial.TrialSpec:
        """Returns all that has to be known to run the trial, and keeps to its threads."""
        order = retries.outlast_full_disks(lambda: self._call(self._start_run), doing="starting")
        _limit_threads(order.num_threads)
        retries.outlast_full_disks(
            lambda: self._spool_path.parent.mkdir(parents=True, exist_ok=True),
            doing="making a directory",
        )
        if self._settings.size > 1:
            self._meet()
        self._send_spooled()
        return self._resolve(order)

    @override
    def open_storage(self, spec: trial.TrialSpec) -> checkpoint_storage.TrialStorage:
        return self._files.open_storage(spec, spec.experiment_config)

    @override
    def fetch_checkpoint(self, spec: trial.TrialSpec) -> pathlib.Path:
        return self._files.fetch_checkpoint(spec)

    @override
    def report_damage(self, checkpoint: str, damage: str) -> trial.TrialSpec:
        order = self._call_again(lambda: self._calls.report_damage(checkpoint, damage))
        return self._resolve(order)

    @override
    def next_workload(self) -> workload.Workload:
        found, self._next = self._next, None
        while found is None:
            found = self._call_again(lambda: self._calls.next_workload(_WAIT_SECS))
        return found

    @override
    def report(self, result: workload.WorkloadResult) -> None:
        text = json.dumps(codec.to_plain(result))
        retries.outlast_full_disks(
            lambda: atomic_write.write_atomically(self._spool_path, text), doing="keeping a result"
        )
        try:
            self._next = self._call_again(lambda: self._calls.report(result))
        finally:
            if not self._is_lost:
                self._spool_path.unlink(missing_ok=True)
        self._files.note_result()

    @override
    def report_exit(self, reason: workload.ExitedReason, message: str) -> None:
        if not self.is_lost:
            self._call_again(lambda: self._calls.report_exit(reason, _to_valid(message)))

    def note_wait(self, text: str) -> None:
        """Tells what a storage is waited for; a master that does not answer now is not told."""
        with self._asked_once() as calls:
            calls.note_wait(_to_valid(text))

    @override
    def note_steps(self, number: int, batches: int) -> None:
        """Tells how far a workload is; a master that does not answer now is not told."""
        with self._asked_once() as calls:
            calls.note_steps(number, batches)

    @contextlib.contextmanager
    def _asked_once(self) -> Iterator[worker_client.WorkerClient]:
        """Gives calls for what a master need not know."""
        settings = self._settings
        try:
            with connection_lib.Connection(
                settings.address, retries=_ONCE, timeout_secs=_NOTE_SECS
            ) as connection:
                yield worker_client.WorkerClient(
                    connection, trial_id=settings.trial_id, launch_id=settings.launch_id
                )
        except errors.QuintainError as error:
            logger.info("The master was not told what the trial does: %s", error)

    def close(self) -> None:
        """Hands in the rest of what the trial wrote."""
        self._files.close()

    def _meet(self) -> None:
        """Waits until all processes of the trial are there, and notes where."""
        settings = self._settings
        self._port = held_ports.hold()
        port = self._port.getsockname()[1]
        own = peer_addresses.find_own(settings.address.url, port, os.environ)
        while (
            found := self._call_again(lambda: self._calls.meet(settings.rank, settings.size, own))
        ) is None:
            time.sleep(_MEETING_PAUSE_SECS)
        self._peers = tuple(found)
        peer_addresses.await_reachable(self._peers, settings.rank)

    def _resolve(self, order: trial.TrialOrder) -> trial.TrialSpec:
        """Returns an order with what this process knows itself."""
        rank = self._settings.rank
        spec = dataclasses.replace(
            self._files.resolve(order),
            rank=rank,
            peers=self._peers,
            # Only the processes of this launch, and the master, know its token.
            exchange_key=hmac.digest(self._settings.address.token.encode(), b"exchange", "sha256"),
        )
        if not rank:
            return spec
        scratch = str(pathlib.Path(spec.scratch_dir, f"rank-{rank}"))
        return dataclasses.replace(spec, scratch_dir=scratch, tensorboard_dir="")

    def _start_run(self) -> trial.TrialOrder:
        try:
            return self._calls.start_run(self._settings.find_identity())
        except errors.NotFoundError as error:
            raise errors.GoneError(str(error)) from error

    def _send_spooled(self) -> None:
        """Hands in the result that a process of the same launch left behind."""
        path = self._spool_path
        try:
            result = codec.from_plain(workload.WorkloadResult, disk_errors.read_json(path))
        except FileNotFoundError:
            return
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            logger.warning("%s can't be read and is left out: %s", path, error)
        else:
            logger.info("Handing in the result of workload %d.", result.workload.number)
            try:
                self._call(lambda: self._calls.report(result))
            except errors.GoneError:
                raise
            except errors.StateError as error:
                logger.warning("The master does not need a former result: %s", error)
        path.unlink(missing_ok=True)

    def _call_again(self, call: Callable[[], T]) -> T:
        """Calls, and once more if the master has forgotten that this process is there."""
        try:
            return self._call(call)
        except errors.GoneError:
            raise
        except (errors.NotFoundError, errors.StateError) as error:
            logger.warning("The master does not know this run (%s); it is told again.", error)
            self._call(self._start_run)
            return self._call(call)

    def _call(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except errors.MasterUnreachableError:
            self._is_lost = True
            raise


def _limit_threads(num_threads: int | None) -> None:
    if num_threads is None:
        return
    # TensorFlow reads them when it computes for the first time.
    for name in _THREAD_VARIABLES:
        os.environ[name] = str(num_threads)
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is not None:
        tensorflow.config.threading.set_intra_op_parallelism_threads(num_threads)
        tensorflow.config.threading.set_inter_op_parallelism_threads(num_threads)
    _limit_openmp(num_threads)


def _limit_openmp(num_threads: int) -> None:
    """Limits the threads of libraries that read their variable when they were loaded.

    In a copy that may have been before the process had its slots.
    """
    with contextlib.suppress(OSError):  # Not Linux, where nothing is copied.
        maps = pathlib.Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
        for path in sorted({line.split(maxsplit=5)[-1] for line in maps.splitlines()}):
            if _OPENMP.search(path):
                ctypes.CDLL(path).omp_set_num_threads(num_threads)


def _fail(error: Exception) -> int:
    sys.stderr.write(f"{type(error).__name__}: {error}\n")
    return exit_codes.ExitCode.ERROR


def _to_valid(text: str) -> str:
    """Returns a text without halves of characters, which names of files bring into messages."""
    return text.encode("utf-8", "backslashreplace").decode()


if __name__ == "__main__":
    process_end.leave(main())
