import numpy as np
import pytest

from quintain.core import base_task
from quintain.core.reports import shown_metrics
from quintain.run import train_reporter

LABELS = {
    **shown_metrics.LOSSES,
    "exact_match": base_task.MetricLabel("exact", ".1%"),
    "token_accuracy": base_task.MetricLabel("accuracy"),
    "bleu_score": base_task.MetricLabel("uncased BLEU", is_minor=True),
}


class Display:
    def __init__(self):
        self.lines = []

    def show_training(self, step, target_steps, text):
        self.lines.append(text)

    def show_line(self, text):
        self.lines.append(text)


@pytest.fixture
def display():
    return Display()


@pytest.fixture
def reporter(display):
    return train_reporter.TrainReporter(display, LABELS)


@pytest.mark.parametrize("rates", [{}, {"examples_per_second": 9.0, "tokens_per_second": 1000.0}])
@pytest.mark.parametrize(("wait_ms", "is_shown"), [(2.0, False), (3.1, True)])
def test_a_step_that_waits_for_input_for_long_is_called_so(
    reporter, display, rates, wait_ms, is_shown
):
    output = {"training_loss": 1.0, "step_ms": 10.0, "input_wait_ms": wait_ms, **rates}

    reporter.on_train_loop(5, 10, output, 0.05, 5)

    assert ("(input-bound: 31 % waiting)" in display.lines[0]) is is_shown
    assert ("1,000 tokens/s" in display.lines[0]) is bool(rates)


def test_without_a_measured_wait_nothing_is_said(reporter, display):
    reporter.on_train_loop(5, 10, {"training_loss": 1.0, "step_ms": 10.0}, 0.05, 5)

    assert "input-bound" not in display.lines[0]


@pytest.mark.parametrize(
    ("rates", "shown"),
    [
        ({"examples_per_second": 7.0, "frames_per_second": 70.0}, "70 frames/s"),
        ({"examples_per_second": 7.0}, "7 examples/s"),
    ],
)
def test_the_rate_is_that_of_what_the_task_counts(reporter, display, rates, shown):
    reporter.on_train_loop(5, 10, {"training_loss": 1.0, **rates}, 0.05, 5)

    assert display.lines == [f"loss 1.000  {shown}  ETA 0 s"]


def test_an_evaluation_shows_labels_in_their_order_and_every_other_metric_by_its_name(
    reporter, display
):
    output = {
        "new_score": np.float32(0.25),
        "token_accuracy": 0.5,
        "bleu_score": 3.0,
        "exact_match": 0.125,
        "validation_loss": 123.456,
        "steps_per_second": 2.0,
    }

    reporter.on_eval_end(40, output, 2.4)

    assert display.lines == [
        "evaluated step 40: loss 123.5  exact 12.5%  accuracy 0.500  new_score 0.250  (2 s)"
    ]


def test_a_new_metric_of_training_shows_by_itself(reporter, display):
    output = {"new_score": 12.3, "training_loss": 1.0, "learning_rate": 0.1, "step_ms": 3.0}

    reporter.on_train_loop(5, 10, output, 0.05, 5)

    assert display.lines[0].startswith("loss 1.000  new_score 12.30  ")
    assert "0.1" not in display.lines[0]


def test_the_metrics_of_several_tasks_have_their_names():
    output = {
        "en_de": {"training_loss": 2.0, "token_accuracy": 0.5},
        "en_fr": {"own": 4.0, "training_loss": 3.0},
        "total_loss": {"training_loss": 5.0},
        "training_loss": 5.0,
    }

    assert train_reporter.describe_metrics(output, LABELS) == (
        "loss 5.000  en_de loss 2.000  en_de accuracy 0.500  en_fr loss 3.000  en_fr own 4.000"
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (np.array([0.5, 0.25]), "[0.5 0.25]"),
        ("high", "high"),
        (float("nan"), "nan"),
        (np.array([[1], [2]]), "[[1] [2]]"),
    ],
)
def test_what_is_no_number_is_shown_as_it_is(value, shown):
    assert train_reporter.describe_metrics({"m": value}, {}) == f"m {shown}"
