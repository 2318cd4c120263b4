"""What bad luck does to a home directory between one moment and the next; used by chaos.py.

Each kind of damage is one after which results have to be the same, and nothing may be gone that the
damage itself did not take:

- the newest checkpoint of a trial is cut, and its process is killed;
- a file of the home or of a process is emptied, halved or zeroed while no master runs;
- an older copy of the database takes the place of the database while no master runs;
- the next master's clock is hours off that of the processes that it takes over.
"""

import pathlib
import shutil
import signal
import sqlite3

from quintain import store as stores
from quintain.records import checkpoint, states

OFFSETS_SECS = (-86400.0, -3600.0, -2.0, 2.0, 3600.0, 86400.0)
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
        self.faults = []
        self._database = home.path / "quintain.db"
        self._copy = home.path / "copy-of-the-database"

    def begin(self):
        """Makes the copy that is restored later; called when a search has begun."""
        self._copy.unlink(missing_ok=True)
        self._back_up()

    def do_something(self, name):
        """Does one kind of damage; returns which, or None if there was nothing to damage."""
        kinds = [self._cut_file, self._restore_database, self._set_clock]
        if name == "asha":
            # A clone has no older state that it could start from.
            kinds.append(self._cut_checkpoint)
        return self.choice.choice(kinds)()

    def _read(self, *wanted):
        """Returns the UUIDs of the checkpoints that the database knows."""
        store = stores.open_store(self._database)
        with store.reading() as session:
            found = {each.uuid for each in session.list_checkpoints(states=wanted)}
        store.close()
        return found

    def _cut_checkpoint(self):
        store = stores.open_store(self._database)
        with store.reading() as session:
            trials = session.list_trials(states=[states.TrialState.ACTIVE])
            known = session.list_checkpoints(states=[_COMPLETED])
            runs = {each.trial_id: each.identity for each in session.list_runs()}
        store.close()
        for trial in self.choice.sample(trials, len(trials)):
            own = [each.uuid for each in known if each.trial_id == trial.id]
            if len(own) < 2 or self.cut & set(own):
                continue
            directory = self.home.path / "checkpoints" / own[-1]
            files = sorted(path for path in directory.rglob("*") if path.is_file())
            if not files:
                continue
            self.cut.add(own[-1])
            self._tear(self.choice.choice(files))
            if runs.get(trial.id) is not None:
                self.home.kill(runs[trial.id].pid, signal.SIGKILL)
            return "checkpoint"
        return None

    def _cut_file(self):
        self._stop_master()
        files = [self.home.path / name for name in ("server.json", "master.json", "home.json")]
        files += sorted((self.home.path / "scratch").rglob("*"))
        files = [each for each in files if each.suffix in (".json", *SCRATCH_FILES)]
        self._tear(self.choice.choice(files))
        self.home.start_master()
        return "file"

    def _tear(self, path):
        data = path.read_bytes()
        path.write_bytes(
            self.choice.choice([b"", data[: len(data) // 2], bytes(max(len(data), 1))])
        )

    def _restore_database(self):
        self._stop_master()
        former = self._read(_COMPLETED)
        for suffix in ("", "-wal", "-shm"):
            pathlib.Path(f"{self._database}{suffix}").unlink(missing_ok=True)
        shutil.copyfile(self._copy, self._database)
        # What the copy does not know is nobody's to delete from now on.
        self.lost |= former - self._read()
        before = {path.name for path in (self.home.path / "checkpoints").iterdir()}
        self._back_up()
        self.home.start_master()
        self.home.wait_for_master()
        there = {path.name for path in (self.home.path / "checkpoints").iterdir()}
        gone = self.lost & before - there
        if gone:
            self.faults.append(f"an older database deleted {sorted(gone)}")
        return "database"

    def _set_clock(self):
        self._stop_master()
        self._back_up()
        self.home.clock_offset_secs = self.choice.choice(OFFSETS_SECS)
        self.home.start_master()
        return "clock"

    def _stop_master(self):
        self.home.master.kill()
        self.home.master.wait()

    def _back_up(self):
        source = sqlite3.connect(self._database)
        target = sqlite3.connect(self._copy)
        source.backup(target)
        target.close()
        source.close()
