"""HTTP client of a master, for its users."""

import hashlib
import pathlib
import urllib.parse
from collections.abc import Mapping
from typing import Self

from typing_extensions import override

from quintain.client import address as address_lib
from quintain.client import call_table, calls
from quintain.client.home import home as home_lib
from quintain.client.http import connection, http_calls, transfers


class MasterClient(http_calls.HttpCalls, calls.MasterCalls):
    """Talks to a running master."""

    @classmethod
    def connect(cls, home: home_lib.Home, address: address_lib.Address) -> Self:
        """Returns a client of the master of a home directory, also after it was restarted."""

        def find() -> address_lib.Address | None:
            found = home_lib.find_master(home)
            return None if found is None else found.address

        return cls(connection.Connection(address, find_master=find))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    @override
    def fetch_checkpoint(self, uuid: str, directory: pathlib.Path) -> list[str]:
        sizes = self.get_checkpoint(uuid).files
        name = urllib.parse.quote(uuid, safe="")
        return self._fetch(f"/checkpoints/{name}/files", directory, sizes)

    @override
    def fetch_model_dir(self, experiment_id: int, directory: pathlib.Path) -> list[str]:
        return self._fetch(f"/experiments/{experiment_id}/files", directory, {})

    def send_code(self, archive: pathlib.Path) -> str:
        """Sends what is missing of a `.tar` file of code, and returns its SHA-256.

        Raises:
            MasterUnreachableError: If the connection is lost for long.
        """
        with archive.open("rb") as file:
            name = hashlib.file_digest(file, "sha256").hexdigest()

        def ask_offset() -> int:
            return self.count_upload(name)["received"]

        transfers.send_file(
            self._connection,
            f"{call_table.PREFIX}/uploads/{name}",
            archive,
            offset=ask_offset(),
            ask_offset=ask_offset,
        )
        return name

    def _fetch(self, path: str, directory: pathlib.Path, sizes: Mapping[str, int]) -> list[str]:
        source = call_table.PREFIX + path
        names = self._connection.request("GET", source)
        return transfers.fetch_files(self._connection, source, names, directory, sizes)
