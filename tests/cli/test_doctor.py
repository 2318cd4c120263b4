import json
import os
import pathlib
import sys

import pytest
from click.testing import CliRunner

from quintain.cli import doctor_findings
from quintain.cli.main import cli
from quintain.kernels import library


@pytest.fixture(name="home", autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("QUINTAIN_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("QUINTAIN_DATABASE", raising=False)
    return tmp_path / "home"


def _ask():
    """Returns the exit code, and the findings by their names."""
    done = CliRunner().invoke(cli, ["doctor", "--json"])
    findings = json.loads(done.stdout)["findings"]
    return done.exit_code, {finding["name"]: finding for finding in findings}


def test_tells_versions_machine_kernels_and_extras(home):
    code, findings = _ask()

    assert code == 0
    assert findings["tensorflow"]["value"].startswith("2.")
    assert findings["cores"]["value"].endswith(f"of {os.cpu_count()}")
    assert findings["state"]["value"].startswith(("on: avx", "off, "))
    assert findings["path"]["value"] == str(home)
    assert findings["datasets"]["value"] == "installed"
    assert not home.exists()


def test_shows_it_to_people(home):
    done = CliRunner().invoke(cli, ["doctor"])

    assert done.exit_code == 0
    assert "Native kernels\n  state " in done.stdout
    assert done.stdout.endswith("No problems.\n")


def test_says_why_native_kernels_are_off(monkeypatch):
    monkeypatch.setattr(library, "find_reason", lambda: "there is no C++ compiler")

    code, findings = _ask()

    assert code == 0
    assert findings["state"]["value"] == "off, TensorFlow's are used: there is no C++ compiler"


def test_a_home_that_cannot_be_written_is_a_problem(home, monkeypatch):
    home.write_text("in the way")

    code, findings = _ask()

    assert code == 1
    assert "can't be written; set QUINTAIN_HOME" in findings["path"]["problem"]


def test_a_damaged_database_is_a_problem(home):
    home.mkdir()
    (home / "quintain.db").write_bytes(b"no database" * 100)

    code, findings = _ask()

    assert code == 1
    assert "can't be asked: file is not a database" in findings["database"]["problem"]


def test_a_server_that_does_not_answer_is_a_problem(monkeypatch):
    monkeypatch.setenv("QUINTAIN_DATABASE", "postgresql+psycopg://me@127.0.0.1:1/trials")

    code, findings = _ask()

    assert code == 1
    assert "can't be asked: " in findings["database"]["problem"]


def test_a_tensorflow_that_cannot_be_imported_is_a_problem(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", None)

    assert [one for one in doctor_findings.collect() if one.value == "can't be imported"]


def test_knows_every_extra_of_the_package():
    text = (pathlib.Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    table = text.partition("[project.optional-dependencies]\n")[2].partition("\n[")[0]
    names = {line.split(" =")[0] for line in table.splitlines() if " = [" in line}

    assert set(doctor_findings.EXTRAS) == names - {"dev"}
