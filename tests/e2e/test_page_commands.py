"""The link to the page, as commands give it: `quintain ui`, `master` and `experiment create`."""

import json
import os
import pathlib
import pty
import re
import stat
import subprocess
import sys
import zipfile

import pytest
import urllib3

from quintain.client.home import home as home_lib
from quintain.server.routes import page as page_routes

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

ROOT = pathlib.Path(__file__).parents[2]
MODEL_DIR = ROOT / "tests" / "e2e" / "toy_trial"
CONFIG = """
name: toy
entrypoint: model_def:ToyTrial
hyperparameters: {rate: 0.5}
searcher: {name: single, metric: error, max_length: {batches: 1000000}}
scheduling_unit: 5
"""
LINK = re.compile(r"http://127\.0\.0\.1:\d+/[0-9a-f]{20}/sign-in\?code=[\w-]{32}")


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("QUINTAIN_HOME", str(tmp_path / "home"))
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    home = home_lib.find_home()
    yield home
    if home_lib.find_master(home) is not None:
        run("master", "stop", "--now")


def run(*arguments, code=0, stderr=subprocess.PIPE):
    done = subprocess.run(
        [sys.executable, "-m", "quintain.cli.main", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, f"{arguments}\n{done.stdout}\n{done.stderr}"
    return done


def run_at_terminal(*arguments):
    """Returns what a command writes to a terminal for its standard error."""
    ours, theirs = pty.openpty()
    try:
        run(*arguments, stderr=theirs)
        return os.read(ours, 65536).decode().replace("\r\n", "\n")
    finally:
        os.close(ours)
        os.close(theirs)


def go(url, **headers):
    return urllib3.request("GET", url, headers=headers, redirect=False, retries=False)


@pytest.mark.long("tests/cli/test_page_links.py shows the links, tests/page opens them")
def test_every_command_gives_a_link_that_opens_the_page(home, tmp_path):
    (tmp_path / "runs").mkdir()
    missing = run("ui", "--runs", tmp_path / "nowhere", code=2)
    assert f"--runs: got '{tmp_path}/nowhere', expected a directory." in missing.stderr
    assert home_lib.find_master(home) is None

    first = run("ui", "--runs", tmp_path / "runs", "--no-browser")
    (link,) = first.stdout.splitlines()
    assert LINK.fullmatch(link)
    pid = home_lib.find_master(home).pid
    answer = go(link)
    assert answer.status == 303
    page = link.partition("sign-in")[0]
    cookie = answer.headers["Set-Cookie"].partition(";")[0]
    assert go(page, Cookie=cookie).status == 200
    info = go(f"{page}api/v1/master", Cookie=cookie).json()
    assert (info["pid"], info["run_dirs"]) == (pid, [str(tmp_path / "runs")])

    (tmp_path / "more" / "run").mkdir(parents=True)
    (tmp_path / "more" / "run" / "params.yaml").write_text("experiment: translation/local\n")
    found = json.loads(run("ui", "--json", "--runs", tmp_path / "more").stdout)
    assert (found["pid"], found["home"]) == (pid, str(home.path))
    (shown,) = go(f"{page}api/v1/runs", Cookie=cookie).json()
    assert shown["path"] == str(tmp_path / "more" / "run")

    (tmp_path / "toy.yaml").write_text(CONFIG)
    create = ("experiment", "create", tmp_path / "toy.yaml", MODEL_DIR, "--detach", "--no-check")
    shown = {
        "status": run_at_terminal("master", "status"),
        "create": run_at_terminal(*create),
    }
    assert LINK.search(shown["create"])
    assert shown["create"].endswith("#/experiments/1\n")
    links = [found["url"], *(LINK.search(text).group() for text in shown.values())]
    for one in links:
        assert go(one).status == 303
        assert go(one).status == 403

    # What may be for others to read has no link, nor has the master's own log.
    run("experiment", "kill", 1)
    quiet = run(*create).stderr + run("master", "status").stderr
    run("experiment", "kill", 2)
    assert "\n  quintain ui\n" in quiet
    written = quiet + (home.logs / "master.log").read_text()
    assert "code=" not in written
    for one in [link, *links]:
        assert one.partition("code=")[2] not in written
    assert stat.S_IMODE(home.sessions_file.stat().st_mode) == 0o600
    assert cookie.partition("=")[2] not in home.sessions_file.read_text()

    # A browser stays signed in when the master is another one, until it is signed out.
    run("master", "stop")
    run("ui", "--json")
    assert home_lib.find_master(home).pid != pid
    assert go(page, Cookie=cookie).status == 200
    run("ui", "--json", "--sign-out-all")
    assert go(page, Cookie=cookie).status == 401


@pytest.mark.long("Builds a wheel, in an environment that pip makes for it")
def test_the_wheel_has_the_page(tmp_path):
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(tmp_path)]
    subprocess.run([*command, str(ROOT)], check=True, timeout=300)
    (wheel,) = tmp_path.glob("quintain-*.whl")
    with zipfile.ZipFile(wheel) as content:
        names = {name for name in content.namelist() if name.startswith("quintain/server/page/")}
        sizes = {name: content.getinfo(name).file_size for name in names}
    files = [path for path in page_routes.DIRECTORY.rglob("*") if path.is_file()]
    expected = {path.relative_to(ROOT).as_posix(): path.stat().st_size for path in files}
    assert sizes == expected
    assert "quintain/server/page/sign_in.html" in sizes
