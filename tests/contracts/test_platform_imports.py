"""The platform half runs without TensorFlow, and asking for help waits for nothing."""

import json
import pathlib
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).parents[2]
PLATFORM = ("records", "search", "store", "client", "master", "server")
COMMANDS = ("connect", "page_links")


def find_modules():
    found = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for name in (*PLATFORM, "cli/experiment", "cli/display", "cli/platform")
        for path in sorted((ROOT / "quintain" / name).rglob("*.py"))
        if "migrations" not in path.parts
    ]
    commands = [f"quintain.cli.{name}" for name in ("main", *COMMANDS)]
    return [name.removesuffix(".__init__") for name in found] + commands


def list_loaded(statement):
    code = f"import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(json.loads(done.stdout))


def test_cli_server_and_master_load_no_tensorflow():
    # A sampler of Optuna, which only a search by it loads.
    modules = [name for name in find_modules() if name != "quintain.search.gaussian"]
    assert len(modules) > 60

    loaded = list_loaded("\n".join(f"import {name}" for name in modules))

    assert set(modules) <= loaded
    assert not {"tensorflow", "keras", "quintain.core", "quintain.nlp", "optuna"} & loaded


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("quintain.cli.main", {"rich", "sqlalchemy", "fastapi", "numpy", "pydantic", "urllib3"}),
        ("quintain.cli.experiment.lists", {"rich", "sqlalchemy", "fastapi", "numpy"}),
        ("quintain.cli.experiment.file", {"rich", "sqlalchemy", "fastapi", "numpy", "pydantic"}),
        ("quintain.cli.platform.trial", {"rich", "sqlalchemy", "fastapi", "numpy"}),
        ("quintain.cli.platform.master", {"rich", "sqlalchemy", "fastapi", "numpy"}),
    ],
)
def test_commands_load_what_they_need_only(module, unwanted):
    assert not list_loaded(f"import {module}") & unwanted


@pytest.mark.parametrize("command", [["--help"], ["experiment", "list"]])
def test_light_commands_load_only_records_that_they_show(command, tmp_path, monkeypatch):
    monkeypatch.setenv("QUINTAIN_HOME", str(tmp_path / "home"))
    run = "from quintain.cli import main\nwith contextlib.redirect_stdout(io.StringIO()):\n"

    loaded = list_loaded(f"import contextlib, io\n{run}    assert main.run({command}) == 0")

    views = {f"quintain.records.views.{name}" for name in ("master_status", "seeds", "trial_table")}
    rows = {f"quintain.records.rows.{name}" for name in ("launch", "registered_model", "trial")}
    rest = {"importlib.abc", "quintain.process.user_errors", "quintain.storage", "urllib3", "yaml"}
    rest |= {"quintain.records.checkpoint_manifest", "quintain.records.config.provenance"}
    python = {"concurrent.futures", "difflib", "hashlib", "importlib.resources", "subprocess"}
    assert not loaded & (views | rows | rest | python)
