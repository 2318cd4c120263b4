import socket

import pytest

from quintain import errors
from quintain.web import http_server


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as listener:
            listener.bind(("::1", 0))
    except OSError:
        return False
    return True


def test_a_free_port_is_taken_and_told():
    with http_server.listen(0, host="127.0.0.1") as listener:
        port = listener.getsockname()[1]
        assert port > 0
        assert http_server.get_url("127.0.0.1", listener) == f"http://127.0.0.1:{port}"
        assert not http_server.is_open(listener)


@pytest.mark.skipif(not has_ipv6(), reason="the machine has no IPv6")
def test_addresses_of_ipv6_stand_in_brackets():
    with http_server.listen(0, host="::1") as listener:
        assert http_server.get_url("::1", listener) == f"http://[::1]:{listener.getsockname()[1]}"
        assert not http_server.is_open(listener)


def test_all_addresses_of_a_machine_are_open():
    with http_server.listen(0, host="0.0.0.0") as listener:
        assert http_server.is_open(listener)


def test_a_port_that_is_taken_is_an_error():
    with http_server.listen(0, host="127.0.0.1") as listener:
        port = listener.getsockname()[1]
        with pytest.raises(errors.ConfigError, match=f"--port: got {port}, which can't be"):
            http_server.listen(port, host="127.0.0.1")


@pytest.mark.parametrize("host", ["no.such.host.invalid", "999.1.1.1", "a..b", "203.0.113.7"])
def test_an_address_that_is_not_ours_is_an_error(host):
    with pytest.raises(errors.ConfigError, match="--host: got '"):
        http_server.listen(0, host=host)
