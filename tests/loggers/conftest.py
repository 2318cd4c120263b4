import http.server
import json
import threading

import pytest

from quintain.loggers import metric_logger


class Server(http.server.ThreadingHTTPServer):
    """Answers as MLflow's tracking server does, and remembers what it was asked."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked = []
        self.is_down = False

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"

    def list_values(self):
        """Returns what was logged: key, step, timestamp, value."""
        return [
            (one["key"], one["step"], one["timestamp"], one["value"])
            for path, content, _ in self.asked
            if path == "runs/log-batch"
            for one in content.get("metrics", ())
        ]


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self._answer({"error_code": "RESOURCE_DOES_NOT_EXIST"}, 404)

    def do_POST(self):
        content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.removeprefix("/api/2.0/mlflow/")
        if self.server.is_down:
            self._answer({"error_code": "TEMPORARILY_UNAVAILABLE"}, 503)
            return
        self.server.asked.append((path, content, self.headers.get("Authorization")))
        answers = {
            "experiments/create": {"experiment_id": "7"},
            "runs/create": {"run": {"info": {"run_id": "abc"}}},
        }
        self._answer(answers.get(path, {}), 200)

    def _answer(self, content, status):
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def mlflow_server():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def run(tmp_path):
    return metric_logger.LoggedRun("r", "p", {"a": {"b": 1}, "c": "x"}, str(tmp_path / "run ü"))


@pytest.fixture
def make_points():
    def make(group, *steps):
        return [
            metric_logger.Point(group, step, 1e9 + step, {"loss": 1.0 / step}) for step in steps
        ]

    return make
