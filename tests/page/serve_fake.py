"""Serves the page with made-up data, for looking at it without a master.

`python tests/page/serve_fake.py --trials 10000 --port 8765 [--live] [--empty]`
"""

import argparse
import array
import functools
import http.server
import json
import math
import pathlib
import random
import re
import secrets
import struct
import time
import urllib.parse
from typing import Any

from quintain import errors
from quintain.records.views import trial_table

PAGE = pathlib.Path(__file__).parents[2] / "quintain/server/page"
TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".html": "text/html",
}
POLICY = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
METRICS = ("validation/accuracy", "training/loss")
NUM_POINTS = 50
NUM_STOPPED = 5
UUID = "00000000-0000-4000-8000-000000000001"
SPACE = {
    "learning_rate": {"type": "log", "minval": -5, "maxval": -1, "base": 10},
    "model": {
        "dropout": {"type": "double", "minval": 0, "maxval": 0.5},
        "layers": {"type": "int", "minval": 1, "maxval": 8},
    },
    "optimizer": {"type": "categorical", "vals": ["adam", "sgd", "lamb"]},
    "global_batch_size": {"type": "const", "val": 32},
}


class Home:
    """One experiment of many trials, which may grow."""

    def __init__(self, num_trials: int, num_seeds: int = 1) -> None:
        self.random = random.Random(5)
        self.start = time.time() - 3600
        self.id = secrets.token_hex(4)
        self.cursor = 0
        self.standings: list[dict[str, Any]] = []
        self.trials = [self.make_trial(number) for number in range(1, num_trials + 1)]
        for at, one in enumerate(self.trials):
            one["hparams"] = self.trials[at - at % num_seeds]["hparams"]

    @property
    def cursor_text(self) -> str:
        """The newest change, for an event."""
        return f"{self.id}-{self.cursor}"

    def make_trial(self, number: int) -> dict[str, Any]:
        """Returns a trial that trained for a while."""
        draw = self.random
        rate, dropout = 10 ** draw.uniform(-5, -1), draw.uniform(0, 0.5)
        state = draw.choices(["COMPLETED", "ACTIVE", "ERROR", "CANCELED"], [90, 4, 3, 3])[0]
        quality = 0.95 - 0.08 * (math.log10(rate) + 3) ** 2 - dropout * 0.1 + draw.gauss(0, 0.02)
        begin = self.start + number * 3300 / 10000
        return {
            "id": number,
            "experiment_id": 1,
            "request_id": f"r{number}",
            "state": state,
            "hparams": {
                "learning_rate": rate,
                "model": {"dropout": dropout, "layers": draw.randint(1, 8)},
                "optimizer": draw.choice(["adam", "sgd", "lamb"]),
                "global_batch_size": 32,
            },
            "seed": draw.randrange(2**31),
            "parent_trial_id": None,
            "restarts": int(draw.random() < 0.03),
            "total_batches": NUM_POINTS * 20,
            "latest_checkpoint": None,
            "best_metric": "NaN" if draw.random() < 0.01 else max(0.1, quality),
            "latest_metric": max(0.05, quality - abs(draw.gauss(0, 0.01))),
            "progress": 1.0 if state == "COMPLETED" else draw.random(),
            "start_time": begin,
            "end_time": None if state == "ACTIVE" else begin + draw.expovariate(1 / 60),
            "reason": "exit code 1: <b>loss</b> is NaN" if state == "ERROR" else "",
            "held_secs": 0.0 if state == "ACTIVE" else draw.expovariate(1 / 60),
            "held_since": begin if state == "ACTIVE" else None,
        }

    def to_curve(self, trial: dict[str, Any], name: str) -> tuple[array.array, ...]:
        """Returns the points of a trial's metric."""
        noise, top = random.Random(trial["id"]), float(trial["latest_metric"])
        batches = array.array("d", [20.0 * (at + 1) for at in range(NUM_POINTS)])
        rise = [1 - math.exp(-4 * (at + 1) / NUM_POINTS) for at in range(NUM_POINTS)]
        level = [top * part + noise.gauss(0, 0.005) for part in rise]
        values = level if name == METRICS[0] else [2.5 * (1 - value) for value in level]
        times = array.array("d", [trial["start_time"] + at for at in range(NUM_POINTS)])
        return batches, array.array("d", values), times

    def to_summary(self) -> dict[str, Any]:
        """Returns the experiment as lists show it."""
        counts: dict[str, int] = {}
        for trial in self.trials:
            counts[trial["state"]] = counts.get(trial["state"], 0) + 1
        searcher = {
            "name": "adaptive_asha",
            "metric": "accuracy",
            "smaller_is_better": False,
            "max_trials": len(self.trials),
        }
        return {
            "id": 1,
            "state": "ACTIVE",
            "description": "Digits, a wide search over Keras models",
            "labels": ["digits", "paper"],
            "progress": 0.62,
            "start_time": self.start,
            "end_time": None,
            "is_archived": False,
            "parent_id": None,
            "reason": "",
            "model_dir": "",
            "num_trials": counts,
            "best_metric": max(
                float(one["best_metric"]) for one in self.trials if one["best_metric"] != "NaN"
            ),
            "config": {"name": "digits", "searcher": searcher, "resources": {"slots_per_trial": 1}},
        }

    def list_summaries(self) -> list[dict[str, Any]]:
        """Returns it, and others that have ended."""
        others = [
            ("COMPLETED", 1.0, '<img src=x onerror="alert(1)"> a name of hostile HTML', False),
            ("ERROR", 0.3, "Translation, small transformer " + "with a very long name " * 8, False),
            ("PAUSED", 0.5, "Digits, PBT", False),
            ("CANCELED", 0.1, "Digits, first try", True),
        ]
        made = [
            {
                "id": number,
                "state": state,
                "config": {**self.to_summary()["config"], "name": name},
                "description": "",
                "progress": progress,
                "is_archived": is_archived,
                "end_time": None if state == "PAUSED" else self.start + 700 * number,
                "num_trials": {"COMPLETED": 10, "ERROR": 6 if state == "ERROR" else 0},
            }
            for number, (state, progress, name, is_archived) in enumerate(others, 2)
        ]
        return [self.to_summary(), *({**self.to_summary(), **one} for one in made)]

    def to_table(self) -> dict[str, Any]:
        """Returns the columnar table."""
        names = (
            [name for name in self.trials[0] if name not in ("hparams", "experiment_id")]
            if self.trials
            else []
        )
        flat = [
            {
                "learning_rate": one["hparams"]["learning_rate"],
                **{f"model.{name}": value for name, value in one["hparams"]["model"].items()},
                "optimizer": one["hparams"]["optimizer"],
                "global_batch_size": 32,
            }
            for one in self.trials
        ]
        best, last = (
            [one[name] for one in self.trials] for name in ("best_metric", "latest_metric")
        )
        losses = [2.5 * (1 - value) for value in last]
        return {
            "cursor": self.cursor_text,
            "num_trials": len(self.trials),
            "columns": {name: [one[name] for one in self.trials] for name in names or ["id"]},
            "hparams": {name: [one[name] for one in flat] for name in (flat[0] if flat else {})},
            "metrics": {
                METRICS[0]: {
                    "best_is": "max",
                    "last": last,
                    "min": [0.05] * len(last),
                    "max": best,
                },
                METRICS[1]: {
                    "best_is": "min",
                    "last": losses,
                    "min": losses,
                    "max": [2.5] * len(last),
                },
            }
            if self.trials
            else {},
        }

    def to_search(self) -> dict[str, Any]:
        """Returns a bracket of two rungs, in the first of which some trials were stopped."""
        ended = [one["id"] for one in self.trials if one["state"] == "COMPLETED"]
        stopped, others = ended[:NUM_STOPPED], ended[NUM_STOPPED:]
        rungs = [
            [(one, "stopped") for one in stopped] + [(one, "promoted") for one in others],
            [(one, "done") for one in others],
        ]
        lists = [[[one, None, outcome] for one, outcome in rung] for rung in rungs]
        brackets = [
            {
                "rungs": [
                    {"units": 1, "batches": 100 * at, "trials": trials}
                    for at, trials in enumerate(lists, 1)
                ]
            }
        ]
        return {"kind": "adaptive_asha", "brackets": brackets, "lineage": []}

    def choose(self, where: str) -> list[dict[str, int]]:
        """Returns the trials that an expression chooses."""
        found = self.to_table()
        columns = dict.fromkeys(trial_table.COLUMNS, [None] * len(self.trials)) | found["columns"]
        metrics = {name: trial_table.MetricColumns(**one) for name, one in found["metrics"].items()}
        table = trial_table.TrialTable(**{**found, "columns": columns, "metrics": metrics})
        return [{"id": self.trials[row]["id"]} for row in table.select(where)]

    def to_curves(self, names: list[str], trial_ids: list[int]) -> bytes:
        """Returns packed curves."""
        wanted = set(trial_ids)
        chosen = [
            (one, name)
            for name in names
            for one in self.trials
            if not wanted or one["id"] in wanted
        ]
        rows = [[one["id"], name, NUM_POINTS] for one, name in chosen]
        header = json.dumps({"cursor": self.cursor_text, "curves": rows}).encode()
        header += b" " * (-(4 + len(header)) % 8)
        parts = [struct.pack("<I", len(header)), header]
        for one, name in chosen:
            parts += [part.tobytes() for part in self.to_curve(one, name)]
        return b"".join(parts)

    def tick(self) -> dict[str, Any]:
        """Lets a running trial report a point, and now and then starts one."""
        self.cursor += 1
        changes: dict[str, Any] = {"cursor": self.cursor_text}
        if self.cursor % 10 == 0:
            new = self.make_trial(len(self.trials) + 1)
            self.trials.append(new)
            changes |= {"trials": [new], "experiments": [self.to_summary()]}
        running = [one for one in self.trials if one["state"] == "ACTIVE"]
        if running:
            one = self.random.choice(running)
            one["total_batches"] += 20
            one["latest_metric"] = min(1.0, one["latest_metric"] + self.random.gauss(0.003, 0.01))
            changes.setdefault("trials", []).append(one)
            values = {"accuracy": one["latest_metric"]}
            changes["metrics"] = [
                [one["id"], "validation", one["total_batches"], time.time(), values]
            ]
        return changes


STATUS = {
    "slots": [
        {
            "id": at,
            "kind": "cpu",
            "device": "",
            "num_threads": 1,
            "trial_id": at,
            "experiment_id": 1,
        }
        for at in range(4)
    ],
    "experiments": [
        {
            "experiment_id": 1,
            "state": "ACTIVE",
            "progress": 0.62,
            "eta_secs": 2210.0,
            "running_trials": [1, 2],
            "work": [{"trial_id": 2, "doing": "training 40/200", "progress": 0.2}],
            "waiting_trials": [],
        }
    ],
    "problem": "",
    "slow_start": "",
}


class Server(http.server.ThreadingHTTPServer):
    """A server whose streams end with it."""

    daemon_threads = True
    is_over = False
    home: Home

    def stop(self) -> None:
        """Stops answering, and ends what is being sent."""
        if not self.is_over:
            self.is_over = True
            self.shutdown()
            self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers as the master would."""

    protocol_version = "HTTP/1.1"

    def __init__(self, home: Home, is_live: bool, is_empty: bool, *args: Any) -> None:
        self.home, self.is_live, self.is_empty = home, is_live, is_empty
        super().__init__(*args)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        """Serves files and data."""
        url = urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(url.query)
        if url.path == "/api/v1/events":
            self.stream(query.get("cursor", [""])[0])
        elif url.path.startswith("/api/v1/"):
            self.answer(url.path.removeprefix("/api/v1"), query)
        else:
            name = "index.html" if url.path == "/" else url.path.removeprefix("/static/")
            file = PAGE / name
            if ".." in name or not file.is_file():
                self.send(404, "text/plain", b"no such file")
            else:
                self.send(200, TYPES.get(file.suffix, "text/plain"), file.read_bytes())

    def answer(self, path: str, query: dict[str, list[str]]) -> None:
        """Answers below `/api/v1`."""
        answers: dict[str, Any] = {
            "/experiments": lambda: [] if self.is_empty else self.home.list_summaries(),
            "/experiments/1": lambda: (
                self.home.to_summary()
                | {
                    "config": self.home.to_summary()["config"] | {"hyperparameters": SPACE},
                    "original_config": "name: digits\n",
                }
            ),
            "/experiments/1/table": self.home.to_table,
            "/experiments/1/search": self.home.to_search,
            "/experiments/1/best": lambda: self.home.standings,
            "/experiments/1/importance": lambda: {
                "evaluator": "fanova",
                "num_trials": len(self.home.trials),
                "importances": [["learning_rate", 0.8], ["model.dropout", 0.2]],
                "problem": "",
            },
            "/master": lambda: {
                "version": "0",
                "home": "/tmp",
                "url": "",
                "pid": 1,
                "start_time": 0,
            },
            "/master/status": lambda: STATUS,
            "/runs": list,
            "/whoami": lambda: {"name": "owner", "roles": {"": "admin"}, "has_token": True},
        }
        if path == "/experiments/1/curves":
            trial_ids = [int(one) for one in query.get("trial_id", [])]
            self.send(
                200,
                "application/octet-stream",
                self.home.to_curves(query.get("metric", list(METRICS)), trial_ids),
            )
        elif path.endswith("/checkpoints"):
            checkpoint = {"uuid": UUID, "state": "COMPLETED", "metric": 0.9, "total_batches": 9}
            self.send_json(200, [checkpoint])
        elif found := re.fullmatch(r"/trials/([0-9]+)", path):
            self.send_json(200, self.home.trials[int(found[1]) - 1])
        elif path in answers:
            self.send_json(200, answers[path]())
        elif path == "/experiments/1/trials":
            try:
                self.send_json(200, self.home.choose(query["where"][0]))
            except errors.ConfigError as error:
                self.send_json(400, {"error": {"kind": "ConfigError", "message": str(error)}})
        else:
            message = f"There is no {path} here."
            self.send_json(404, {"error": {"kind": "NotFoundError", "message": message}})

    def stream(self, cursor: str) -> None:
        """Sends events until the browser goes."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            if cursor and not cursor.startswith(self.home.id):
                self.emit("reset", {}, self.home.cursor_text)
            self.emit("status", STATUS | {"time": time.time()})
            while not self.server.is_over:
                time.sleep(0.1)
                if self.is_live:
                    changes = self.home.tick()
                    self.emit("changes", changes, changes["cursor"])
                else:
                    self.wfile.write(b": keep-alive\n\n")
        except (BrokenPipeError, ConnectionResetError):
            pass
        self.close_connection = True

    def emit(self, kind: str, data: dict[str, Any], cursor: str = "") -> None:
        """Sends one event."""
        head = f"id: {cursor}\n" if cursor else ""
        self.wfile.write(f"{head}event: {kind}\ndata: {json.dumps(data)}\n\n".encode())
        self.wfile.flush()

    def send_json(self, code: int, content: Any) -> None:
        """Sends an answer of data."""
        self.send(code, "application/json", json.dumps(content).encode())

    def send(self, code: int, kind: str, body: bytes) -> None:
        """Sends a whole answer."""
        self.send_response(code)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Cache-Control": "no-cache",
            "Content-Security-Policy": POLICY,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def build_server(
    *,
    num_trials: int = 100,
    num_seeds: int = 1,
    port: int = 0,
    is_live: bool = False,
    is_empty: bool = False,
) -> Server:
    """Returns a server of made-up data; `serve_forever` runs it."""
    home = Home(0 if is_empty else num_trials, num_seeds)
    server = Server(("127.0.0.1", port), functools.partial(Handler, home, is_live, is_empty))
    server.home = home
    return server


def main() -> None:
    """Serves until it is stopped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--port", type=int, default=8765)
    parser.add_argument("--live", action="store_true")
    parser.add_argument("--empty", action="store_true")
    args = parser.parse_args()
    server = build_server(
        num_trials=args.trials, port=args.port, is_live=args.live, is_empty=args.empty
    )
    server.serve_forever()


if __name__ == "__main__":
    main()
