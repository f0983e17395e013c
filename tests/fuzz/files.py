"""Fuzz target for what people and operators keep or type: settings of the screens, who one is, tokens of bots, times.

An input is the name of its reader, a line end, and the text.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import typer

from client import identities
from client.bots.__main__ import _tokens as bots_tokens
from client.terminal import settings as terminal
from services.canary.visit import _tokens as canary_tokens
from services.common.certificates import CertificateError, read
from services.ops.database import time_of
from tests.fuzz.mutation import mutate_bytes, mutate_json_bytes
from tests.fuzz.target import Target, scratch

SECRET: Final = "correct-horse-battery-staple"


def _written(data: bytes) -> Path:
    file = scratch() / "file"
    file.write_bytes(data)
    return file


def _screens(data: bytes) -> None:
    with contextlib.suppress(terminal.SettingsError):
        terminal.read(_written(data))


def _identity(data: bytes) -> None:
    identities.read(_written(data), "host:1")


def _bots(data: bytes) -> None:
    said = ""
    try:
        bots_tokens(data.decode("utf-8", "replace"))
    except ValueError as fault:
        said = str(fault)
    # A name may be anything; a token is shown by nothing.
    assert SECRET not in said or f'"{SECRET}":' in data.decode("utf-8", "replace").replace(" ", ""), said


def _canary(data: bytes) -> None:
    said = ""
    try:
        canary_tokens(_written(data))
    except ValueError as fault:
        said = str(fault)
    assert SECRET not in said, said


def _certificate(data: bytes) -> None:
    with contextlib.suppress(CertificateError):
        read(_written(data), _written(data))


def _time(data: bytes) -> None:
    with contextlib.suppress(typer.BadParameter):
        time_of(data.decode("utf-8", "replace"), "--since")


_READERS: Final[dict[bytes, Callable[[bytes], None]]] = {
    b"screens": _screens,
    b"identity": _identity,
    b"bots": _bots,
    b"canary": _canary,
    b"certificate": _certificate,
    b"time": _time,
}


def run_files(data: bytes) -> None:
    """A text is taken or refused as its reader says; a refusal shows no token."""
    name, _, text = data.partition(b"\n")
    if name in _READERS:
        _READERS[name](text)


def mutate_files(data: bytes, rng: random.Random) -> bytes:
    """The text changed, for the same reader most of the time."""
    name, _, text = data.partition(b"\n")
    if name not in _READERS or rng.random() < 0.05:
        name = rng.choice(list(_READERS))
    mutate = mutate_json_bytes if text[:1] in (b"{", b"[") else mutate_bytes
    return name + b"\n" + mutate(text, rng)


def file_seeds() -> Iterator[bytes]:
    """One of each, and some that go deep."""
    yield b"screens\ncolours = true\nascii = false\n"
    yield b"screens\nauto_pass = 1\nx = [[[[]]]]"
    identity = '{"host:1": {"player_id": "guest-1", "name": "N", "token": "%s", "expires_at": 9999999999}}'
    yield b"identity\n" + (identity % SECRET).encode()
    yield b'bots\n{"easy": "%s", "greedy": "t"}' % SECRET.encode()
    yield b'canary\n{"north": "%s", "south": "t"}' % SECRET.encode()
    yield b"certificate\n-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
    for text in (
        "2026-01-02T03:04:05Z",
        "2026-01-02",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
        "",
    ):
        yield b"time\n" + text.encode()
    for name in (b"screens", b"identity", b"bots", b"canary"):
        yield name + b"\n" + (b"x = " if name == b"screens" else b"") + b"[" * 4000


TARGETS: Final = (
    Target(
        "files",
        run_files,
        mutate_files,
        file_seeds,
        ("client.terminal.settings", "client.identities", "services.common.certificates"),
    ),
)
