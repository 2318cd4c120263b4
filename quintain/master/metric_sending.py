"""Sending of trials' metrics to the loggers that their experiments' configs name."""

import functools
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from quintain import errors
from quintain.loggers import follower, metric_logger
from quintain.master import shared_state
from quintain.records.rows import codec, experiment, metric, sent_metrics, states, trial

logger = logging.getLogger(__name__)

TICK_SECS: Final = 2.0
FIELD: Final = "loggers"

_HANGING_SECS: Final = 3.0
"""A service that fails after so long is not asked for the other trials as well."""

_ENDINGS: Final[Mapping[states.TrialState, metric_logger.Ending]] = {
    states.TrialState.COMPLETED: "completed",
    states.TrialState.CANCELED: "stopped",
    states.TrialState.ERROR: "failed",
}


def check(loggers: Sequence[Mapping[str, Any]]) -> None:
    """Checks that the loggers of an experiment can be built here.

    Raises:
        ConfigError: If one is unknown, lacks a package, or does not take its arguments.
    """
    for index in range(len(loggers)):
        _build(loggers, index)


def _build(loggers: Sequence[Mapping[str, Any]], index: int) -> metric_logger.MetricLogger:
    path = f"{FIELD}[{index}]"
    name = loggers[index].get(metric_logger.TYPE)
    if isinstance(name, str) and ":" in name:
        raise errors.ConfigError(
            f"{path}.{metric_logger.TYPE}: got {name!r}, expected one of "
            f"{', '.join(map(repr, metric_logger.KINDS))}; the master runs no code of experiments."
        )
    return metric_logger.build(loggers[index], path)


class MetricSending:
    """Sends what the store has of trials. One thread at a time may use it."""

    def __init__(self, shared: shared_state.SharedState) -> None:
        self._shared = shared
        self._followers: dict[tuple[int, str], follower.Follower] = {}
        self._waiting: set[int] | None = None
        """Experiments with loggers that have not ended, or of which not all was sent."""

    def send(self, *, is_last: bool = False) -> None:
        """Sends what was not sent yet.

        Args:
            is_last: Whether the master ends, so that there is no other chance.
        """
        for record in self._list_waiting():
            try:
                self._send_experiment(record, is_last=is_last)
            except errors.ConfigError:
                # It could be built when the experiment was created.
                logger.exception("Metrics of experiment %d can't be sent.", record.id)
                self._forget(record.id)

    def _list_waiting(self) -> list[experiment.Experiment]:
        with self._shared.condition:
            entries = list(self._shared.entries.values())
        with self._shared.store.reading() as session:
            if self._waiting is None:
                # What a former master has left.
                found = session.list_experiments(include_archived=True)
                self._waiting = {record.id for record in found if record.config.get(FIELD)}
            self._waiting |= {entry.id for entry in entries if entry.config.loggers}
            there = []
            for each in sorted(self._waiting):
                try:
                    there.append(session.get_experiment(each))
                except errors.NotFoundError:
                    self._waiting.discard(each)
            return there

    def _forget(self, experiment_id: int) -> None:
        if self._waiting is not None:
            self._waiting.discard(experiment_id)

    def _send_experiment(self, record: experiment.Experiment, *, is_last: bool) -> None:
        loggers = record.config[FIELD]
        names = [f"{index}_{each[metric_logger.TYPE]}" for index, each in enumerate(loggers)]
        with self._shared.store.reading() as session:
            trials = session.list_trials(record.id)
            sent = {(one.trial_id, one.logger): one for one in session.list_sent_metrics(record.id)}
        are_closed = True
        hanging: set[int] = set()
        for each in trials:
            for index, name in enumerate(names):
                former = sent.get((each.id, name))
                if former is not None and former.is_closed and each.state.is_terminal:
                    continue
                start = time.monotonic()
                is_closed = index not in hanging and self._send_trial(
                    record, each, index, former, is_last=is_last
                )
                are_closed &= is_closed
                if not is_closed and time.monotonic() - start > _HANGING_SECS:
                    # The other trials would wait as long: they are sent the next time.
                    hanging.add(index)
        if record.state.is_terminal and are_closed:
            self._forget(record.id)

    def _send_trial(
        self,
        record: experiment.Experiment,
        sender: trial.TrialRecord,
        index: int,
        former: sent_metrics.SentMetrics | None,
        *,
        is_last: bool,
    ) -> bool:
        """Sends metrics of a trial to a logger; returns whether all is sent and it is closed."""
        loggers = record.config[FIELD]
        name = f"{index}_{loggers[index][metric_logger.TYPE]}"
        cursor = follower.Cursor.from_text("" if former is None else former.cursor)
        key = (sender.id, name)
        if key not in self._followers:
            self._followers[key] = follower.Follower(
                _build(loggers, index),
                name,
                self._describe(record, sender),
                cursor,
                functools.partial(self._keep, sender.id, name),
            )
        sending = self._followers[key]
        newest = min((cursor.steps.get(group, -1) for group in _GROUPS), default=-1)
        with self._shared.store.reading() as session:
            rows = session.list_metrics(sender.id, after_batches=newest)
        points = list(_to_points(rows))
        if not points and not sending.is_open and not sender.state.is_terminal:
            return False
        sending.send(points, is_last=is_last)
        is_sent = all(point.step <= sending.cursor.steps.get(point.group, -1) for point in points)
        if sender.state.is_terminal and is_sent:
            sending.close(_ENDINGS[sender.state])
            self._keep(sender.id, name, sending.cursor, is_closed=True)
        elif is_last:
            sending.close("stopped")
        else:
            return False
        del self._followers[key]
        return is_sent

    def _describe(
        self, record: experiment.Experiment, sender: trial.TrialRecord
    ) -> metric_logger.LoggedRun:
        name = record.config.get("name") or record.description or "experiment"
        return metric_logger.LoggedRun(
            name=f"{name} {record.id}, trial {sender.id}",
            project=name,
            params=sender.hparams,
            directory=str(self._shared.home / "loggers" / str(record.id) / str(sender.id)),
        )

    def _keep(
        self, trial_id: int, name: str, cursor: follower.Cursor, *, is_closed: bool = False
    ) -> None:
        kept = sent_metrics.SentMetrics(trial_id, name, cursor.to_text(), is_closed)
        with self._shared.condition:
            self._shared.write(lambda session: session.save_sent_metrics(kept))


_GROUPS: Final = (metric.MetricGroup.TRAINING.value, metric.MetricGroup.VALIDATION.value)


def _to_points(rows: Iterable[metric.MetricRow]) -> Iterable[metric_logger.Point]:
    for row in rows:
        values = {
            name: codec.NOT_FINITE.get(value, value) if isinstance(value, str) else value
            for name, value in row.metrics.items()
        }
        if numbers := follower.to_finite(values):
            yield metric_logger.Point(row.group.value, row.total_batches, row.time, numbers)
