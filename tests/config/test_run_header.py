import pytest

from quintain import errors
from quintain.config import yaml_io
from quintain.garden.config import params_dict
from quintain.settings import config_definitions as cfg

SETTINGS = {
    "experiment": "mine/small",
    "imports": ["my_task"],
    "import_directories": {"my_task": "/code"},
    "trainer": {"train_steps": 7},
}


@pytest.mark.parametrize("is_strict", [True, False])
def test_a_program_reads_the_settings_of_a_run_into_its_config(tmp_path, is_strict):
    path = str(tmp_path / "params.yaml")
    (tmp_path / "params.yaml").write_text(yaml_io.dump(SETTINGS), encoding="utf-8")

    read = params_dict.override_params_dict(cfg.ExperimentConfig(), path, is_strict)
    given = cfg.ExperimentConfig()
    given.override(params_dict.read_yaml_to_params_dict(path), is_strict)

    expected = cfg.ExperimentConfig(trainer=cfg.TrainerConfig(train_steps=7)).as_dict()
    assert read.as_dict() == given.as_dict() == expected
    assert cfg.ExperimentConfig.from_yaml(path).as_dict() == expected


def test_other_names_are_errors():
    with pytest.raises(errors.UnknownKeyError, match="trainr: unknown"):
        cfg.ExperimentConfig().override({"trainr": {}, **SETTINGS})
