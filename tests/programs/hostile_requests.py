"""Requests that nobody means well with, for each address of a master: see `fuzz_master.py`."""

import copy
import dataclasses
import json
import re
import urllib.parse

from quintain.cluster.agents import agent_protocol
from quintain.server.security import path_rules

PREFIX = "/api/v1"
UUID = "0b1c2d3e-0000-4000-8000-000000000001"

NUMBERS = [
    0, -1, 1, 2, 3, 99, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**400, 1.5, -0.0,
    1e-320, 1e308, -1e308,
]  # fmt: skip
TEXTS = [
    "", " ", "a", "..", "../../etc/passwd", "/etc/passwd", "/dev/zero", "/proc/self/environ",
    "plain", "link", ".", "a/../b", "a//b", "\0", "a\0b", "\x1b[2J", "\r\nX: y", "\u202e", "ä",
    "\ud800", "a" * 5000, "x/" * 3000, "NaN", "Infinity", "-1", "1e999", "٣", "9" * 5000, "%2e%2e",
    "'; drop table trials--", "{}", "[1]", "null", "true", "*", "~", "$(id)", "master", UUID,
]  # fmt: skip
OTHERS = [
    None, True, False, [], {}, [[]], [None], {"": 0}, {"a": {"b": [None]}}, ["a"] * 300,
    {"__class__": "x"}, {"kind": "TRAIN"}, {"name": "single"}, [1, "a", {}],
]  # fmt: skip
RAW = [
    b"", b"{", b"[]", b"null", b"1", b"\xff", b"[" * 30_000, b'{"a":' * 30_000, b"NaN", b"1e999",
    b"9" * 5000, b'{"a": "\\ud800"}', b'{"a": 1, "a": 2}', b"\x00", b"a=b", b"{}{}", b"-",
    b'{"number": ' + b"1" * 4000 + b"}", b"[" + b"0," * 100_000 + b"0]",
]  # fmt: skip
QUERIES = [
    "session", "after", "kept", "wait", "offset", "limit", "last", "before", "where", "sort",
    "fields", "metric", "level", "state", "label", "source", "contains", "trial_id",
    "experiment_id", "from", "to", "cursor", "since", "summary", "evaluator",
    "group", "uuid", "find", "file",
]  # fmt: skip
HEADERS = {
    "Content-Type": ["text/plain", "application/json; charset=utf-7", "", "multipart/form-data"],
    "Range": [
        "bytes=-1",
        "bytes=0-",
        "bytes=99999999999999999999-",
        "bytes=5-1",
        "a",
        "bytes=0-0,2-3",
    ],
    "Accept-Encoding": ["gzip", "a" * 5000, "identity;q=0"],
    "If-None-Match": ["*", '"a"'],
    "X-Forwarded-For": ["127.0.0.1"],
    "Cookie": ["a=b", "quintain-session-1=a.b.c", ";" * 3000],
    "Origin": ["http://example.org", "null"],
    "Expect": ["100-continue"],
    "Content-Encoding": ["gzip"],
}


@dataclasses.dataclass
class Request:
    """One request."""

    method: str
    path: str
    query: list[tuple[str, str]]
    headers: dict[str, str]
    body: object = None
    raw: bytes | None = None

    def target(self):
        """Returns the address as it is sent."""
        query = urllib.parse.urlencode(self.query, errors="surrogatepass")
        return PREFIX + self.path + (f"?{query}" if query else "")

    def data(self):
        """Returns the body as it is sent."""
        if self.raw is not None:
            return self.raw
        return None if self.body is None else json.dumps(self.body).encode()

    def __str__(self):
        return f"{self.method} {self.target()[:300]} {self.headers} {str(self.data())[:600]}"


class Drawer:
    """Draws requests.

    Args:
        choice: What draws.
    """

    def __init__(self, choice):
        self._choice = choice
        self.known = []

    def draw(self, facts, *, method, path):
        """Returns a request for an address with something wrong in it.

        Args:
            facts: Values of the parameters of the address, and `session`, that would be good.
            method: Of the table.
            path: Of the table.
        """
        request = Request(
            method, path, build_query(method, path, facts), {}, build_body(method, path, facts)
        )
        parameters = dict(facts)
        for _ in range(self._choice.choice([1, 1, 1, 2, 3])):
            self._spoil(request, parameters)
        request.path = re.sub(
            r"\{(\w+)(:path)?\}", lambda found: _quote(parameters.get(found[1], "1"), found), path
        )
        return request

    def _spoil(self, request, parameters):
        kinds = ["query", "header"]
        kinds += ["parameter"] * 2 if "{" in request.path else []
        kinds += ["body"] * 6 + ["raw"] if request.body is not None else ["raw"]
        match self._choice.choice(kinds):
            case "query":
                name = self._choice.choice(QUERIES)
                request.query.append((name, str(self._text())))
                self._choice.shuffle(request.query)
            case "header":
                name = self._choice.choice(list(HEADERS))
                request.headers[name] = self._choice.choice(HEADERS[name])
            case "parameter":
                found = re.findall(r"\{(\w+)(?::path)?\}", request.path)
                parameters[self._choice.choice(found)] = self._text()
            case "raw":
                request.raw = self._choice.choice(RAW)
            case "body":
                request.body = self._change(copy.deepcopy(request.body))

    def _change(self, body):
        """Returns a body of which one value, somewhere, is another one, or is gone."""
        if not isinstance(body, dict | list) or not body or self._choice.random() < 0.1:
            return self._value()
        key = self._choice.choice(list(body) if isinstance(body, dict) else range(len(body)))
        inside = isinstance(body[key], dict | list) and body[key]
        match self._choice.choice(["inside"] * 4 if inside else ["value"] * 5 + ["gone", "more"]):
            case "inside":
                body[key] = self._change(body[key])
            case "value":
                body[key] = self._value()
            case "gone":
                del body[key]
            case "more" if isinstance(body, dict):
                body[str(self._text())] = self._value()
            case "more":
                body.append(self._value())
        return body

    def _value(self):
        kinds = [NUMBERS, NUMBERS, TEXTS, TEXTS, OTHERS, self.known or TEXTS, self.known or TEXTS]
        return copy.deepcopy(self._choice.choice(self._choice.choice(kinds)))

    def _text(self):
        kinds = [TEXTS, NUMBERS, self.known or TEXTS]
        chosen = self._choice.choice(self._choice.choice(kinds))
        return "1" + "0" * 400 if chosen == 10**400 else chosen


def _quote(value, found):
    text = str(value).encode("utf-8", "surrogatepass")
    return urllib.parse.quote(text, safe="/" if found[2] else "")


def build_query(method, path, facts):
    if path.startswith("/agents/") and method != "PUT":
        return [("session", facts.get("session", ""))]
    return [("wait", "0")] if path.endswith("/workload") else []


def build_body(method, path, facts):
    """Returns a good body for an address, or None if it takes none."""
    trial_id, experiment_id = int(facts["trial_id"]), int(facts["experiment_id"])
    work = {
        "experiment_id": experiment_id, "trial_id": trial_id,
        "number": facts["number"], "num_batches": 5, "total_batches": facts["total_batches"],
        "following": [],
    } | facts.get("work", {})  # fmt: skip
    stored = {"uuid": facts["uuid"], "files": {"state.json": 10}}
    result = {
        "workload": {"kind": "TRAIN", **work}, "start_time": 1.0, "end_time": 2.0,
        "metrics": {"loss": 1.0, "parts": [1.0, "NaN"]},
        "batch_metrics": [{"loss": 1.0}], "num_inputs": 5, "checkpoint": None,
        "exited_reason": None,
    }  # fmt: skip
    saved = {**result, "workload": {"kind": "CHECKPOINT", **work}, "checkpoint": stored}
    seen = {**result, "workload": {"kind": "VALIDATE", **work}, "metrics": {"error": 1.0}}
    results = {"TRAIN": result, "CHECKPOINT": saved, "VALIDATE": seen}
    drawn = facts["choice"].choice(list(results.values()))
    hello = agent_protocol.to_plain(agent_protocol.Hello())
    hello |= {"name": facts["name"], "agent_id": "a", "place": "b", "slots": [{"id": 0}]}
    ended = {"launch_id": facts["launch_id"], "exit_code": 1, "last_lines": ["a"]}
    report = {
        "number": facts["number"], "started": [facts["launch_id"]], "exits": [ended],
        "lines": [[facts["launch_id"], 1.0, "stdout", "forged"]],
        "offsets": {facts["launch_id"]: 5}, "usage": {facts["launch_id"]: {"cpu": 1.0}},
        "draining": "",
    }  # fmt: skip
    bodies = {
        "/agents/{name}": hello if method == "PUT" else None,
        "/agents/{name}/reports": report,
        "/trials/{trial_id}/runs": {
            "pid": 1, "start_time": 1.0, "launch_id": facts["launch_id"], "mark": "a", "node": "",
        },
        "results": results.get(facts.get("work", {}).get("kind"), drawn),
        "rendezvous": {
            "rank": 0, "size": 2, "member": {"node": "", "host": "a", "outside": "a", "port": 5},
        },
        "damage": {"checkpoint": facts["uuid"], "damage": "cut"},
        "wait": {"waits_for": "a disk"},
        "steps": {"number": facts["number"], "batches": 3},
        "exit": {"reason": "errored", "message": "broken"},
        "/trials/{trial_id}/runs/{launch_id}/files/uploads/{uuid}": (
            {"sizes": {"state.json": 10, "metadata.json": 100}} if method == "POST" else None
        ),
        "/experiments": {"config_text": "name: a", "model_dir": "/nowhere", "overrides": ["a=1"]},
        "check": {"config_text": "name: a", "overrides": ["a=1"], "parent_id": experiment_id},
        "fork": {"config_text": None, "overrides": ["a.b=1"]},
        "continue": {"overrides": ["searcher.max_length=7"]},
        "/experiments/{experiment_id}": (
            {"description": "a", "labels": ["b"], "weight": 1.0, "priority": 5, "max_slots": 1}
            if method == "PATCH" else None
        ),
        "/trials/{trial_id}": {"note": "a"} if method == "PATCH" else None,
        "folders": {"paths": ["/nowhere"]},
        "tensorboard": {"runs": ["a"], "trial_ids": [trial_id], "experiment_id": None},
        "sign-in": {"stays": False},
        "drain": {"reason": "a"},
    }  # fmt: skip
    if method == "GET":
        return None
    return bodies.get(path, bodies.get(path.rpartition("/")[2], {} if method == "POST" else None))


def list_addresses(client):
    """Returns (method, path) of what a kind of client may ask for."""
    return [
        (method, path)
        for path, methods in path_rules.TABLE.items()
        for method, rule in methods.items()
        if client in rule.clients
    ]


def spoil_bytes(choice, data):
    """Returns the bytes of a request of which some are others, gone, or there twice."""
    data = bytearray(data)
    for _ in range(choice.choice([1, 1, 2, 5])):
        at = choice.randrange(len(data))
        match choice.randrange(6):
            case 0:
                data[at] = choice.randrange(256)
            case 1:
                del data[at : at + choice.choice([1, 2, 10])]
            case 2:
                data[at:at] = data[at : at + choice.choice([1, 5, 40])]
            case 3:
                data[at:at] = choice.choice([b"\r\n", b"\n", b"\r", b"\0", b":", b" ", b"\r\n\r\n"])
            case 4:
                data[at:at] = bytes(choice.randrange(256) for _ in range(5))
            case _:
                del data[at + 1 :]
    return bytes(data)
