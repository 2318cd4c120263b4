import json

import pytest
import yaml

from quintain.core import exp_factory


def test_list_names_the_experiments_with_a_line_each_that_fits_the_terminal(quintain, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    code, stdout, _ = quintain("config", "list")
    _, as_json, _ = quintain("config", "list", "--json")

    assert code == 0
    assert "translation/local" in stdout
    heading, *lines = stdout.splitlines()
    assert heading.split() == ["EXPERIMENT", "DESCRIPTION"]
    assert len(lines) == len(json.loads(as_json)) >= 4
    assert max(map(len, lines)) == 60
    # Other tests have registered theirs.
    own = {name: text for name, text in json.loads(as_json).items() if is_own(name)}
    assert own
    assert all(own.values())


def is_own(name):
    return exp_factory.EXPERIMENTS[name].__module__.startswith("quintain.nlp.")


def test_show_gives_yaml_that_runs_again(quintain, tmp_path):
    _, stdout, _ = quintain(
        "config", "show", "--experiment=translation/local", "--set", "trainer.train_steps=7"
    )
    path = tmp_path / "my.yaml"
    path.write_text(stdout)

    code, again, stderr = quintain("config", "show", f"--config-file={path}")

    assert code == 0, stderr
    assert again == stdout
    assert yaml.safe_load(stdout)["trainer"]["train_steps"] == 7
    assert yaml.safe_load(stdout)["experiment"] == "translation/local"


def test_show_shows_what_still_lacks_its_data(quintain):
    code, stdout, stderr = quintain("config", "show", "--experiment=translation/small")

    assert (code, yaml.safe_load(stdout)["trainer"]["train_steps"]) == (0, 1700)
    assert "It can't be trained like this: 2 problems:\n" in stderr
    assert "factory translation/small: task.train_data.input_path" in stderr


def test_show_says_what_set_each_value(quintain, tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text("trainer:\n  train_steps: 7\n  max_to_keep: 2\n")

    _, stdout, _ = quintain(
        "config",
        "show",
        "--experiment=translation/local",
        f"--config-file={path}",
        "--params-override=trainer.max_to_keep=1",
        "--provenance",
    )

    lines = {line.partition(":")[0].strip(): line for line in stdout.splitlines()}
    assert lines["train_steps"].endswith(f"# {path}:2")
    assert lines["max_to_keep"].endswith("# --params-override")
    assert lines["steps_per_loop"].endswith("# factory translation/local")


@pytest.mark.slow
def test_schema_describes_the_experiment(quintain, tmp_path):
    path = tmp_path / "schema.json"

    code, _, stderr = quintain("config", "schema", "--experiment=translation/local", "-o", path)

    schema = json.loads(path.read_text())
    assert code == 0
    assert "yaml-language-server" in stderr
    assert "vocab_size" in schema["$defs"]["TranslationConfig"]["properties"]
    assert schema["properties"]["experiment"] == {"type": "string"}


def test_diff_shows_what_differs(quintain):
    _, same, _ = quintain("config", "diff", "translation/local", "translation/local")
    code, stdout, _ = quintain("config", "diff", "wmt_transformer/base", "wmt_transformer/large")

    assert (code, same) == (0, "")
    assert "task.model.embedding_width: 512 -> 1024" in stdout


def test_diff_takes_runs_and_yaml_files(quintain, tmp_path):
    run, whole, part = tmp_path / "run", tmp_path / "whole.yaml", tmp_path / "part.yaml"
    run.mkdir()
    (run / "params.yaml").write_text(
        "experiment: translation/local\ntrainer: {train_steps: 7, max_to_keep: 2}\n"
    )
    whole.write_text("experiment: translation/local\ntrainer: {train_steps: 7}\n")
    part.write_text("trainer: {max_to_keep: 9}\n")

    _, with_whole, _ = quintain("config", "diff", run, whole)
    _, with_part, _ = quintain("config", "diff", run, part)
    _, reversed_part, _ = quintain("config", "diff", part, run)
    _, of_experiment, _ = quintain("config", "diff", "translation/small", part)

    assert with_whole == "trainer.max_to_keep: 2 -> 3\n"
    assert with_part == "trainer.max_to_keep: 2 -> 9\n"
    assert reversed_part == "trainer.max_to_keep: 9 -> 2\n"
    assert of_experiment == "trainer.max_to_keep: 3 -> 9\n"


def test_diff_prints_json(quintain, tmp_path):
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text("trainer: {train_steps: 7, max_to_keep: 3}\n")
    second.write_text("trainer: {train_steps: 8}\ntask: {name: null}\n")

    _, fragments, _ = quintain("config", "diff", first, second, "--json")
    code, same, _ = quintain("config", "diff", "--json", first, first)

    assert json.loads(fragments) == [
        {"path": "trainer.train_steps", "first": 7, "second": 8},
        {"path": "trainer.max_to_keep", "first": 3},
        {"path": "task.name", "second": None},
    ]
    assert (code, json.loads(same)) == (0, [])


def test_diff_compares_what_could_not_be_run(quintain, tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("experiment: wmt_transformer/large\ntrainer: {max_to_keep: 3}\n")

    code, stdout, _ = quintain("config", "diff", "wmt_transformer/large", path)

    assert (code, stdout) == (0, "trainer.max_to_keep: 1 -> 3\n")


def test_diff_says_what_is_wrong(quintain, tmp_path):
    part = tmp_path / "part.yaml"
    part.write_text("\ntrainer: {train_stepz: 3}\n")

    misspelt_code, _, misspelt = quintain("config", "diff", "translation/local", part)
    missing_code, _, missing = quintain("config", "diff", "translation/local", "no.yaml")
    empty_code, _, empty = quintain("config", "diff", "translation/local", tmp_path)
    unknown_code, _, unknown = quintain("config", "diff", "translation/locl", part)

    assert [misspelt_code, missing_code, empty_code, unknown_code] == [2, 2, 2, 2]
    assert f"{part}:2: trainer.train_stepz: unknown" in misspelt
    assert "no.yaml: can't be read" in missing
    assert "params.yaml: can't be read" in empty
    assert "Did you mean 'translation/local'" in unknown


def test_an_error_in_a_file_names_its_line(quintain, tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text("trainer:\n  train_stepz: 7\nrunntime: {}\n")

    code, _, stderr = quintain(
        "config", "show", "--experiment=translation/local", f"--config-file={path}"
    )

    assert code == 2
    assert f"{path}:2: trainer.train_stepz: unknown" in stderr
    assert "Did you mean 'train_steps'" in stderr
    assert f"{path}:3: runntime: unknown" in stderr


def test_a_misspelt_command_names_the_nearest(quintain):
    code, _, stderr = quintain("confg")

    assert code == 2
    assert "Did you mean 'config'" in stderr
