import os

import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.checkpoints import checkpoint_average, checkpoint_fit, checkpoints
from quintain.core import task_factory
from quintain.run import train_lib
from quintain.serving import trained_run


def _save(path, step, values, *, state=""):
    """Writes a checkpoint with variables of the given values."""
    path.parent.mkdir(exist_ok=True)
    variables = {name: tf.Variable(value) for name, value in values.items()}
    step = tf.Variable(step, dtype=tf.int64)
    return tf.train.Checkpoint(global_step=step, **variables).write(str(path))


def _read(path, name):
    return tf.train.load_checkpoint(path).get_tensor(f"{name}/.ATTRIBUTES/VARIABLE_VALUE")


@pytest.fixture
def run(tmp_path):
    generator = np.random.default_rng(0)
    weights = [generator.normal(size=[3, 4]).astype(np.float32) for _ in range(3)]
    for number, weight in enumerate(weights, start=1):
        values = {"weight": weight, "count": number, "half": tf.cast(weight, tf.bfloat16)}
        _save(tmp_path / "run" / f"ckpt-{number * 10}", number * 10, values)
    (tmp_path / "run" / "params.yaml").write_text("experiment: line\n")
    (tmp_path / "run" / "evaluations.jsonl").write_text("{}\n")
    return tmp_path / "run", weights


def test_weights_are_averaged_and_the_rest_is_that_of_the_newest(run):
    directory, weights = run
    paths = checkpoint_average.find_newest(str(directory), 5, is_exact=False)

    average = checkpoint_average.average_checkpoints(paths[::-1])

    assert average.path == str(directory / "averaged" / "ckpt-30")
    assert average.sources == tuple(paths)
    assert average.num_averaged == 24
    expected = np.mean(np.stack(weights).astype(np.float64), axis=0).astype(np.float32)
    np.testing.assert_array_equal(_read(average.path, "weight"), expected)
    assert _read(average.path, "count") == 3
    assert checkpoint_fit.read_step(average.path) == 30
    assert _read(average.path, "half").dtype == tf.bfloat16.as_numpy_dtype


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_equal_weights_stay_as_they_are_to_the_bit(tmp_path, dtype):
    generator = np.random.default_rng(0)
    weight = np.append(generator.normal(size=999), [np.inf, -0.0, 5e-8]).astype(dtype)
    paths = [_save(tmp_path / f"ckpt-{step}", step, {"weight": weight}) for step in range(7)]

    average = checkpoint_average.average_checkpoints(paths, str(tmp_path / "mean"))

    assert _read(average.path, "weight").tobytes() == weight.tobytes()


def test_the_sum_does_not_lose_what_float32_would(tmp_path):
    parts = [2.0**24, 1.0, 1.0]
    paths = [
        _save(tmp_path / f"ckpt-{step}", step, {"weight": np.float32(part)})
        for step, part in enumerate(parts)
    ]

    average = checkpoint_average.average_checkpoints(paths, str(tmp_path / "mean"))

    assert _read(average.path, "weight") == np.float32((2**24 + 2) / 3)


def test_the_directory_of_an_average_is_one_of_a_run(run):
    directory, _ = run
    paths = checkpoint_average.find_newest(str(directory), 2, is_exact=True)

    average = checkpoint_average.average_checkpoints(paths)

    names = {path.name for path in (directory / "averaged").iterdir()}
    assert names == {"checkpoint", "ckpt-30.index", "ckpt-30.data-00000-of-00001", "params.yaml"}
    assert tf.train.latest_checkpoint(str(directory / "averaged")) == average.path
    assert len(checkpoints.list_checkpoints(str(directory))) == 3


def test_checkpoints_are_found_by_path_name_and_step(run):
    directory, _ = run
    full = str(directory / "ckpt-30.index")

    found = checkpoint_average.find_named(["10", "ckpt-20", full], str(directory))

    assert found == [str(directory / f"ckpt-{step}") for step in (10, 20, 30)]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["ckpt-31"], r"no checkpoint 'ckpt-31'.*ckpt-10, ckpt-20, ckpt-30.*mean 'ckpt-30'"),
        (["ckpt-10", "10"], r"'10' is given twice"),
    ],
)
def test_a_wrong_name_is_an_error(run, names, message):
    with pytest.raises(errors.CheckpointError, match=message):
        checkpoint_average.find_named(names, str(run[0]))


@pytest.mark.parametrize(
    ("number", "is_exact", "message"),
    [(4, True, "holds 3 checkpoints .*expected 4"), (1, False, None)],
)
def test_too_few_checkpoints_are_an_error(run, number, is_exact, message):
    directory, _ = run
    if message is None:
        assert len(checkpoint_average.find_newest(str(directory), number, is_exact=is_exact)) == 1
        return
    with pytest.raises(errors.CheckpointError, match=message):
        checkpoint_average.find_newest(str(directory), number, is_exact=is_exact)


def test_a_run_with_one_checkpoint_has_nothing_to_average(tmp_path):
    _save(tmp_path / "ckpt-1", 1, {"weight": 1.0})

    with pytest.raises(errors.CheckpointError, match=r"max_to_keep"):
        checkpoint_average.find_newest(str(tmp_path), 5, is_exact=False)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"weight": [1.0, 2.0, 3.0]}, r"weight: float32 \[3\] in .*ckpt-1, float32 \[2\] in"),
        ({"weight": np.zeros(2)}, r"weight: float64 \[2\] in .*ckpt-1, float32 \[2\] in"),
        ({"kernel": [1.0, 2.0]}, r"kernel: in .*ckpt-1, not in .*ckpt-2(.|\n)*weight: in .*ckpt-2"),
    ],
)
def test_checkpoints_of_different_models_are_an_error(tmp_path, other, message):
    paths = [
        _save(tmp_path / "ckpt-1", 1, other),
        _save(tmp_path / "ckpt-2", 2, {"weight": [1.0, 2.0]}),
    ]

    with pytest.raises(errors.CheckpointError, match=message):
        checkpoint_average.average_checkpoints(paths)
    assert not (tmp_path / "averaged").exists()


def test_a_flag_that_differs_is_an_error(tmp_path):
    paths = [_save(tmp_path / f"ckpt-{step}", step, {"is_swapped": step == 1}) for step in range(2)]

    with pytest.raises(errors.CheckpointError, match=r"is_swapped: is False .* but True"):
        checkpoint_average.average_checkpoints(paths)


def test_a_damaged_checkpoint_is_named(run):
    directory, _ = run
    data = directory / "ckpt-20.data-00000-of-00001"
    data.write_bytes(bytes(40) + data.read_bytes()[40:])
    paths = checkpoint_average.find_newest(str(directory), 3, is_exact=True)

    with pytest.raises(errors.CheckpointError, match=r"ckpt-20' (is damaged|is no checkpoint)"):
        checkpoint_average.average_checkpoints(paths)
    assert checkpoints.list_checkpoints(str(directory / "averaged")) == []


def test_an_output_that_the_run_would_go_on_from_is_refused(run):
    directory, _ = run
    paths = checkpoint_average.find_newest(str(directory), 3, is_exact=True)

    for output in (directory / "ckpt-30", directory / "ckpt-99", f"{directory}/"):
        with pytest.raises(errors.CheckpointError, match="go on from"):
            checkpoint_average.average_checkpoints(paths, str(output))


@pytest.mark.slow
def test_what_a_run_evaluates_is_averaged_too(line_params, tmp_path):
    params = line_params(
        {
            "trainer": {
                "train_steps": 6,
                "steps_per_loop": 2,
                "summary_interval": 2,
                "checkpoint_interval": 2,
                "max_to_keep": 3,
                "optimizer_config": {"ema": {"average_decay": 0.5}},
            }
        }
    )
    run_dir = str(tmp_path / "run")
    train_lib.train_from_config(params, "train", run_dir, experiment="test/line")
    paths = checkpoint_average.find_newest(run_dir, 3, is_exact=True)

    average = checkpoint_average.average_checkpoints(paths)

    directory = os.path.dirname(average.path)
    result = train_lib.train_from_config(params, "eval", directory, experiment="test/line")
    task = task_factory.get_task(params.task)

    def load(path):
        model = task.build_model()
        trained_run.restore_weights(model, task, params, path)
        return model

    parts = np.stack([load(path).weights[0].numpy() for path in paths]).astype(np.float64)
    model = load(average.path)
    np.testing.assert_allclose(model.weights[0], parts.mean(axis=0), rtol=1e-7)
    assert np.ptp(parts, axis=0).max() > 0
    (batch,) = task.build_inputs(params.task.validation_data.replace(global_batch_size=61))
    loss = float(task.build_losses(batch[1], model(batch[0], training=False)))
    assert result.logs["validation_loss"] == pytest.approx(loss, rel=0.2)
    assert result.step == 6


def test_a_new_run_starts_from_an_average(line_params, tmp_path):
    model = task_factory.get_task(line_params().task).build_model()
    paths = []
    for step in (1, 2):
        model.weights[0].assign(tf.fill([3, 8], float(step)))
        checkpoint = tf.train.Checkpoint(model=model, global_step=tf.Variable(step))
        paths.append(checkpoint.write(str(tmp_path / f"ckpt-{step}")))

    checkpoint_average.average_checkpoints(paths)

    params = line_params({"task": {"init_checkpoint": str(tmp_path / "averaged")}})
    task = task_factory.get_task(params.task)
    new_model = task.build_model()
    task.initialize(new_model)
    assert set(new_model.weights[0].numpy().flat) == {1.5}


def test_files_of_another_run_are_not_overwritten(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "other").mkdir()
    paths = [_save(tmp_path / "run" / f"ckpt-{n}", n, {"weight": np.ones(2)}) for n in (1, 2)]
    (tmp_path / "run" / "params.yaml").write_text("experiment: line\n")
    (tmp_path / "other" / "params.yaml").write_text("experiment: another\n")

    with pytest.raises(errors.CheckpointError, match="would be overwritten"):
        checkpoint_average.average_checkpoints(paths, f"{tmp_path}/other/")

    assert (tmp_path / "other" / "params.yaml").read_text() == "experiment: another\n"
    assert not (tmp_path / "other" / "ckpt-2.index").exists()
