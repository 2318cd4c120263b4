"""Tells people that experiments have ended, as the `alerts` of their configs say.

A thread follows the changes of the store, and delivers in threads of its own: nobody who schedules
waits. What was delivered, and what is on its way, is kept in `alerts.json` in the home directory;
an end that nobody was told of, because the master died or was stopped, is told by the next one. So
it may happen to be told twice.
"""

import concurrent.futures
import logging
import math
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Self

from quintain import errors
from quintain.client.home import home as home_lib
from quintain.records.config import experiment_sections
from quintain.records.rows import change, codec, experiment, states, trial
from quintain.records.views import seeds
from quintain.server import alert_delivery
from quintain.store import store as store_lib

logger = logging.getLogger(__name__)

FILE_NAME: Final = "alerts.json"
RETRY_SECS: Final = (2.0, 10.0, 60.0)
"""Pauses before a delivery is tried again."""

STOP_SECS: Final = 10.0
"""Longest time that a master which stops waits for deliveries."""

_LOOK_SECS: Final = 0.5
_SAVE_SECS: Final = 60.0
_NUM_THREADS: Final = 16
_PAGE: Final = 1000


class Alerts:
    """Follows a store while its context is open, and delivers.

    Args:
        store: What is followed.
        home: Where it is kept what was delivered.
        retry_secs: Pauses before a delivery is tried again.
        stop_secs: Longest time that leaving the context waits for deliveries.
    """

    def __init__(
        self,
        store: store_lib.Store,
        home: home_lib.Home,
        retry_secs: Sequence[float] = RETRY_SECS,
        stop_secs: float = STOP_SECS,
    ) -> None:
        self._store = store
        self._home = home
        self._retry_secs = tuple(retry_secs)
        self._stop_secs = stop_secs
        self._wake = threading.Event()
        self._is_stopping = threading.Event()
        self._give_up = threading.Event()
        self._lock = threading.Lock()
        # All changes up to this one were seen: of experiments to look at, of ends (an experiment
        # and when) that are being told, and of the end of each experiment that was told.
        self._after = 0
        self._due: dict[int, None] = {}
        self._telling: set[tuple[int, float]] = set()
        self._told: dict[int, float] = {}
        self._saved_secs = -math.inf
        self._threads = concurrent.futures.ThreadPoolExecutor(_NUM_THREADS, "quintain-alert")
        self._thread = threading.Thread(target=self._run, name="quintain-alerts", daemon=True)

    def __enter__(self) -> Self:
        """Takes up what a former master left, and starts."""
        self._load()
        self._store.add_listener(self._wake.set)
        self._wake.set()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Looks a last time, and lets deliveries end for a while; none is tried again."""
        self._is_stopping.set()
        self._wake.set()
        timer = threading.Timer(self._stop_secs, self._give_up.set)
        timer.start()
        self._thread.join()
        self._threads.shutdown()
        timer.cancel()
        self._save()

    def _run(self) -> None:
        is_last = False
        while not is_last:
            self._wake.wait(_SAVE_SECS)
            is_last = self._is_stopping.is_set()
            self._wake.clear()
            try:
                self._look()
            except errors.StoreError as error:
                logger.warning("Alerts: the store can't be read now: %s", error)
            if not is_last and time.monotonic() - self._saved_secs > _SAVE_SECS:
                self._save()
            # A search writes all the time.
            self._is_stopping.wait(_LOOK_SECS)

    def _look(self) -> None:
        """Delivers for experiments that have ended since the last look."""
        while True:
            with self._store.reading() as session:
                found = session.list_changes(self._after, _PAGE)
            with self._lock:
                for one in found:
                    if one.kind is change.ChangeKind.EXPERIMENT:
                        self._due[one.experiment_id] = None
                if found:
                    self._after = found[-1].id
            if len(found) < _PAGE:
                break
        for experiment_id in list(self._due):
            try:
                self._look_at(experiment_id)
            except errors.StoreError:
                raise
            except errors.NotFoundError:
                pass  # It was deleted.
            except Exception:
                logger.exception("Alerts of experiment %d: failed.", experiment_id)
            with self._lock:
                del self._due[experiment_id]

    def _look_at(self, experiment_id: int) -> None:
        with self._store.reading() as session:
            record = session.get_experiment(experiment_id)
            if record.end_time is None or not record.state.is_terminal:
                # One that goes on ends again.
                with self._lock:
                    self._told.pop(experiment_id, None)
                return
            end = experiment_id, record.end_time
            with self._lock:
                if self._told.get(experiment_id) == record.end_time or end in self._telling:
                    return
            alerts = _find_alerts(record)
            trials = session.list_trials(experiment_id) if alerts else []
        if alerts:
            report = codec.to_plain(build_report(record, trials))
            with self._lock:
                self._telling.add(end)
            self._threads.submit(self._deliver_all, end, alerts, report)

    def _deliver_all(
        self,
        end: tuple[int, float],
        alerts: Iterable[experiment_sections.AlertConfig],
        report: Mapping[str, Any],
    ) -> None:
        experiment_id, end_time = end
        try:
            # One after another: an experiment with many that hang holds one thread.
            results = [self._deliver(alert, report) for alert in alerts]
        except Exception:
            logger.exception("Alerts of experiment %d: failed.", experiment_id)
            results = []
        if all(results):
            with self._lock:
                self._telling.discard(end)
                self._told[experiment_id] = end_time
        self._save()

    def _deliver(self, alert: experiment_sections.AlertConfig, report: Mapping[str, Any]) -> bool:
        """Tells somebody, and returns whether that is done with; the next master does it if not."""
        name = f"Alert of experiment {report['experiment_id']}, {alert_delivery.describe(alert)}"
        for pause_secs in (*self._retry_secs, None):
            if self._give_up.is_set():
                return False
            try:
                alert_delivery.deliver(alert, report, self._home, give_up=self._give_up)
            except alert_delivery.DeliveryError as error:
                if self._give_up.is_set():
                    logger.warning("%s: the master has ended before it was delivered.", name)
                    return False
                if error.is_final or pause_secs is None:
                    logger.warning("%s: %s; given up.", name, error)
                    return True
                logger.warning("%s: %s; tried again in %g s.", name, error, pause_secs)
                if self._is_stopping.wait(pause_secs):
                    return False
            else:
                logger.info("%s: delivered.", name)
                return True
        return True

    def _load(self) -> None:
        with self._store.reading() as session:
            _, newest = session.get_change_bounds()
        found = home_lib.read_own(self._home.path / FILE_NAME)
        try:
            after = int(found["after"])
            self._told = {int(each): float(secs) for each, secs in found["told"].items()}
            self._due = dict.fromkeys(map(int, found["due"]))
        except (ValueError, TypeError, LookupError, AttributeError):
            # Nobody is told of what ended before there were alerts.
            after = newest
        # A database that was replaced by an older copy knows less.
        self._after = min(after, newest)
        self._save()

    def _save(self) -> None:
        """Keeps what was delivered; what is on its way may have to be told again."""
        with self._lock:
            due = {*self._due, *(experiment_id for experiment_id, _ in self._telling)}
            content = {"after": self._after, "told": dict(self._told), "due": sorted(due)}
            self._saved_secs = time.monotonic()
            try:
                home_lib.write_private(self._home.path / FILE_NAME, content)
            except OSError as error:
                logger.warning("Alerts: %s can't be written: %s", FILE_NAME, error)


def build_report(
    record: experiment.Experiment, trials: Sequence[trial.TrialRecord]
) -> dict[str, Any]:
    """Returns what is told of an experiment that has ended."""
    found = record.config.get("searcher")
    searcher = found if isinstance(found, dict) else {}
    measured = [
        one for one in trials if one.best_metric is not None and math.isfinite(one.best_metric)
    ]
    best = seeds.find_best(measured, searcher)
    counts = {state.value: 0 for state in states.TrialState}
    for one in trials:
        counts[one.state.value] += 1
    return {
        "experiment_id": record.id,
        "experiment_name": str(record.config.get("name") or record.description.partition("\n")[0]),
        "experiment_state": record.state.value,
        "reason": record.reason,
        "start_time": record.start_time,
        "end_time": record.end_time,
        "num_trials": counts,
        "metric": str(searcher.get("metric", "")),
        "best_trial_id": None if best is None else best.id,
        "best_metric": None if best is None else best.best_metric,
        "best_hparams": None if best is None else best.hparams,
    }


def _find_alerts(record: experiment.Experiment) -> list[experiment_sections.AlertConfig]:
    """Returns the alerts for the way in which an experiment has ended."""
    found = []
    for fields in record.config.get("alerts") or ():
        alert = experiment_sections.AlertConfig()
        try:
            alert.override(fields)
        except errors.ConfigError as error:
            # It was checked when it was stored; a newer version may have stored it.
            logger.warning("Alert of experiment %d: %s", record.id, error)
            continue
        if record.state.value.lower() in alert.on:
            found.append(alert)
    return found
