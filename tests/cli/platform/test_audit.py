import json
import time

import pytest

from quintain import store as stores
from quintain.client.home import home as home_lib
from quintain.records import team


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Returns a home without a master, with two entries in the log."""
    monkeypatch.setenv("QUINTAIN_HOME", str(tmp_path / "home"))
    home = home_lib.find_home()
    home.create()
    store = stores.open_store(str(home.database))
    with store.transaction() as session:
        old = time.time() - 2 * 86_400
        session.add_audit(team.AuditEntry(0, old, "anna", "10.0.0.9", "kill_trial", 1))
        session.add_audit(
            team.AuditEntry(0, time.time(), "owner", "", "apply", 2, {"command": "pause"})
        )
    store.close()
    return home


def test_the_log_is_shown_and_narrowed(quintain, home):
    code, stdout, _ = quintain("audit")
    lines = stdout.splitlines()
    assert (code, len(lines)) == (0, 3)
    assert "anna" in lines[1]
    assert "10.0.0.9" in lines[1]
    assert "command=pause" in lines[2]
    for arguments, users in [
        (("--experiment", 2), ["owner"]),
        (("--user", "anna"), ["anna"]),
        (("--since", "1d"), ["owner"]),
        (("--since", "2020-01-31"), ["anna", "owner"]),
        (("--limit", 1), ["owner"]),
    ]:
        code, stdout, _ = quintain("audit", "--json", *arguments)
        assert [each["user_name"] for each in json.loads(stdout)] == users, arguments


@pytest.mark.parametrize("text", ["", "yesterday", "7", "d", "-1d", "2026-13-01"])
def test_a_time_that_is_none_is_refused(quintain, home, text):
    code, _, stderr = quintain("audit", "--since", text)
    assert code == 2
    assert "expected minutes, hours or days ago" in stderr
