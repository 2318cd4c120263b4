import stat
import sys
import types
import webbrowser

import pytest

from quintain import errors
from quintain.cli import page_links
from quintain.client.home import home as home_lib
from quintain.records.views import master_status

LINK = "http://127.0.0.1:8080/abc/sign-in?code=secret"


@pytest.fixture
def terminal(monkeypatch):
    """Makes standard error count as a terminal, as far as this module asks."""
    seen = types.SimpleNamespace(stderr=types.SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(page_links, "sys", seen)


def test_the_user_at_a_terminal_is_shown_a_link(terminal, capsys):
    page_links.show(lambda: LINK, view="experiments/3")
    assert capsys.readouterr().err.endswith(f"\n  {LINK}#/experiments/3\n")


def test_what_goes_into_files_has_no_link(capsys):
    page_links.show(lambda: LINK)
    assert capsys.readouterr() == ("", "To see it in a browser:\n  quintain ui\n")


def test_a_master_without_a_page_is_no_fault(terminal, capsys):
    def refuse():
        raise errors.NotFoundError("Not Found")

    page_links.show(refuse)
    assert capsys.readouterr().err == "Its page can't be opened: Not Found\n"


def test_a_browser_is_looked_for_where_somebody_sees_it(monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert not page_links.has_display()
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    assert page_links.has_display()
    monkeypatch.delenv("WAYLAND_DISPLAY")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert page_links.has_display()


def test_the_arguments_of_a_browser_tell_others_nothing(tmp_path, monkeypatch):
    home = home_lib.Home(tmp_path)
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or True)

    assert page_links.open_in_browser(home, master_status.PageLink(LINK))
    assert opened == [home.opening_file.as_uri()]
    assert f'url={LINK}"' in home.opening_file.read_text()
    assert stat.S_IMODE(home.opening_file.stat().st_mode) == 0o600


def test_who_sits_elsewhere_is_told_how_to_come_here(monkeypatch):
    monkeypatch.setattr(page_links, "has_display", lambda: False)
    monkeypatch.setattr(page_links.getpass, "getuser", lambda: "me")
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.2 50000 10.0.0.1 22")
    assert page_links.find_tunnel(LINK) == "ssh -N -L 8080:127.0.0.1:8080 me@10.0.0.1"
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.2 50000 10.0.0.1 2222")
    assert page_links.find_tunnel(LINK) == "ssh -N -L 8080:127.0.0.1:8080 -p 2222 me@10.0.0.1"

    monkeypatch.setattr(page_links, "has_display", lambda: True)
    assert page_links.find_tunnel(LINK) is None
    monkeypatch.setattr(page_links, "has_display", lambda: False)
    monkeypatch.delenv("SSH_CONNECTION")
    assert page_links.find_tunnel(LINK) is None
