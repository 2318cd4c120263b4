"""Shows links that open the page of a master, and opens them in a browser.

A link is good for whoever comes first. So it is printed to terminals only, unless it was asked for:
what commands write into files is often for others to read.
"""

import getpass
import html
import os
import sys
import urllib.parse
import webbrowser
from collections.abc import Callable
from typing import Final

import click

from quintain import errors
from quintain.client import address
from quintain.client.home import home as home_lib
from quintain.files import atomic_write
from quintain.records.views import master_status

_DISPLAYS: Final = ("DISPLAY", "WAYLAND_DISPLAY")


def show(build_link: Callable[[], str], *, view: str = "") -> None:
    """Prints a link for the user at the terminal, or else how to get one.

    Args:
        build_link: Makes the link.
        view: What of the page it leads to, such as `experiments/1`.
    """
    if not sys.stderr.isatty():
        click.echo("To see it in a browser:\n  quintain ui", err=True)
        return
    try:
        link = to_view(build_link(), view)
    except errors.QuintainError as error:
        # What the command was asked for is done; a master of a former version has no page.
        click.echo(f"Its page can't be opened: {error}", err=True)
        return
    click.echo(f"To see it in a browser (the link works once):\n  {link}", err=True)


def to_view(link: str, view: str) -> str:
    """Returns a link that leads to a view of the page.

    Example:
        >>> to_view("http://127.0.0.1:8080/sign-in?code=c", "experiments/1")
        'http://127.0.0.1:8080/sign-in?code=c#/experiments/1'
    """
    return f"{link}#/{view}" if view else link


def has_display() -> bool:
    """Returns whether a browser of this machine would be seen by who runs the command."""
    return sys.platform in ("darwin", "win32") or any(map(os.environ.get, _DISPLAYS))


def find_tunnel(link: str) -> str | None:
    """Returns the command that makes a link work where the user sits, if that is another machine.

    Masters that other machines reach need none.

    Args:
        link: The link.
    """
    ends = os.environ.get("SSH_CONNECTION", "").split()
    if len(ends) != 4 or has_display():
        return None
    parts = urllib.parse.urlsplit(link)
    if not address.is_loopback(parts.hostname or ""):
        return None
    here = parts.netloc
    user, (_, _, machine, port) = getpass.getuser(), ends
    option = "" if port == "22" else f"-p {port} "
    return f"ssh -N -L {here.rpartition(':')[2]}:{here} {option}{user}@{machine}"


def open_in_browser(home: home_lib.Home, link: master_status.PageLink) -> bool:
    """Opens a link in a browser, and returns whether one was found.

    All users of a machine see the arguments of its programs. So the browser is given a file that
    leads it on, which its owner only can read.

    Args:
        home: The home directory.
        link: The link.
    """
    home.create()
    page = home.opening_file
    text = (
        '<!doctype html><meta charset="utf-8"><title>Quintain</title>'
        f'<meta http-equiv="refresh" content="0; url={html.escape(link.url)}">'
    )
    atomic_write.write_atomically(page, text, mode=0o600)
    return webbrowser.open(page.as_uri())
