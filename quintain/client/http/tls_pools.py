"""Connections over TLS to a master that has shown who it is before anything is sent to it.

What is known of a master is the SHA-256 of its certificate, or nothing: then the authorities that
the system knows vouch for its name. Both are looked at when a connection is made, and on each one,
so that no request, and no token with it, ever goes to another server.
"""

import hashlib
import ssl
import urllib.parse
from typing import Any, Final

import urllib3
import urllib3.connection
from typing_extensions import override

from quintain.client.http import patient_sending

_LOOK_SECS: Final = 5.0
_OTHER: Final = "Fingerprints did not match"
"""What urllib3 says of another certificate than the one whose fingerprint is known."""

_PLAIN_REASONS: Final = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE")
"""What versions of OpenSSL say of an answer that begins as none of TLS does."""


class TlsPool(urllib3.HTTPSConnectionPool):
    """HTTPS connections to a master.

    Args:
        url: Where it is, as `https://`.
        fingerprint: SHA-256 of its certificate as hexadecimal digits; empty for one that an
            authority has signed.
        **settings: Further settings of urllib3's pool.
    """

    def __init__(self, url: str, fingerprint: str, **settings: Any) -> None:
        parts = urllib.parse.urlsplit(url)
        super().__init__(
            parts.hostname or "",
            parts.port,
            # A pinned certificate needs no name and no authority.
            cert_reqs="CERT_NONE" if fingerprint else "CERT_REQUIRED",
            assert_fingerprint=fingerprint or None,
            ssl_minimum_version=ssl.TLSVersion.TLSv1_2,
            **settings,
        )


def read_fingerprint(url: str) -> str:
    """Returns the fingerprint of the certificate that a server shows; empty if it shows none.

    Nothing is sent to it: what it shows may be anybody's.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "https":
        return ""
    try:
        found = ssl.get_server_certificate(
            (parts.hostname or "", parts.port or 443), timeout=_LOOK_SECS
        )
    except (OSError, ValueError):
        return ""
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(found)).hexdigest()


class UntrustedError(urllib3.exceptions.NewConnectionError):
    """The server shows another certificate than the expected one."""


class _TlsConnection(patient_sending.PatientConnection, urllib3.connection.HTTPSConnection):
    @override
    def connect(self) -> None:
        """Connects, and says so if nothing can have been sent."""
        try:
            super().connect()
        except (ssl.SSLError, urllib3.exceptions.SSLError) as error:
            # Otherwise the request would count as one that may have arrived.
            is_other = _OTHER in str(error) or isinstance(error, ssl.SSLCertVerificationError)
            kind = UntrustedError if is_other else urllib3.exceptions.NewConnectionError
            raise kind(self, _explain(error)) from error


# The way of urllib3 to say which class a pool makes its connections of.
TlsPool.ConnectionCls = _TlsConnection


def _explain(error: Exception) -> str:
    text = str(error)
    if _OTHER in text:
        return (
            f"its certificate is not the one that is expected, so that nothing was sent ({text}). "
            "If the master has a new one, `quintain master status` shows its fingerprint there."
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            "no authority that this system knows vouches for its certificate, so that nothing was "
            f"sent ({error.verify_message}). Give its fingerprint, which `quintain master status` "
            "shows there."
        )
    if getattr(error, "reason", None) in _PLAIN_REASONS:
        return (
            "it answers in plain text, as a master does that was started with --insecure, or on "
            f"127.0.0.1 without --tls; nothing was sent ({text})"
        )
    return f"it does not speak TLS as expected, so that nothing was sent ({text})"
