"""What bad luck does to a home directory between one moment and the next; used by chaos.py.

Each kind of damage is one after which results have to be the same, and nothing may be gone that the
damage itself did not take:

- the newest checkpoint of a trial is cut, and its process is killed;
- a file of the home or of a process is emptied, halved or zeroed while no master runs;
- an older copy of the database takes the place of the database while no master runs;
- the next master's clock is hours off that of the processes that it takes over.

They take turns, so that a few of them are of all kinds.
"""

import contextlib
import pathlib
import shutil
import signal
import sqlite3
import time

from quintain import store as stores
from quintain.records.rows import checkpoint

OFFSETS_SECS = (-86400.0, -3600.0, -2.0, 2.0, 3600.0, 86400.0)
HOME_FILES = ("server.json", "master.json", "home.json")
MAX_WAIT_SECS = 3
SCRATCH_FILES = (".exit", ".log", ".read", ".spool")
_COMPLETED = checkpoint.CheckpointState.COMPLETED


class Damage:
    """Damages one home, and remembers what must still be there at the end.

    Args:
        home: The `chaos.Home`.
        choice: Random numbers.
    """

    def __init__(self, home, choice):
        self.home = home
        self.choice = choice
        self.cut = set()
        self.lost = set()
        self.recognised = set()
        self.faults = []
        self._database = home.path / "quintain.db"
        self._copy = home.path / "copy-of-the-database"
        self._kinds = []
        self._turns = []

    def begin(self, name):
        """Makes the copy that is restored later; called when a search has begun."""
        self._kinds = ["database", "clock", *HOME_FILES, *SCRATCH_FILES]
        if name == "asha":
            # A clone can't do without the checkpoint that it begins from.
            self._kinds.append("checkpoint")
        self._turns = []
        self._copy.unlink(missing_ok=True)
        self._back_up()

    def do_something(self):
        """Does the next kind of damage; returns what it was, or None if it was not possible."""
        if not self._turns:
            self._turns = self.choice.sample(self._kinds, len(self._kinds))
        kind = self._turns.pop(0)
        if self._do(kind):
            return kind
        # Later, when there may be what it needs.
        self._turns.append(kind)
        return None

    def look_back(self):
        """Notes which checkpoints trials have found to be damaged, or gone, since."""
        self.recognised.update(self._list_checkpoints(checkpoint.CheckpointState.DAMAGED))

    def _do(self, kind):
        match kind:
            case "checkpoint":
                return self._cut_checkpoint()
            case "database":
                return self._restore_database()
            case "clock":
                return self._set_clock()
            case _:
                return self._cut_file(kind)

    def _list_checkpoints(self, *wanted, trial_id=None):
        """Returns the UUIDs of the checkpoints that the database knows, in their order."""
        store = stores.open_store(self._database)
        with store.reading() as session:
            found = session.list_checkpoints(trial_id=trial_id, states=wanted)
        store.close()
        return [each.uuid for each in found]

    def _list_runs(self):
        """Returns the identities of the trials' processes by trial."""
        store = stores.open_store(self._database)
        with store.reading() as session:
            found = {each.trial_id: each.identity for each in session.list_launches()}
        store.close()
        return {number: identity for number, identity in found.items() if identity}

    def _cut_checkpoint(self):
        """Cuts the newest checkpoint of a trial that has another one, and kills its process."""
        runs = self._list_runs()
        for number in self.choice.sample(sorted(runs), len(runs)):
            # It must not save another one meanwhile.
            self.home.kill(runs[number].pid, signal.SIGSTOP)
            own = self._list_checkpoints(_COMPLETED, trial_id=number)
            if len(own) < 2 or self.cut & set(own):
                self.home.kill(runs[number].pid, signal.SIGCONT)
                continue
            self.cut.add(own[-1])
            found = (self.home.path / "checkpoints" / own[-1]).rglob("*")
            files = sorted(path for path in found if path.is_file() and path.stat().st_size)
            while not self._tear(self.choice.choice(files)):
                pass
            self.home.kill(runs[number].pid, signal.SIGKILL)
            return True
        return False

    def _cut_file(self, kind):
        """Cuts a file of the home, or one of that kind of a process, if there is any."""
        runs = list(self._list_runs().values())
        if kind in SCRATCH_FILES and not runs:
            return False
        self._stop_master()
        if kind == ".exit":
            # Those that a master has seen are not there any more.
            self.home.kill(self.choice.choice(runs).pid, signal.SIGKILL)
        is_cut = False
        deadline = time.monotonic() + MAX_WAIT_SECS
        while not is_cut and time.monotonic() < deadline:
            scratch = (self.home.path / "scratch").rglob(f"*{kind}")
            files = [self.home.path / kind] if kind in HOME_FILES else sorted(scratch)
            # Processes go on meanwhile, and may take theirs away.
            with contextlib.suppress(FileNotFoundError):
                is_cut = bool(files) and self._tear(self.choice.choice(files))
            time.sleep(0.05)
        self.home.start_master()
        return is_cut

    def _tear(self, path):
        """Cuts a file; returns whether it has another content now."""
        data = path.read_bytes()
        torn = self.choice.choice([b"", data[: len(data) // 2], bytes(max(len(data), 1))])
        path.write_bytes(torn)
        return torn != data

    def _restore_database(self):
        self._stop_master()
        former = self._list_checkpoints(_COMPLETED)
        self.look_back()
        for suffix in ("", "-wal", "-shm"):
            pathlib.Path(f"{self._database}{suffix}").unlink(missing_ok=True)
        shutil.copyfile(self._copy, self._database)
        # What the copy does not know is nobody's to delete from now on.
        self.lost |= set(former) - set(self._list_checkpoints())
        before = {path.name for path in (self.home.path / "checkpoints").iterdir()}
        self._back_up()
        self.home.start_master()
        self.home.wait_for_master()
        there = {path.name for path in (self.home.path / "checkpoints").iterdir()}
        gone = self.lost & before - there
        if gone:
            self.faults.append(f"an older database deleted {sorted(gone)}")
        return True

    def _set_clock(self):
        self._stop_master()
        self._back_up()
        self.home.clock_offset_secs = self.choice.choice(OFFSETS_SECS)
        self.home.start_master()
        return True

    def _stop_master(self):
        self.home.master.kill()
        self.home.master.wait()

    def _back_up(self):
        source = sqlite3.connect(self._database)
        target = sqlite3.connect(self._copy)
        source.backup(target)
        target.close()
        source.close()
