import pytest

from quintain import errors
from quintain.client import address, worker_client
from quintain.client.http import connection
from quintain.records.rows import codec, trial, workload

TRAIN = workload.Workload(workload.WorkloadKind.TRAIN, 1, 7, number=3, num_batches=5)
SPEC = trial.TrialOrder(
    experiment_id=1,
    trial_id=7,
    experiment_config={"name": "x"},
    hparams={"lr": 0.1},
    seed=3,
    entrypoint=None,
    slots=(0, 1),
)


@pytest.fixture
def calls(master):
    with connection.Connection(address.Address(master.url)) as conn:
        yield worker_client.WorkerClient(conn, trial_id=7, launch_id="7-2")


def test_a_run_is_started_by_the_identity_of_its_process(master, calls):
    master.answers = [(200, codec.to_plain(SPEC))]
    assert calls.start_run(trial.ProcessIdentity(12, 3.5, "7-2", "boot 1")) == SPEC
    request = master.requests[0]
    assert (request["method"], request["path"]) == ("POST", "/api/v1/trials/7/runs")
    expected = {"pid": 12, "start_time": 3.5, "launch_id": "7-2", "mark": "boot 1", "node": ""}
    assert request["body"] == expected


def test_the_next_workload_is_waited_for(master, calls):
    master.answers = [(204, ""), (200, codec.to_plain(TRAIN))]
    assert calls.next_workload(0.5) is None
    assert calls.next_workload(20.0) == TRAIN
    request = master.requests[1]
    assert (request["method"], request["path"]) == ("GET", "/api/v1/trials/7/runs/7-2/workload")
    assert request["query"] == {"wait": "20.0"}


def test_results_arrive_with_numbers_that_are_not_finite(master, calls):
    result = workload.WorkloadResult(
        TRAIN, 1.0, 2.0, metrics={"loss": float("inf")}, batch_metrics=[{"loss": 1.0}]
    )
    master.answers = ["hang up", (200, "null")]
    calls.report(result)
    request = master.requests[1]
    assert (request["method"], request["path"]) == ("POST", "/api/v1/trials/7/runs/7-2/results")
    assert codec.from_plain(workload.WorkloadResult, request["body"]).workload == TRAIN
    assert request["body"]["metrics"] == {"loss": "Infinity"}


def test_an_exit_is_reported_with_its_reason(master, calls):
    calls.report_exit(workload.ExitedReason.ERRORED, "It broke.")
    request = master.requests[0]
    assert request["path"] == "/api/v1/trials/7/runs/7-2/exit"
    assert request["body"] == {"reason": "errored", "message": "It broke."}


def test_a_run_that_is_not_wanted_is_told_so(master, calls):
    master.answers = [(410, {"error": {"kind": "GoneError", "message": "over"}})]
    with pytest.raises(errors.GoneError):
        calls.next_workload(1.0)
