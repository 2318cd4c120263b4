"""Reader of a run's directory: progress, settings, checkpoints and curves."""

import hashlib
import math
import os
import pathlib
import re
import shlex
import socket
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from quintain import errors
from quintain.config import run_header, yaml_io
from quintain.records import process_identity
from quintain.records.rows import training_run
from quintain.server.runs import run_index, run_lines, run_samples, run_stop

TRAINING_FILE: Final = "training.jsonl"
EVALUATIONS_FILE: Final = "evaluations.jsonl"
ENVIRONMENT_FILE: Final = "environment.json"
GIN_FILE: Final = "config.gin"
LOCK_FILE: Final = "run.lock"

_MAX_PARAMS_BYTES: Final = 2**20
_MAX_FILE_BYTES: Final = 2**18
_MAX_ENTRIES: Final = 10_000
_ELSEWHERE_SECS: Final = 3600.0
"""A lock of another machine counts for so long after the last record."""

_CHECKPOINT_FILE: Final = re.compile(
    r"(?P<name>.*-(?P<step>\d{1,15}))\.(index|data-\d{5}-of-\d{5})"
)
_FORMER_FILE: Final = re.compile(rf"{re.escape(run_index.PARAMS_FILE)}\.\d{{1,6}}")
_SEED: Final = re.compile(r"\bseed: [^,}\n]*")
_ID_LETTERS: Final = 16

_BRIEF: Final = re.compile(
    # As `quintain train` writes it: a name, and a number directly below `trainer`.
    r"^(?P<name>experiment: [A-Za-z][\w./-]*)$"
    r"|^(?P<steps>trainer:\n(?:  .*\n)*?  train_steps: \d{1,15})$",
    re.MULTILINE,
)


class RunReader:
    """Reads runs, and asks them to stop.

    Settings are kept until their file changes, for they are slow to read.
    """

    def __init__(self) -> None:
        self._settings: dict[pathlib.Path, tuple[object, dict[str, Any], str]] = {}
        self._briefs: dict[pathlib.Path, tuple[object, dict[str, Any], str]] = {}
        self._ranges: dict[pathlib.Path, tuple[str, dict[str, tuple[float, float]]]] = {}
        self._ids: dict[pathlib.Path, tuple[object, str]] = {}
        self._lock = threading.Lock()
        self._stopping: set[str] = set()

    def summarize(self, found: run_index.FoundRun) -> training_run.TrainingRun:
        """Returns what a list shows of a run."""
        directory = found.path
        settings, problem = self._read_settings(directory, is_brief=True)
        training = run_lines.read_last(directory / TRAINING_FILE)
        evaluation = run_lines.read_last(directory / EVALUATIONS_FILE)
        lasts = [entry for entry in (training, evaluation) if entry is not None]
        # An evaluation may be of a later step where no training was recorded.
        step = max((entry["step"] for entry in lasts), default=0)
        experiment = settings.get("experiment")
        experiment = experiment if isinstance(experiment, str) else ""
        train_steps = _find_train_steps(settings)
        last_secs = _find_last_time(directory)
        holder = _read_lock(directory)
        state = _find_state(holder, step, train_steps, last_secs)
        is_running = state is training_run.RunProgress.RUNNING
        if is_running and process_identity.find_mark(holder["pid"]) in self._stopping:
            state = training_run.RunProgress.STOPPING
        metrics: dict[str, Any] = {}
        for entry in lasts:
            metrics |= run_lines.flatten(entry["metrics"])
        return training_run.TrainingRun(
            name=found.name,
            label=found.label,
            path=str(directory),
            experiment=experiment,
            task=experiment.partition("/")[0],
            state=state,
            step=step,
            train_steps=train_steps,
            metrics=metrics,
            ranges=self._find_ranges(directory),
            time=last_secs,
            settings_id=self._find_settings_id(directory),
            problem=problem,
            can_stop=state is training_run.RunProgress.RUNNING
            and run_stop.can_stop(directory / LOCK_FILE, holder),
        )

    def stop(self, found: run_index.FoundRun) -> str:
        """Asks a run to save a checkpoint and to end, once, and returns the command to go on.

        A second signal would end it at once.

        Raises:
            StateError: If it does not run, or not here.
        """
        directory = found.path
        state = self.summarize(found).state
        if state is not training_run.RunProgress.STOPPING:
            mark = run_stop.stop(directory / LOCK_FILE, _read_lock(directory))
            self._stopping.add(mark)
        details = self.describe(found)
        flags = [("--model-dir", directory), *(("--import", name) for name in details.imports)]
        flags += [("--gin-file", directory / GIN_FILE)] if details.gin else []
        return " ".join(
            ["quintain train", *(f"{flag}={shlex.quote(str(value))}" for flag, value in flags)]
        )

    def describe(self, found: run_index.FoundRun) -> training_run.RunDetails:
        """Returns all that a run's directory tells, but for its curves and samples."""
        directory = found.path
        settings, _ = self._read_settings(directory)
        run = self.summarize(found)
        gin = run_lines.read_text(directory / GIN_FILE, _MAX_FILE_BYTES)
        states = training_run.RunProgress
        is_running = run.state in (states.RUNNING, states.STOPPING)
        imports = settings.get("imports")
        names = _list_names(directory)
        return training_run.RunDetails(
            run=run,
            params={
                name: value
                for name, value in settings.items()
                if name not in run_header.HEADER_KEYS
            },
            imports=tuple(map(str, imports)) if isinstance(imports, list) else (),
            gin="" if gin is None else gin[0],
            former_params=tuple(filter(_FORMER_FILE.fullmatch, names)),
            checkpoints=tuple(_list_checkpoints(directory, names)),
            environment=run_lines.read_json(directory / ENVIRONMENT_FILE, _MAX_FILE_BYTES),
            holder=_read_lock(directory) if is_running else {},
            num_sample_files=len(run_samples.list_files(directory)),
        )

    def read_curves(self, found: run_index.FoundRun, after: str) -> training_run.RunCurves:
        """Returns what a run has recorded.

        Args:
            found: The run.
            after: The cursor of the last answer, whose records are left out; empty for all.
        """
        first, _, second = after.partition(".")
        training = run_lines.read_new(found.path / TRAINING_FILE, first)
        evaluations = run_lines.read_new(found.path / EVALUATIONS_FILE, second)
        is_reset = training.is_reset or evaluations.is_reset
        if is_reset and not (training.is_reset and evaluations.is_reset):
            training = run_lines.read_new(found.path / TRAINING_FILE, "")
            evaluations = run_lines.read_new(found.path / EVALUATIONS_FILE, "")
        return training_run.RunCurves(
            cursor=f"{training.cursor}.{evaluations.cursor}",
            is_reset=is_reset,
            is_thinned=training.is_thinned or evaluations.is_thinned,
            training=_to_columns(training.entries),
            evaluations=_to_columns(evaluations.entries),
            state=self.summarize(found).state,
        )

    def forget_all_but(self, paths: Iterable[pathlib.Path]) -> None:
        """Forgets the settings of runs that are not listed any more."""
        kept = set(paths)
        with self._lock:
            for known in (self._settings, self._briefs, self._ranges, self._ids):
                for path in known.keys() - kept:
                    del known[path]

    def _find_ranges(self, directory: pathlib.Path) -> dict[str, tuple[float, float]]:
        """Returns the extents of the metrics of evaluations; only new records are read."""
        with self._lock:
            cursor, ranges = self._ranges.get(directory, ("", {}))
        new = run_lines.read_new(directory / EVALUATIONS_FILE, cursor)
        ranges = {} if new.is_reset else dict(ranges)
        for entry in new.entries:
            for name, value in run_lines.flatten(entry["metrics"]).items():
                if math.isfinite(value):
                    low, high = ranges.get(name, (value, value))
                    ranges[name] = (min(low, value), max(high, value))
        with self._lock:
            self._ranges[directory] = (new.cursor, ranges)
        return ranges

    def _find_settings_id(self, directory: pathlib.Path) -> str:
        path = directory / run_index.PARAMS_FILE
        try:
            mark = _mark(path.lstat())
        except OSError:
            return ""
        with self._lock:
            known = self._ids.get(directory)
        if known is None or known[0] != mark:
            files = ((path, _MAX_PARAMS_BYTES), (directory / GIN_FILE, _MAX_FILE_BYTES))
            texts = [run_lines.read_text(file, most) for file, most in files]
            is_whole = texts[0] is not None and not any(text and text[1] for text in texts)
            shared = [_SEED.sub("seed:", text[0]) if text else "" for text in texts]
            digest = hashlib.sha256("\0".join(shared).encode()).hexdigest()[:_ID_LETTERS]
            known = (mark, digest if is_whole else "")
            with self._lock:
                self._ids[directory] = known
        return known[1]

    def _read_settings(
        self, directory: pathlib.Path, *, is_brief: bool = False
    ) -> tuple[dict[str, Any], str]:
        """Returns the settings of a run, and why they can't be read, if so.

        Args:
            directory: The run.
            is_brief: Whether what a list shows of them is enough, which is there much sooner.
        """
        path = directory / run_index.PARAMS_FILE
        try:
            found = path.lstat()
        except OSError as error:
            return {}, f"{run_index.PARAMS_FILE}: {error.strerror}."
        mark = _mark(found)
        with self._lock:
            kept = [self._settings, *([self._briefs] if is_brief else [])]
            known = next((one for each in kept if (one := each.get(directory))), None)
        if known is None or known[0] != mark:
            brief = _find_brief(path) if is_brief else None
            known = (mark, *((brief, "") if brief else _parse_settings(path)))
            with self._lock:
                (self._briefs if brief else self._settings)[directory] = known
        return known[1], known[2]


def _mark(found: os.stat_result) -> object:
    """Returns what changes whenever a file does."""
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def _parse_settings(path: pathlib.Path) -> tuple[dict[str, Any], str]:
    found = run_lines.read_text(path, _MAX_PARAMS_BYTES)
    if found is None or found[1]:
        return {}, f"{path.name}: can't be read, or has more than {_MAX_PARAMS_BYTES} bytes."
    try:
        content = yaml_io.load_text(found[0], path.name)
    except errors.ConfigError as error:
        return {}, str(error)
    if not isinstance(content, dict):
        return {}, f"{path.name}: expected names with values."
    return content, ""


def _find_brief(path: pathlib.Path) -> dict[str, Any] | None:
    """Returns what a list shows of settings, or None if they are not as `quintain train` writes.

    To parse them all takes fifty times as long, which counts where there are many runs.
    """
    found = run_lines.read_text(path, _MAX_PARAMS_BYTES)
    if found is None or found[1] or not found[0].endswith("\n"):
        return None
    parts = {match.lastgroup: match[0] for match in _BRIEF.finditer(found[0])}
    if parts.keys() != {"name", "steps"}:
        return None
    return {
        "experiment": parts["name"].partition(" ")[2],
        "trainer": {"train_steps": int(parts["steps"].rpartition(" ")[2])},
    }


def _find_train_steps(settings: Mapping[str, Any]) -> int | None:
    trainer = settings.get("trainer")
    steps = trainer.get("train_steps") if isinstance(trainer, Mapping) else None
    return steps if isinstance(steps, int) and not isinstance(steps, bool) else None


def _find_last_time(directory: pathlib.Path) -> float:
    times = [0.0]
    for name in (run_index.PARAMS_FILE, TRAINING_FILE, EVALUATIONS_FILE):
        try:
            times.append((directory / name).lstat().st_mtime)
        except OSError:
            continue  # A run that has just begun has no records.
    return max(times)


def _read_lock(directory: pathlib.Path) -> dict[str, Any]:
    return run_lines.read_json(directory / LOCK_FILE, _MAX_FILE_BYTES)


def _find_state(
    holder: Mapping[str, Any], step: int, train_steps: int | None, last_secs: float
) -> training_run.RunProgress:
    """Returns what a run does.

    The lock itself is not tried: who has it for a moment only would keep a training out. So the
    process that the file names is looked for; its mark tells it from others of the same number.
    """
    pid = holder.get("pid")
    if isinstance(pid, int) and 0 < pid < 2**31:
        if holder.get("host") == socket.gethostname():
            mark = process_identity.find_mark(pid)
            is_running = mark is not None and mark == holder.get("mark", mark)
        else:
            is_running = time.time() - last_secs < _ELSEWHERE_SECS
        if is_running:
            return training_run.RunProgress.RUNNING
    if train_steps is not None and step >= train_steps:
        return training_run.RunProgress.ENDED
    return training_run.RunProgress.STOPPED


def _list_names(directory: pathlib.Path) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for entry, _ in zip(entries, range(_MAX_ENTRIES), strict=False)]
    except OSError:
        return []
    return sorted(names)


def _list_checkpoints(
    directory: pathlib.Path, names: Iterable[str]
) -> list[training_run.RunCheckpoint]:
    """Returns complete checkpoints: those of a run, and those below it, such as its best one."""
    found = _find_checkpoints(directory, names, "")
    for name in names:
        below = directory / name
        if below.is_dir() and not below.is_symlink():
            found += _find_checkpoints(below, _list_names(below), f"{name}/")
    return sorted(found, key=lambda one: (one.step, one.name))


def _find_checkpoints(
    directory: pathlib.Path, names: Iterable[str], prefix: str
) -> list[training_run.RunCheckpoint]:
    sizes: dict[str, int] = {}
    times: dict[str, tuple[int, float]] = {}
    for name in names:
        match = _CHECKPOINT_FILE.fullmatch(name)
        if match is None:
            continue
        try:
            found = (directory / name).lstat()
        except OSError:
            continue  # It was just deleted.
        sizes[match["name"]] = sizes.get(match["name"], 0) + found.st_size
        if name.endswith(".index"):
            times[match["name"]] = int(match["step"]), found.st_mtime
    return [
        training_run.RunCheckpoint(f"{prefix}{name}", step, sizes[name], mtime)
        for name, (step, mtime) in times.items()
    ]


def _to_columns(entries: list[dict[str, Any]]) -> training_run.Columns:
    rows = [run_lines.flatten(entry["metrics"]) for entry in entries]
    names = dict.fromkeys(name for row in rows for name in row)
    return training_run.Columns(
        steps=[entry["step"] for entry in entries],
        times=[_find_time(entry) for entry in entries],
        metrics={name: [row.get(name) for row in rows] for name in names},
    )


def _find_time(entry: Mapping[str, Any]) -> float | None:
    found = entry.get("time_secs")
    return run_lines.to_float(found) if run_lines.is_number(found) else None
