"""A real process that answers real requests; and what it refuses to begin."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading

import pytest

from quintain.web import http_server

DELAY_MS = 700
NUM_TEXTS = 2000


class Server:
    """`quintain serve-model` on a free port."""

    def __init__(self, model_dir, *options):
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "quintain.cli.main", "serve-model"),
                *(f"--model-dir={model_dir}", "--port=0", *options),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        )
        self.lines = []
        self.url = self._read_url()

    def _read_url(self):
        for line in self.process.stderr:
            self.lines.append(line)
            if found := re.match(r"  curl (http://\S+) -d", line):
                return found[1]
        pytest.fail("".join(self.lines))

    def ask(self, *texts, path=None):
        """Returns status and answer of a request by curl."""
        url = self.url if path is None else self.url.rpartition("/")[0] + path
        body = ["-d", json.dumps({"texts": texts})] if texts else []
        result = subprocess.run(
            ["curl", "--silent", "--show-error", "--write-out", "\n%{http_code}", url, *body],
            capture_output=True,
            text=True,
            check=True,
        )
        content, _, status = result.stdout.rpartition("\n")
        return int(status), content

    def stop(self, sent):
        """Sends a signal, and returns the exit code and what was written."""
        self.process.send_signal(sent)
        out, err = self.process.communicate(timeout=120)
        return self.process.returncode, out, err


@pytest.fixture
def start():
    servers = []

    def call(*arguments):
        servers.append(Server(*arguments))
        return servers[-1]

    yield call
    for server in servers:
        if server.process.poll() is None:
            server.process.kill()
        server.process.communicate()


def ask_while_stopping(server, sent, *texts):
    """Sends a request and, while it waits for others, a signal."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(server.ask(*texts)))
    thread.start()
    while json.loads(server.ask(path="/health")[1])["waiting"] == 0:
        assert thread.is_alive(), answers
    ended = server.stop(sent)
    thread.join(60)
    return ended, answers


@pytest.mark.long("The road of tests/e2e asks a served model in every run")
@pytest.mark.slow
@pytest.mark.e2e
def test_translations_are_answered_and_an_interrupt_waits_for_the_last(start, model_dir):
    server = start(model_dir, "--max-queue=10000", "--max-source-length=20")
    status, content = server.ask("red house", "")
    assert status == 200
    first, second = json.loads(content)["translations"]
    assert set(first) == {"text", "score"}
    assert second == {"text": "", "score": 0.0}
    status, content = server.ask("red", "red " * 30)
    assert (status, json.loads(content)["detail"][:11]) == (422, "text 2: has")
    assert 'quintain_requests_total{status="422"} 1.0' in server.ask(path="/metrics")[1]

    # So many that they are not done before the signal, though none waits for others to come.
    texts = NUM_TEXTS * ["green tree"]
    ended, answers = ask_while_stopping(server, signal.SIGINT, *texts)

    assert ended == (0, "", "Stopped.\n")
    assert [status for status, _ in answers] == [200]
    assert len(json.loads(answers[0][1])["translations"]) == NUM_TEXTS


@pytest.mark.long("The same server as for translations")
@pytest.mark.slow
@pytest.mark.e2e
def test_predictions_are_answered_and_a_request_to_end_is_no_failure(start, classifier_dir):
    server = start(classifier_dir, f"--max-delay-ms={DELAY_MS}")
    assert server.url.endswith("/predict")

    ended, answers = ask_while_stopping(server, signal.SIGTERM, "ein Haus")

    assert ended == (0, "", "Stopped.\n")
    ((status, content),) = answers
    assert status == 200
    assert set(json.loads(content)["predictions"][0]["probabilities"]) == {"de", "en", "fr"}


def test_a_port_that_is_taken_is_an_error(quintain, model_dir):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, out, err = quintain("serve-model", f"--model-dir={model_dir}", f"--port={port}")

    assert (code, out) == (2, "")
    assert f"--port: got {port}, which can't be listened on" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model-dir=nowhere"], "holds no usable checkpoint"),
        (["--model-dir={run}", "--host=no.such.host.invalid"], "which can't be found"),
        (["--model-dir={run}", "--port=70000"], "70000 is not in the range"),
        (["--model-dir={run}", "--checkpoint=ckpt-9"], "ckpt-9"),
        (["--model-dir={run}", "--num-outputs=9", "--beam-size=2"], "num_outputs: got 9"),
        (["--model-dir={classifier}", "--beam-size=3"], "takes no options"),
        (["--model-dir={classifier}", "--max-source-length=3"], "takes no options"),
    ],
)
def test_mistakes_are_named_before_anything_is_served(
    quintain, model_dir, classifier_dir, tmp_path, monkeypatch, arguments, words
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        http_server, "serve_until_signal", lambda *args, **kwargs: pytest.fail("it serves")
    )
    places = {"run": model_dir, "classifier": classifier_dir}

    code, out, err = quintain(
        "serve-model", "--port=0", *(text.format(**places) for text in arguments)
    )

    assert (code, out) == (2, "")
    assert words in err
    assert "Traceback" not in err
