import dataclasses

import pytest

from quintain.records.views import master_status

MASTER = master_status.MasterInfo("1", "/home", "http://127.0.0.1:1", 2, 3.0)


@pytest.fixture
def status(quintain, calls_fake, monkeypatch):
    """Returns a function that shows the status of a master with so many slots."""
    monkeypatch.setattr(type(calls_fake), "get_info", lambda _: MASTER, raising=False)
    monkeypatch.setattr("quintain.cli.page_links.show", lambda _: None)

    def show(num_slots, *flags):
        found = dataclasses.replace(calls_fake.get_summary(), num_slots=num_slots)
        monkeypatch.setattr(calls_fake, "get_summary", lambda: found)
        code, stdout, _ = quintain("master", "status", *flags)
        assert code == 0
        return stdout

    return show


def test_few_slots_are_listed(status):
    assert "SLOT  KIND" in status(1)


def test_of_many_slots_it_is_said_how_many_are_in_use(status):
    found = status(10_000)

    assert "1 of 10000 slots are in use (--slots lists them)." in found
    assert "SLOT  KIND" not in found
    assert "25 %" in found


def test_many_slots_are_listed_where_that_is_asked_for(status):
    assert "SLOT  KIND" in status(10_000, "--slots")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--trusted-proxy", "10.0.0.9"), "--trusted-proxy-header and --trusted-proxy go together"),
        (
            ("--trusted-proxy-header", "X-User", "--trusted-proxy", "proxy.example"),
            "--trusted-proxy: got 'proxy.example', expected the IP address of the proxy.",
        ),
        (
            ("--trusted-proxy-header", "Cookie", "--trusted-proxy", "10.0.0.9"),
            "--trusted-proxy-header: got 'Cookie', expected the name of a header",
        ),
        (
            ("--trusted-proxy-header", "X User", "--trusted-proxy", "10.0.0.9"),
            "--trusted-proxy-header: got 'X User', expected the name of a header",
        ),
    ],
)
def test_a_proxy_that_can_be_none_is_refused(quintain, options, message):
    code, _, stderr = quintain("master", "start", *options)
    assert code == 2
    assert message in stderr
