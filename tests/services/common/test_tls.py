"""Certificates from files, on real connections."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from structlog.testing import capture_logs

from services.common import channels, files
from services.common.certificates import CertificateError, read
from services.common.tls import Certificates, Port
from tests.authority import CLIENT, Authority, replace

SECONDS_MAX = 20.0
SERVING = health_pb2.HealthCheckResponse.SERVING


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@asynccontextmanager
async def serving(certificates: Certificates) -> AsyncIterator[str]:
    """A server with these certificates that answers for its health; its address."""
    server = grpc.aio.server()
    health_pb2_grpc.add_HealthServicer_to_server(health.aio.HealthServicer(), server)
    port = server.add_secure_port("127.0.0.1:0", certificates.server_credentials())
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


async def answers(channel: grpc.aio.Channel) -> bool:
    """Whether a call gets through on a new channel; a connection that is refused does not."""
    async with channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        try:
            return bool(
                (await stub.Check(health_pb2.HealthCheckRequest(), timeout=SECONDS_MAX)).status == SERVING
            )
        except grpc.aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            return False


async def shown(address: str, authority: Authority) -> int | str:
    """The serial number of the certificate that a new connection is shown."""

    def connect() -> int | str:
        context = ssl.create_default_context(cadata=authority.pem.decode())
        context.set_alpn_protocols(["h2"])
        host, _, port = address.rpartition(":")
        with (
            socket.create_connection((host, int(port)), SECONDS_MAX) as plain,
            context.wrap_socket(plain, server_hostname=host) as secure,
        ):
            certificate = secure.getpeercert()
            assert certificate is not None
            return str(certificate["serialNumber"])

    return await asyncio.to_thread(connect)


def garbage(file: Path) -> None:
    file.write_text("-----BEGIN NOTHING-----")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda authority, cert, key: cert.unlink(), "port.crt cannot be read: No such file"),
        (lambda authority, cert, key: garbage(cert), "port.crt holds no certificate"),
        (lambda authority, cert, key: garbage(key), "port.key holds no private key"),
        (lambda authority, cert, key: garbage(authority.file), "authority.pem holds no certificate"),
        (
            lambda authority, cert, key: replace(
                cert, authority.sign("x", key=Ed25519PrivateKey.generate())[0]
            ),
            "port.crt has a key that is neither RSA nor EC",
        ),
        (lambda authority, cert, key: replace(key, authority.sign("x")[1]), "port.key is not the key of the"),
        (
            lambda authority, cert, key: authority.issue("port", "127.0.0.1", lasts=-timedelta(seconds=1)),
            "port.crt expired at",
        ),
    ],
)
def test_files_that_make_no_sense_are_named(
    authority: Authority, spoil: Callable[[Authority, Path, Path], object], said: str
) -> None:
    cert, key = authority.issue("port", "127.0.0.1")
    read(cert, key, authority.file)
    spoil(authority, cert, key)
    with pytest.raises(CertificateError, match=said):
        read(cert, key, authority.file)


async def test_a_new_certificate_is_shown_without_a_restart_and_nothing_is_cut(authority: Authority) -> None:
    certificates = Certificates(Port.PUBLIC, *authority.issue("port", "127.0.0.1"))
    trusting = grpc.ssl_channel_credentials(authority.pem)
    async with (
        serving(certificates) as address,
        channels.secure(address, (), trusting) as connected,
    ):
        stub: Any = health_pb2_grpc.HealthStub(connected)
        watch = stub.Watch(health_pb2.HealthCheckRequest())
        assert (await watch.read()).status == SERVING
        before = await shown(address, authority)
        authority.issue("port", "127.0.0.1")
        assert await shown(address, authority) == before, "not before it was looked at"
        with capture_logs() as logs:
            certificates.look()
            certificates.look()
        assert [line["event"] for line in logs] == ["certificate_read"]
        assert await shown(address, authority) != before
        # What was connected before is still the same connection.
        assert not watch.done()
        assert await answers(channels.secure(address, (), trusting))
        watch.cancel()


async def test_a_change_that_makes_no_sense_is_said_once_and_changes_nothing(authority: Authority) -> None:
    cert, key = authority.issue("port", "127.0.0.1")
    certificates = Certificates(Port.INTERNAL, cert, key, authority.file)
    client = Certificates(Port.INTERNAL, *authority.issue("client", "client", usage=CLIENT), authority.file)
    good = certificates.current
    with capture_logs() as logs:
        # As files are replaced: the certificate first, and its key a moment later.
        new_cert, new_key = authority.sign("127.0.0.1")
        replace(cert, new_cert)
        for _ in range(3):
            certificates.look()
        assert certificates.current == good
        replace(key, new_key)
        certificates.look()
        assert certificates.current.chain == new_cert
        garbage(authority.file)
        certificates.look()
    said = [(line["event"], line["port"]) for line in logs]
    assert said == [(f"certificate_{what}", "internal") for what in ("refused", "read", "refused")]
    assert certificates.current.authorities == authority.pem
    async with serving(certificates) as address:
        assert await answers(client.connect(address))


async def test_inside_everybody_shows_a_certificate_of_our_authority(
    authority: Authority, tmp_path: Path
) -> None:
    """Without one, with one of somebody else or for servers, or where the name is another's, nothing is said at all."""
    certificates = Certificates(Port.INTERNAL, *authority.issue("here", "127.0.0.1"), authority.file)
    client = Certificates(Port.INTERNAL, *authority.issue("client", "client", usage=CLIENT), authority.file)
    stranger = Authority(tmp_path / "elsewhere", "stranger")
    of_stranger = Certificates(Port.INTERNAL, *stranger.issue("they", "client", usage=CLIENT), authority.file)
    async with serving(certificates) as address:
        assert await answers(client.connect(address))
        assert not await answers(certificates.connect(address))
        assert not await answers(channels.plain(address))
        trusting = grpc.ssl_channel_credentials(authority.pem)
        assert not await answers(channels.secure(address, (), trusting))
        assert not await answers(of_stranger.connect(address))
    elsewhere = Certificates(Port.INTERNAL, *authority.issue("there", "other.example"), authority.file)
    async with serving(elsewhere) as address:
        assert not await answers(client.connect(address))


async def test_an_authority_is_replaced_in_three_steps_of_which_none_cuts_anybody_off(
    authority: Authority, tmp_path: Path
) -> None:
    new = Authority(tmp_path / "new", "new")
    ca = tmp_path / "ca.pem"
    ca.write_bytes(authority.pem)
    server = Certificates(Port.INTERNAL, *authority.issue("server", "127.0.0.1"), ca)
    client = Certificates(Port.INTERNAL, *authority.issue("client", "client", usage=CLIENT), ca)
    async with serving(server) as address:

        async def all_reach_it() -> None:
            # One after the other: in between, one of them is a step ahead.
            for ahead in (server, client):
                ahead.look()
                assert await answers(client.connect(address))

        replace(ca, authority.pem + new.pem)
        await all_reach_it()
        new.issue("server", "127.0.0.1", folder=authority.folder)
        new.issue("client", "client", usage=CLIENT, folder=authority.folder)
        await all_reach_it()
        replace(ca, new.pem)
        await all_reach_it()
        of_old = Certificates(Port.INTERNAL, *authority.issue("late", "client", usage=CLIENT), ca)
        assert not await answers(of_old.connect(address))


async def test_a_bug_about_one_file_does_not_keep_the_others_from_being_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(files, "LOOK_SECONDS", 0.0)
    looked = asyncio.Event()
    loop = asyncio.get_running_loop()

    class Broken:
        def look(self) -> None:
            raise ZeroDivisionError

    class Sound:
        def look(self) -> None:
            loop.call_soon_threadsafe(looked.set)

    with capture_logs() as logs:
        looking = asyncio.create_task(files.keep_looking([Broken(), Sound()]))
        async with asyncio.timeout(SECONDS_MAX):
            await looked.wait()
        looking.cancel()
    assert logs[0]["event"] == "look_at_files_failed"
