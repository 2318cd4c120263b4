"""`quintain model` over a real store and the master's commands, without a process of a master."""

import json

import pytest


@pytest.mark.parametrize(
    ("options", "uuid"),
    [(["--experiment=1"], "0002"), (["--trial=1"], "0001"), (["--checkpoint=0001"], "0001")],
)
def test_a_checkpoint_is_registered_and_the_way_to_serve_it_is_said(
    quintain, trial_ids, options, uuid
):
    code, stdout, stderr = quintain("model", "register", "digits", *options, "--alias=champion")
    assert (code, stdout) == (
        0,
        f"Registered digits@1, which champion names: trial {int(uuid)}, checkpoint {uuid}.\n",
    )
    assert stderr == "To use it: quintain serve-model --model digits@champion\n"


def test_an_export_is_registered_by_its_path(quintain, registry, export):
    code, stdout, _ = quintain("model", "register", "digits", export, "--json")
    added = json.loads(stdout)
    assert code == 0
    assert added["path"] == str(export)
    assert sorted(added["files"]) == ["saved_model.pb", "variables/variables.index"]


def test_of_a_run_the_newest_checkpoint_is_registered_without_its_records(
    quintain, registry, write_run
):
    run = write_run(2, 10)
    for name in (
        "spm.model", "training.jsonl", "environment.json", "run.lock", "checkpoint",
        "params.yaml.1", "train/events.out.tfevents.1", "best_ckpt/ckpt-10.index",
    ):  # fmt: skip
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text("")
    code, stdout, _ = quintain("model", "register", "digits", run, "--json")
    added = json.loads(stdout)
    assert code == 0
    assert (added["checkpoint"], added["config"]) == ("ckpt-10", {"task": {"x": 1}})
    assert added["origin"] == {"data": {"/data/10": "5:abc"}}
    assert sorted(added["files"]) == [
        "ckpt-10.data-00000-of-00001",
        "ckpt-10.index",
        "params.yaml",
        "spm.model",
    ]


def test_a_run_whose_checkpoint_is_damaged_is_refused(quintain, registry, write_run):
    run = write_run(2)
    (run / "ckpt-2.index").write_text("")
    code, _, stderr = quintain("model", "register", "digits", run)
    assert code == 2
    assert "ckpt-2: is damaged and can't be read" in stderr


def test_a_directory_around_one_model_stands_for_it(quintain, registry, export):
    code, stdout, _ = quintain("model", "register", "digits", export.parent)
    assert (code, stdout) == (0, f"Registered digits@1: {export}.\n")
    (export.parent / "other.keras").write_text("")
    code, _, stderr = quintain("model", "register", "digits", export.parent)
    assert code == 2
    assert f"there are {export}, {export.parent}/other.keras. Name one." in stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "got 0 of them, expected one"),
        (["--trial=1", "--experiment=1"], "got 2 of them"),
        (["/nowhere"], "PATH: got '/nowhere', expected the directory of an export"),
        (["{tmp}"], "or one SavedModel or .keras file; there is none"),
        (["--trial=9"], "There is no trial 9; the newest is 2"),
        (["--checkpoint=0001", "--alias=3"], "no number, which names a version"),
    ],
)
def test_what_can_not_be_registered_is_an_error(quintain, trial_ids, tmp_path, arguments, message):
    (tmp_path / "empty").mkdir()
    given = [each.format(tmp=tmp_path / "empty") for each in arguments]
    code, stdout, stderr = quintain("model", "register", "digits", *given)
    assert code in (1, 2)
    assert (message in stderr, stdout) == (True, "")


def test_lists_and_descriptions_show_versions_aliases_and_history(quintain, trial_ids, export):
    quintain("model", "register", "digits", "--trial=1", "--alias=champion")
    quintain("model", "register", "digits", export, "--note=from elsewhere")
    code, stdout, _ = quintain("model", "promote", "digits@2", "champion")
    assert (code, stdout) == (0, "digits@champion is version 2.\n")

    _, listed, _ = quintain("model", "list")
    assert listed.splitlines()[1].split()[:4] == ["digits", "2", "2", "champion=2"]
    _, described, _ = quintain("model", "describe", "digits")
    assert "trial 1, checkpoint 0001" in described
    assert "champion -> version 1" in described
    assert "champion -> version 2" in described
    _, version, _ = quintain("model", "describe", "digits@champion")
    assert str(export) in version
    assert "saved_model.pb" in version
    _, as_json, _ = quintain("model", "list", "--json")
    assert json.loads(as_json)[0]["aliases"] == {"champion": 2}


def test_without_models_the_list_says_how_to_begin(quintain, registry):
    code, stdout, stderr = quintain("model", "list")
    assert (code, stdout) == (0, "")
    assert "quintain model register --help" in stderr


def test_a_rule_that_does_not_hold_leaves_the_alias(quintain, trial_ids):
    quintain("model", "register", "digits", "--trial=2", "--alias=champion")
    quintain("model", "register", "digits", "--trial=1")
    code, _, stderr = quintain(
        "model", "promote", "digits@2", "champion", "--not-worse-than=champion"
    )
    assert code == 1
    assert "got 0 seeds with trials of both" in stderr
    _, as_json, _ = quintain("model", "describe", "digits", "--json")
    assert json.loads(as_json)["aliases"] == {"champion": 1}


def test_a_version_apart_from_its_name_is_an_error_with_the_right_command(quintain, registry):
    code, _, stderr = quintain("model", "promote", "wines", "1", "staging")
    assert code == 2
    assert "got 'wines 1 staging'" in stderr
    assert "`quintain model promote wines@1 staging`" in stderr


def test_a_margin_without_a_rule_is_an_error(quintain, registry):
    code, _, stderr = quintain("model", "promote", "digits@2", "champion", "--margin=0.1")
    assert code == 2
    assert "--not-worse-than, which is missing" in stderr


def test_a_deleted_version_is_gone_for_commands(quintain, trial_ids):
    quintain("model", "register", "digits", "--trial=1", "--alias=champion")
    code, _, stderr = quintain("model", "delete", "digits@1", "--yes")
    assert (code, "champion names it" in stderr) == (1, True)
    deleted = quintain("model", "delete", "digits@champion", "--yes", "--with-aliases")
    assert deleted[1] == "Deleted digits@1.\n"
    code, _, stderr = quintain("model", "describe", "digits@1")
    assert code == 1
    assert "digits@1 was deleted" in stderr
