import pytest

from quintain import errors
from quintain.scheduler import model_files


@pytest.mark.parametrize(
    ("patterns", "path", "expected"),
    [
        (["*.pyc"], "a/b.pyc", True),
        (["*.pyc", "!keep.pyc"], "keep.pyc", False),
        (["/data"], "data", True),
        (["/data"], "a/data", False),
        (["a/*.txt"], "a/x.txt", True),
        (["a/*.txt"], "a/b/x.txt", False),
        (["a/**/x.txt"], "a/b/c/x.txt", True),
        (["# x", "", "?.txt"], "x.txt", True),
        (["[ab].txt"], "c.txt", False),
        (["build/"], "build", False),
    ],
)
def test_patterns_of_files_mean_what_they_mean_to_git(patterns, path, expected):
    assert model_files.IgnoreRules(patterns).is_ignored(path, is_directory=False) is expected


def test_a_copy_leaves_out_what_is_ignored(tmp_path):
    source = tmp_path / "model"
    for name in ("model_def.py", "data/big.bin", "pkg/a.py", "pkg/__pycache__/a.pyc"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("x")
    (source / ".detignore").write_text("data/\n")
    assert model_files.copy_model_dir(source, tmp_path / "copy") == 8
    copied = model_files.list_files(tmp_path / "copy")
    assert copied == [".detignore", "model_def.py", "pkg/a.py"]


def test_a_directory_that_is_too_large_or_missing_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(model_files, "MAX_BYTES", 10)
    (tmp_path / "big.bin").write_text("x" * 11)
    with pytest.raises(errors.ConfigError, match=r"largest files are big\.bin"):
        model_files.copy_model_dir(tmp_path, tmp_path / "copy")
    with pytest.raises(errors.ConfigError, match="is not a directory"):
        model_files.copy_model_dir(tmp_path / "none", tmp_path / "copy")
