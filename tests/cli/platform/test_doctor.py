import contextlib
import importlib.metadata
import json
import os
import pathlib
import socket
import sys
import types

import pytest
from click.testing import CliRunner

from quintain.cli.main import cli
from quintain.cli.platform import doctor
from quintain.kernels import library
from quintain.records.rows import node


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
    assert findings["datasets"]["value"] == importlib.metadata.version("datasets")
    assert not home.exists()


def test_shows_it_to_people(home):
    done = CliRunner().invoke(cli, ["doctor"])

    assert done.exit_code == 0
    assert "Native kernels\n  state " in done.stdout
    assert done.stdout.endswith("No problems.\n")


def test_says_why_native_kernels_are_off_and_bfloat16_is_slow(monkeypatch):
    monkeypatch.setattr(library, "find_reason", lambda: "there is no C++ compiler")
    monkeypatch.setattr(library, "emulates_bfloat16", lambda: True)

    code, findings = _ask()

    assert code == 0
    assert findings["state"]["value"] == "off, TensorFlow's are used: there is no C++ compiler"
    assert "float32 is faster" in findings["bfloat16"]["value"]


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


def test_tells_which_server_has_the_database(monkeypatch):
    monkeypatch.setenv("QUINTAIN_DATABASE", "postgresql+psycopg://me:secret@db/trials")
    monkeypatch.setattr(doctor, "_ask_server", lambda address: "15.18")

    code, findings = _ask()

    assert code == 0
    database = findings["database"]
    assert database["value"] == "postgresql+psycopg://me@db/trials (PostgreSQL 15.18)"


def test_tells_which_ray_cluster_there_is_and_whether_it_answers(monkeypatch):
    pytest.importorskip("ray")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setenv("RAY_ADDRESS", address)
        assert doctor._find_ray_address() == address

    assert doctor._find_ray_address().startswith(f"{address}, where nobody answers")
    for odd in ("nonsense", "x:y", "ray://[::1"):
        monkeypatch.setenv("RAY_ADDRESS", odd)
        assert "where nobody answers" in doctor._find_ray_address()


def test_a_ray_that_cannot_be_imported_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray._private", None)

    assert doctor._find_ray_address().startswith("its package can't be imported")


def test_tells_machines_and_why_some_run_no_trials(home, monkeypatch):
    nodes = [
        node.NodeStatus("one", node.NodeState.ACTIVE, slots=(0, 1)),
        node.NodeStatus("two", node.NodeState.ACTIVE, slots=(2,)),
        node.NodeStatus("three", node.NodeState.LOST, "Nothing was heard of it.", slots=(3,)),
    ]
    client = types.SimpleNamespace(list_nodes=lambda: nodes)
    monkeypatch.setattr(
        doctor.home_lib, "find_master", lambda _: types.SimpleNamespace(address=None)
    )
    monkeypatch.setattr(
        doctor.master_client.MasterClient,
        "connect",
        lambda *_: contextlib.nullcontext(client),
    )

    found = {each.name: each.value for each in doctor._find_cluster()}

    assert found["machines"] == "2 ACTIVE (slots: 3), 1 LOST (slots: 1)"
    assert found["three"] == "LOST: Nothing was heard of it."


def test_a_tensorflow_that_cannot_be_imported_is_a_problem(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", None)

    assert [one for one in doctor.collect() if one.value == "can't be imported"]


def test_knows_every_extra_of_the_package():
    text = (pathlib.Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8")
    table = text.partition("[project.optional-dependencies]\n")[2].partition("\n[")[0]
    names = {line.split(" =")[0] for line in table.splitlines() if " = [" in line}

    assert set(doctor.EXTRAS) == names - {"dev"}
