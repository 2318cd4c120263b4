import types

import gin
import pytest
import yaml

from quintain import errors
from quintain.config import base_config, gin_io
from quintain.core import exp_factory
from quintain.files import whole_files
from quintain.run import experiment_parser, run_files


def parse(**options):
    return experiment_parser.parse(experiment_parser.ParseConfigOptions(**options))


def write(path, text):
    path.write_text(text)
    return str(path)


def test_later_layers_win(tmp_path):
    first = write(
        tmp_path / "a.yaml", "trainer: {train_steps: 1, max_to_keep: 1, steps_per_loop: 5}"
    )
    second = write(tmp_path / "b.yaml", "trainer: {train_steps: 2, max_to_keep: 2}")

    parsed = parse(
        experiment="test/line",
        config_file=[first, second],
        params_override=["trainer.train_steps=3"],
        set=["trainer.checkpoint_interval=4"],
    )

    trainer = parsed.params.trainer
    assert (trainer.steps_per_loop, trainer.max_to_keep) == (5, 2)
    assert (trainer.train_steps, trainer.checkpoint_interval) == (3, 4)
    source = parsed.provenance.source
    assert str(source("trainer.steps_per_loop")) == f"{first}:1"
    assert str(source("trainer.max_to_keep")) == f"{second}:1"
    assert str(source("trainer.train_steps")) == "--params-override"
    assert str(source("trainer.validation_interval")) == "factory test/line"


def test_intervals_that_nobody_set_are_whole_loops():
    def parse_loop(*values):
        parsed = parse(experiment="test/line", set=[f"trainer.{value}" for value in values])
        trainer = parsed.params.trainer
        intervals = (
            trainer.summary_interval, trainer.validation_interval, trainer.checkpoint_interval
        )  # fmt: skip
        return intervals, str(parsed.provenance.source("trainer.summary_interval"))

    default, _ = parse_loop()
    assert default == (5, 20, 10)
    assert parse_loop("steps_per_loop=8") == ((8, 24, 16), "--set")
    assert parse_loop("steps_per_loop=8", "checkpoint_interval=7")[0] == (8, 24, 7)
    assert parse_loop("steps_per_loop=8", "checkpoint_interval=0")[0] == (8, 24, 0)
    assert parse_loop("steps_per_loop=5") == (default, "factory test/line")
    with pytest.raises(errors.ConfigError, match="got 5, expected a multiple of steps_per_loop"):
        parse_loop("steps_per_loop=8", "summary_interval=5")


def test_the_record_of_a_run_sets_no_interval_by_hand(tmp_path):
    params = parse(experiment="test/line").params
    run_files.serialize_config(params, str(tmp_path), experiment="test/line")

    parsed = parse(model_dir=str(tmp_path), set=["trainer.steps_per_loop=8"])

    assert parsed.params.trainer.summary_interval == 8


def test_flags_that_are_not_given_override_nothing(tmp_path):
    path = write(
        tmp_path / "a.yaml",
        "runtime: {distribution_strategy: tpu, tpu: from-file}\n"
        "task: {train_data: {enable_tf_data_service: true, tf_data_service_address: 'grpc://a:1'}}",
    )

    def read(**options):
        params = parse(experiment="test/line", config_file=[path], **options).params
        return params.runtime.tpu, params.task.train_data.tf_data_service_address

    assert read() == ("from-file", "grpc://a:1")
    assert read(tpu="a", tf_data_service="grpc://b:2") == ("a", "grpc://b:2")
    assert read(tpu="a", params_override="runtime.tpu=b") == ("b", "grpc://a:1")


def test_options_stand_in_for_the_flags_of_the_reference():
    options = experiment_parser.ParseConfigOptions(
        experiment="test/line",
        config_file=[],
        tpu="",
        tf_data_service="",
        params_override="trainer.train_steps=9",
    )

    assert "tpu" in options
    assert "mode" not in options
    assert experiment_parser.parse_configuration(options).trainer.train_steps == 9


def test_an_experiment_without_classes_is_for_programs_with_a_loop_of_their_own(monkeypatch):
    plain = base_config.Config({"trainer": {"train_steps": -1}, "task": {"model": {"name": "a"}}})
    monkeypatch.setattr(exp_factory, "get_exp_config", lambda name: plain.replace())
    options = experiment_parser.ParseConfigOptions(
        experiment="plain", params_override="task.model.name=b,trainer.train_steps=9"
    )

    params = experiment_parser.parse_configuration(options)

    assert params.as_dict() == {"trainer": {"train_steps": 9}, "task": {"model": {"name": "b"}}}
    assert experiment_parser.ExperimentParser(options).parse() == params
    with pytest.raises(errors.ConfigError, match="experiment: got 'plain', which is a Config"):
        experiment_parser.parse(options)


def test_params_need_a_directory(line_params):
    with pytest.raises(ValueError, match="model_dir: missing"):
        run_files.serialize_config(line_params(), None)


def test_the_result_is_locked_and_validated():
    params = parse(experiment="test/line").params

    assert params.is_locked
    with pytest.raises(errors.ConfigError, match="summary_interval"):
        parse(experiment="test/line", set=["trainer.summary_interval=7"])


def test_parse_configuration_takes_any_object_with_flags():
    class Flags:
        experiment = "test/line"
        params_override = "trainer.train_steps=9"
        config_file = None

    params = experiment_parser.parse_configuration(Flags(), lock_return=False)

    assert params.trainer.train_steps == 9
    assert not params.is_locked


def test_parts_of_a_config_that_was_parsed_can_be_set():
    options = experiment_parser.ParseConfigOptions(experiment="test/line")
    params = experiment_parser.parse_configuration(options)

    params.trainer.train_steps = 7
    params.task.validation_data = None

    assert params.is_locked
    assert (params.trainer.train_steps, params.task.validation_data) == (7, None)
    with pytest.raises(errors.ConfigError, match="ExperimentConfig is locked"):
        params.trainer = {}


def test_params_yaml_alone_gives_the_same_config(tmp_path):
    params = parse(experiment="test/line", set=["task.num_examples=32"]).params
    run_files.serialize_config(params, str(tmp_path), experiment="test/line")

    assert experiment_parser.load_params(str(tmp_path)) == params
    assert experiment_parser.load_params(str(tmp_path / "params.yaml")) == params
    assert parse(model_dir=str(tmp_path)).params == params


def test_a_run_is_gone_on_with_under_its_own_settings(tmp_path):
    params = parse(experiment="test/line", set=["task.num_examples=32"]).params
    run_files.serialize_config(params, str(tmp_path), experiment="test/line")

    resumed = parse(model_dir=str(tmp_path), set=["trainer.train_steps=99"])

    assert resumed.name == "test/line"
    assert resumed.params.task.num_examples == 32
    assert resumed.params.trainer.train_steps == 99


def test_modules_are_imported_and_recorded(tmp_path, monkeypatch):
    write(
        tmp_path / "my_experiments.py",
        "from quintain.core import exp_factory\n"
        "@exp_factory.register_config_factory('my/line')\n"
        "def line():\n    return exp_factory.get_exp_config('test/line')\n",
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    parsed = parse(experiment="my/line", imports=["my_experiments"])

    assert parsed.imports == ("my_experiments",)


def test_gin_binds_before_the_experiment_is_built(tmp_path):
    path = write(tmp_path / "a.gin", "Trainer.evaluate = False\n")

    parse(experiment="test/line", gin_file=[path], gin_params=["Trainer.train = True"])

    try:
        assert "Trainer" in gin_io.known_names()
    finally:
        gin_io.clear()


def test_the_data_service_flag_is_for_training_and_evaluation():
    task = parse(experiment="test/line", tf_data_service="grpc://x:1").params.task

    for data in (task.train_data, task.validation_data):
        assert data.enable_tf_data_service
        assert data.tf_data_service_address == "grpc://x:1"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "experiment: missing"),
        ({"model_dir": "no [way]"}, r"got 'no \[way\]', which is not there; expected the dir"),
        ({"model_dir": "."}, r"got '\.', where no params\.yaml is; expected the directory"),
        ({"experiment": "test/lin"}, "Did you mean 'test/line'"),
        ({"experiment": "test/line", "params_override": "a.b=1"}, "--params-override: a: unknown"),
    ],
)
def test_bad_options_are_errors(options, message):
    with pytest.raises(errors.QuintainError, match=message):
        parse(**options)


def test_a_file_of_another_experiment_is_refused(tmp_path):
    path = write(tmp_path / "a.yaml", "experiment: test/other\n")

    with pytest.raises(errors.ConfigError, match=r"a\.yaml:1: this file belongs to .*'test/other'"):
        parse(experiment="test/line", config_file=[path])


def test_changed_settings_keep_the_former_file(tmp_path, caplog):
    first = parse(experiment="test/line").params
    second = first.replace(trainer={"train_steps": 41})
    run_files.serialize_config(first, str(tmp_path), experiment="test/line")
    run_files.serialize_config(first, str(tmp_path), experiment="test/line")

    run_files.serialize_config(second, str(tmp_path), experiment="test/line")

    assert yaml.safe_load((tmp_path / "params.yaml.1").read_text())["trainer"]["train_steps"] == 40
    assert "trainer.train_steps: 40 -> 41" in caplog.text
    assert not (tmp_path / "params.yaml.2").exists()


def fail_after_writing(directory, also=""):
    with run_files.undo_on_error(str(directory)):
        whole_files.write(directory / "created", "")
        whole_files.write(directory / "kept", "")
        if also:
            (directory / also).write_text("")
        raise RuntimeError


def test_what_a_failed_start_created_is_removed(tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "kept").write_text("")

    with pytest.raises(RuntimeError):
        fail_after_writing(tmp_path / "old")
    with pytest.raises(RuntimeError):
        fail_after_writing(tmp_path / "new")

    assert [path.name for path in (tmp_path / "old").iterdir()] == ["kept"]
    assert not (tmp_path / "new").exists()


def test_what_others_write_during_a_failed_start_stays(tmp_path):
    with pytest.raises(RuntimeError):
        fail_after_writing(tmp_path / "new", also="notes.txt")

    assert [path.name for path in (tmp_path / "new").iterdir()] == ["notes.txt"]


def test_what_a_run_that_has_started_wrote_stays_when_it_fails(tmp_path):
    with pytest.raises(RuntimeError):
        fail_after_writing(tmp_path, also="ckpt-1.index")

    assert (tmp_path / "created").exists()


def test_settings_that_are_cut_off_are_an_error_at_every_length(tmp_path):
    run_files.serialize_config(parse(experiment="test/line").params, str(tmp_path))
    path = tmp_path / "params.yaml"
    whole = path.read_bytes()
    lengths = [n for n in range(60, len(whole)) if whole[n - 1 : n] == b"\n" or n % 97 == 0]

    found = []
    for length in lengths:
        path.write_bytes(whole[:length])
        with pytest.raises(errors.DamagedFileError) as error:
            run_files.check_whole(str(path))
        found.append(str(path) in str(error.value))

    assert len(found) > 10
    assert all(found)


def test_the_line_of_a_module_that_can_t_import_something_is_named(tmp_path, monkeypatch):
    path = tmp_path / "tasks_of_a_stranger.py"
    path.write_text("import os\n\nfrom os import no_such_function\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))

    with pytest.raises(errors.ConfigError, match="import tasks_of_a_stranger: cannot") as caught:
        experiment_parser.import_modules(["tasks_of_a_stranger"])

    place = f"{path}:3, in <module>: from os import no_such_function"
    assert str(caught.value).splitlines()[1].strip() == place


def test_a_file_in_place_of_a_module_is_explained():
    with pytest.raises(errors.ConfigError, match=r"the name of a module, such as 'my_tasks',"):
        experiment_parser.import_modules(["./my_tasks.py"])


def test_overrides_may_be_dictionaries():
    override = {"trainer": {"train_steps": 9}}

    parsed = [
        parse(experiment="test/line", params_override=given) for given in (override, [override])
    ]

    assert [one.params.trainer.train_steps for one in parsed] == [9, 9]


def test_the_steps_of_parsing_can_be_changed_one_by_one(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("trainer: {train_steps: 5, steps_per_loop: 5}\n")

    class Doubled(experiment_parser.ExperimentParser):
        def parse_config_file(self, params):
            params = super().parse_config_file(params)
            params.trainer.train_steps *= 2
            return params

    options = experiment_parser.ParseConfigOptions(
        "test/line",
        [str(path)],
        tf_data_service="host:1",
        params_override="trainer.steps_per_loop=1",
    )
    params = Doubled(options).parse()

    assert (params.trainer.train_steps, params.trainer.steps_per_loop) == (10, 1)
    assert params.task.train_data.tf_data_service_address == "host:1"


def test_gin_that_the_program_has_read_is_not_read_again():
    flags = types.SimpleNamespace(
        experiment="test/line", gin_params=["create_trainer.train = True"]
    )
    gin.parse_config_files_and_bindings(None, flags.gin_params)
    try:
        assert gin_io.is_bound()
        assert experiment_parser.parse_configuration(flags).trainer is not None
    finally:
        gin_io.clear()
