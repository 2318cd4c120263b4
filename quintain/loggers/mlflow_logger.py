"""Metrics for MLflow, by the REST interface of its tracking server.

Source:
    https://mlflow.org/docs/latest/rest-api.html
"""

import itertools
import json
import os
import time
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any, Final

import urllib3
from typing_extensions import override

from quintain import errors
from quintain.config import provenance
from quintain.loggers import metric_logger

_TIMEOUT_SECS: Final = 10.0
_MAX_METRICS: Final = 1000
"""Values of one request; the server takes no more."""

_MAX_PARAMS: Final = 100
_MAX_CHARACTERS: Final = 6000
"""Of the value of a parameter."""

_STATUS: Final[Mapping[metric_logger.Ending, str]] = {
    "completed": "FINISHED",
    "failed": "FAILED",
    "stopped": "KILLED",
}


class MlflowLogger(metric_logger.MetricLogger):
    """Sends metrics to an MLflow tracking server.

    A row that is sent a second time has the same time and value, and so replaces itself.
    """

    def __init__(
        self,
        tracking_uri: str = "",
        experiment: str = "",
        run_name: str = "",
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Stores where to send to.

        Name and password, or a token, are taken from the environment as MLflow itself does:
        `MLFLOW_TRACKING_USERNAME`, `MLFLOW_TRACKING_PASSWORD`, `MLFLOW_TRACKING_TOKEN`.

        Args:
            tracking_uri: Address of the server; `MLFLOW_TRACKING_URI` if empty.
            experiment: Experiment of MLflow; the project of the run if empty.
            run_name: Name of the run; its own if empty.
            tags: Tags of the run.

        Raises:
            ConfigError: If there is no address, or it is not that of a server.
        """
        uri = tracking_uri or os.environ.get("MLFLOW_TRACKING_URI", "")
        if not uri.startswith(("http://", "https://")):
            raise errors.ConfigError(
                f"tracking_uri: got {uri!r}, expected the address of a server, such as "
                "http://127.0.0.1:5000; `mlflow server` starts one. MLFLOW_TRACKING_URI is taken "
                "where tracking_uri is missing."
            )
        self._uri = uri.rstrip("/")
        self._experiment = experiment
        self._run_name = run_name
        self._tags = dict(tags or {})
        self._run_id = ""
        self._pool = urllib3.PoolManager(retries=False, timeout=_TIMEOUT_SECS)

    @override
    def open(self, run: metric_logger.LoggedRun, run_id: str) -> str:
        if run_id:
            self._run_id = run_id
            self._post("runs/update", {"run_id": run_id, "status": "RUNNING"})
            return run_id
        tags = {"mlflow.runName": self._run_name or run.name, **self._tags}
        created = self._post(
            "runs/create",
            {
                "experiment_id": self._find_experiment(self._experiment or run.project),
                "run_name": self._run_name or run.name,
                "start_time": round(time.time() * 1000),
                "tags": [{"key": key, "value": str(value)} for key, value in tags.items()],
            },
        )
        self._run_id = str(created["run"]["info"]["run_id"])
        params = [
            {"key": key, "value": _to_text(value)[:_MAX_CHARACTERS]}
            for key, value in provenance.flatten(run.params).items()
        ]
        for part in _split(params, _MAX_PARAMS):
            self._post("runs/log-batch", {"run_id": self._run_id, "params": part})
        return self._run_id

    @override
    def log(self, points: Sequence[metric_logger.Point]) -> None:
        metrics = [
            {"key": key, "value": value, "timestamp": round(point.time * 1000), "step": point.step}
            for point in points
            for key, value in point.by_full_name.items()
        ]
        for part in _split(metrics, _MAX_METRICS):
            self._post("runs/log-batch", {"run_id": self._run_id, "metrics": part})

    @override
    def close(self, ending: metric_logger.Ending) -> None:
        content = {"run_id": self._run_id, "status": _STATUS[ending]}
        self._post("runs/update", {**content, "end_time": round(time.time() * 1000)})
        self._pool.clear()

    def _find_experiment(self, name: str) -> str:
        """Returns the id of an experiment of MLflow, which is created if there is none."""
        query = urllib.parse.urlencode({"experiment_name": name})
        answer = self._ask("GET", f"experiments/get-by-name?{query}")
        if answer.status == 404:
            return str(self._post("experiments/create", {"name": name})["experiment_id"])
        return str(_read(answer, "experiments/get-by-name")["experiment"]["experiment_id"])

    def _post(self, path: str, content: Mapping[str, Any]) -> dict[str, Any]:
        return _read(self._ask("POST", path, content), path)

    def _ask(
        self, method: str, path: str, content: Mapping[str, Any] | None = None
    ) -> urllib3.BaseHTTPResponse:
        headers = {"Content-Type": "application/json"}
        name = os.environ.get("MLFLOW_TRACKING_USERNAME")
        token = os.environ.get("MLFLOW_TRACKING_TOKEN")
        if name:
            password = os.environ.get("MLFLOW_TRACKING_PASSWORD", "")
            headers |= urllib3.make_headers(basic_auth=f"{name}:{password}")
        elif token:
            headers["Authorization"] = f"Bearer {token}"
        body = None if content is None else json.dumps(content)
        url = f"{self._uri}/api/2.0/mlflow/{path}"
        try:
            return self._pool.request(method, url, body=body, headers=headers)
        except urllib3.exceptions.HTTPError as error:
            reason = str(error).rpartition(": ")[2]
            raise errors.OutputError(
                f"MLflow's server {self._uri} can't be reached: {reason}"
            ) from error


def _read(answer: urllib3.BaseHTTPResponse, path: str) -> dict[str, Any]:
    if answer.status >= 400:
        text = answer.data.decode("utf-8", "replace")[:300]
        raise errors.OutputError(f"MLflow's server refuses {path} ({answer.status}): {text}")
    try:
        content = json.loads(answer.data or b"{}")
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise errors.OutputError(f"What answers {path} is no server of MLflow.")
    return content


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _split(values: Sequence[Any], size: int) -> list[list[Any]]:
    remaining = iter(values)
    return list(iter(lambda: list(itertools.islice(remaining, size)), []))
