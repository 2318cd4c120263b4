import json
import stat

import pytest

from quintain.server.security import sessions as sessions_lib

START_SECS = 1_800_000_000


class Clock:
    secs = START_SECS

    def __call__(self):
        return self.secs


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def sessions(clock):
    return sessions_lib.Sessions(port=8080, now=clock)


def test_a_cookie_is_good_for_thirty_days(sessions, clock):
    cookie = sessions.begin()
    clock.secs = START_SECS + 30 * 24 * 3600 - 1
    assert sessions.find(cookie) is not None
    clock.secs += 1
    assert sessions.find(cookie) is None


def test_a_cookie_that_was_changed_is_worth_nothing(sessions):
    cookie = sessions.begin()
    name, end_text, seal = cookie.split(".")
    for other in (
        f"{name}.{int(end_text) + 1}.{seal}",
        f"{name}.0{end_text}.{seal}",
        f"{name}0.{end_text}.{seal}",
        f"{name}.{end_text}.{seal[:-1]}{'0' if seal[-1] != '0' else '1'}",
        f"{name}.{end_text}.{seal.upper()}",
        f"{name}.{end_text}.{seal}.{seal}",
        f"{name}.{end_text}.",
        f"{name}.{end_text}",
        f".{seal}",
        "..",
        "",
        "ä.1.ü",
        "\udcff.1.1",
        "9" * 10_000,
        sessions.page_path,
    ):
        assert sessions.find(other) is None, other
    assert sessions.find(cookie) is not None


def test_the_address_of_the_page_is_no_seal_of_a_cookie(sessions):
    """Who sees the address can make nothing of it."""
    assert len(sessions.page_path) == 20
    assert sessions.begin().rpartition(".")[2][:20] != sessions.page_path


def test_a_session_that_was_ended_stays_so_after_a_restart(tmp_path):
    path = tmp_path / "sessions.json"
    first = sessions_lib.Sessions.load(path, port=8080)
    ended, kept = first.begin(), first.begin()
    first.end(first.find(ended))
    assert first.find(ended) is None

    second = sessions_lib.Sessions.load(path, port=8080)
    assert second.find(ended) is None
    assert second.find(kept) is not None
    assert second.page_path == first.page_path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

    second.end_all()
    assert second.find(kept) is None
    assert second.page_path != first.page_path
    assert sessions_lib.Sessions.load(path, port=8080).find(kept) is None


def test_cookies_end_with_the_port(tmp_path):
    """Whoever has the port now may have been sent some."""
    path = tmp_path / "sessions.json"
    first = sessions_lib.Sessions.load(path, port=8080)
    cookie = first.begin()

    assert sessions_lib.Sessions.load(path, port=8081).find(cookie) is None
    assert sessions_lib.Sessions.load(path, port=8080).find(cookie) is None


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "null", "{", '{"port": 8080}', '{"port": 8080, "key": "00", "ended": {}}',
        '{"port": 8080, "key": 5, "ended": {}}', '{"port": 8080, "key": "zz", "ended": {}}',
    ],
)  # fmt: skip
def test_a_damaged_file_signs_everybody_out(tmp_path, text):
    path = tmp_path / "sessions.json"
    path.write_text(text)
    sessions = sessions_lib.Sessions.load(path, port=8080)

    assert sessions.find(sessions.begin()) is not None
    assert len(json.loads(path.read_text())["key"]) == 64


def test_no_more_than_a_thousand_ended_sessions_are_noted(sessions, clock):
    first_path, kept = sessions.page_path, sessions.begin()
    for _ in range(1000):
        sessions.end(sessions.find(sessions.begin()))
    clock.secs += 1
    assert sessions.find(kept) is not None
    sessions.end(sessions.find(sessions.begin()))
    assert sessions.find(kept) is None
    assert sessions.page_path != first_path

    for _ in range(1000):
        sessions.end(sessions.find(sessions.begin()))
    clock.secs += 31 * 24 * 3600
    kept = sessions.begin()
    sessions.end(sessions.find(sessions.begin()))
    assert sessions.find(kept) is not None


def test_the_cookie_of_a_user_ends_with_their_token(clock):
    tokens = {"an.na@x": "secret"}
    sessions = sessions_lib.Sessions(port=8080, now=clock, read_token=tokens.get)
    cookie, owners = sessions.begin("an.na@x"), sessions.begin()
    assert sessions.find_user(sessions.find(cookie)) == "an.na@x"
    assert sessions.find_user(sessions.find(owners)) == "owner"
    unsealed = f"{cookie.rpartition('.')[0]}."

    tokens["an.na@x"] = "renewed"
    assert sessions.find(cookie) is None
    del tokens["an.na@x"]
    assert [sessions.find(each) for each in (cookie, unsealed)] == [None, None]
    assert sessions.find(owners) is not None


def test_a_user_can_not_turn_a_cookie_into_the_owners(clock):
    sessions = sessions_lib.Sessions(port=8080, now=clock, read_token={"anna": "secret"}.get)
    number, end, seal = sessions.begin("anna").split(".")
    for other in (number.partition("-")[0], number.replace("anna", "owner"), f"{number}~"):
        assert sessions.find(f"{other}.{end}.{seal}") is None
