"""A certificate authority of the tests: real certificates in files."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

SERVER = ExtendedKeyUsageOID.SERVER_AUTH
CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH

Key = ec.EllipticCurvePrivateKey | Ed25519PrivateKey


class Authority:
    """Signs certificates. Files are replaced as a mounted secret's are: each at once, all of them one after the other."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = (
            self._builder(self._name, self._key.public_key(), timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.pem = certificate.public_bytes(Encoding.PEM)
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(self.pem)

    def _builder(
        self, subject: x509.Name, key: CertificatePublicKeyTypes, lasts: timedelta
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(now, now + lasts) - timedelta(hours=1))
            .not_valid_after(now + lasts)
        )

    def sign(
        self,
        *hosts: str,
        lasts: timedelta = timedelta(days=1),
        usage: x509.ObjectIdentifier = SERVER,
        key: Key | None = None,
    ) -> tuple[bytes, bytes]:
        """A new certificate for these host names and addresses, and its key, both PEM. `usage` is what it is good for."""
        key = key or ec.generate_private_key(ec.SECP256R1())
        names: list[x509.GeneralName] = []
        for host in hosts:
            try:
                names.append(x509.IPAddress(ipaddress.ip_address(host)))
            except ValueError:
                names.append(x509.DNSName(host))
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0])])
        certificate = (
            self._builder(subject, key.public_key(), lasts)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return certificate.public_bytes(Encoding.PEM), private

    def issue(
        self,
        name: str,
        *hosts: str,
        lasts: timedelta = timedelta(days=1),
        usage: x509.ObjectIdentifier = SERVER,
        folder: Path | None = None,
    ) -> tuple[Path, Path]:
        """The same in files NAME.crt and NAME.key, which are replaced when they are there."""
        folder = folder or self.folder
        files = folder / f"{name}.crt", folder / f"{name}.key"
        for file, pem in zip(files, self.sign(*hosts, lasts=lasts, usage=usage), strict=True):
            replace(file, pem)
        return files


def replace(file: Path, content: bytes) -> None:
    """The whole new content or the whole old one, whenever somebody reads."""
    new = file.with_suffix(f"{file.suffix}.new")
    new.write_bytes(content)
    new.replace(file)
