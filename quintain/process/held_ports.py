"""Ports that are kept from others until a server of this machine listens on them."""

import socket


def hold(host: str = "") -> socket.socket:
    """Returns a socket that keeps a free port from others until TensorFlow listens on it.

    Args:
        host: Address of an interface; all of them if it is empty.
    """
    held = socket.socket()
    # Both have it: so TensorFlow may take the port, and nobody is given it as a free one.
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind((host, 0))
    return held
