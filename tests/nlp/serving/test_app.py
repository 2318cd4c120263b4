import threading

import pytest
from fastapi import testclient

from quintain import errors
from quintain.nlp.serving import app, served_model


def check(texts):
    for number, text in enumerate(texts, start=1):
        if "long" in text:
            raise errors.DataError(f"text {number}: has 9 tokens, expected at most 5.")


def translate(texts):
    return [{"text": text.upper(), "score": -1.0} for text in texts]


@pytest.fixture
def client():
    model = served_model.ServedModel("translation", translate, check)
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
        ({"texts": []}, "at least 1"),
        ({"text": "a"}, "Field required"),
        ({"texts": [3]}, "string"),
    ],
)
def test_bad_requests_are_told_what_is_wrong(client, body, words):
    answer = client.post("/translate", json=body)
    assert answer.status_code == 422
    assert words in answer.text


def test_a_request_that_is_too_large_is_refused(client, monkeypatch):
    monkeypatch.setattr(app, "MAX_BODY_BYTES", 10)
    answer = client.post("/translate", json={"texts": ["a" * 10]})
    assert answer.status_code == 413


def test_pairs_of_texts_are_predicted():
    def predict(texts):
        return [{"label": "same" if first == second else "other"} for first, second in texts]

    model = served_model.ServedModel(
        "sentence_prediction", predict, lambda texts: None, num_fields=2
    )
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
        assert is_open.wait(10)
        return translate(texts)

    model = served_model.ServedModel("translation", wait, check)
    served = app.build_app(model, max_queue=1, timeout_secs=0.2)
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
