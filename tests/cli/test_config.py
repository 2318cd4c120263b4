import json

import yaml


def test_list_names_the_experiments_with_a_line_each(quintain):
    code, stdout, _ = quintain("config", "list")
    _, as_json, _ = quintain("config", "list", "--json")

    assert code == 0
    assert "translation/local" in stdout
    assert len(stdout.splitlines()) == len(json.loads(as_json)) >= 4
    assert all(json.loads(as_json).values())


def test_show_gives_yaml_that_runs_again(quintain, tmp_path):
    _, stdout, _ = quintain(
        "config", "show", "--experiment=translation/local", "--set", "trainer.train_steps=7"
    )
    path = tmp_path / "my.yaml"
    path.write_text(stdout)

    code, again, stderr = quintain("config", "show", f"--config_file={path}")

    assert code == 0, stderr
    assert again == stdout
    assert yaml.safe_load(stdout)["trainer"]["train_steps"] == 7
    assert yaml.safe_load(stdout)["experiment"] == "translation/local"


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
    assert lines["max_to_keep"].endswith("# --params_override")
    assert lines["steps_per_loop"].endswith("# factory translation/local")


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


def test_an_error_in_a_file_names_its_line(quintain, tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text("trainer:\n  train_stepz: 7\nrunntime: {}\n")

    code, _, stderr = quintain(
        "config", "show", "--experiment=translation/local", f"--config_file={path}"
    )

    assert code == 2
    assert f"{path}:2: trainer.train_stepz: unknown" in stderr
    assert "Did you mean 'train_steps'" in stderr
    assert f"{path}:3: runntime: unknown" in stderr


def test_a_misspelt_command_names_the_nearest(quintain):
    code, _, stderr = quintain("confg")

    assert code == 2
    assert "Did you mean 'config'" in stderr
