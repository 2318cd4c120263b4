"""Metrics of a master, in Prometheus' text format: its work, requests, store and process.

Labels are states, machines, and addresses as the routes have them: never ids.
"""

import collections
import platform
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

import prometheus_client
from prometheus_client import metrics_core, registry
from starlette import types
from typing_extensions import override

from quintain import errors
from quintain.master import master as master_lib
from quintain.master import throttle
from quintain.records.rows import checkpoint, node, states
from quintain.server.http import responses
from quintain.store import store as store_lib
from quintain.store import table_reading

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""Type of the text."""

_REQUEST_SECS: Final = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0)
_TRANSACTION_SECS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0)
_NO_ROUTE: Final = ("", "")

K = TypeVar("K", bound=tuple[str, ...])


class MasterMetrics(registry.Collector):
    """Metrics of a master. All methods may be called from several threads.

    Args:
        master: What is asked for slots and queues.
        store: What is asked for experiments, trials and checkpoints; its transactions are timed.
        version: That of the master.
    """

    def __init__(self, master: master_lib.Master, store: store_lib.Store, version: str) -> None:
        self._master, self._store = master, store
        self._totals: list[table_reading.StateTotal] = []
        self._counting = throttle.Throttle()
        self._registry = prometheus_client.CollectorRegistry()
        common: dict[str, Any] = {"registry": self._registry}
        prometheus_client.ProcessCollector(**common)
        build = prometheus_client.Info("quintain_build", "Versions of the master.", **common)
        build.info({"version": version, "python": platform.python_version()})
        self._requests = prometheus_client.Counter(
            "quintain_http_requests",
            "Requests by method, address and status; those that were refused have no address.",
            ["method", "route", "status"],
            **common,
        )
        self._request_secs = prometheus_client.Histogram(
            "quintain_http_request_duration_seconds",
            "Seconds from a request to the beginning of its answer.",
            ["method", "route"],
            buckets=_REQUEST_SECS,
            **common,
        )
        transaction_secs = prometheus_client.Histogram(
            "quintain_store_transaction_duration_seconds",
            "Seconds of a writing transaction, with its wait for others.",
            buckets=_TRANSACTION_SECS,
            **common,
        )
        store.add_timer(transaction_secs.observe)
        self._registry.register(self)

    def observe_request(self, scope: types.Scope, status: int, secs: float) -> None:
        """Counts a request; see `request_life.Observe`."""
        method, route = scope.get("state", {}).get(responses.ROUTE, _NO_ROUTE)
        self._requests.labels(method, route, str(status)).inc()
        self._request_secs.labels(method, route).observe(secs)

    def format(self) -> bytes:
        """Returns all metrics as text."""
        return prometheus_client.generate_latest(self._registry)

    @override
    def collect(self) -> Iterator[metrics_core.Metric]:
        """Gives what is read from master and store when somebody asks for it."""
        yield from self._collect_store()
        summary = self._master.summary()
        yield _gauge(
            "quintain_master_problem",
            "1 while no work is handed out: the disk is full, say.",
            bool(summary.problem),
        )
        yield _gauge(
            "quintain_trials_waiting",
            "Trials that wait for slots.",
            sum(each.num_waiting for each in summary.experiments),
        )
        yield _gauge(
            "quintain_trials_running",
            "Trials that hold slots.",
            sum(each.num_running for each in summary.experiments),
        )
        nodes = self._master.nodes.list_nodes()
        counted = collections.Counter(each.state for each in nodes)
        machines = {(state.lower(),): counted[state] for state in node.NodeState}
        yield _gauges("quintain_nodes", "Machines by state.", ["state"], machines)
        slots = {}
        for each in nodes:
            is_active = each.state is node.NodeState.ACTIVE
            slots[each.name, "busy"] = each.num_held
            idle = "free" if is_active else each.state.lower()
            slots[each.name, idle] = len(each.slots) - each.num_held
        yield _gauges(
            "quintain_slots",
            "Slots by machine: busy, free, or idle as their machine is draining or lost.",
            ["node", "state"],
            slots,
        )

    def _collect_store(self) -> Iterator[metrics_core.Metric]:
        try:
            totals = self._count_states()
        except errors.StoreError:
            yield _gauge("quintain_store_up", "1 if the store can be read.", 0)
            return
        yield _gauge("quintain_store_up", "1 if the store can be read.", 1)
        counts = {(each.table, each.state.lower()): each.num_rows for each in totals}
        for table, known in (
            ("experiments", states.ExperimentState),
            ("trials", states.TrialState),
            ("checkpoints", checkpoint.CheckpointState),
        ):
            values = {(name := state.lower(),): counts.get((table, name), 0) for state in known}
            text = f"{table.capitalize()} of the store by state."
            yield _gauges(f"quintain_{table}", text, ["state"], values)
        sums = collections.Counter[str]()
        for each in totals:
            sums[each.table] += each.total
        text = "Restarts of the trials of the store."
        yield _gauge("quintain_trial_restarts", text, sums["trials"])
        text = "Bytes of checkpoints whose files are there."
        yield _gauge("quintain_checkpoint_bytes", text, sums["checkpoints"])

    def _count_states(self) -> list[table_reading.StateTotal]:
        """Returns what the store has; with many rows, that of a moment ago."""
        if self._counting.is_due(sum(each.num_rows for each in self._totals)):
            with self._counting.duration_measured(), self._store.reading() as session:
                self._totals = session.count_states()
        return self._totals


def _gauge(name: str, text: str, value: float) -> metrics_core.Metric:
    return metrics_core.GaugeMetricFamily(name, text, value=value)


def _gauges(
    name: str, text: str, labels: list[str], values: Mapping[K, float]
) -> metrics_core.Metric:
    family = metrics_core.GaugeMetricFamily(name, text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family
