"""`quintain ui`: opens the page of the master in a browser."""

import click

from quintain.cli import connect, options, output, page_links
from quintain.cli.lazy_group import FlagCommand
from quintain.client.home import home as home_lib
from quintain.client.home import logins


@click.command(cls=FlagCommand)
@click.option("--no-browser", is_flag=True, help="Only print the link.")
@options.runs_option
@click.option("--sign-out-all", is_flag=True, help="First sign all browsers out.")
@click.option("--json", "as_json", is_flag=True, help="Print the link as JSON; open no browser.")
def ui(no_browser: bool, run_dirs: tuple[str, ...], sign_out_all: bool, as_json: bool) -> None:
    r"""Open the page: watch searches and runs of training, and steer them.

    It is the page of the master of this home directory (QUINTAIN_HOME), which is started in the
    background if none runs, or of that on another machine (`quintain login`). The link that is
    printed signs one browser in, once, within ten minutes; the browser stays signed in for 30 days.

    \b
    quintain ui
    quintain ui --runs runs/
    quintain ui --no-browser
    """
    home = home_lib.find_home()
    if run_dirs:
        logins.check_own(home.path, "--runs")
    with connect.open_client(run_dirs=run_dirs) as client:
        info = client.get_info()
        if missing := sorted({*run_dirs} - {*info.run_dirs}):
            client.add_run_dirs(missing)
        if sign_out_all:
            client.sign_out_all()
        link = client.build_link()
    if as_json:
        output.print_json({"url": link.url, "home": info.home, "pid": info.pid})
        return
    if (tunnel := page_links.find_tunnel(link.url)) is not None:
        click.echo(f"To open it on the machine before you, first run there:\n  {tunnel}", err=True)
    click.echo("The link works once, within ten minutes:", err=True)
    click.echo(link.url)
    if not no_browser and page_links.has_display() and not page_links.open_in_browser(home, link):
        click.echo("No browser was found; open the link in one.", err=True)
