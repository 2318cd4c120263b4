"""The certificate by which a master shows who it is: one that was given, or one of its own making.

Its own is made once, by the `openssl` command, and stays in the home directory. No authority has
signed it; agents and users know it by its fingerprint.
"""

import dataclasses
import datetime
import hashlib
import logging
import os
import pathlib
import re
import ssl
import subprocess
import tempfile
import time
from collections.abc import Sequence
from typing import Final

from quintain import errors
from quintain.files import durable_files
from quintain.web import connections

logger = logging.getLogger(__name__)

LIFETIME_DAYS: Final = 1826
"""How long a certificate of our own is good: every new one has to be made known to all agents."""

_RENEWAL_SECS: Final = 30 * 24 * 3600.0
_MAKE_SECS: Final = 60.0
_NO_CHECK_TIME: Final = ssl.VerifyFlags(0x200000)
"""OpenSSL's `X509_V_FLAG_NO_CHECK_TIME`, for which Python has no name."""

_OWN: Final = "master.pem"
_BLOCK: Final = re.compile(
    rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL | re.ASCII
)
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?")
_REQUEST: Final = """
[req]
distinguished_name = name
x509_extensions = extensions
prompt = no
string_mask = utf8only
[name]
O = Quintain
CN = Quintain master
[extensions]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
subjectAltName = {names}
"""


@dataclasses.dataclass(frozen=True)
class Certificate:
    """A certificate with its key, ready to serve with."""

    context: ssl.SSLContext
    """How to speak TLS with it."""

    fingerprint: str
    """SHA-256 of it as hexadecimal digits; see `address.Address.fingerprint`."""

    end_secs: float
    """When it expires, in seconds since the epoch."""


def load(certificate: str, key: str) -> Certificate:
    """Returns a certificate that was given.

    Args:
        certificate: File with it, and those of the authorities below the known ones behind it.
        key: File with its key; the same one if empty.

    Raises:
        ConfigError: If they can't be read, do not fit each other, or it is not good now.
    """
    found, begin_secs = _load(certificate, key)
    now = time.time()
    if not begin_secs <= now <= found.end_secs:
        reason = "has expired" if begin_secs <= now else "is not yet valid"
        raise errors.ConfigError(
            f"--certificate: that of {certificate!r} {reason}, by the clock of this machine; "
            "clients would refuse it. Renew it, or leave it out: the master then makes one of its "
            "own."
        )
    return found


def _load(certificate: str, key: str) -> tuple[Certificate, float]:
    """Returns the same, whatever the time is, and since when it is good."""
    path = pathlib.Path(certificate)
    try:
        found = _BLOCK.search(path.read_bytes())
    except OSError as error:
        raise errors.ConfigError(
            f"--certificate: {certificate!r} can't be read ({error.strerror})."
        ) from error
    if found is None:
        raise errors.ConfigError(
            f"--certificate: {certificate!r} holds none, expected a file of the form PEM "
            "(-----BEGIN CERTIFICATE-----)."
        )
    try:
        pathlib.Path(key or certificate).read_bytes()
        context = connections.build_tls(certificate, key or certificate)
    except OSError as error:
        raise errors.ConfigError(
            f"--key: {key or certificate!r} can't be used with the certificate of {certificate!r} "
            f"({error.strerror or error}); expected its private key, as PEM and without a password."
        ) from error
    block = found[0].decode("ascii", "replace")
    try:
        begin_secs, end_secs = _find_times(context, block)
        fingerprint = hashlib.sha256(ssl.PEM_cert_to_DER_cert(block)).hexdigest()
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "verify_message", "") or str(error)
        raise errors.ConfigError(
            f"--certificate: that of {certificate!r} is not good ({reason}); clients would refuse "
            "it. Renew it, or leave it out: the master then makes one of its own."
        ) from error
    return Certificate(context, fingerprint, end_secs), begin_secs


def load_own(directory: pathlib.Path, hosts: Sequence[str]) -> Certificate:
    """Returns the certificate that a master makes for itself, once.

    It is made anew when it ends within a month, or can't be used; the log says so, for whoever
    knows the former one by its fingerprint has to be told the new one. One that is good in the
    future only was made before the clock was set back: who knows it by its fingerprint trusts it.

    Args:
        directory: Where it is kept; it is made if it is missing.
        hosts: Names and addresses of the machine, for those who look at them.

    Raises:
        ConfigError: If it can't be made.
    """
    path = directory / _OWN
    directory.mkdir(mode=0o700, exist_ok=True)
    if path.exists():
        try:
            found, _ = _load(str(path), "")
            if found.end_secs - time.time() > _RENEWAL_SECS:
                return found
            reason = f"It ends on {_to_date(found.end_secs)}."
        except errors.ConfigError as error:
            reason = str(error).removeprefix("--certificate: ")
        logger.warning(
            "%s: the certificate of this master is replaced by a new one. Give agents and users "
            "its fingerprint, which `quintain master status` shows. (%s)",
            path,
            reason,
        )
    durable_files.replace(path, _make(hosts), mode=0o600)
    return load(str(path), "")


def _make(hosts: Sequence[str]) -> bytes:
    """Returns a new certificate with its key, as PEM."""
    names = dict.fromkeys(_to_alternative(host) for host in ("localhost", "127.0.0.1", *hosts))
    text = _REQUEST.format(names=", ".join(name for name in names if name))
    with tempfile.TemporaryDirectory(prefix="quintain-tls-") as scratch:
        request, key, made = (os.path.join(scratch, name) for name in ("request", "key", "made"))
        pathlib.Path(request).write_text(text, encoding="ascii")
        command = [
            *("openssl", "req", "-x509", "-new", "-nodes", "-sha256", "-config", request),
            *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-days", str(LIFETIME_DAYS), "-keyout", key, "-out", made),
        ]
        try:
            done = subprocess.run(
                command, capture_output=True, check=False, timeout=_MAKE_SECS, text=True
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise errors.ConfigError(
                f"--host: no certificate can be made, because `openssl` does not run ({error}). "
                "Install the package openssl of your system, or name a certificate by "
                "--certificate and --key."
            ) from error
        if done.returncode != 0:
            raise errors.ConfigError(
                "--host: no certificate can be made, because `openssl req` failed "
                f"({done.stderr.strip()[-300:]}); name one by --certificate and --key."
            )
        return pathlib.Path(key).read_bytes() + pathlib.Path(made).read_bytes()


def _to_alternative(host: str) -> str:
    host = host.strip("[]")
    if re.fullmatch(r"[0-9.]+|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*", host):
        return f"IP:{host}"
    return f"DNS:{host}" if _NAME.fullmatch(host) else ""


def _find_times(context: ssl.SSLContext, block: str) -> tuple[float, float]:
    """Returns since when and until when a certificate is good, as a client sees it that trusts it.

    Raises:
        SSLError: If it is never good.
    """
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
    trusting.load_verify_locations(cadata=block)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(back, there)
    server = context.wrap_bio(there, back, server_side=True)
    for side in (client, server, client, server):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue  # It is the other one's turn.
    certificate = client.getpeercert()
    assert certificate is not None, "A client that asks for a certificate has seen one."
    begin, end = (str(certificate[name]) for name in ("notBefore", "notAfter"))
    return ssl.cert_time_to_seconds(begin), ssl.cert_time_to_seconds(end)


def _to_date(secs: float) -> str:
    return datetime.datetime.fromtimestamp(secs, datetime.UTC).date().isoformat()
