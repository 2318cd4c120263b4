"""S3 server on the loopback device, whose objects outlive it; for tests.

SeaweedFS keeps what it has taken in files, so that it may be killed and started again at any time,
and asks for keys.
"""

import contextlib
import json
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import Final, Self

from quintain.process import held_ports

ACCESS_KEY: Final = "AKIAEXAMPLE"
SECRET_KEY: Final = "not-to-be-seen"
ENVIRONMENT: Final = {
    "AWS_ACCESS_KEY_ID": ACCESS_KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""What its clients find in their environment."""

_SERVICES: Final = ("master", "volume", "filer", "s3")
_SETTINGS: Final = (
    *("-filer", "-s3", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"),
    *("-s3.port.iceberg=0", "-s3.port.lance=0"),
    # It is alone: there is nobody whose vote it would have to wait for.
    *("-master.electionTimeout=1s", "-master.heartbeatInterval=100ms"),
    *("-master.volumeSizeLimitMB=64", "-volume.max=50"),
)
_START_SECS: Final = 60.0


def find_program() -> str | None:
    """Returns the path of the program, or None if it is not installed."""
    beside = pathlib.Path(sys.executable).parent
    return shutil.which("weed") or shutil.which("weed", path=str(beside))


class ObjectServer:
    """A server with files of its own, which lets in who has `ENVIRONMENT`.

    Example:
        with ObjectServer(program) as server:
            options = {"endpoint_url": server.url}

    Attributes:
        port: Port on the loopback device, which stays the same when it is started again.
    """

    def __init__(self, program: str) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        with contextlib.ExitStack() as held:
            sockets = [
                [held.enter_context(held_ports.hold("127.0.0.1")) for _ in range(2)]
                for _ in _SERVICES
            ]
            ports = [[one.getsockname()[1] for one in pair] for pair in sockets]
        self.port = ports[-1][0]
        self._command = [program, "server", *_SETTINGS]
        for name, (plain, other) in zip(_SERVICES, ports, strict=True):
            self._command += [f"-{name}.port={plain}", f"-{name}.port.grpc={other}"]

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        """Makes its directory, and starts it."""
        self._directory = pathlib.Path(tempfile.mkdtemp(prefix="quintain-objects-"))
        keys = self._directory / "keys.json"
        credentials = [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}]
        identity = {"name": "test", "credentials": credentials, "actions": ["Admin"]}
        keys.write_text(json.dumps({"identities": [identity]}))
        self._command += [f"-s3.config={keys}", f"-dir={self._directory}"]
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it, and deletes its files."""
        self.kill()
        shutil.rmtree(self._directory)

    def start(self) -> None:
        """Starts it, and waits until it takes connections."""
        with (self._directory / "log").open("ab") as log_file:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=log_file,
                cwd=self._directory,
                start_new_session=True,
            )
        deadline = time.monotonic() + _START_SECS
        while not self._answers():
            if time.monotonic() > deadline or self._process.poll() is not None:
                log = (self._directory / "log").read_text(errors="replace")
                raise RuntimeError(f"The server does not start: {log[-2000:]}")
            time.sleep(0.02)

    def kill(self) -> None:
        """Ends it as the loss of its machine would, without a word to anybody."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
            return True
        return False
