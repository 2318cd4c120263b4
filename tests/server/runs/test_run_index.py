import pathlib

import pytest

from quintain import errors
from quintain.server.runs import run_index


def build_index(*directories, noted=()):
    return run_index.RunIndex(directories, lambda: map(pathlib.Path, noted), clock=lambda: 0.0)


def test_runs_below_folders_and_noted_ones_are_found_once(make_run, tmp_path):
    paths = [make_run("a").path, make_run("a/finetune").path, make_run("deep/er/b").path]
    (tmp_path / "runs" / "notes").mkdir()

    found = build_index(tmp_path / "runs", noted=[paths[1], tmp_path / "gone"]).list_runs()

    assert [run.label for run in found] == ["a", "a/finetune", "deep/er/b"]
    assert [run.path for run in found] == paths


def test_a_noted_run_is_found_without_a_folder(make_run):
    run = make_run("alone")

    (found,) = build_index(noted=[run.path]).list_runs()

    assert (found.name, found.label) == (run.name, "runs/alone")


def test_links_are_not_followed(make_run, tmp_path):
    run = make_run("outside")
    folder = tmp_path / "folder"
    (folder / "own").mkdir(parents=True)
    (folder / "link").symlink_to(run.path)
    (folder / "own" / "params.yaml").symlink_to(run.path / "params.yaml")

    assert build_index(folder).list_runs() == []


def test_the_number_and_depth_of_directories_are_bounded(make_run, tmp_path, monkeypatch, caplog):
    make_run("/".join("abcdefg"))
    for name in ("p", "q", "r"):
        make_run(name)
    everything = build_index(tmp_path / "runs").list_runs()

    monkeypatch.setattr(run_index, "MAX_RUNS", 2)
    few_runs = build_index(tmp_path / "runs").list_runs()
    monkeypatch.setattr(run_index, "MAX_DIRECTORIES", 3)
    few_directories = build_index(tmp_path / "runs").list_runs()

    assert [run.label for run in everything] == ["p", "q", "r"]
    assert len(few_runs) == 2
    assert [run.label for run in few_directories] == ["p"]
    assert "2 runs are listed" in caplog.text
    assert "3 directories" in caplog.text


@pytest.mark.parametrize("name", ["", "..", "../../etc", "a" * 5000, "\0", "first"])
def test_a_name_is_no_path(make_run, tmp_path, name):
    make_run("first")

    with pytest.raises(errors.NotFoundError, match="there is none of this name"):
        build_index(tmp_path / "runs").get(name)


def test_a_run_that_was_deleted_is_not_found_any_more(make_run, tmp_path):
    run = make_run("first")
    index = build_index(tmp_path / "runs")
    assert index.get(run.name).path == run.path

    (run.path / "params.yaml").unlink()

    with pytest.raises(errors.NotFoundError):
        index.get(run.name)
