import csv
import dataclasses

import pytest

from quintain import errors
from quintain.master import metric_sending, shared_state
from quintain.records.rows import states
from quintain.testing import made_search


def test_metrics_of_trials_are_sent_once_and_the_cursor_is_in_the_store(store, tmp_path):
    home = tmp_path / "home"
    owner = made_search.write_search(store, 2, num_points=3)
    with store.transaction() as session:
        second = session.list_trials(owner.id)[1]
        session.update_trial(dataclasses.replace(second, state=states.TrialState.ACTIVE))
        session.update_experiment(
            dataclasses.replace(
                owner,
                config={**owner.config, "loggers": [{"type": "csv"}]},
                state=states.ExperimentState.ACTIVE,
            )
        )

    metric_sending.MetricSending(shared_state.SharedState(store, home)).send()

    files = sorted(home.glob("loggers/*/*/validation.csv"))
    rows = [list(csv.DictReader(file.read_text().splitlines())) for file in files]
    assert [[row["step"] for row in each] for each in rows] == [["100", "200", "300"]] * 2
    with store.reading() as session:
        first, second = session.list_sent_metrics(owner.id)
    assert (first.is_closed, second.is_closed) == (True, False)
    for file in files:
        file.unlink()

    # Another master has nothing more to send of either.
    metric_sending.MetricSending(shared_state.SharedState(store, home)).send(is_last=True)
    assert list(home.glob("loggers/*/*/validation.csv")) == []


@pytest.mark.parametrize(("hanging_secs", "num_tried"), [(60.0, 3), (-1.0, 1)])
def test_a_service_that_hangs_is_asked_for_one_trial_at_a_time(
    store, tmp_path, caplog, monkeypatch, hanging_secs, num_tried
):
    monkeypatch.setattr(metric_sending, "_HANGING_SECS", hanging_secs)
    owner = made_search.write_search(store, 3)
    uri = "http://127.0.0.1:1"  # Nobody listens there.
    config = {**owner.config, "loggers": [{"type": "mlflow", "tracking_uri": uri}]}
    with store.transaction() as session:
        session.update_experiment(dataclasses.replace(owner, config=config))
    sending = metric_sending.MetricSending(shared_state.SharedState(store, tmp_path))

    sending.send(is_last=True)

    told = [one for one in caplog.messages if "fails" in one]
    assert len(told) == num_tried
    with store.reading() as session:
        assert session.list_sent_metrics(owner.id) == []


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"type": "mlfow"}, r"loggers\[0\].type: got 'mlfow'"),
        ({"type": "mine:Logger"}, "the master runs no code of experiments"),
    ],
)
def test_loggers_are_checked_when_an_experiment_is_created(config, message):
    with pytest.raises(errors.ConfigError, match=message):
        metric_sending.check([config])
