"""Named tokens, made, listed and revoked."""

import pytest

from quintain.client.home import home as home_lib


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("QUINTAIN_HOME", str(tmp_path / "home"))


def test_tokens_of_users_are_made_listed_and_revoked(quintain, tmp_path):
    assert quintain("master", "token", "--list") == (0, "", "No user has a token.\n")
    code, anna, _ = quintain("master", "token", "--user", "anna")
    assert (code, anna[:5]) == (0, "anna-")
    assert quintain("master", "token", "--user", "anna")[1] == anna
    target = tmp_path / "owner"
    assert quintain("master", "token", "--user", "--output", target)[0] == 0
    tokens = home_lib.find_home().user_tokens
    assert tokens.find_user(target.read_text().strip()) == "owner"

    code, stdout, _ = quintain("master", "token", "--list")
    assert [line.split()[0] for line in stdout.splitlines()] == ["USER", "owner", "anna"]
    assert anna.strip() not in stdout

    assert quintain("master", "token", "--user", "anna", "--renew")[1] != anna
    assert "worth nothing" in quintain("master", "token", "--revoke", "anna")[2]
    assert tokens.list_names() == ["owner"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Give one of --agent, --user, --metrics, --list and --revoke."),
        (("--agent", "--user", "anna"), "Give one of"),
        (("--list", "--renew"), "--output and --renew go with --agent, --user and --metrics only."),
        (("--user", "../anna"), "user: got '../anna', expected at most 64 letters"),
        (("--user", "owner "), "user: got 'owner ', expected at most 64 letters"),
        (("--revoke", "anna"), "There is no token of user 'anna'; expected one of none."),
    ],
)
def test_what_makes_no_sense_is_refused(quintain, arguments, message):
    code, stdout, stderr = quintain("master", "token", *arguments)
    assert (code != 0, stdout) == (True, "")
    assert message in stderr
