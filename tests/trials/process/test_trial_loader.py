import sys
import types

import pytest

from quintain import errors
from quintain.records.config import foreign_imports, source_imports
from quintain.trials import trial_context
from quintain.trials.process import code_check, trial_loader

TRIAL = """
from quintain.trials import base_trial


class {name}(base_trial.Trial):
    controller_module = "json"
"""


@pytest.fixture
def write(tmp_path):
    """Returns a function that writes files; what they import is forgotten afterwards."""
    path, modules = list(sys.path), set(sys.modules)
    number = tmp_path.name.replace("-", "_")

    def write(**files):
        directory = tmp_path / f"model_{number}"
        directory.mkdir(exist_ok=True)
        for name, text in files.items():
            # Another test may have imported a module of this name.
            sys.modules.pop(name, None)
            path = directory / f"{name}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return str(directory)

    yield write
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def load(directory, entrypoint=None):
    return trial_loader.load_trial(directory, entrypoint)


def test_a_single_file_needs_no_entrypoint(write):
    found = load(write(model_def=TRIAL.format(name="Mine") + "def make_data_loaders(): pass\n"))
    assert found.trial_class.__name__ == "Mine"
    assert set(found.functions) == {"make_data_loaders"}
    assert found.controller_module == "json"


def test_a_file_of_any_name_is_found(write):
    directory = write(lonely_trial=TRIAL.format(name="Mine"), other_file="raise ValueError\n")
    assert load(directory).trial_class.__name__ == "Mine"


def test_a_package_exports_its_trial_and_its_functions(write):
    directory = write(
        __init__="from .pkg_data import make_data_loaders\nfrom .pkg_model import Mine\n",
        pkg_data="def make_data_loaders(): pass\n",
        pkg_model="from .pkg_data import make_data_loaders\n" + TRIAL.format(name="Mine"),
    )
    found = load(directory)
    assert found.trial_class.__name__ == "Mine"
    assert "make_data_loaders" in found.functions


def test_an_empty_package_is_searched_like_a_directory(write):
    assert load(write(__init__="", model_def=TRIAL.format(name="Mine"))).trial_class


def test_entrypoints_name_modules_with_relative_and_absolute_imports(write):
    directory = write(
        flat_data="x = 1\n",
        flat_model="from flat_data import x\n" + TRIAL.format(name="Mine"),
        relative_model="from .flat_data import x\n" + TRIAL.format(name="Yours"),
    )
    assert load(directory, "flat_model:Mine").trial_class.__name__ == "Mine"
    assert load(directory, "relative_model:Yours").trial_class.__name__ == "Yours"


def test_a_trial_that_another_one_extends_is_not_the_trial(write):
    directory = write(__init__=TRIAL.format(name="Base") + "class Mine(Base):\n    pass\n")
    assert load(directory).trial_class.__name__ == "Mine"


@pytest.mark.parametrize(
    ("files", "entrypoint", "words"),
    [
        ({"a": "x = 1\n"}, None, ["no subclass of TensorFlowTrial"]),
        (
            {"a1": TRIAL.format(name="One"), "a2": TRIAL.format(name="Two")},
            None,
            ["several trials", "One (a1.py:5)", "Two (a2.py:5)"],
        ),
        ({"model": TRIAL.format(name="One")}, "modle:One", ["'modle'", "Did you mean 'model'?"]),
        ({"model": TRIAL.format(name="One")}, "model:Oen", ["'Oen'", "There are: One."]),
        ({}, "model:One", ["no module 'model'", "no Python files; give the directory"]),
        ({"model": "x = 1\n"}, "model:One", ["no 'One'", "no subclass of TensorFlowTrial"]),
        ({"a/model": TRIAL.format(name="One")}, "model:One", ["Did you mean 'a.model'?"]),
        ({"a/model": TRIAL.format(name="One")}, "a/model:One", ["Did you mean 'a.model'?"]),
        ({}, "experiments:own/task", ["'experiments:own/task', expected `module:Class` or"]),
        ({"model": "import nothing_there\n"}, "model:One", ["model.py:1", "nothing_there"]),
        ({"model": "x = (\n"}, "model:One", ["model.py:1", "SyntaxError"]),
        ({"model": "x = 1\n"}, "model:x", ["expected a subclass"]),
        ({"model": "x = 1\n"}, "model", ["expected `module:Class`"]),
        (
            {
                "model": TRIAL.format(name="One") + "    import abc\n"
                "    @abc.abstractmethod\n    def f(self): pass\n"
            },
            "model:One",
            ["One (model.py:5) lacks f"],
        ),
    ],
)
def test_what_can_not_be_loaded_says_where_and_what_there_is(write, files, entrypoint, words):
    directory = write(**files)
    with pytest.raises(errors.TrialError) as raised:
        load(directory, entrypoint)
    for word in words:
        assert word in str(raised.value)


def test_a_directory_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(errors.TrialError, match="no such directory"):
        load(str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("import pedl", "import quintain.trials as pedl"),
        ("import determined as det", "import quintain.trials as det"),
        ("from official.core import base_task", "from quintain.core import base_task"),
    ],
)
def test_imports_of_former_platforms_say_which_to_write(write, line, written):
    directory = write(model_def=f"{line}\n" + TRIAL.format(name="Mine"))
    with pytest.raises(errors.TrialError, match=r"model_def\.py:1: write") as caught:
        load(directory)
    assert f"write `{written}` instead of `{line}`" in str(caught.value)


@pytest.mark.parametrize(
    ("line", "written"),
    [
        (
            "from determined.estimator import EstimatorTrial",
            "from quintain.trials.estimator import EstimatorTrial",
        ),
        (
            "from pedl.frameworks.keras.data import InMemorySequence",
            "from quintain.trials.keras.data import InMemorySequence",
        ),
    ],
)
def test_imports_of_former_trials_say_which_to_write(line, written):
    # Not loaded here: that would switch this process to graphs, or to the names of Keras 2.
    advice = foreign_imports.explain_import(line.split()[1], line)

    assert f"write `{written}` instead of `{line}`" in advice


def test_code_may_ask_for_hyperparameters_while_it_is_imported(write, monkeypatch):
    monkeypatch.setattr(trial_context, "_current", [])
    text = "from quintain.trials import get_hyperparameter\nUNITS = 2 * get_hyperparameter('{}')\n"
    config = {"hyperparameters": {"units": {"type": "int", "minval": 1, "maxval": 3}}}

    good = write(model_def=text.format("units") + TRIAL.format(name="Mine"))
    assert code_check.find_problems(config, good) == []
    bad = write(model_def=text.format("unit") + TRIAL.format(name="Mine"))
    (problem,) = code_check.find_problems(config, bad)
    assert "Did you mean 'units'?" in problem.message


def test_files_of_the_user_win_over_libraries_that_were_imported_ahead(write, monkeypatch):
    names = ("taken", "taken.inner", "left")
    monkeypatch.setattr(source_imports, "imported_ahead", set(names))
    directory = write(model_def="import taken\n" + TRIAL.format(name="Mine"), taken="VALUE = 3")
    for name in names:
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    load(directory)
    assert sys.modules["taken"].VALUE == 3
    assert "taken.inner" not in sys.modules
    assert "left" in sys.modules
