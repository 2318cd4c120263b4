import dataclasses
import json
import shutil

import pytest
import tensorflow as tf

from quintain.records import checkpoint_manifest
from quintain.serving import translator

UUID = "0b1c2d3e-0000-0000-0000-000000000001"


def test_describe_shows_files_and_hyperparameters(quintain, calls_fake):
    code, stdout, _ = quintain("checkpoint", "describe", UUID)

    assert code == 0
    assert "weights.h5 (2.0 KiB)" in stdout
    assert "lr: 0.05" in stdout


def test_download_copies_all_files_and_a_description(quintain, calls_fake, tmp_path):
    target = tmp_path / "copy"
    code, stdout, _ = quintain("checkpoint", "download", UUID, "-o", target)

    assert code == 0
    assert "Copied 3 files" in stdout
    assert (target / "weights.h5").read_text() == "w" * 2048
    description = json.loads((target / "experiment.json").read_text())
    assert description["trial_id"] == 2
    assert description["hparams"] == {"lr": 0.05, "net": {"units": 16}}
    assert description["experiment_config"]["name"] == "digits"


@pytest.mark.parametrize(("command", "num_files"), [("download", 5), ("export", 0)])
def test_a_damaged_checkpoint_is_not_taken_for_a_whole_one(
    quintain, calls_fake, tmp_path, command, num_files
):
    calls_fake.files["weights.h5"] = "w" * 1024

    code, _, stderr = quintain("checkpoint", command, UUID, "-o", tmp_path / "out")

    assert code == 2
    assert f"{UUID}: it is damaged: weights.h5 has 1024 bytes, expected 2048" in stderr
    assert len([path for path in tmp_path.glob("out/**/*") if path.is_file()]) == num_files


def test_nothing_is_copied_over_what_is_there(quintain, calls_fake, tmp_path):
    (tmp_path / "mine").write_text("keep")

    code, _, stderr = quintain("checkpoint", "download", UUID, "-o", tmp_path)

    assert code == 2
    assert "expected a new or empty directory" in stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_export_copies_models_that_need_no_code(quintain, calls_fake, tmp_path):
    code, stdout, _ = quintain("checkpoint", "export", UUID, "-o", tmp_path / "out")

    assert code == 0
    assert (tmp_path / "out" / "export" / "1" / "saved_model.pb").read_text() == "pb"
    assert (tmp_path / "out" / "model.keras").read_text() == "k"
    assert not (tmp_path / "out" / "weights.h5").exists()
    assert len(stdout.splitlines()) == 2


def test_a_checkpoint_that_no_database_knows_is_exported_by_its_path(quintain, tmp_path):
    directory = tmp_path / "0b1c"
    directory.mkdir()
    (directory / "model.keras").write_text("m")
    content = {"format": 1, "kind": "K", "total_batches": 5, "experiment_id": 1, "trial_id": 2}
    (directory / "metadata.json").write_text(json.dumps(content | {"seed": 3, "hparams": {}}))
    code, stdout, stderr = quintain("checkpoint", "export", directory, "-o", tmp_path / "out")
    assert (code, stdout) == (0, f"{tmp_path}/out/model.keras\n")
    assert f"To serve it: quintain serve-model --model-dir={tmp_path}/out/model.keras\n" in stderr


def test_orphans_are_listed(quintain, calls_fake, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    code, stdout, _ = quintain("checkpoint", "orphans")
    assert code == 0
    assert "aaaa-1" in stdout
    assert "it has no manifest" in stdout
    _, stdout, _ = quintain("checkpoint", "orphans", "aaaa-2", "--json")
    (shown,) = json.loads(stdout)
    assert (shown["path"], shown["experiment_id"]) == ("/h/checkpoints/aaaa-2", None)


@pytest.mark.parametrize(
    ("arguments", "done"),
    [
        (["--adopt", "aaaa-1"], [("adopt", "aaaa-1")]),
        (["--adopt", "--all"], [("adopt", "aaaa-1")]),
        (["--delete", "aaaa-2"], [("delete orphan", "aaaa-2")]),
        (["--delete", "--all"], [("delete orphan", "aaaa-1"), ("delete orphan", "aaaa-2")]),
    ],
)
def test_orphans_are_adopted_or_deleted_after_a_question(
    quintain, calls_fake, monkeypatch, arguments, done
):
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _: "")
    assert quintain("checkpoint", "orphans", *arguments)[0] == 130
    assert calls_fake.done == []
    code, _, stderr = quintain("checkpoint", "orphans", *arguments, "--yes")
    assert (code, stderr) == (0, "")
    assert calls_fake.done == done


@pytest.mark.parametrize(
    "arguments",
    [
        ["checkpoint", "orphans", "--adopt", "--all"],
        ["checkpoint", "delete", UUID],
        ["experiment", "delete", "1"],
    ],
)
def test_without_a_terminal_to_ask_at_the_option_is_named(
    quintain, calls_fake, monkeypatch, arguments
):
    def end(prompt):
        raise EOFError

    monkeypatch.setattr("click.termui.visible_prompt_func", end)

    code, _, stderr = quintain(*arguments)

    assert (code, calls_fake.done) == (2, [])
    assert "--yes: missing; there is no terminal to ask at." in stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--delete"], "give names of the list, or --all"),
        (["--delete", "aaaa"], "2 of those that the database does not know begin like this"),
        (["--delete", "b", "--yes"], "0 of those"),
        (["--delete", "", "--yes"], "0 of those"),
        (["--delete", "--adopt", "aaaa-1"], "expected one of them"),
    ],
)
def test_orphans_are_named_exactly(quintain, calls_fake, arguments, message):
    code, _, stderr = quintain("checkpoint", "orphans", *arguments)
    assert code != 0
    assert message in stderr
    assert calls_fake.done == []


def test_export_without_such_models_says_what_there_is(quintain, calls_fake, tmp_path):
    calls_fake.files = {"weights.h5": "w" * 2048}

    code, _, stderr = quintain("checkpoint", "export", UUID, "-o", tmp_path / "out")

    assert code == 2
    assert "only metadata.json, weights.h5" in stderr
    assert "checkpoint download" in stderr


def test_delete_asks_first(quintain, calls_fake, monkeypatch):
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _: "")
    code, _, _ = quintain("checkpoint", "delete", UUID)
    assert code == 130

    code, stdout, _ = quintain("checkpoint", "delete", UUID, "-y")
    assert (code, stdout) == (0, f"Deleted checkpoint {UUID}.\n")
    assert calls_fake.done == [("delete checkpoint", UUID)]


@pytest.fixture
def run_dir(tmp_path):
    for step in (10, 20, 30):
        checkpoint = tf.train.Checkpoint(
            global_step=tf.Variable(step), weight=tf.Variable(float(step))
        )
        checkpoint.write(str(tmp_path / "run" / f"ckpt-{step}"))
    return tmp_path / "run"


def _read_weight(path):
    return tf.train.load_checkpoint(str(path)).get_tensor("weight/.ATTRIBUTES/VARIABLE_VALUE")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [([], 20.0), (["--last=2"], 25.0), (["ckpt-10", "30"], 20.0), (["ckpt-10", "ckpt-20"], 15.0)],
)
def test_average_takes_the_newest_or_those_that_are_named(quintain, run_dir, arguments, expected):
    output = run_dir.parent / "mean"

    code, stdout, _ = quintain(
        "checkpoint", "average", f"--model-dir={run_dir}", *arguments, f"--output={output}"
    )

    assert code == 0
    assert f"wrote {output}." in stdout
    assert _read_weight(output) == expected


def test_average_of_paths_needs_no_model_dir(quintain, run_dir):
    code, _, _ = quintain("checkpoint", "average", run_dir / "ckpt-10", run_dir / "ckpt-30")

    assert code == 0
    assert _read_weight(run_dir / "averaged" / "ckpt-30") == 20.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--model-dir: missing"),
        (["--model-dir=nowhere"], "holds 0 checkpoints (none)"),
        (["--model-dir=nowhere", "--last=2", "ckpt-1"], "give one of both"),
        (["ckpt-1"], "there is no checkpoint 'ckpt-1'"),
    ],
)
def test_average_of_nothing_says_what_is_missing(quintain, arguments, message):
    code, _, stderr = quintain("checkpoint", "average", *arguments)

    assert code == 2
    assert message in stderr


@pytest.mark.long("tests/serving exports and tests/cli/training/test_export.py asks in every run")
@pytest.mark.slow
def test_a_checkpoint_of_a_search_over_translations_is_exported(quintain, model_dir, tmp_path):
    source = tmp_path / "0b1c2d3e"
    shutil.copytree(model_dir, source)
    manifest = checkpoint_manifest.Manifest(1, "TaskTrialController", 2, 1, 1, 1, {})
    text = json.dumps(dataclasses.asdict(manifest))
    (source / checkpoint_manifest.FILE_NAME).write_text(text)

    code, stdout, _ = quintain("checkpoint", "export", source, "-o", tmp_path / "out")

    assert (code, stdout) == (0, f"{tmp_path}/out/saved_model\n")
    exported, run = (
        translator.Translator.load(str(path))
        for path in (tmp_path / "out" / "saved_model", model_dir)
    )
    assert exported.translate(["red"]) == run.translate(["red"])
