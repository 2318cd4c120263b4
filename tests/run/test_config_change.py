import pytest
import tensorflow as tf

from quintain import errors
from quintain.core.multitask import configs
from quintain.orbit import cluster
from quintain.run import config_change, run_files, train_lib
from quintain.settings import config_definitions as cfg


def train(params, model_dir, **kwargs):
    params = params.replace()
    params.lock()
    return train_lib.train_from_config(
        params, "train", str(model_dir), experiment="test/line", **kwargs
    )


@pytest.fixture
def model_dir(tmp_path, line_params):
    train(line_params({"trainer": {"train_steps": 5}}), tmp_path)
    return tmp_path


@pytest.mark.slow
def test_a_run_goes_on_longer_without_asking(model_dir, line_params):
    result = train(line_params({"trainer": {"train_steps": 10, "max_to_keep": 2}}), model_dir)

    assert result.step == 10


@pytest.mark.slow
def test_other_settings_are_shown_and_refused(model_dir, line_params):
    rate = {"learning_rate": {"constant": {"learning_rate": 0.5}}}
    params = line_params({"trainer": {"train_steps": 10, "optimizer_config": rate}})

    with pytest.raises(errors.ConfigError) as caught:
        train(params, model_dir)

    path = "trainer.optimizer_config.learning_rate.constant.learning_rate"
    assert f"{path}: 0.01 -> 0.5" in str(caught.value)
    assert "--allow-config-change" in str(caught.value)
    assert not (model_dir / "params.yaml.1").exists()


@pytest.mark.slow
def test_a_change_can_be_allowed_and_the_former_settings_are_kept(model_dir, line_params):
    params = line_params({"trainer": {"train_steps": 10}, "task": {"dropout_rate": 0.2}})

    result = train(params, model_dir, allow_config_change=True)

    assert result.step == 10
    assert "dropout_rate: 0.1" in (model_dir / "params.yaml.1").read_text()
    assert "dropout_rate: 0.2" in (model_dir / "params.yaml").read_text()


def test_all_workers_of_a_cluster_end_when_the_chief_refuses(monkeypatch):
    def refuse():
        raise errors.ConfigError("model_dir: other settings")

    strategy, sent = tf.distribute.get_strategy(), []
    monkeypatch.setattr(cluster, "from_chief", lambda _, text: sent.append(text) or text)
    with pytest.raises(errors.ConfigError, match="model_dir: other settings"):
        train_lib.check_on_chief(strategy, refuse)
    assert sent == ["model_dir: other settings"]

    # A worker looks at nothing itself: its view of the directory may be older.
    monkeypatch.setattr(cluster, "is_chief", lambda _: False)
    monkeypatch.setattr(cluster, "from_chief", lambda _, text: sent[0])
    with pytest.raises(errors.ConfigError, match="model_dir: other settings"):
        train_lib.check_on_chief(strategy, lambda: pytest.fail("the chief checks"))
    monkeypatch.setattr(cluster, "from_chief", lambda _, text: None)
    train_lib.check_on_chief(strategy, lambda: pytest.fail("the chief checks"))


@pytest.mark.long("Refused and allowed changes are tried in every run")
@pytest.mark.slow
def test_a_run_without_a_checkpoint_may_change(tmp_path, line_params):
    run_files.serialize_config(line_params(), str(tmp_path), experiment="test/line")
    params = line_params({"trainer": {"train_steps": 5}, "task": {"dropout_rate": 0.2}})

    assert train(params, tmp_path).step == 5


@pytest.mark.long("Refused and allowed changes are tried in every run")
@pytest.mark.slow
def test_an_evaluation_never_asks(model_dir, line_params):
    params = line_params({"trainer": {"train_steps": 5}, "task": {"dropout_rate": 0.2}})

    result = train_lib.train_from_config(params, "eval", str(model_dir), experiment="test/line")

    assert result.step == 5


@pytest.mark.long("Refused and allowed changes are tried in every run")
@pytest.mark.slow
def test_the_name_under_which_the_former_settings_will_be_kept_is_told(model_dir, line_params):
    train(line_params({"trainer": {"train_steps": 10}}), model_dir)  # keeps params.yaml.1
    params = line_params({"trainer": {"train_steps": 15}, "task": {"dropout_rate": 0.2}})

    with pytest.raises(errors.ConfigError, match=r"kept as params\.yaml\.2\)"):
        train(params, model_dir)


def multi_task_params(**routine):
    routines = (
        {"task_name": "one", "task_config": cfg.TaskConfig(), **routine},
        {"task_name": "two", "task_config": cfg.TaskConfig()},
    )
    return configs.MultiTaskExperimentConfig(task={"task_routines": routines})


def test_of_several_tasks_the_field_that_differs_is_named():
    changed = multi_task_params(task_weight=3.0)

    changes = config_change.find_changes(multi_task_params().as_dict(), changed)

    assert changes == [("task.task_routines[0].task_weight", 1.0, 3.0)]


def test_the_evaluation_of_one_task_of_several_may_change():
    changed = multi_task_params(eval_steps=3)
    changed.task.task_routines[1].task_config.validation_data.global_batch_size = 5

    assert config_change.find_changes(multi_task_params().as_dict(), changed) == []


def test_fields_that_this_version_does_not_know_do_not_count(line_params):
    former = line_params().as_dict() | {"experiment": "test/line", "unknown": 3}

    assert config_change.find_changes(former, line_params()) == []


def test_a_field_of_a_newer_version_does_not_count_at_its_default(line_params):
    former = line_params().as_dict()
    del former["trainer"]["optimizer_config"]["gradient_accumulation_steps"]

    assert config_change.find_changes(former, line_params()) == []
    path = "trainer.optimizer_config.gradient_accumulation_steps"
    overrides = {"trainer": {"optimizer_config": {"gradient_accumulation_steps": 2}}}
    changes = config_change.find_changes(former, line_params(overrides))
    assert [(each[0], each[2]) for each in changes] == [(path, 2)]


def test_a_task_of_several_that_has_a_new_field_is_at_its_default():
    former = multi_task_params().as_dict()
    for routine in former["task"]["task_routines"]:
        del routine["task_config"]["train_data"]["seed"]

    assert config_change.find_changes(former, multi_task_params()) == []


def test_free_fields_name_fields_that_there_are(line_params):
    params = line_params()
    paths = config_change.provenance.flatten(params.as_dict())
    # Fields of one task, and of several.
    special = {"task*.print_translations", "task*.eval_steps", "eval_tasks*"}

    for pattern in set(config_change.FREE_FIELDS) - special:
        assert any(config_change.fnmatch.fnmatchcase(path, pattern) for path in paths), pattern
