"""Every address of a served model gets values that nobody means well with."""

import json
import logging
import random

import pytest
from fastapi import testclient

from quintain.serving import app, served_model

VALUES = [
    None, True, 0, -1, 1.5, 2**70, 10**400, "", "a", "\0", "a" * 5000, "\u202e", [], [1], [[]],
    ["a"], ["a", "b"], ["a"] * 300, {}, {"": 0}, [None], [["a", None]], [{"a": "b"}], [["a"] * 9],
    ["a" * 200_000], [["a" * 200_000]], [[["a"]]],
]  # fmt: skip
BODIES = [
    b"", b"{", b"[]", b"null", b"\xff", b"[" * 30_000, b'{"texts":' * 30_000, b'{"texts": [NaN]}',
    b"9" * 5000, b'{"texts": ["\\ud800"]}', b"texts=a", b"\x00", b'{"texts": [1e999]}',
]  # fmt: skip
PARTS = ["", "%00", "%2e%2e", "..", "a" * 5000, "%ff", "default:predict", "?" * 300, "%0d%0aX: y"]
TYPES = ["application/json", "application/x-www-form-urlencoded", "text/plain", "a" * 300, "\xe4"]
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "BREW"]


@pytest.fixture
def ask(caplog):
    def predict(texts):
        assert all(isinstance(text, str) for row in texts for text in row)
        return [{"label": "a"} for _ in texts]

    def check(texts):
        served_model.check_texts(texts, 2, served_model.MAX_TEXT_BYTES)
        return texts

    model = served_model.ServedModel("sentence_prediction", predict, check, example=["a", "b"])
    served = app.build_app(model, max_queue=200)
    with testclient.TestClient(served, raise_server_exceptions=False) as client:

        def send(method, path, **request):
            answer = client.request(method, path, **request)
            shown = f"{method} {path[:200]} {str(request)[:300]}: {answer.text[:300]}"
            assert answer.status_code < 500, shown
            assert [one for one in caplog.records if one.levelno >= logging.ERROR] == [], shown
            return answer

        yield send


@pytest.mark.slow
def test_no_request_is_a_fault_of_the_server(ask):
    choice = random.Random(5)
    paths = list(ask("GET", "/openapi.json").json()["paths"])
    assert len(paths) >= 5
    for path in [*paths, "/docs", "/redoc", "/openapi.json"]:
        for method in METHODS:
            ask(method, path, headers={"Host": choice.choice(["testserver", "x", "", "a" * 300])})
        for part in PARTS:
            ask("GET", f"{path.rstrip(chr(47))}/{part}")
    for path in ("/predict", "/v1/models/default:predict"):
        for body in BODIES:
            kind = choice.choice(TYPES).encode("latin-1")
            assert ask("POST", path, content=body, headers={"Content-Type": kind}).is_error
        for name in ("texts", "instances", "extra"):
            for value in VALUES:
                content = json.dumps({"texts": [["a", "b"]], name: value}).encode()
                ask("POST", path, content=content, headers={"Content-Type": TYPES[0]})
    answer = ask("POST", "/predict", json={"texts": [["a", "b"]]})
    assert answer.json() == {"predictions": [{"label": "a"}]}
    assert ask("GET", "/health").json()["waiting"] == 0
