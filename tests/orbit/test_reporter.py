import logging

import numpy as np
import pytest

from quintain.orbit import reporter as reporter_lib


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO, logger="quintain.orbit.reporter")
    return lambda: [record.getMessage() for record in caplog.records]


def test_loop_is_one_line_with_speed_and_outputs(lines):
    reporter_lib.LogReporter().on_train_loop(200, 1000, {"loss": 0.5}, 4.0, 100)

    assert lines() == ["train | step:    200 | steps/sec:   25.0 | output: {'loss': 0.5}"]


def test_evaluation_is_two_lines(lines):
    reporter = reporter_lib.LogReporter()

    reporter.on_eval_begin(200, -1)
    reporter.on_eval_begin(200, 7)
    reporter.on_eval_end(200, {"bleu": 31.5}, 2.0)

    assert lines() == [
        " eval | step:    200 | running complete evaluation...",
        " eval | step:    200 | running 7 steps of evaluation...",
        " eval | step:    200 | eval time:    2.0 sec | output: {'bleu': 31.5}",
    ]


def test_many_outputs_get_a_line_each(lines):
    output = {f"a_rather_long_name_{i}": float(i) for i in range(4)}

    reporter_lib.LogReporter().on_train_loop(1, 1, output, 1.0, 1)

    assert lines()[0].splitlines()[1:3] == [
        "    {'a_rather_long_name_0': 0.0,",
        "     'a_rather_long_name_1': 1.0,",
    ]


def test_numpy_scalars_are_logged_as_numbers(lines):
    reporter_lib.LogReporter().on_train_loop(
        1, 1, {"loss": np.float32(0.5), "in": {"n": np.int64(3)}}, 1.0, 1
    )

    assert lines()[0].endswith("output: {'loss': 0.5, 'in': {'n': 3}}")


def test_start_checkpoints_and_messages_are_lines(lines):
    reporter = reporter_lib.LogReporter()

    reporter.on_restore(5, "runs/a/ckpt-5")
    reporter.on_train_begin(5, 10)
    reporter.on_checkpoint(10, "runs/a/ckpt-10")
    reporter.on_message("The end.")

    assert lines() == [
        "restored from checkpoint | step:      5 | runs/a/ckpt-5",
        "train | step:      5 | training until step 10...",
        "saved checkpoint | step:     10 | runs/a/ckpt-10",
        "The end.",
    ]


def test_base_class_takes_every_event_and_does_nothing(lines):
    reporter = reporter_lib.Reporter()

    reporter.on_train_begin(0, 1)
    reporter.on_train_loop(1, 1, {}, 1.0, 1)
    reporter.on_eval_begin(1, -1)
    reporter.on_eval_step(1, -1)
    reporter.on_eval_end(1, {}, 1.0)
    reporter.on_checkpoint(1, "path")
    reporter.on_restore(1, "path")
    reporter.on_train_end(1)
    reporter.on_message("text")

    assert lines() == []
