"""TLS from files: read when they change, without a restart, and never taken over when they make no sense.

A server asks for its certificates at each handshake; a client that opens a new connection takes the newest. What is
connected stays as it is.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import grpc

from services.common import channels
from services.common.certificates import CertificateError, Material, read
from services.common.channels import Connect, Options
from services.common.logs import get_logger
from services.common.settings import SettingsError, TlsSettings, load


class Port(StrEnum):
    """Which of a process's two gRPC ports."""

    PUBLIC = "public"
    INTERNAL = "internal"


class Certificates:
    """The certificates of one port. With a CA file, whoever connects must show one that it has signed."""

    def __init__(self, port: Port, cert_file: Path, key_file: Path, ca_file: Path | None = None) -> None:
        """Raises CertificateError when the files cannot be used."""
        self.port = port
        self._files = (cert_file, key_file, ca_file)
        self._refused: object = None
        self.current = read(*self._files)
        self._configuration = _configuration(self.current)

    def look(self) -> None:
        """Read the files again; a change that makes no sense is logged once, and what was read before goes on."""
        seen: object
        try:
            seen = found = read(*self._files)
        except CertificateError as error:
            # Files are replaced one after the other: for a moment, a certificate beside a key of another is normal.
            seen = str(error)
            if seen != self._refused:
                get_logger().error("certificate_refused", port=self.port, reason=seen)
            self._refused = seen
            return
        self._refused = None
        if found == self.current:
            return
        self.current, self._configuration = found, _configuration(found)
        get_logger().info("certificate_read", port=self.port, expires_at=found.expires_at.isoformat())

    def expiry_seconds(self) -> float:
        """When what is used now expires, in seconds since 1970."""
        return self.current.expires_at.timestamp()

    def server_credentials(self) -> grpc.ServerCredentials:
        """What a server listens with: each handshake takes what was read last."""
        # Called in threads of the library: no file is read there.
        return grpc.dynamic_ssl_server_credentials(
            self._configuration,
            lambda: self._configuration,
            require_client_authentication=self.current.authorities is not None,
        )

    def connect(self, address: str, options: Options = ()) -> grpc.aio.Channel:
        """A channel to `host:port` on which both show their certificates; the host must be in the other's."""
        now = self.current
        credentials = grpc.ssl_channel_credentials(now.authorities, now.key, now.chain)
        return channels.secure(address, options, credentials)


def _configuration(material: Material) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(material.key, material.chain)], material.authorities)


def public(settings: TlsSettings) -> Certificates | None:
    """The certificates of the public port; None: it speaks plain text. Raises SettingsError."""
    if settings.tls_cert_file is None or settings.tls_key_file is None:
        return None
    return _open(Port.PUBLIC, settings.tls_cert_file, settings.tls_key_file)


def internal(settings: TlsSettings) -> Certificates | None:
    """The certificates of the internal ports, of a server as of a client; None: plain text. Raises SettingsError."""
    cert, key, ca = (
        settings.internal_tls_cert_file,
        settings.internal_tls_key_file,
        settings.internal_tls_ca_file,
    )
    if cert is None or key is None or ca is None:
        return None
    return _open(Port.INTERNAL, cert, key, ca)


def _open(port: Port, *files: Path) -> Certificates:
    try:
        return Certificates(port, *files)
    except CertificateError as error:
        raise SettingsError(str(error)) from None


def connect_from_environment() -> Connect:
    """How a command reaches internal ports: as the settings in the environment say. Raises SettingsError."""
    certificates = internal(load(TlsSettings))
    return channels.plain if certificates is None else certificates.connect
