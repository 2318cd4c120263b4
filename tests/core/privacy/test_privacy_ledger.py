"""What the ledger tells, and what it stops."""

import logging

import pytest
import tensorflow as tf

from quintain import errors
from quintain.core import task_factory
from quintain.core.privacy import privacy_ledger
from quintain.input import poisson_sampling


@pytest.fixture
def build(line_params):
    def build_ledger(**dp_config):
        params = line_params({"task": {"differential_privacy_config": dp_config}})
        return privacy_ledger.PrivacyLedger(params, task_factory.get_task(params.task))

    return build_ledger


def test_examples_without_room_are_told_once(build, caplog):
    ledger = build(clipping_norm=1.0)
    batch = poisson_sampling.PoissonBatch(
        inputs=tf.constant([1, 2, 3]),
        is_real=tf.constant([True, False, True]),
        expected_size=tf.constant(2.0),
        num_dropped=tf.constant(4, tf.int64),
    )

    real = [ledger.take_real(batch) for _ in range(2)]

    assert real[0].numpy().tolist() == [1, 3]
    assert ledger.read_logs(1) == {"examples_dropped": 8}
    assert "8 examples were drawn but found no room" in caplog.text
    assert ledger.read_logs(2) == {}


def test_epsilon_is_that_of_the_step(build):
    ledger = build(noise_multiplier=2.0, num_examples=64)

    logs = [ledger.read_logs(step) for step in (0, 5, 10, 5)]

    assert logs[0] == {"epsilon": 0.0}
    assert logs[1] == logs[3]
    assert logs[1]["epsilon"] < logs[2]["epsilon"]


def test_lack_of_a_guarantee_is_said_at_the_start(build, caplog):
    with caplog.at_level(logging.WARNING):
        build(clipping_norm=1.0).log_start(None)

    assert "no epsilon can be given" in caplog.text


def test_step_that_clips_no_examples_is_stopped(build):
    ledger = build(clipping_norm=1.0)

    with (
        pytest.raises(errors.ConfigError, match=r"LineTask\.train_step"),
        ledger.private_sum_required(),
    ):
        pass
