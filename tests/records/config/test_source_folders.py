import os

from quintain.records.config import source_folders


def test_a_walk_does_not_descend_into_what_is_no_code_of_the_users(tmp_path, monkeypatch):
    own = ["a.py", "env/b.py", "pkg/c.py"]
    others = ["pkg/v/pyvenv.cfg", "pkg/v/lib/d.py", ".git/e.py", "node_modules/f/g.py"]
    for name in (*own, *others):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    listed, scandir = [], os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: [listed.append(path), scandir(path)][1])

    found = [path.relative_to(tmp_path).as_posix() for path in source_folders.walk(tmp_path)]

    assert found == own
    assert sorted(os.path.relpath(path, tmp_path) for path in listed) == [".", "env", "pkg"]
