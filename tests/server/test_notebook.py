import dataclasses
import sys

import pytest

import quintain.client
from quintain import errors
from quintain.client.notebook import notebook
from quintain.records.rows import metric, states, trial


@pytest.fixture
def platform(store, over_http):
    """An experiment of two trials with hostile names, one of them without numbers."""
    hostile = {"lr": 0.1, "net": {"<script>": "</td>"}}
    with store.transaction() as session:
        for number, best in ((1, 0.75), (2, float("nan"))):
            record = trial.TrialRecord(
                number, 1, f"r{number}", states.TrialState.ACTIVE, hostile, 3,
                best_metric=best, start_time=1e9,
            )  # fmt: skip
            session.update_trial(record)
        session.add_metrics(
            [
                metric.MetricRow(
                    1, metric.MetricGroup.VALIDATION, 200, {"accuracy": 0.75, "table": [1]}, 10, 2.0
                ),
                metric.MetricRow(2, metric.MetricGroup.TRAINING, 50, {"loss": "NaN"}, 10, 1.5),
            ]
        )
    return notebook.Platform(over_http)


def test_the_package_offers_what_notebooks_need(tmp_path):
    assert quintain.client.Experiment is notebook.Experiment

    with pytest.raises(errors.MasterUnreachableError, match="`quintain ui`"):
        quintain.client.connect(str(tmp_path / "nothing"))


@pytest.mark.slow
def test_trials_are_rows_of_a_data_frame(platform):
    frame = platform.experiment(1).trials()

    assert frame.index.tolist() == [1, 2]
    assert frame.loc[1, "hparams.net.<script>"] == "</td>"
    assert frame.loc[1, "validation/accuracy.last"] == 0.75
    assert frame.loc[1, "validation/accuracy.best"] == 0.5  # Smaller is better here.
    assert frame["best_metric"].isna().tolist() == [False, True]
    assert frame["start_time"].dt.year.tolist() == [2001, 2001]


@pytest.mark.slow
def test_trials_are_chosen_as_on_the_page(platform):
    found = platform.experiment(1)

    assert found.trials("accuracy.last > 0.6").index.tolist() == [1]
    assert found.trials(sort="-id", limit=1).index.tolist() == [2]
    with pytest.raises(errors.ConfigError, match="acuracy"):
        found.trials("acuracy > 0.5")


@pytest.mark.slow
def test_metrics_are_rows_with_a_column_for_each_name(platform):
    frame = platform.experiment(1).metrics()

    assert frame[["trial_id", "group", "batches"]].values.tolist() == [
        [1, "validation", 100],
        [1, "validation", 200],
        [2, "training", 50],
    ]
    assert frame["accuracy"].tolist()[:2] == [0.5, 0.75]
    assert frame["loss"].isna().all()
    assert platform.trial(1).metrics()["table"].tolist()[1] == [1]
    assert platform.experiment(1).metrics(trial_ids=[]).empty


@pytest.mark.slow
def test_curves_are_drawn(platform, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")

    axes = platform.experiment(1).plot()
    title = axes.get_title()
    same = platform.trial(1).plot("validation/accuracy", ax=axes)

    assert same is axes
    assert title == "1: digits"
    assert axes.lines[0].get_xydata().tolist() == [[100, 0.5], [200, 0.75]]
    assert axes.get_ylabel() == "validation/accuracy"
    axes.figure.draw_without_rendering()
    assert axes.get_legend().get_window_extent().x0 >= axes.get_window_extent().x1
    with pytest.raises(errors.ConfigError, match=r"got 'los'.*training/loss"):
        platform.trial(2).plot("los")


def test_tables_show_text_as_text(platform):
    table = platform.experiment(1)._repr_html_()
    own = platform.trial(1)._repr_html_()
    listed = platform._repr_html_()

    assert "digits: ACTIVE" in table
    assert "net.&lt;script&gt;=&lt;/td&gt;" in table
    assert "<td>&lt;/td&gt;</td>" in own
    assert "<td>digits</td>" in listed
    assert "<script" not in table + own + listed


@pytest.mark.slow
def test_further_seeds_decide_what_is_best(platform, store):
    with store.transaction() as session:
        for name, seed, best in (("b", 4, 0.4), ("b+1", 1, 0.5), ("b+2", 2, 0.6)):
            session.add_trial(
                trial.TrialRecord(
                    0, 1, name, states.TrialState.COMPLETED, {"lr": 0.2}, seed, best_metric=best
                )
            )

    found = platform.experiment(1)
    standings = found.standings()

    (best, first, *_) = found.best_trials()
    assert (best.record.request_id, first.id) == ("b", 1)
    assert standings["mean"][0] == pytest.approx(0.55)
    assert "better by 1 seed; it takes two of each" in standings["lead"][0]
    assert "it takes two of each" in found._repr_html_()


def test_experiments_are_told_apart_by_number_name_and_description(platform, store):
    record = platform.experiment(1).record
    with store.transaction() as session:
        session.update_experiment(dataclasses.replace(record, description="a smaller net"))

    (found,) = platform.experiments()

    assert repr(found) == "<Experiment 1: digits, a smaller net (ACTIVE)>"
    assert "Experiment 1: digits, a smaller net: ACTIVE" in found._repr_html_()
    assert repr(platform.trial(1)) == "<Trial 1 of experiment 1 (ACTIVE)>"


def test_a_trial_of_another_experiment_is_not_found(platform):
    with pytest.raises(errors.NotFoundError):
        platform.experiment(1).trial(99)


def test_without_pandas_the_error_says_what_to_install(platform, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)

    with pytest.raises(errors.ConfigError, match=r'pip install "quintain\[notebook\]"'):
        platform.experiment(1).metrics()
