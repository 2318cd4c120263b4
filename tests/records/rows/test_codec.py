import json
import math

from quintain.records.rows import codec, metric, trial, workload
from quintain.records.rows.states import TrialState


def through_json(value):
    return codec.from_plain(type(value), json.loads(json.dumps(codec.to_plain(value))))


def test_a_result_survives_json():
    result = workload.WorkloadResult(
        workload.Workload(workload.WorkloadKind.CHECKPOINT, 1, 2, 3, total_batches=100),
        start_time=1.5,
        end_time=2.5,
        metrics={"loss": 0.25, "names": ["a"]},
        checkpoint=workload.StoredCheckpoint("u", {"a/": 0, "a/b": 12}),
        exited_reason=workload.ExitedReason.INVALID_HP,
    )

    assert through_json(result) == result


def test_a_trial_survives_json():
    record = trial.TrialRecord(
        1, 2, "r", TrialState.ACTIVE, {"x": [1, {"y": None}]}, 7, best_metric=0.5
    )

    assert through_json(record) == record


def test_numbers_that_json_can_not_express_survive():
    record = metric.MetricRow(
        1, metric.MetricGroup.TRAINING, 10, {"loss": math.nan, "up": math.inf}
    )
    plain = json.loads(json.dumps(codec.to_plain(record), allow_nan=False))

    assert plain["metrics"] == {"loss": "NaN", "up": "Infinity"}
    assert codec.from_plain(float | None, "-Infinity") == -math.inf
