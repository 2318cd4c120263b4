"""Epsilon against published values and closed forms."""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from quintain import errors
from quintain.core.privacy import privacy_accounting
from quintain.settings import config_definitions as cfg

MNIST = {"sampling_rate": 256 / 60000, "delta": 1e-5}


def build(noise_multiplier, train_steps, **overrides):
    return privacy_accounting.PrivacyAccountant(
        noise_multiplier=noise_multiplier, train_steps=train_steps, **{**MNIST, **overrides}
    )


def gaussian_epsilon(noise_multiplier, delta):
    """Balle & Wang, 2018, theorem 8 (https://arxiv.org/abs/1805.06530): sensitivity 1."""
    sigma = noise_multiplier

    def excess(epsilon):
        near = stats.norm.cdf(0.5 / sigma - epsilon * sigma)
        far = stats.norm.logcdf(-0.5 / sigma - epsilon * sigma)
        return near - np.exp(epsilon + far) - delta

    return optimize.brentq(excess, 0.0, 200.0)


@pytest.mark.parametrize(("noise_multiplier", "steps"), [(1.0, 1), (4.0, 10), (50.0, 2000)])
def test_epsilon_without_sampling_is_that_of_one_gaussian_mechanism(noise_multiplier, steps):
    accountant = build(noise_multiplier, steps, sampling_rate=1.0)

    # Gaussian mechanisms compose to one of `noise_multiplier / sqrt(steps)`.
    expected = gaussian_epsilon(noise_multiplier / math.sqrt(steps), 1e-5)
    assert expected <= accountant.epsilon(steps) <= 1.002 * expected


def test_epsilon_of_the_mnist_example_is_the_published_one():
    """TensorFlow Privacy's tutorial: batch 256 of 60000, noise 1.1, 60 epochs, epsilon 3.0.

    That is the value of the first conversion from RDP; the privacy loss distribution shows less of
    the same training: 2.38 (Google's dp-accounting, default discretisation).
    """
    steps = 60 * 60000 // 256

    by_distribution = build(1.1, steps)
    by_rdp = build(1.1, privacy_accounting.MAX_PLD_STEPS + 1)

    assert by_distribution.method == "PLD"
    assert by_distribution.epsilon(steps) == pytest.approx(2.382, rel=0.005)
    assert by_rdp.method == "RDP"
    assert by_rdp.epsilon(steps) == pytest.approx(2.60, rel=0.005)
    assert old_rdp_epsilon(1.1, 256 / 60000, steps, 1e-5) == pytest.approx(3.0, abs=0.05)


def old_rdp_epsilon(sigma, rate, steps, delta):
    """Mironov et al., 2019, equation 3 for whole orders, and the conversion of Mironov, 2017."""

    def rdp(order):
        terms = [
            math.log(math.comb(order, k))
            + k * math.log(rate)
            + (order - k) * math.log1p(-rate)
            + (k * k - k) / (2 * sigma**2)
            for k in range(order + 1)
        ]
        return np.logaddexp.reduce(terms) / (order - 1)

    return min(steps * rdp(order) + math.log(1 / delta) / (order - 1) for order in range(2, 64))


def test_epsilon_grows_with_the_steps_and_is_nothing_before_the_first():
    accountant = build(1.1, 1000)

    epsilons = [accountant.epsilon(steps) for steps in (0, 1, 10, 100, 1000, 2000)]

    assert epsilons[0] == 0.0
    assert epsilons == sorted(set(epsilons))


@pytest.mark.long("Further cases of a test of which some run every time", but=["3.0"])
@pytest.mark.slow
@pytest.mark.parametrize("target", [0.5, 3.0, 20.0])
def test_noise_that_is_found_reaches_the_target_and_no_less(target):
    noise_multiplier = privacy_accounting.find_noise_multiplier(
        target_epsilon=target, train_steps=1000, **MNIST
    )

    assert build(noise_multiplier, 1000).epsilon(1000) <= target
    assert build(noise_multiplier * 0.998, 1000).epsilon(1000) > target


def test_target_that_no_noise_reaches_is_an_error():
    with pytest.raises(errors.ConfigError, match="target_epsilon: got 1e-09"):
        privacy_accounting.find_noise_multiplier(
            target_epsilon=1e-9, sampling_rate=1.0, delta=1e-5, train_steps=100
        )


def make_params(**fields):
    return cfg.ExperimentConfig(
        task=cfg.TaskConfig(differential_privacy_config=cfg.DifferentialPrivacyConfig(**fields))
    )


@pytest.mark.parametrize("fields", [{"noise_multiplier": 1.0}, {"target_epsilon": 3.0}])
def test_unknown_number_of_examples_is_an_error_before_training(fields):
    assert "num_examples: got None" in "\n".join(privacy_accounting.check(make_params(**fields)))


def test_clipping_alone_needs_no_accountant():
    assert list(privacy_accounting.check(make_params(clipping_norm=1.0))) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"target_epsilon": 1.0, "noise_multiplier": 1.0},
        {"microbatch_size": 2, "num_microbatches": 2},
    ],
)
def test_settings_that_contradict_each_other_are_errors(fields):
    with pytest.raises(errors.ConfigError, match="leave one of them out"):
        make_params(**fields).validate()
