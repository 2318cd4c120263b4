"""What `quintain train` prints first when a task has a mistake: the cause, and the user's line."""

import pathlib

import pytest

from quintain.cli import main

DIRECTORY = pathlib.Path(__file__).parents[1] / "programs" / "mistakes"

CAUSES = {
    "failing_assertion": "InvalidArgumentError: assertion failed: [loss is too small]",
    "generator": "KeyError: 'text'",
    "labels_out_of_range": "InvalidArgumentError: Received a label value of 9",
    "layer_call": "ValueError: this layer is tired",
    "layer_shapes": "ValueError: Input 0",
    "loss_of_a_batch": "LossOfABatch.build_losses returned a tensor of shape (None, 1)",
    "map_function": "ValueError: this example is not liked",
    "map_operation": "InvalidArgumentError: assertion failed: [negative]",
    "metric_arguments": "TypeError: Mean.update_state() takes",
    "missing_import": "ModuleNotFoundError: No module named 'no_such_package'",
    "no_dataset": "NoDataset.build_inputs returned None, expected a tf.data.Dataset",
    "no_model": "NoModel.build_model returned None, expected a keras.Model",
    "no_return_of_the_loss": "NoReturnOfTheLoss.build_losses returned None",
    "no_super_init": "Model.__init__ does not call `super().__init__()`",
    "nothing_to_train": "NothingToTrain.build_model built a model without trainable variables",
    "py_function": "ZeroDivisionError: integer division or modulo by zero",
    "reduced_logs": "KeyError: 'accuracy'",
    "train_step_of_its_own": "AttributeError: 'TrainStepOfItsOwn' object has no attribute 'scale'",
    "unbatched_data": "ValueError: Invalid input shape",
    "undefined_name": "NameError: name 'label' is not defined",
    "validation_step_of_its_own": "ValueError: not today",
    "wrong_dtype": "TypeError: Input 'y' of 'Sub' Op has type float32",
    "wrong_key": "KeyError: 'image'",
    "wrong_loss_name": "ValueError: Could not interpret loss identifier: squared",
    "wrong_matmul": "InvalidArgumentError: Matrix size-incompatible: In[0]: [4,1], In[1]: [3,1]",
    "wrong_matmul_static": "ValueError: Dimensions must be equal, but are 3 and 4",
    "zero_division": "ZeroDivisionError: integer division or modulo by zero",
}


def find_line(name):
    """Returns number and text of the line that is marked, or of the class."""
    lines = (DIRECTORY / f"{name}.py").read_text(encoding="utf-8").splitlines()
    marked = [pair for pair in enumerate(lines, start=1) if pair[1].endswith("# HERE")]
    return next(iter(marked or [pair for pair in enumerate(lines, 1) if "(SmallTask)" in pair[1]]))


def train(name, tmp_path, *flags):
    title = "".join(part.title() for part in name.split("_"))
    directory = tmp_path / "a [1] ü"
    flags = (f"--import={name}", f"--experiment=mistakes/{title}", *flags)
    return main.run(["train", *flags, f"--model-dir={directory}", "--quiet"])


@pytest.fixture
def _mistakes_are_importable(monkeypatch):
    monkeypatch.syspath_prepend(str(DIRECTORY))


@pytest.mark.long(
    "Further cases of a test of which some run every time",
    but=[
        "failing_assertion",
        "labels_out_of_range",
        "loss_of_a_batch",
        "missing_import",
        "map_function",
        "py_function",
        "train_step_of_its_own",
        "wrong_dtype",
    ],
)
@pytest.mark.slow
@pytest.mark.usefixtures("_mistakes_are_importable")
@pytest.mark.parametrize("name", CAUSES)
def test_cause_and_line_are_printed_first(name, tmp_path, capfd):
    code = train(name, tmp_path)

    printed = capfd.readouterr().err
    cause, place, *_ = printed[printed.rindex("Error: " + CAUSES[name]) :].splitlines()
    number, text = find_line(name)
    assert cause.startswith(f"Error: {CAUSES[name]}")
    assert place.startswith(f"  {DIRECTORY / name}.py:{number}, in ")
    assert place.endswith(text.strip())
    assert "not expected" not in printed
    assert code in (main.EXIT_FAILURE, main.EXIT_BAD_INPUT)


@pytest.mark.usefixtures("_mistakes_are_importable")
def test_all_of_an_exception_is_shown_on_demand(tmp_path, capfd):
    train("zero_division", tmp_path, "--traceback")

    printed = capfd.readouterr().err
    assert "Traceback (most recent call last)" in printed
    assert "experiment_runner.py" in printed


def test_every_program_is_run():
    assert {path.stem for path in DIRECTORY.glob("*.py")} - {"small_task"} == set(CAUSES) | {
        "generator_ends_early"
    }
