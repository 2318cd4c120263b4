import subprocess

import pytest

from quintain.client import provenance
from quintain.records.config import provenance as records
from quintain.records.rows import codec


@pytest.fixture
def git(tmp_path, monkeypatch):
    """Returns a function that runs git in a new repository."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    for name in (
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_COMMITTER_NAME",
        "GIT_COMMITTER_EMAIL",
    ):
        monkeypatch.setenv(name, "a@example.org")

    def run(*arguments):
        done = subprocess.run(
            ["git", "-C", tmp_path, *arguments], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    run("init", "-q", "-b", "trunk")
    return run


def test_a_clean_tree_is_its_commit(git, tmp_path):
    (tmp_path / "a.py").write_text("1\n")
    git("add", ".")
    git("commit", "-qm", "first")

    found = provenance.find_git_state(tmp_path)

    assert found == records.GitState(git("rev-parse", "HEAD"), "trunk", is_dirty=False)


def test_changes_are_kept_up_to_a_limit(git, tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text("1\n")
    git("add", ".")
    git("commit", "-qm", "first")
    (tmp_path / "a.py").write_text("2\n")
    (tmp_path / "new.py").write_text("")

    found = provenance.find_git_state(tmp_path)
    assert (found.is_dirty, found.num_untracked, found.is_diff_cut) == (True, 1, False)
    assert found.diff.endswith("-1\n+2\n")

    monkeypatch.setattr(provenance, "MOST_DIFF_BYTES", 100)
    (tmp_path / "a.py").write_text("3\n" * 1000)
    found = provenance.find_git_state(tmp_path)
    assert (len(found.diff), found.is_diff_cut) == (100, True)


def test_without_a_commit_there_is_no_state(git, tmp_path):
    assert provenance.find_git_state(tmp_path) is None
    assert provenance.find_git_state(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("--set=environment.A=b=c", "--set=environment.A=***"),
        ("hyperparameters.hf_token=x", "hyperparameters.hf_token=***"),
        ("data.api_key=x", "data.api_key=***"),
        ("--password=x", "--password=***"),
        ("task.tokenizer=x", "task.tokenizer=x"),
        ("trainer.tokens_per_batch=5", "trainer.tokens_per_batch=5"),
        ("https://me:secret@host/a", "https://***@host/a"),
    ],
)
def test_secrets_of_the_command_line_are_not_kept(word, shown):
    assert provenance.hide_secrets(["quintain", word, "x"]) == ("quintain", shown, "x")


def test_packages_are_those_that_are_imported(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    (first / "a_b-1.0.dist-info").mkdir(parents=True)
    (second / "a_b-2.0.dist-info").mkdir(parents=True)
    (second / "c-3.1.post1-py3.11.egg-info").mkdir()

    found = provenance.find_packages([str(first), str(second), str(tmp_path / "none")])
    assert found == {"a-b": "1.0", "c": "3.1.post1"}


def test_what_is_collected_comes_back_from_json(tmp_path):
    found = provenance.collect(tmp_path)

    assert found.num_cores >= 1
    assert "pytest" in found.packages
    assert codec.from_plain(records.Provenance, codec.to_plain(found)) == found
