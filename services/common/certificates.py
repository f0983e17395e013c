"""A certificate with its key and the authorities that sign those of peers, read from files and checked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key


class CertificateError(Exception):
    """The files hold no certificate that can be used; the message names the file and never what is in it."""


@dataclass(frozen=True, slots=True)
class Material:
    """A certificate with its chain, its key, and whom to trust, as read from files."""

    chain: bytes
    key: bytes
    authorities: bytes | None
    """Who signs the certificates of peers; None: peers are not asked for one."""
    expires_at: datetime
    """When the first certificate of the chain expires."""


def read(cert_file: Path, key_file: Path, ca_file: Path | None = None) -> Material:
    """What the files hold: a chain whose first certificate is of this key, and authorities. Raises CertificateError."""
    chain, key = _bytes(cert_file), _bytes(key_file)
    certificates = _certificates(cert_file, chain)
    theirs = certificates[0].public_key()
    if not isinstance(theirs, rsa.RSAPublicKey | ec.EllipticCurvePublicKey):
        # gRPC would take others and then fail at each handshake.
        raise CertificateError(f"{cert_file} has a key that is neither RSA nor EC")
    try:
        ours = load_pem_private_key(key, password=None).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise CertificateError(f"{key_file} holds no private key without a password") from None
    der = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    if ours.public_bytes(*der) != theirs.public_bytes(*der):
        raise CertificateError(f"{key_file} is not the key of the certificate in {cert_file}")
    expires_at = min(certificate.not_valid_after_utc for certificate in certificates)
    if expires_at <= datetime.now(UTC):
        raise CertificateError(f"{cert_file} expired at {expires_at:%Y-%m-%d %H:%M:%S} UTC")
    authorities = None
    if ca_file is not None:
        authorities = _bytes(ca_file)
        _certificates(ca_file, authorities)
    return Material(chain, key, authorities, expires_at)


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise CertificateError(f"{file} cannot be read: {error.strerror}") from None


def _certificates(file: Path, pem: bytes) -> list[x509.Certificate]:
    try:
        certificates = x509.load_pem_x509_certificates(pem)
        for certificate in certificates:
            # Parts are parsed when they are looked at: all that is, here.
            certificate.public_key(), certificate.not_valid_after_utc
        return certificates
    except (ValueError, UnsupportedAlgorithm):
        raise CertificateError(f"{file} holds no certificate") from None
