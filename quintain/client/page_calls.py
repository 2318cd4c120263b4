"""Client calls about the page."""

from collections.abc import Sequence
from typing import Final

from quintain.client.http import connection
from quintain.records.rows import codec
from quintain.records.views import master_status

_PREFIX: Final = "/api/v1"


class PageCalls:
    """Asks a master for links to its page, and tells it what to show there.

    Args:
        connected: Connection to the master.
    """

    def __init__(self, connected: connection.Connection) -> None:
        self._connection = connected

    def build_link(self, *, stays: bool = False) -> master_status.PageLink:
        """Returns a link that opens the page in a browser once.

        Args:
            stays: Whether it is good until it is used; otherwise for ten minutes.
        """
        answer = self._connection.request(
            "POST", f"{_PREFIX}/master/sign-in", body={"stays": stays}
        )
        return codec.from_plain(master_status.PageLink, answer)

    def sign_out_all(self) -> None:
        """Signs all browsers out."""
        self._connection.request("POST", f"{_PREFIX}/master/sign-out-all", is_repeatable=True)

    def add_run_dirs(self, paths: Sequence[str]) -> None:
        """Shows the runs of `quintain train` below further directories, until the master ends.

        Args:
            paths: Absolute paths.
        """
        self._connection.request(
            "POST", f"{_PREFIX}/runs/folders", body={"paths": list(paths)}, is_repeatable=True
        )
