import types

import pytest

from quintain import errors, orbit
from quintain.checkpoints import evaluation_log
from quintain.core.reports import shown_metrics
from quintain.run import history, live_progress


@pytest.fixture
def run_dir(tmp_path):
    log = history.TrainingLog(str(tmp_path))
    log.record(10, {"training_loss": 2.0, "accuracy": 0.25, "step_ms": 3.0})
    log.record(20, {"training_loss": 1.0, "accuracy": float("nan"), "task": {"f1": 0.5}})
    evaluations = evaluation_log.EvaluationLog(str(tmp_path))
    evaluations.record(
        20, {"validation_loss": 1.5, "accuracy": 0.5, "best_accuracy": 0.75, "best": "<b>"}
    )
    return str(tmp_path)


def test_the_history_of_a_run_is_read_from_its_records(run_dir):
    found = history.read_history(run_dir)

    assert found.steps == 20
    assert found.training["training_loss"] == [(10, 2.0), (20, 1.0)]
    assert found.training["accuracy"] == [(10, 0.25)]
    assert found.training["task|f1"] == [(20, 0.5)]
    assert found.measurements == {"step_ms": [(10, 3.0)], "val_best_accuracy": [(20, 0.75)]}
    assert list(found.history) == ["loss", "accuracy", "task|f1", "val_loss", "val_accuracy"]
    assert found.at(20) == {"loss": 1.0, "task|f1": 0.5, "val_loss": 1.5, "val_accuracy": 0.5}
    assert found.history["loss"] == [2.0, 1.0]
    assert found.history["val_loss"] == [1.5]
    assert found.history["val_accuracy"] == [0.5]


def test_a_history_is_a_table_with_curves(run_dir):
    text = history.read_history(run_dir)._repr_html_()

    assert text.count("<tr>") == 4
    assert text.index("loss") < text.index("accuracy")
    assert "polyline" in text
    assert "step_ms" not in text
    for color in history._COLORS:  # A legend beside the curves.
        assert text.count(color) == 1 + text.count(f'stroke="{color}"') > 1


def test_a_directory_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(errors.ConfigError, match="expected the directory of a run"):
        history.read_history(str(tmp_path / "nowhere"))


class Shown:
    """A stand-in for what a notebook shows."""

    def __init__(self):
        self.texts = []

    def display(self, text, display_id=False):
        self.texts.append(text)
        return types.SimpleNamespace(update=self.texts.append) if display_id else None


def test_a_notebook_shows_one_table_that_moves(monkeypatch):
    shown = Shown()
    shell = types.SimpleNamespace(kernel=object())
    display = types.SimpleNamespace(display=shown.display, HTML=lambda text: text)
    ipython = types.SimpleNamespace(get_ipython=lambda: shell, display=display)
    monkeypatch.setitem(live_progress.sys.modules, "IPython", ipython)

    with live_progress.default_reporter(shown_metrics.LOSSES) as reporter:
        reporter.on_train_begin(0, 20)
        reporter.on_train_loop(10, 20, {"training_loss": 0.5}, 2.0, 10)
        reporter.on_eval_begin(10, 1)
        reporter.on_eval_end(10, {"validation_loss": 0.75}, 1.0)
        reporter.on_message("done <b>")

    assert "step 10 of 20  5.0 steps/s" in shown.texts[1]
    assert "0.75 <small>step 10</small>" in shown.texts[-2]
    assert shown.texts[-1] == "done <b>"


def test_elsewhere_the_log_has_it(monkeypatch):
    monkeypatch.delitem(live_progress.sys.modules, "IPython", raising=False)

    with live_progress.default_reporter(shown_metrics.LOSSES) as reporter:
        assert isinstance(reporter, orbit.LogReporter)


def test_a_terminal_has_a_bar(monkeypatch):
    monkeypatch.delitem(live_progress.sys.modules, "IPython", raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)

    with live_progress.default_reporter(shown_metrics.LOSSES) as reporter:
        assert type(reporter).__name__ == "TrainReporter"


@pytest.mark.parametrize(
    ("verbose", "kind"), [(0, "Reporter"), (1, "TrainReporter"), (2, "TrainReporter")]
)
def test_what_is_shown_can_be_chosen_in_the_words_of_keras(monkeypatch, capsys, verbose, kind):
    monkeypatch.delitem(live_progress.sys.modules, "IPython", raising=False)

    with live_progress.default_reporter(shown_metrics.LOSSES, verbose) as reporter:
        reporter.on_eval_end(5, {"validation_loss": 0.5}, 1.0)

    assert type(reporter).__name__ == kind
    assert ("evaluated step 5: loss 0.500" in capsys.readouterr().err) == bool(verbose)
