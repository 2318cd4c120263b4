import os

import numpy as np
import pytest
import tensorflow as tf

from quintain import errors, orbit
from quintain.checkpoints import checkpoints
from quintain.distribute import distribution, runtime_environment
from quintain.run import progressive_runner as progressive_train_lib
from quintain.run import runner_factory, train_lib


class Collector(orbit.Reporter):
    def __init__(self):
        self.loops, self.evaluations = [], []

    def on_train_loop(self, step, target_steps, output, loop_secs, num_steps):
        self.loops.append((step, num_steps, output["stage"], float(output["learning_rate"])))

    def on_eval_end(self, step, output, secs):
        self.evaluations.append((step, output["batches"]))


def run(params, mode, model_dir, **kwargs):
    strategy = distribution.build_strategy(params.runtime)
    runtime_environment.set_seed(params.runtime)
    with strategy.scope():
        policy = runner_factory.build_policy(params, str(model_dir))
    return progressive_train_lib.run_experiment(
        strategy, policy, mode, params, str(model_dir), **kwargs
    )


def read_weights(path):
    reader = tf.train.load_checkpoint(str(path))
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if name.endswith("VARIABLE_VALUE")
    }


@pytest.fixture(scope="module")
def whole_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("whole")


@pytest.fixture
def whole(whole_dir, experiment):
    """The directory of a run without interruption."""
    if not list(whole_dir.iterdir()):
        run(experiment(), "train", whole_dir)
    return whole_dir


@pytest.mark.slow
def test_no_loop_crosses_a_stage_and_the_rate_goes_on(tmp_path, experiment):
    reporter = Collector()

    run(experiment(), "train", tmp_path, reporter=reporter)

    assert [(step, stage) for step, _, stage, _ in reporter.loops] == [
        (5, 0),
        (7, 0),
        (12, 1),
        (15, 1),
        (20, 2),
        (25, 2),
    ]
    rates = [rate for *_, rate in reporter.loops]
    assert rates[0] == pytest.approx(0.1 * (1 - 5 / 25))
    assert rates[2] == pytest.approx(0.1 * (1 - 12 / 25))
    assert rates[-1] == pytest.approx(0.0, abs=1e-7)


# In the first stage, at the end of it, in the second, at the end of it, and in the last.
@pytest.mark.long("Further cases of a test of which some run every time", but=["7-7"])
@pytest.mark.slow
@pytest.mark.parametrize(("loop_steps", "stop"), [(3, 3), (7, 7), (4, 11), (15, 15), (4, 19)])
def test_an_interrupted_run_ends_bit_identical_to_one_that_was_not(
    tmp_path, experiment, whole, loop_steps, stop
):
    interruption = orbit.Interruption()

    def stop_at(output):
        if int(tf.summary.experimental.get_step().numpy()) >= stop:
            interruption.request("test")

    # Loops of other lengths must not matter.
    params = experiment({"trainer": {"steps_per_loop": loop_steps, "summary_interval": loop_steps}})
    with pytest.raises(orbit.Interrupted) as caught:
        run(params, "train", tmp_path, train_actions=[stop_at], interruption=interruption)
    run(experiment(), "train", tmp_path)

    assert caught.value.step == stop
    expected, found = (read_weights(path / "ckpt-25") for path in (whole, tmp_path))
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(value, found[name], err_msg=name)


@pytest.mark.slow
def test_every_checkpoint_holds_the_model_of_its_stage(whole):
    widths = {}
    for path in checkpoints.list_checkpoints(str(whole)):
        shapes = [value.shape for value in read_weights(path).values()]
        widths[int(path.rpartition("-")[2])] = {shape[1] for shape in shapes if shape[:1] == (3,)}

    assert widths == {5: {2}, 12: {4}, 20: {8}, 25: {8}}


@pytest.mark.slow
def test_an_evaluation_uses_the_data_of_the_stage(tmp_path, experiment):
    reporter = Collector()
    params = experiment({"trainer": {"validation_interval": 5}})

    run(params, "train_and_eval", tmp_path, reporter=reporter)

    # 9 examples: one batch of 9 in the first stage, then batches of 4.
    assert reporter.evaluations == [(5, 1), (10, 3), (15, 3), (20, 3), (25, 3)]


def test_evaluation_restores_the_stage_of_the_checkpoint(tmp_path, experiment, whole):
    model, logs = run(experiment(), "eval", whole, run_post_eval=True)

    assert model.get_weights()[0].shape == (3, 8)
    assert logs == {} or logs["batches"] == 3


def test_only_the_last_stage_is_exported_and_fits_the_plain_task(tmp_path, experiment, whole):
    exported = checkpoints.list_checkpoints(os.path.join(whole, "exported_ckpts"))

    # Every checkpoint_interval steps, in the last stage.
    assert [os.path.basename(path) for path in exported] == ["ckpt-20", "ckpt-25"]
    items = tf.train.load_checkpoint(exported[-1]).get_variable_to_shape_map()
    assert not {"stage_id", "data_start", "data_position"} & {n.partition("/")[0] for n in items}
    plain = experiment({"task": {"init_checkpoint": str(exported[-1])}})
    with distribution.build_strategy(plain.runtime).scope():
        task = runner_factory.task_factory.get_task(plain.task)
        model = task.build_model()
        task.initialize(model)
    assert np.any(model.get_weights()[2] != 0)


@pytest.mark.long("The other tests of the file run it with changes")
@pytest.mark.slow
def test_a_registered_experiment_runs_from_its_config_alone(tmp_path, experiment):
    params = experiment({"trainer": {"train_steps": 20}})

    result = train_lib.train_from_config(
        params, "train_and_eval", str(tmp_path), experiment="test/wide"
    )

    assert result.is_complete
    assert result.logs["batches"] == 3


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([{"task": {"widht": 3}}], r"stages\[0\]\.task: widht: unknown.*Did you mean 'width'"),
        ([{}, {}], r"stages\[0\]\.num_steps: got None"),
        ([{"num_steps": 3}], r"stages\[0\]\.num_steps: got 3, expected None"),
        ([], r"progressive\.stages: missing"),
    ],
)
def test_stages_that_make_no_sense_are_refused_before_training(
    tmp_path, experiment, stages, message
):
    params = experiment({"trainer": {"progressive": {"stages": stages}}})

    with pytest.raises(errors.ConfigError, match=message):
        train_lib.train_from_config(params, "train", str(tmp_path / "run"), experiment="test/wide")
    assert not (tmp_path / "run").exists()


def test_private_training_in_stages_is_refused(tmp_path, experiment):
    params = experiment({"task": {"differential_privacy_config": {"noise_multiplier": 1.0}}})

    with pytest.raises(errors.ConfigError, match=r"task\.differential_privacy_config: training in"):
        runner_factory.build_policy(params, str(tmp_path))
