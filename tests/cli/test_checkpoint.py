import json

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
    assert (target / "weights.h5").read_text() == "w"
    description = json.loads((target / "experiment.json").read_text())
    assert description["trial_id"] == 2
    assert description["hparams"] == {"lr": 0.05, "net": {"units": 16}}
    assert description["experiment_config"]["name"] == "digits"


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


def test_export_without_such_models_says_what_there_is(quintain, calls_fake, tmp_path):
    calls_fake.files = {"weights.h5": "w"}

    code, _, stderr = quintain("checkpoint", "export", UUID, "-o", tmp_path / "out")

    assert code == 2
    assert "only weights.h5" in stderr
    assert "checkpoint download" in stderr


def test_delete_asks_first(quintain, calls_fake, monkeypatch):
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _: "")
    code, _, _ = quintain("checkpoint", "delete", UUID)
    assert code == 130

    code, stdout, _ = quintain("checkpoint", "delete", UUID, "-y")
    assert (code, stdout) == (0, f"Deleted checkpoint {UUID}.\n")
    assert calls_fake.done == [("delete checkpoint", UUID)]
