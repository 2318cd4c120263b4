import dataclasses
import json
import time

import pytest

from quintain.client.home import home as home_lib
from quintain.records.rows import states
from quintain.server import alerts
from quintain.store import store as store_lib

ERROR = states.ExperimentState.ERROR
COMPLETED = states.ExperimentState.COMPLETED
SEARCHER = {"name": "single", "metric": "accuracy", "smaller_is_better": False, "max_length": 100}


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


def tell(name):
    """Returns an alert that adds the end of an experiment to a file."""
    return {"command": f'echo "$QUINTAIN_EXPERIMENT_ID $QUINTAIN_END_TIME" >> {name}'}


def read(home, name="told"):
    """Returns what such an alert has written."""
    path = home.path / name
    return path.read_text().splitlines() if path.exists() else []


def test_a_report_says_what_has_ended_and_which_trial_was_best(store, home):
    with follow(store, home):
        end(store, {"command": "cat > told"}, reason="enough")

    report = json.loads((home.path / "told").read_text())
    assert (report["experiment_id"], report["experiment_name"]) == (1, "digits")
    assert (report["experiment_state"], report["reason"]) == ("COMPLETED", "enough")
    # Trial 2 has a NaN.
    assert (report["best_trial_id"], report["best_metric"]) == (1, 0.5)
    assert report["best_hparams"] == {"lr": 0.1}
    assert report["num_trials"]["ACTIVE"] == 2


def test_a_command_gets_variables(store, home):
    script = 'echo "$QUINTAIN_EXPERIMENT_STATE $QUINTAIN_BEST_METRIC" > told'

    with follow(store, home):
        end(store, {"command": script}, state=ERROR)

    assert read(home) == ["ERROR 0.5"]


def test_only_the_ends_that_were_asked_for_are_told(store, home):
    with follow(store, home):
        end(store, {"on": ["error"], **tell("told")}, tell("all"))

    assert (read(home), read(home, "all")) == ([], ["1 50.0"])


def test_an_end_is_told_once_and_the_next_end_again(store, home):
    with follow(store, home):
        end(store, tell("told"))
    with follow(store, home):
        # A label of an experiment that has ended is a change, too.
        end(store, tell("told"))
    with follow(store, home):
        end(store, tell("told"), end_time=80.0)

    assert read(home) == ["1 50.0", "1 80.0"]


def test_an_end_that_a_killed_master_did_not_tell_is_told_by_the_next(store, home):
    with follow(store, home):
        pass
    end(store, tell("told"))

    with follow(store, home):
        pass

    assert read(home) == ["1 50.0"]


def test_what_ended_before_there_were_alerts_is_not_told(store, home):
    end(store, tell("told"))

    with follow(store, home):
        pass

    assert read(home) == []


def test_a_master_that_stops_does_not_wait_long_and_the_next_delivers(store, home):
    until_there = {"command": "echo x > begun; test -e go || exec sleep 1000; echo y > told"}
    begin = time.monotonic()
    with alerts.Alerts(store, home, stop_secs=0.1):
        end(store, until_there)
        while not read(home, "begun"):
            time.sleep(0.01)
    assert time.monotonic() - begin < 10
    (home.path / "go").touch()

    with follow(store, home):
        pass

    assert read(home) == ["y"]


def test_an_experiment_that_can_not_be_told_of_keeps_others_from_nothing(
    store, home, caplog, monkeypatch
):
    build, found = alerts.build_report, iter([ValueError("odd")])

    def build_once(*args):
        for error in found:
            raise error
        return build(*args)

    monkeypatch.setattr(alerts, "build_report", build_once)
    with follow(store, home) as followed:
        end(store, tell("told"))
        while "odd" not in caplog.text:
            time.sleep(0.01)
        end(store, tell("told"), end_time=80.0)
        wait_until_told(followed)

    assert read(home) == ["1 80.0"]


@pytest.mark.slow
def test_an_address_is_told_and_not_again_if_that_is_of_no_use(store, home, hook, caplog):
    caplog.set_level("INFO", "quintain")
    hook.answers[:] = [503, 404, 200]
    with follow(store, home) as followed:
        end(store, {"webhook": hook.url})
        wait_until_told(followed)

    path, kind, report = hook.got.get_nowait()
    assert (path, kind, report["experiment_id"]) == ("/hook", "application/json", 1)
    assert hook.got.qsize() == 1
    assert "it answered 503; tried again" in caplog.text
    assert "it answered 404; given up" in caplog.text
    assert hook.url not in caplog.text  # An address may hold a secret.


def wait_until_told(followed):
    """Waits until nothing is on its way."""
    while followed._telling or not followed._told:
        followed._is_stopping.wait(0.01)


def test_a_command_that_fails_is_logged_with_its_output(store, home, caplog):
    with follow(store, home) as followed:
        end(store, {"command": "echo no luck; exit 3"})
        wait_until_told(followed)

    assert "it ended with 3: no luck; tried again" in caplog.text
    assert "it ended with 3: no luck; given up" in caplog.text


def test_alerts_without_an_address_that_answers_stop_nobody(tmp_path):
    home = home_lib.find_home(str(tmp_path / "home"))
    home.create()
    (home.path / alerts.FILE_NAME).write_text('{"after": "x"')
    store = store_lib.open_store(str(home.database))

    with follow(store, home):
        pass

    assert json.loads((home.path / alerts.FILE_NAME).read_text())["told"] == {}
    store.close()
