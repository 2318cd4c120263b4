import os

import pytest

from quintain import errors
from quintain.master.transfer import model_files
from quintain.records.config import experiment_sections

LIMITS = experiment_sections.CodeConfig()


@pytest.fixture
def source(tmp_path):
    source = tmp_path / "model [1] \xfc"
    write(source, "model_def.py", "pkg/a.py", "pkg/__pycache__/a.pyc")
    return source


def write(source, *names, text="x"):
    for name in names:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text)


def copied(source, target, **options):
    model_files.copy_model_dir(source, target, LIMITS, **options)
    return sorted(
        os.path.relpath(os.path.join(folder, name), target)
        for folder, _, names in os.walk(target)
        for name in names
    )


def test_a_copy_leaves_out_what_is_ignored(source, tmp_path):
    write(source, "data/big.bin", "pkg/data/small.bin")
    (source / ".detignore").write_text("/data/\n*.md")

    assert copied(source, tmp_path / "copy") == [
        ".detignore",
        "model_def.py",
        "pkg/a.py",
        "pkg/data/small.bin",
    ]
    assert model_files.list_files(source, LIMITS).left_out == ["data/"]


def test_virtual_environments_and_packages_are_left_out_unless_they_are_taken_back(
    source, tmp_path
):
    write(source, "env/pyvenv.cfg", "env/lib/a.py", "node_modules/a.js", ".hg/a", "pkg/.git/a")

    assert copied(source, tmp_path / "copy") == ["model_def.py", "pkg/a.py"]
    assert sorted(model_files.list_files(source, LIMITS).left_out) == ["env/", "node_modules/"]
    (source / ".quintainignore").write_text("!env/\n")
    assert "env/lib/a.py" in copied(source, tmp_path / "again")


def test_what_git_ignores_is_left_out_unless_our_own_file_takes_it_back(source, tmp_path):
    write(source, "a.log", "b.log", "pkg/c.txt", "pkg/deep/d.txt", "d.txt", "built/e")
    (source / ".gitignore").write_text("*.log\nbuilt/\n")
    (source / "pkg" / ".gitignore").write_text("*.txt\n!/deep/*.txt\n")
    (source / ".quintainignore").write_text("!b.log\n")

    names = copied(source, tmp_path / "copy")

    assert {"b.log", "d.txt", "pkg/deep/d.txt"} <= set(names)
    assert not {"a.log", "pkg/c.txt", "built/e"} & set(names)
    # A copy of the copy has all of it.
    (tmp_path / "copy" / "a.log").write_text("")
    assert "a.log" in copied(tmp_path / "copy", tmp_path / "again", has_rules=False)


def test_the_rules_of_the_repository_around_it_count_but_not_against_the_directory(tmp_path):
    write(tmp_path, "repo/.git/HEAD", "repo/runs/model/a.py", "repo/runs/model/b.bin")
    write(tmp_path, "repo/.gitignore", text="*.bin\n")
    write(tmp_path, "repo/runs/.gitignore", text="model/\n")

    assert copied(tmp_path / "repo/runs/model", tmp_path / "copy") == ["a.py"]


def test_links_in_circles_are_copied_as_links(source, tmp_path):
    for name in ("a", "b", "pkg/up"):
        (source / name).symlink_to(source if name == "b" else ".")
    (source / "broken").symlink_to("gone.py")

    names = copied(source, tmp_path / "copy")

    assert names == ["broken", "model_def.py", "pkg/a.py"]
    links = {name: os.readlink(tmp_path / "copy" / name) for name in ("a", "b", "pkg/up", "broken")}
    assert links == {"a": ".", "b": ".", "pkg/up": ".", "broken": "gone.py"}


@pytest.mark.parametrize("target", ["/etc/hostname", "..", "pkg/../../x", "/"])
def test_a_link_that_leads_out_is_refused_by_name_unless_it_is_ignored(source, tmp_path, target):
    (source / "out").symlink_to(target)

    with pytest.raises(errors.ConfigError, match=r"out' is a link that leads out of the directory"):
        copied(source, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()

    (source / ".quintainignore").write_text("/out\n")
    assert "out" not in copied(source, tmp_path / "copy")


def test_pipes_sockets_and_devices_are_not_opened(source, tmp_path):
    os.mkfifo(source / "pipe.py")

    assert copied(source, tmp_path / "copy") == ["model_def.py", "pkg/a.py"]


def test_a_file_that_becomes_a_pipe_a_link_or_longer_meanwhile_holds_nothing_up(
    source, tmp_path, monkeypatch
):
    listing = model_files.list_files(source, LIMITS)
    listing.files |= dict.fromkeys(("pipe", "link", "gone"), 1)
    os.mkfifo(source / "pipe")
    (source / "link").symlink_to("/etc/hostname")
    (source / "model_def.py").write_text("xyz")
    monkeypatch.setattr(model_files, "list_files", lambda *_, **__: listing)

    with pytest.raises(errors.ConfigError, match="link' can't be read"):
        model_files.copy_model_dir(source, tmp_path / "copy", LIMITS)
    del listing.files["link"]
    assert copied(source, tmp_path / "again") == ["model_def.py", "pkg/a.py"]
    assert (tmp_path / "again" / "model_def.py").read_text() == "x"


def test_a_directory_that_is_too_large_or_missing_is_refused(source, tmp_path):
    write(source, "big.bin", text="x" * 2**20)
    write(source, "data/1", "data/2", "data/3")

    small = experiment_sections.CodeConfig({"max_mib": 1})
    with pytest.raises(errors.ConfigError, match=r"code\.max_mib.*largest seen: big\.bin"):
        model_files.list_files(source, small)
    few = experiment_sections.CodeConfig({"max_files": 7})
    with pytest.raises(errors.ConfigError, match=r"more than 7 files.*code\.max_files"):
        model_files.list_files(source, few)
    with pytest.raises(errors.ConfigError, match="is not a directory"):
        model_files.list_files(tmp_path / "none", LIMITS)


def test_a_directory_that_is_too_deep_is_refused_unless_it_is_ignored(source, tmp_path):
    deep = source / "deep"
    deep.joinpath(*"a" * model_files.MAX_DEPTH).mkdir(parents=True)
    with pytest.raises(errors.ConfigError, match=r"deep/a/.* more than 100 levels deep"):
        model_files.copy_model_dir(source, tmp_path / "copy", LIMITS)
    (source / ".quintainignore").write_text("deep\n")
    model_files.copy_model_dir(source, tmp_path / "copy", LIMITS)


def test_names_that_are_no_text_are_refused_unless_they_are_ignored(source):
    with open(os.fsencode(source) + b"/\xff.py", "w"):
        pass

    with pytest.raises(errors.ConfigError, match=r"xff.py': its name is no UTF-8"):
        model_files.list_files(source, LIMITS)
    (source / ".quintainignore").write_text("?.py\n")
    assert model_files.list_files(source, LIMITS).files.keys() >= {"model_def.py"}


@pytest.mark.timeout(20)
def test_a_pattern_that_would_backtrack_for_years_takes_no_time(source):
    name = "a" * 200
    write(source, name)
    (source / ".quintainignore").write_text(f"{'*a' * 20}*b\n")

    assert name in model_files.list_files(source, LIMITS).files


def test_a_pattern_that_is_too_large_is_refused(source):
    (source / ".quintainignore").write_text(f"{'?' * 10**4}\n")

    with pytest.raises(errors.ConfigError, match=r"\.quintainignore: .* is too large"):
        model_files.list_files(source, LIMITS)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_can_not_be_read_is_named(source, tmp_path):
    (source / "model_def.py").chmod(0)

    with pytest.raises(errors.ConfigError, match=r"model_def.py' can't be read \(Perm"):
        copied(source, tmp_path / "copy")


def test_what_was_staged_is_there_as_a_whole_or_not_at_all(tmp_path):
    target = tmp_path / "experiments" / "1"
    with model_files.staging(tmp_path) as scratch:
        (scratch / "file").write_text("x")
        scratch.rename(target)
    with pytest.raises(KeyError), model_files.staging(tmp_path) as scratch:
        raise KeyError

    assert (target / "file").exists()
    assert not scratch.exists()
    scratch.mkdir()
    model_files.clear_staging(tmp_path)
    assert sorted(path.name for path in target.parent.iterdir()) == ["1"]


def test_the_directory_of_another_experiment_is_never_written_to(tmp_path):
    (tmp_path / "experiments" / "1").mkdir(parents=True)

    assert model_files.choose_place(tmp_path, 1).name.startswith("1-")
