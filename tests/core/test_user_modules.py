import json
import sys

import pytest

from quintain import errors
from quintain.cli import main
from quintain.core import exp_factory, task_factory, user_modules
from quintain.distribute import distribution
from quintain.run import experiment_parser, run_files, train_lib
from quintain.settings import config_definitions as cfg

MODULE = """
import dataclasses
from quintain.core import config_definitions as cfg, exp_factory

@dataclasses.dataclass
class PlantConfig(cfg.TaskConfig):
    height: int = 1

@exp_factory.register_config_factory("{name}/tall")
def tall():
    return cfg.ExperimentConfig(task=PlantConfig(height=9))
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A directory with a module, from which a command was started."""
    directory = tmp_path / "project"
    directory.mkdir()
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    with exp_factory.EXPERIMENTS.temporarily():
        yield directory


def write_module(directory, name, text=MODULE):
    (directory / f"{name}.py").write_text(text.format(name=name))


def forget(name):
    sys.modules.pop(name, None)
    exp_factory.EXPERIMENTS._entries.pop(f"{name}/tall", None)
    sys.path_importer_cache.clear()


@pytest.fixture
def run_dir(project, tmp_path, monkeypatch):
    """A run whose experiment is registered by a module of `project`."""
    write_module(project, "plants")
    monkeypatch.chdir(project)
    parsed = experiment_parser.parse(
        experiment_parser.ParseConfigOptions(experiment="plants/tall", imports=["plants"])
    )
    model_dir = str(tmp_path / "run")
    run_files.serialize_config(
        parsed.params, model_dir, experiment=parsed.name, imports=parsed.imports
    )
    forget("plants")
    sys.path.remove(str(project))
    other = tmp_path / "elsewhere"
    other.mkdir()
    monkeypatch.chdir(other)
    return model_dir


def test_a_run_finds_its_module_from_another_directory(run_dir):
    assert experiment_parser.load_params(run_dir).task.height == 9


def test_a_module_that_was_moved_is_named_with_its_former_directory(run_dir, project):
    (project / "plants.py").rename(project / "trees.py")

    with pytest.raises(errors.ConfigError, match=r"import plants: .*project, which does not hold"):
        experiment_parser.load_params(run_dir)


def test_a_module_given_anew_comes_from_the_working_directory(run_dir, tmp_path):
    write_module(tmp_path / "elsewhere", "plants", MODULE.replace("height=9", "height=5"))
    options = experiment_parser.ParseConfigOptions(model_dir=run_dir, imports=["plants"])

    experiment_parser.parse(options)

    assert sys.modules["plants"].__file__ == str(tmp_path / "elsewhere" / "plants.py")


def test_a_run_that_only_moved_its_module_keeps_no_former_settings(run_dir, tmp_path):
    params = experiment_parser.load_params(run_dir)
    forget("plants")
    write_module(tmp_path / "elsewhere", "plants")
    user_modules.import_modules(["plants"], {"plants": str(tmp_path / "elsewhere")})

    run_files.serialize_config(params, run_dir, experiment="plants/tall", imports=["plants"])

    assert [path.name for path in (tmp_path / "run").iterdir()] == ["params.yaml"]


def test_an_unknown_experiment_names_the_nearest_one_and_the_flag(run_dir):
    user_modules.import_modules(["plants"], {"plants": f"{run_dir}/../project"})

    with pytest.raises(errors.RegistryError, match=r"Did you mean 'plants/tall'\?.*--import="):
        exp_factory.get_exp_config("plants/tal")


def test_a_class_is_an_experiment_by_its_name(project):
    write_module(project, "plants")
    user_modules.import_modules(["plants"], {"plants": str(project)})

    params = exp_factory.get_exp_config("plants:PlantConfig")

    assert params.task.height == 1
    assert exp_factory.find_name(params.replace()) == ("plants:PlantConfig", "plants")
    with pytest.raises(errors.ConfigError, match="Did you mean 'PlantConfig'"):
        exp_factory.get_exp_config("plants:PlantConfg")


def test_a_copy_of_an_experiment_knows_its_name_unless_its_classes_changed(project):
    write_module(project, "plants")
    user_modules.import_modules(["plants"], {"plants": str(project)})
    params = exp_factory.get_exp_config("plants/tall").replace(task={"height": 3})

    assert exp_factory.find_name(params) == ("plants/tall", "plants")
    params.task = cfg.TaskConfig()
    assert exp_factory.find_name(params)[0] == "quintain.settings.config_definitions:TaskConfig"


def test_a_script_that_trains_when_it_is_imported_is_told_so(project):
    call = "from quintain.core import train_lib\ntrain_lib.run_experiment(*[None] * 5)"
    write_module(project, "eager", call)

    with pytest.raises(errors.ConfigError, match=r"import eager: it calls run_experiment\(\)"):
        user_modules.import_modules(["eager"], {"eager": str(project)})
    assert train_lib.run_experiment


@pytest.mark.slow
def test_commands_go_on_with_a_run_that_a_program_has_started(line_params, tmp_path, capsys):
    params = line_params({"trainer": {"train_steps": 4, "validation_interval": 4}})
    task = task_factory.get_task(params.task)
    model_dir = str(tmp_path / "run")
    strategy = distribution.build_strategy(params.runtime)

    _, logs = train_lib.run_experiment(strategy, task, "train_and_eval", params, model_dir)

    assert logs.history.steps == 4
    assert main.run(["train", "--mode=eval", f"--model_dir={model_dir}", "--json"]) == 0
    evaluated = json.loads(capsys.readouterr().out)
    assert evaluated["validation_loss"] == pytest.approx(float(logs["validation_loss"]))
    more = ["train", f"--model_dir={model_dir}", "--set=trainer.train_steps=6", "--json"]
    assert main.run(more) == 0
    assert json.loads(capsys.readouterr().out)["step"] == 6
