"""Results of workloads as events of their experiments, and as rows of the store."""

import dataclasses
import math
from typing import Any

from quintain import errors
from quintain.master import entries
from quintain.records.rows import checkpoint, codec, metric, workload
from quintain.records.views import trial_filter
from quintain.store import session as session_lib


def describe(
    entry: entries.Entry, request_id: str, result: workload.WorkloadResult
) -> dict[str, Any]:
    """Returns the event of a result, with what the machine needs of it."""
    work = result.workload
    event: dict[str, Any] = {
        "kind": "result",
        "request_id": request_id,
        "number": work.number,
        "work": work.kind.value,
    }
    if result.exited_reason is not None:
        event["exited_reason"] = result.exited_reason.value
    match work.kind:
        case workload.WorkloadKind.TRAIN:
            event["num_batches"] = work.num_batches
        case workload.WorkloadKind.VALIDATE:
            value, problem = find_metric(entry.config.searcher.metric, result.metrics)
            if not problem:
                event["metric"] = codec.to_plain(value)
                try:
                    event |= _find_further(entry, result)
                    event |= _find_stop(entry, request_id, result)
                except errors.ConfigError as error:
                    problem = str(error)
            if problem:
                event["problem"] = problem
        case workload.WorkloadKind.CHECKPOINT:
            if result.checkpoint is None:
                raise errors.StateError("The result of a CHECKPOINT names no checkpoint.")
            event["checkpoint"] = result.checkpoint.uuid
    return event


def _find_further(entry: entries.Entry, result: workload.WorkloadResult) -> dict[str, Any]:
    """Returns the other metrics that decide; nothing if there are none.

    Raises:
        ConfigError: If the validation did not give one of them.
    """
    searcher = entry.config.searcher
    found = []
    # Not by `getattr`, for a config looks for the nearest name of a missing one.
    objectives = searcher.further_objectives if "further_objectives" in searcher else ()
    for index, objective in enumerate(objectives):
        field = f"searcher.further_objectives[{index}].metric"
        value, problem = find_metric(objective.metric, result.metrics, field)
        if problem:
            raise errors.ConfigError(problem)
        found.append(codec.to_plain(value))
    return {"further": found} if found else {}


def _find_stop(
    entry: entries.Entry, request_id: str, result: workload.WorkloadResult
) -> dict[str, str]:
    """Returns what a validation ends, the search or its trial, and why; nothing if it ends none.

    Raises:
        ConfigError: If a condition names a metric that the validation did not give.
    """
    plain = codec.to_plain(result.metrics)
    values = {f"validation/{name}": [value] for name, value in plain.items()}
    values["total_batches"] = [result.workload.total_batches]
    for field, ended in (("stop_when", "search"), ("stop_trial_when", "trial")):
        condition = getattr(entry.config.searcher, field)
        if not condition:
            continue
        try:
            (is_fulfilled,) = trial_filter.parse(condition, values).test(values, 1)
        except errors.ConfigError as error:
            problem = str(error).removeprefix("where: ")
            raise errors.ConfigError(f"searcher.{field}: {problem}") from None
        if is_fulfilled:
            trial_id = entry.trial_ids[request_id]
            why = f"Trial {trial_id} fulfils searcher.{field}: {condition}"
            return {"stop": ended, "stop_reason": why}
    return {}


def find_metric(
    name: str, metrics: dict[str, Any], field: str = "searcher.metric"
) -> tuple[float, str]:
    """Returns a metric that decides, and what is wrong with it, or an empty text."""
    if name not in metrics:
        known = errors.enumerate_some(sorted(metrics)) or "no metrics"
        return math.nan, (
            f"{field}: got {name!r}, but the validation gave {known}."
            f"{errors.suggest(name, metrics)}"
        )
    try:
        return codec.from_plain(float, metrics[name]), ""
    except (TypeError, ValueError, KeyError, OverflowError):
        return math.nan, f"{field}: {name!r} is {errors.show(metrics[name])}, expected one number."


def write(
    session: session_lib.Session,
    entry: entries.Entry,
    trial_id: int,
    result: workload.WorkloadResult,
) -> None:
    """Writes what a result brought besides its event."""
    work = result.workload
    total = work.total_batches + work.num_batches
    if work.kind is workload.WorkloadKind.CHECKPOINT and result.checkpoint is not None:
        machine = entry.machine_of(trial_id)
        has_metric = any(each.at == total for each in machine.validations)
        session.add_checkpoint(
            checkpoint.Checkpoint(
                uuid=result.checkpoint.uuid,
                trial_id=trial_id,
                experiment_id=entry.id,
                total_batches=total,
                files=result.checkpoint.files,
                metric=machine.validations[-1].metric if has_metric else None,
                time=result.end_time,
            )
        )
        return
    is_training = work.kind is workload.WorkloadKind.TRAIN
    group = metric.MetricGroup.TRAINING if is_training else metric.MetricGroup.VALIDATION
    plain = codec.to_plain(result.metrics)
    row = metric.MetricRow(trial_id, group, total, plain, result.num_inputs, result.end_time)
    session.add_metrics([row])
    if is_training and result.batch_metrics:
        session.add_batch_metrics(trial_id, total, codec.to_plain(result.batch_metrics))
    machine = entry.machine_of(trial_id)
    if not is_training and machine.checkpoint_at == total and machine.checkpoint is not None:
        value, problem = find_metric(entry.config.searcher.metric, result.metrics)
        if not problem:
            saved = session.get_checkpoint(machine.checkpoint)
            session.update_checkpoint(dataclasses.replace(saved, metric=value))
