import pytest

from quintain.cli.display import train_reporter


class Display:
    def __init__(self):
        self.lines = []

    def show_training(self, step, target_steps, text):
        self.lines.append(text)


@pytest.mark.parametrize("rates", [{}, {"tokens_per_second": 1000.0}])
@pytest.mark.parametrize(("wait_ms", "is_shown"), [(2.0, False), (3.1, True)])
def test_a_step_that_waits_for_input_for_long_is_called_so(rates, wait_ms, is_shown):
    display = Display()
    reporter = train_reporter.ProgressReporter(display)
    output = {"training_loss": 1.0, "step_ms": 10.0, "input_wait_ms": wait_ms, **rates}

    reporter.on_train_loop(5, 10, output, 0.05, 5)

    assert ("(input-bound: 31 % waiting)" in display.lines[0]) is is_shown
    assert ("1,000 tokens/s" in display.lines[0]) is bool(rates)


def test_without_a_measured_wait_nothing_is_said():
    display = Display()
    reporter = train_reporter.ProgressReporter(display)

    reporter.on_train_loop(5, 10, {"training_loss": 1.0, "step_ms": 10.0}, 0.05, 5)

    assert "input-bound" not in display.lines[0]
