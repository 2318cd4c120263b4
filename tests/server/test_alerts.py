import dataclasses
import http.server
import json
import queue
import threading

import pytest

from quintain.client import home as home_lib
from quintain.records import experiment_spec, states
from quintain.server import alerts
from quintain.store import store as store_lib

WAIT_SECS = 30
ERROR = states.ExperimentState.ERROR
COMPLETED = states.ExperimentState.COMPLETED
SEARCHER = {"name": "single", "metric": "accuracy", "smaller_is_better": False, "max_length": 100}


@pytest.fixture
def hook():
    """Serves an address on loopback: what it got is in `got`; it answers what is in `answers`."""
    got, answers = queue.Queue(), []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = answers.pop(0) if answers else 204
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/elsewhere")
            self.end_headers()
            got.put((self.path, self.headers["Content-Type"], json.loads(body)))

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    server.got, server.answers = got, answers
    server.url = f"http://127.0.0.1:{server.server_port}/hook"
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def end(store, *found, state=COMPLETED, end_time=50.0, reason=""):
    """Ends experiment 1, which has these alerts."""
    with store.transaction() as session:
        former = session.get_experiment(1)
        config = {**former.config, "searcher": SEARCHER, "alerts": list(found)}
        ended = dataclasses.replace(
            former, config=config, state=state, end_time=end_time, reason=reason
        )
        session.update_experiment(ended)


def follow(store, home):
    return alerts.Alerts(store, home, retry_secs=(0.0, 0.0))


def test_an_address_is_told_what_has_ended_and_which_trial_was_best(store, home, hook):
    with follow(store, home):
        end(store, {"webhook": hook.url}, reason="enough")
        path, kind, report = hook.got.get(timeout=WAIT_SECS)

    assert (path, kind) == ("/hook", "application/json")
    assert (report["experiment_id"], report["experiment_name"]) == (1, "digits")
    assert (report["experiment_state"], report["reason"]) == ("COMPLETED", "enough")
    # Trial 2 has a NaN.
    assert (report["best_trial_id"], report["best_metric"]) == (1, 0.5)
    assert report["best_hparams"] == {"lr": 0.1}
    assert report["num_trials"]["ACTIVE"] == 2


def test_a_command_gets_json_and_variables(store, home):
    script = 'cat > out.json; echo "$QUINTAIN_EXPERIMENT_STATE $QUINTAIN_BEST_METRIC" > out.txt'

    with follow(store, home):
        end(store, {"command": script}, state=ERROR)

    assert (home.path / "out.txt").read_text() == "ERROR 0.5\n"
    assert json.loads((home.path / "out.json").read_text())["experiment_id"] == 1


def test_only_the_ends_that_were_asked_for_are_told(store, home, hook):
    with follow(store, home):
        end(store, {"on": ["error"], "webhook": hook.url}, {"webhook": f"{hook.url}/all"})

    assert [hook.got.get(timeout=WAIT_SECS)[0]] == ["/hook/all"]
    assert hook.got.empty()


def test_an_end_is_told_once_and_the_next_end_again(store, home, hook):
    with follow(store, home):
        end(store, {"webhook": hook.url})
    with follow(store, home):
        # A label of an experiment that has ended is a change, too.
        end(store, {"webhook": hook.url})
    with follow(store, home):
        end(store, {"webhook": hook.url}, end_time=80.0)

    assert [hook.got.get(timeout=WAIT_SECS)[2]["end_time"] for _ in range(2)] == [50.0, 80.0]
    assert hook.got.empty()


def test_an_end_that_a_killed_master_did_not_tell_is_told_by_the_next(store, home, hook):
    with follow(store, home):
        pass
    end(store, {"webhook": hook.url})

    with follow(store, home):
        pass

    assert hook.got.get(timeout=WAIT_SECS)[2]["experiment_id"] == 1


def test_what_ended_before_there_were_alerts_is_not_told(store, home, hook):
    end(store, {"webhook": hook.url})

    with follow(store, home):
        pass

    assert hook.got.empty()


@pytest.mark.parametrize(
    ("answers", "num_tries", "message"),
    [
        ([500, 429, 200], 3, "delivered"),
        ([503, 503, 503, 200], 3, "answered 503; given up"),
        ([404, 200], 1, "answered 404; given up"),
        ([302, 302, 302, 200], 3, "answered 302; given up"),
    ],
)
def test_failures_are_tried_again_where_that_may_help(
    store, home, hook, caplog, answers, num_tries, message
):
    caplog.set_level("INFO", "quintain")
    hook.answers[:] = answers
    with follow(store, home) as followed:
        end(store, {"webhook": hook.url})
        paths = [hook.got.get(timeout=WAIT_SECS)[0] for _ in range(num_tries)]
        wait_until_told(followed)

    assert paths == ["/hook"] * num_tries
    assert hook.got.empty()
    assert message in caplog.text
    assert hook.url not in caplog.text  # An address may hold a secret.


def wait_until_told(followed):
    """Waits until nothing is on its way."""
    while followed._num_pending or not followed._told:
        followed._is_stopping.wait(0.01)


def test_a_command_that_fails_is_logged_with_its_output(store, home, caplog):
    with follow(store, home) as followed:
        end(store, {"command": "echo no luck; exit 3"})
        wait_until_told(followed)

    assert "it ended with 3: no luck; tried again" in caplog.text
    assert "it ended with 3: no luck; given up" in caplog.text


def test_a_command_that_hangs_is_ended_with_what_it_started(tmp_path):
    alert = experiment_spec.sections.AlertConfig({"command": "sleep 1000 & sleep 1000"})

    with pytest.raises(alerts.alert_delivery.DeliveryError, match=r"more than 0\.1 s"):
        alerts.alert_delivery.deliver(alert, {}, tmp_path, timeout_secs=0.1)


def test_alerts_without_an_address_that_answers_stop_nobody(tmp_path):
    home = home_lib.find_home(str(tmp_path / "home"))
    home.create()
    (home.path / alerts.FILE_NAME).write_text('{"after": "x"')
    store = store_lib.open_store(str(home.database))

    with follow(store, home):
        pass

    assert json.loads((home.path / alerts.FILE_NAME).read_text())["told"] == {}
    store.close()
