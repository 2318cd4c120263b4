"""A proxy whose connections can be cut."""

import contextlib
import selectors
import socket
import threading
import time


class CutWire:
    """Forwards TCP connections from a port of its own to another one.

    Args:
        target: Port on 127.0.0.1 to forward to.

    Attributes:
        port: Its own port on 127.0.0.1.
    """

    def __init__(self, target):
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self._listener.getsockname()[1]
        self._sockets = set()
        self._until = 0.0
        self._is_closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, secs):
        """Drops all connections, wherever they are, and refuses new ones for some seconds."""
        self._until = time.monotonic() + secs
        for each in list(self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self):
        self._is_closed = True
        self._listener.close()
        self.cut(0.0)

    def _accept(self):
        while not self._is_closed:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if time.monotonic() < self._until:
                near.close()
                continue
            threading.Thread(target=self._forward, args=(near,), daemon=True).start()

    def _forward(self, near):
        target = ("127.0.0.1", self._target)
        with (
            near,
            contextlib.suppress(OSError),
            socket.create_connection(target, timeout=5) as far,
        ):
            far.settimeout(None)
            for end in (near, far):
                # Otherwise the end of each request waits 40 ms for the other side.
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets |= {near, far}
            try:
                self._pump(near, far)
            finally:
                self._sockets -= {near, far}

    def _pump(self, near, far):
        with selectors.DefaultSelector() as selector:
            selector.register(near, selectors.EVENT_READ, far)
            selector.register(far, selectors.EVENT_READ, near)
            while True:
                for key, _ in selector.select():
                    data = key.fileobj.recv(1 << 16)
                    if not data:
                        return
                    key.data.sendall(data)
