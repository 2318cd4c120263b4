"""The certificate by which a master shows who it is: one that was given, or one of its own making.

Its own is made once, and stays in the home directory. No authority has signed it; agents and users
know it by its fingerprint.
"""

import dataclasses
import datetime
import ipaddress
import logging
import pathlib
import re
import ssl
from collections.abc import Sequence
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import oid

from quintain import errors
from quintain.files import atomic_write
from quintain.web import connections

logger = logging.getLogger(__name__)

LIFETIME: Final = datetime.timedelta(days=1826)
"""How long a certificate of our own is good: every new one has to be made known to all agents."""

_RENEWAL: Final = datetime.timedelta(days=30)
_OWN: Final = "master.pem"
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?")


@dataclasses.dataclass(frozen=True)
class Certificate:
    """A certificate with its key, ready to serve with."""

    context: ssl.SSLContext
    """How to speak TLS with it."""

    fingerprint: str
    """SHA-256 of it as hexadecimal digits; see `address.Address.fingerprint`."""

    begin: datetime.datetime
    """Since when it is good."""

    end: datetime.datetime
    """When it expires."""


def load(certificate: str, key: str) -> Certificate:
    """Returns a certificate that was given.

    Args:
        certificate: File with it, and those of the authorities below the known ones behind it.
        key: File with its key; the same one if empty.

    Raises:
        ConfigError: If they can't be read, do not fit each other, or it is not good now.
    """
    found, now = _load(certificate, key), _now()
    if not found.begin <= now <= found.end:
        reason = "has expired" if found.begin <= now else "is not yet valid"
        raise errors.ConfigError(
            f"--certificate: that of {certificate!r} {reason}, by the clock of this machine; "
            "clients would refuse it. Renew it, or leave it out: the master then makes one of its "
            "own."
        )
    return found


def _load(certificate: str, key: str) -> Certificate:
    """Returns the same, whatever the time is."""
    try:
        found = x509.load_pem_x509_certificate(pathlib.Path(certificate).read_bytes())
        fingerprint = found.fingerprint(hashes.SHA256()).hex()
    except OSError as error:
        raise errors.ConfigError(
            f"--certificate: {certificate!r} can't be read ({error.strerror})."
        ) from error
    except ValueError as error:
        raise errors.ConfigError(
            f"--certificate: {certificate!r} holds none, expected a file of the form PEM "
            "(-----BEGIN CERTIFICATE-----)."
        ) from error
    try:
        pathlib.Path(key or certificate).read_bytes()
        context = connections.build_tls(certificate, key or certificate)
    except OSError as error:
        raise errors.ConfigError(
            f"--key: {key or certificate!r} can't be used with the certificate of {certificate!r} "
            f"({error.strerror or error}); expected its private key, as PEM and without a password."
        ) from error
    return Certificate(context, fingerprint, found.not_valid_before_utc, found.not_valid_after_utc)


def load_own(directory: pathlib.Path, hosts: Sequence[str]) -> Certificate:
    """Returns the certificate that a master makes for itself, once.

    It is made anew when it ends within a month, or can't be used; the log says so, for whoever
    knows the former one by its fingerprint has to be told the new one. One that is good in the
    future only was made before the clock was set back: who knows it by its fingerprint trusts it.

    Args:
        directory: Where it is kept; it is made if it is missing.
        hosts: Names and addresses of the machine, for those who look at them.
    """
    path = directory / _OWN
    directory.mkdir(mode=0o700, exist_ok=True)
    if path.exists():
        try:
            found = _load(str(path), "")
            if found.end - _now() > _RENEWAL:
                return found
            reason = f"It ends on {found.end.date().isoformat()}."
        except errors.ConfigError as error:
            reason = str(error).removeprefix("--certificate: ")
        logger.warning(
            "%s: the certificate of this master is replaced by a new one. Give agents and users "
            "its fingerprint, which `quintain master status` shows. (%s)",
            path,
            reason,
        )
    atomic_write.write_atomically(path, _make(hosts), mode=0o600)
    return load(str(path), "")


def _make(hosts: Sequence[str]) -> bytes:
    """Returns a new certificate with its key, as PEM."""
    key, now = ec.generate_private_key(ec.SECP256R1()), _now()
    name = x509.Name(
        [
            x509.NameAttribute(oid.NameOID.ORGANIZATION_NAME, "Quintain"),
            x509.NameAttribute(oid.NameOID.COMMON_NAME, "Quintain master"),
        ]
    )
    named = [_to_alternative(host) for host in ("localhost", "127.0.0.1", *hosts)]
    alternatives = dict.fromkeys(each for each in named if each is not None)
    others = (
        *("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
        *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
    )
    usage = x509.KeyUsage(digital_signature=True, **dict.fromkeys(others, False))
    public = key.public_key()
    made = (
        x509.CertificateBuilder(
            name, name, public, x509.random_serial_number(), now, now + LIFETIME
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([oid.ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    secret = key.private_bytes(
        encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return secret + made.public_bytes(encoding)


def _to_alternative(host: str) -> x509.GeneralName | None:
    host = host.strip("[]")
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host) if _NAME.fullmatch(host) else None


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
