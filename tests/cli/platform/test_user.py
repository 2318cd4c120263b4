"""Roles given, shown and taken by commands, at a master on loopback."""

import json

import pytest

from quintain.client.home import home as home_lib
from quintain.master.placing import slots
from quintain.server import daemon
from quintain.testing import idle_launcher


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("QUINTAIN_HOME", str(tmp_path / "hö me"))
    home = home_lib.find_home()
    launcher = idle_launcher.IdleLauncher()
    with daemon.MasterServer(home, slots=[slots.Slot(0)], launcher=launcher):
        yield home


def test_roles_are_given_shown_and_taken(quintain, home):
    assert quintain("user", "grant", "anna", "viewer")[0] == 0
    code, stdout, _ = quintain("user", "grant", "anna", "editor", "--project", "speech")
    assert (code, stdout.splitlines()[1].split()) == (
        0, ["anna", "viewer", "speech=editor", "no"],
    )  # fmt: skip
    assert quintain("master", "token", "--user", "bob")[0] == 0
    found = json.loads(quintain("user", "list", "--json")[1])
    assert [(each["name"], each["roles"], each["has_token"]) for each in found] == [
        ("owner", {"": "admin"}, True),
        ("anna", {"": "viewer", "speech": "editor"}, False),
        ("bob", {}, True),
    ]
    assert json.loads(quintain("user", "whoami", "--json")[1])[0]["name"] == "owner"

    assert quintain("user", "revoke", "anna", "--project", "speech")[0] == 0
    assert quintain("user", "revoke", "anna")[0] == 0
    code, _, stderr = quintain("user", "revoke", "anna")
    assert code == 1
    assert "User 'anna' has no role; `quintain user list` shows roles." in stderr
    log = json.loads(quintain("audit", "--json")[1])
    assert [each["call"] for each in log] == ["grant_role"] * 2 + ["revoke_roles"] * 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("grant", "anna", "king"), "'king' is not one of 'viewer', 'editor', 'admin'"),
        (("grant", "owner", "viewer"), "NAME: got 'owner', expected at most 64 letters"),
        (("grant", "../x", "viewer"), "NAME: got '../x', expected at most 64 letters"),
        (("grant", "anna", "admin", "--project", "a"), "an admin is one of all"),
    ],
)
def test_what_makes_no_sense_is_refused(quintain, home, arguments, message):
    code, stdout, stderr = quintain("user", *arguments)
    assert (code, stdout) == (2, "")
    assert message in stderr
