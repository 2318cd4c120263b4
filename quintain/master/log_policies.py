"""Log policies: reactions to patterns in the log of a trial that fails.

A line of the log is looked at when it comes; what it means counts when the trial fails, for only
then its log is complete.
"""

import collections
import time
from collections.abc import Iterable
from typing import Any, Final

from quintain.master import entries, shared_state
from quintain.master.placing import nodes as nodes_lib
from quintain.records.config import experiment_sections, line_pattern
from quintain.records.rows import log, workload

MOST_SLOW_SECS: Final = 5.0
"""Seconds of a processor that slow lines of an experiment may take at a time."""

QUICK_SECS: Final = 0.002
"""Seconds that a line may take before it is slow; most take some microseconds."""

_FAILURES: Final = (workload.ExitedReason.ERRORED, workload.ExitedReason.ERRORED_AT_START)


def note_lines(shared: shared_state.SharedState, lines: Iterable[log.LogRow]) -> None:
    """Looks for the patterns of log policies in new lines of trials that run.

    The time for a line is bounded, but not that for many: an experiment ends by which the master
    would do nothing else for long.
    """
    slow_secs: dict[int, float] = collections.defaultdict(float)
    for line in lines:
        live = shared.launches_by_trial.get(line.trial_id)
        entry = shared.entries.get(live.record.experiment_id) if live is not None else None
        if live is None or entry is None or entry.has_slow_policies:
            continue
        begin = time.thread_time()
        if found := _find_matches(entry, line.text):
            live.matched_policies |= found
        slow_secs[entry.id] += max(time.thread_time() - begin - QUICK_SECS, 0.0)
        if slow_secs[entry.id] > MOST_SLOW_SECS:
            entry.has_slow_policies = True
            _end(shared, entry)


def _end(shared: shared_state.SharedState, entry: entries.Entry) -> None:
    if not entry.machine.state.is_stopping:
        reason = (
            f"log_policies: to search lines for the patterns took more than {MOST_SLOW_SECS:g} s. "
            "Write simpler ones, without long repetitions."
        )
        with shared.failures_contained(entry.id, "when its log policies were too slow"):
            shared.apply(entry, {"kind": "fatal", "reason": reason})


def decide(
    event: dict[str, Any],
    entry: entries.Entry,
    live: entries.LiveLaunch,
    nodes: nodes_lib.NodeTable,
) -> None:
    """Adds to the event of a process' end what the log policies say about it.

    Args:
        event: The event `failure` or `exit`; other ends than failures are left alone.
        entry: The experiment.
        live: The process.
        nodes: The machines and their slots.
    """
    if event["kind"] == "exit" and event["exited_reason"] not in _FAILURES:
        return
    matched = live.matched_policies | _find_matches(entry, str(event["reason"]))
    policies = [entry.config.log_policies[index] for index in sorted(matched)]
    if not policies:
        return
    machine = entry.machine_of(live.record.trial_id)
    said = f"Its log says: {', '.join(map(_name, policies))}."
    actions = {policy.action for policy in policies}
    if "exclude_node" in actions:
        excluded = machine.excluded_slots | nodes.find_neighbours(live.record.slots)
        event["excluded_slots"] = sorted(excluded)
        if len(nodes.slots.keys() - excluded) < max(len(live.record.slots), 1):
            event["is_final"] = True
            said += " It is not started again: there are no slots but those that it failed on."
    if "cancel_retries" in actions:
        event["is_final"] = True
        said += " It is not started again (cancel_retries)."
    event["reason"] = f"{said}\n{event['reason']}"


def _name(policy: experiment_sections.LogPolicyConfig) -> str:
    return policy.name or f"{policy.pattern!r}"


def _find_matches(entry: entries.Entry, text: str) -> set[int]:
    """Returns the places of the policies of which a line of the text is a match."""
    return {
        index
        for index, policy in enumerate(entry.config.log_policies)
        if any(map(line_pattern.get(policy.pattern).is_in, text.splitlines()))
    }
