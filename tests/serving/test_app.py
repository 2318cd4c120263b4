import asyncio
import dataclasses
import json
import threading

import pytest
from fastapi import testclient

from quintain import errors
from quintain.serving import app, served_model


def check(texts):
    served_model.check_texts(texts, 1, served_model.MAX_TEXT_BYTES)
    for number, text in enumerate(texts, start=1):
        if "long" in text:
            raise errors.DataError(f"text {number}: has 9 tokens, expected at most 5.")
    return texts


def translate(texts):
    return [{"text": text.upper(), "score": -1.0} for text in texts]


def build_model(run, check):
    return served_model.ServedModel(
        "translation", run, check, example="a", path="/translate", result="translations"
    )


@pytest.fixture
def client():
    model = build_model(translate, check)
    with testclient.TestClient(app.build_app(model)) as opened:
        yield opened


def test_texts_are_answered_in_their_order(client):
    answer = client.post("/translate", json={"texts": ["a", "b"]})
    assert answer.status_code == 200
    assert answer.json() == {
        "translations": [{"text": "A", "score": -1.0}, {"text": "B", "score": -1.0}]
    }


def test_the_words_of_tensorflow_serving_are_understood(client):
    answer = client.post("/v1/models/default:predict", json={"instances": ["a"]})
    assert answer.json() == {"predictions": [{"text": "A", "score": -1.0}]}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"texts": ["a", "so long"]}, "text 2: has 9 tokens"),
        ({"texts": [["a", "b"]]}, "expected a string"),
        ({"texts": [3]}, "text 1: got 3, expected a string."),
        ({"texts": []}, """texts: got [], expected a list, such as {"texts": ["a"]}."""),
        ({"texts": None}, "texts: got None, expected a list"),
        ({}, "texts: got None, expected a list"),
        ({"texts": "a"}, "texts: got 'a', expected a list"),
        ({"text": ["a"]}, "text: there is no such field. Did you mean 'texts'? Expected a body"),
        ({"texts": ["a"], "beam": 3}, "beam: there is no such field."),
        (["a"], "body: got ['a'], expected a JSON object"),
        (None, "body: got None, expected a JSON object"),
    ],
)
def test_bad_requests_are_told_what_is_wrong(client, body, words):
    answer = client.post("/translate", json=body)
    assert answer.status_code == 422
    assert words in answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "expected one of `instances` and `inputs`"),
        ({"instances": ["a"], "inputs": ["a"]}, "expected one of `instances` and `inputs`"),
        ({"instances": "a"}, "instances: got 'a', expected a list"),
        ({"inputs": "a"}, "inputs: got 'a', expected a list"),
        ({"inputs": {}}, "inputs: got {}, expected a list"),
        ({"instance": ["a"]}, "Did you mean 'instances'?"),
        ({"instances": ["a"], "signature_name": "x"}, "got 'x', expected 'serving_default'"),
        ({"instances": ["a"], "signature_name": []}, "got [], expected 'serving_default'"),
        ({"instances": [["a"]]}, 'text 1: got ["a"], expected a string'),
    ],
)
def test_bad_requests_in_the_words_of_tensorflow_serving_are_told_the_same_way(client, body, words):
    answer = client.post("/v1/models/default:predict", json=body)
    assert answer.status_code == 422
    assert words in answer.json()["detail"]


@pytest.mark.parametrize("name", ["texts", "inputs", "instances"])
@pytest.mark.parametrize("path", ["/translate", "/v1/models/default:predict"])
def test_a_body_of_many_mistakes_costs_no_more_than_one_of_a_single_one(client, path, name):
    """A list of all of them took a minute and gigabytes, in which nobody else was answered."""
    many = json.dumps({name: [0] * 50_000}).encode()
    fields = json.dumps({f"{name}{number}": 0 for number in range(50_000)}).encode()
    for body in (many, fields):
        answer = client.post(path, content=body)
        assert answer.status_code in (413, 422)
        detail = answer.json()["detail"]
        assert isinstance(detail, str)
        assert len(detail) < 500


def test_addresses_and_methods_that_there_are_not_say_what_there_is(client):
    answer = client.post("/translat", json={})
    assert (answer.status_code, answer.json()["detail"]) == (
        404,
        "/translat: there is no such address. Did you mean '/translate'? GET / says what is "
        "served.",
    )
    answer = client.get("/translate")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert answer.json()["detail"] == "/translate: got GET, expected POST."


def test_a_request_that_is_too_large_is_refused(client, monkeypatch):
    monkeypatch.setattr(app, "MAX_BODY_BYTES", 10)
    answer = client.post("/translate", json={"texts": ["a" * 10]})
    assert answer.status_code == 413


def test_pairs_of_texts_are_predicted():
    def predict(texts):
        return [{"label": "same" if first == second else "other"} for first, second in texts]

    def check_pairs(texts):
        served_model.check_texts(texts, 2, 100)
        return texts

    model = served_model.ServedModel("sentence_prediction", predict, check_pairs, example=["a"] * 2)
    with testclient.TestClient(app.build_app(model)) as client:
        answer = client.post("/predict", json={"texts": [["a", "a"], ["a", "b"]]})
        assert answer.json() == {"predictions": [{"label": "same"}, {"label": "other"}]}
        answer = client.post("/predict", json={"texts": ["a"]})
        assert "expected a list of 2 strings" in answer.json()["detail"]
        assert client.get("/").json()["path"] == "/predict"


def test_a_full_queue_is_told_to_come_again_and_a_late_answer_is_given_up():
    is_open, has_begun = threading.Event(), threading.Event()

    def wait(texts):
        has_begun.set()
        assert is_open.wait(60)
        return translate(texts)

    model = build_model(wait, check)
    # What has not begun within this time never does.
    served = app.build_app(model, max_queue=1, timeout_secs=2.0)
    with testclient.TestClient(served) as client:
        late = client.post("/translate", json={"texts": ["a"]})
        assert late.status_code == 504
        assert has_begun.is_set()
        full = client.post("/translate", json={"texts": ["b"]})
        assert (full.status_code, full.headers["retry-after"]) == (503, "1")
        is_open.set()


def test_health_and_metrics_say_what_happens(client):
    client.post("/translate", json={"texts": ["a", "b"]})
    client.post("/translate", json={"texts": []})
    assert client.get("/health").json() == {"status": "ok", "waiting": 0}
    lines = client.get("/metrics").text.splitlines()
    assert 'quintain_requests_total{status="200"} 1.0' in lines
    assert 'quintain_requests_total{status="422"} 1.0' in lines
    assert "quintain_texts_total 2.0" in lines
    assert "quintain_batch_size_sum 2.0" in lines


def serve(run, **settings):
    model = build_model(run, check)
    return testclient.TestClient(app.build_app(model, **settings))


def fail(texts):
    raise ValueError("a matrix of ours")


def test_a_model_that_fails_is_counted_and_the_server_lives(caplog):
    with serve(fail) as client:
        answer = client.post("/translate", json={"texts": ["a"]})
        assert answer.status_code == 500
        assert answer.json() == {
            "detail": "the model failed (ValueError); the server's log says more."
        }
        assert 'quintain_requests_total{status="500"} 1.0' in client.get("/metrics").text
        assert client.get("/health").json()["waiting"] == 0
    assert "a matrix of ours" in caplog.text


def test_a_fault_of_the_server_itself_is_answered_like_all_errors(caplog):
    def check(texts):
        raise RuntimeError("can't start new thread")

    served = app.build_app(build_model(translate, check))
    with testclient.TestClient(served, raise_server_exceptions=False) as client:
        answer = client.post("/translate", json={"texts": ["a"]})
    assert (answer.status_code, answer.json()) == (
        500,
        {"detail": "the server failed (RuntimeError); its log says more."},
    )


def test_a_request_that_is_given_up_is_not_worked_on_any_more():
    given_up = threading.Event()

    def join(texts, is_wanted):
        while is_wanted():
            assert not given_up.wait(0.001)
        given_up.set()
        raise RuntimeError("whatever")

    model = dataclasses.replace(build_model(translate, check), join=join)
    with testclient.TestClient(app.build_app(model, timeout_secs=0.2)) as client:
        assert client.post("/translate", json={"texts": ["a"]}).status_code == 504
        assert given_up.wait(60)
        while client.get("/health").json()["waiting"]:
            pass


def test_a_request_that_comes_in_pieces_is_limited_as_well(client, monkeypatch):
    monkeypatch.setattr(app, "MAX_BODY_BYTES", 100)
    pieces = iter([b'{"texts": ["', b"a" * 60, b"a" * 60, b'"]}'])
    answer = client.post("/translate", content=pieces)
    assert answer.status_code == 413
    assert answer.json() == {"detail": "the request is larger than 100 bytes."}
    assert 'quintain_requests_total{status="413"} 1.0' in client.get("/metrics").text


def test_a_request_of_more_texts_than_may_wait_is_refused():
    with serve(translate, max_queue=2) as client:
        answer = client.post("/translate", json={"texts": ["a", "b", "c"]})
        assert answer.status_code == 413
        assert answer.json()["detail"] == "got 3 texts, expected at most 2 in a request."


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"texts": ["\\ud800"]}', 422),
        (b'{"texts": [NaN]}', 422),
        (b'{"texts": "a"}', 422),
        (b'{"texts": ["a"], "beam": 3}', 422),
        (b'["a"]', 422),
        (b"{texts}", 422),
        (b"", 422),
        (b'{"texts": ["\xff"]}', 422),
        (b"[" * 100_000, 422),
        (b'{"texts": ' + b"[" * 100 + b"]" * 100 + b"}", 422),
        (b'{"texts": ["a"], "b": 1e999}', 422),
    ],
)
def test_broken_bodies_are_the_mistake_of_the_client(client, body, status):
    answer = client.post("/translate", content=body)
    assert (answer.status_code, list(answer.json())) == (status, ["detail"])


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json; charset=utf-8", 200),
        ("application/x-www-form-urlencoded", 200),  # What `curl -d` says.
        ("text/plain", 415),
        ("multipart/form-data; boundary=x", 415),
    ],
)
def test_json_may_be_called_a_form_and_nothing_else(client, kind, status):
    headers = {"Content-Type": kind}
    answer = client.post("/translate", content=b'{"texts": ["a"]}', headers=headers)
    assert answer.status_code == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "LOCALHOST"}, 200),
        ({"Host": "a.example"}, 200),
        ({"Host": "a.example", "Origin": "https://a.example"}, 200),
        ({"Origin": "http://testserver"}, 200),
        ({"Host": "evil.example"}, 421),
        ({"Host": "localhost.evil.example"}, 421),
        ({"Host": "a.example:81"}, 421),
        ({"Host": "localhost:81"}, 421),
        ({"Host": ""}, 421),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://testserver.evil.example"}, 403),
        ({"Origin": "http://testserver:81"}, 403),
    ],
)
@pytest.mark.parametrize("kind", ["application/json", "application/x-www-form-urlencoded"])
def test_pages_of_other_sites_can_not_ask(headers, status, kind):
    model = build_model(translate, check)
    with testclient.TestClient(app.build_app(model, hosts=["a.example"])) as client:
        headers = {**headers, "Content-Type": kind}
        answer = client.post("/translate", content=b'{"texts": ["a"]}', headers=headers)
        assert answer.status_code == status
        assert answer.status_code == 200 or list(answer.json()) == ["detail"]


def test_a_text_that_is_too_long_for_certain_is_not_cut_into_tokens():
    def fail_to_check(texts):
        served_model.check_texts(texts, 1, 100)
        pytest.fail("it is looked at")

    model = build_model(translate, fail_to_check)
    with testclient.TestClient(app.build_app(model)) as client:
        answer = client.post("/translate", json={"texts": ["a", "ä" * 51]})
        assert answer.status_code == 422
        assert answer.json()["detail"] == "text 2: has 102 bytes, expected at most 100."


def test_bodies_of_many_clients_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(app, "_MAX_HELD_BYTES", 100)
    with serve(translate) as client:
        for _ in range(3):
            answer = client.post("/translate", json={"texts": ["a" * 200]})
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            # Nothing of what was refused is counted any more.
            assert client.post("/translate", json={"texts": ["a" * 40]}).status_code == 200


def test_text_of_any_script_is_answered(client):
    texts = ["", "\x00\x1b", "אבג", "🙂🙃", "日本", "\u202e"]
    answer = client.post("/translate", json={"texts": texts})
    assert [one["text"] for one in answer.json()["translations"]] == [
        text.upper() for text in texts
    ]


async def post(served, text, *, leaves=False):
    """Calls the app as a server calls it; returns the status, and the body of the answer."""
    body = json.dumps({"texts": [text]}).encode()
    messages = [{"type": "http.request", "body": body}]
    sent = []

    async def receive():
        if messages:
            return messages.pop()
        if not leaves:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": "/translate",
        "headers": [
            (b"content-length", str(len(body)).encode()),
            (b"content-type", b"application/json"),
        ],
        "query_string": b"", "http_version": "1.1", "scheme": "http", "root_path": "",
    }  # fmt: skip
    await served(scope, receive, send)
    return sent[0]["status"], sent[1]["body"]


def test_what_a_client_did_not_wait_for_is_not_run():
    is_open, has_begun = threading.Event(), threading.Event()
    seen = []

    def wait(texts):
        seen.extend(texts)
        has_begun.set()
        assert is_open.wait(60)
        return translate(texts)

    model = build_model(wait, check)
    served = app.build_app(model, max_batch_size=1)

    async def run():
        async with served.router.lifespan_context(served):
            first = asyncio.ensure_future(post(served, "first"))
            await asyncio.to_thread(has_begun.wait, 60)
            left = await post(served, "left", leaves=True)
            is_open.set()
            answers = left, await first, await post(served, "last")
            return tuple(status for status, _ in answers)

    assert asyncio.run(run()) == (499, 200, 200)
    assert seen == ["first", "last"]


def test_who_is_cut_off_by_the_end_of_the_server_is_told_to_come_again():
    is_open, has_begun = threading.Event(), threading.Event()

    def wait(texts):
        has_begun.set()
        assert is_open.wait(60)
        return translate(texts)

    served = app.build_app(build_model(wait, check))

    async def run():
        asked = asyncio.ensure_future(post(served, "a"))
        await asyncio.to_thread(has_begun.wait, 60)
        asked.cancel()
        found = await asked
        is_open.set()
        return found

    status, body = asyncio.run(run())
    assert (status, json.loads(body)) == (503, {"detail": "The server is shutting down."})
