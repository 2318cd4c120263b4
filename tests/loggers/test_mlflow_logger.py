import socket

import pytest

from quintain import errors
from quintain.loggers import mlflow_logger


def test_a_run_is_created_with_its_settings_and_gone_on_with(
    mlflow_server, run, make_points, monkeypatch
):
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "secret")
    built = mlflow_logger.MlflowLogger(mlflow_server.address, tags={"team": "a"})

    assert built.open(run, "") == "abc"
    built.log(make_points("training", *range(1, 1202)))
    built.close("stopped")
    again = mlflow_logger.MlflowLogger(f"{mlflow_server.address}/")
    assert again.open(run, "abc") == "abc"
    again.close("completed")

    by_path = {}
    for path, content, token in mlflow_server.asked:
        by_path.setdefault(path, []).append(content)
        assert token == "Bearer secret"
    assert by_path["experiments/create"] == [{"name": "p"}]
    (created,) = by_path["runs/create"]
    assert (created["experiment_id"], created["run_name"]) == ("7", "r")
    assert {"key": "team", "value": "a"} in created["tags"]
    assert by_path["runs/log-batch"][0]["params"] == [
        {"key": "a.b", "value": "1"},
        {"key": "c", "value": "x"},
    ]
    assert [len(one["metrics"]) for one in by_path["runs/log-batch"][1:]] == [1000, 201]
    assert mlflow_server.list_values()[1] == ("training/loss", 2, 1000000002000, 0.5)
    assert [one["status"] for one in by_path["runs/update"]] == ["KILLED", "RUNNING", "FINISHED"]


def test_a_server_that_is_not_there_is_named(run):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(errors.OutputError, match=f"{address} can't be reached: .*refused"):
            mlflow_logger.MlflowLogger(address).open(run, "")


def test_a_server_that_refuses_is_told(mlflow_server, run):
    mlflow_server.is_down = True

    with pytest.raises(errors.OutputError, match=r"experiments/create \(503\)"):
        mlflow_logger.MlflowLogger(mlflow_server.address).open(run, "")


@pytest.mark.parametrize("uri", ["", "mlruns", "file:///x", "databricks"])
def test_only_servers_are_taken(uri, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    with pytest.raises(errors.ConfigError, match="expected the address of a server"):
        mlflow_logger.MlflowLogger(uri)
