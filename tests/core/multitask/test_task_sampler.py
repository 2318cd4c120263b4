import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.core.multitask import configs, task_sampler

WEIGHTS = {"A": 1.0, "B": 2.0, "C": 3.0}


def cumulate(config, step, weights=WEIGHTS):
    sampler = task_sampler.get_task_sampler(config, weights)
    return sampler.task_cumulative_distribution(tf.constant(step, tf.int64)).numpy()


def power(alpha):
    sizes = np.array([1.0, 2.0, 3.0]) ** alpha
    return np.cumsum(sizes / sizes.sum())


@pytest.mark.parametrize("step", [0, 4])
def test_uniform_and_proportional_sampling_do_not_depend_on_the_step(step):
    uniform = configs.TaskSamplingConfig(type="uniform")
    squared = configs.TaskSamplingConfig(type="proportional", proportional={"alpha": 2.0})

    np.testing.assert_allclose(cumulate(uniform, step), [1 / 3, 2 / 3, 1], rtol=1e-6)
    np.testing.assert_allclose(cumulate(squared, step), [1 / 14, 5 / 14, 1], rtol=1e-6)


@pytest.mark.parametrize(
    ("step", "alpha"), [(0, 1.4), (5, 1.4), (6, 1.0), (12, 0.6), (18, 0.2), (1000, 0.2)]
)
def test_annealing_lowers_the_power_each_epoch_and_stops_at_the_end(step, alpha):
    config = configs.TaskSamplingConfig(
        type="annealing", annealing={"steps_per_epoch": 6, "total_steps": 18}
    )

    np.testing.assert_allclose(cumulate(config, step), power(alpha), rtol=1e-5)


def test_annealing_over_a_single_epoch_is_proportional():
    config = configs.TaskSamplingConfig(
        type="annealing", annealing={"steps_per_epoch": 6, "total_steps": 6}
    )

    np.testing.assert_allclose(cumulate(config, 3), power(1.0), rtol=1e-6)


@pytest.mark.slow
def test_a_task_without_weight_is_never_drawn_whatever_the_power():
    config = configs.TaskSamplingConfig(type="proportional", proportional={"alpha": 0.0})
    sampler = task_sampler.get_task_sampler(config, {"A": 0.0, "B": 2.0, "C": 0.0})

    draws = {int(task_sampler.draw_task(sampler, 0, tf.constant(step))) for step in range(300)}

    assert draws == {1}


@pytest.mark.slow
def test_draws_follow_the_weights_and_depend_on_seed_and_step_alone():
    sampler = task_sampler.ProportionalTaskSampler({"A": 1.0, "B": 3.0})
    draw = tf.function(lambda seed, step: task_sampler.draw_task(sampler, seed, step))

    first = [int(draw(5, tf.constant(step))) for step in range(2000)]

    assert first[:100] == [int(task_sampler.draw_task(sampler, 5, s)) for s in range(100)]
    assert first[:100] != [int(task_sampler.draw_task(sampler, 6, s)) for s in range(100)]
    assert np.mean(first) == pytest.approx(0.75, abs=0.03)


def test_weights_that_leave_nothing_to_draw_are_refused():
    with pytest.raises(errors.ConfigError, match=r"task_weights\['B'\]: got -1"):
        task_sampler.UniformTaskSampler({"A": 1.0, "B": -1})
    with pytest.raises(errors.ConfigError, match="one must be more than 0"):
        task_sampler.UniformTaskSampler({"A": 0.0})
    with pytest.raises(errors.ConfigError, match=r"task_sampler\.type: got None"):
        task_sampler.get_task_sampler(configs.TaskSamplingConfig(), WEIGHTS)
