"""Public keys that tokens are checked against: a JSON Web Key Set that is good as a whole, or refused as a whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

# Asymmetric only: a symmetric algorithm would make the public key a signing key.
ALGORITHMS: Final = ("EdDSA", "ES256", "RS256")
KEY_ID_LENGTH_MAX: Final = 256
KEYS_MAX: Final = 100
FILE_BYTES_MAX: Final = 1_000_000
RSA_BITS_MIN: Final = 2048
PRIVATE_MEMBERS: Final = frozenset({"d", "p", "q", "dp", "dq", "qi"})

# `kty` and `crv`.
_KINDS: Final = (("RSA", None), ("EC", "P-256"), ("OKP", "Ed25519"))

_P: Final = 2**255 - 19
# Points whose order divides 8, by their y: anybody can sign for such a key. Written in every way that decodes to them.
_LOW_ORDER: Final = frozenset(
    {
        *(0, 1, _P - 1, _P, _P + 1),
        # Of order 8.
        0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826,
        0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7,
    }
)


@dataclass(frozen=True, slots=True)
class Key:
    """A key that may sign tokens."""

    algorithm: str
    """Decided by the key, never by a token."""
    public: Any
    fingerprint: str
    """The same for the same key, however often it is read."""


def read_keys(file: Path, text: bytes) -> dict[str, Key]:
    """The keys in the text of `file`, by `kid`. Raises ValueError, in words that have nothing of the text.

    Keys for another purpose or algorithm are left out. One that is for ours and unsafe makes the whole file unusable:
    whoever wrote it did not mean that.
    """
    if len(text) > FILE_BYTES_MAX:
        raise ValueError(f"{file} is too long for a JSON Web Key Set")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} is not a JSON Web Key Set: {type(error).__name__}") from None
    members = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(members, list) or not all(isinstance(member, dict) for member in members):
        raise ValueError(f"{file} is not a JSON Web Key Set: it has no list of keys")
    if len(members) > KEYS_MAX:
        raise ValueError(f"{file} holds more than {KEYS_MAX} keys")
    keys: dict[str, Key] = {}
    for place, member in enumerate(members, 1):
        try:
            key = _key(member)
        except ValueError as error:
            raise ValueError(f"{file}: key {place} {error}") from None
        if key is None:
            continue
        if member["kid"] in keys:
            raise ValueError(f"{file}: key {place} has the kid of another one")
        keys[member["kid"]] = key
    if not keys:
        raise ValueError(f"{file} holds no key for {', '.join(ALGORITHMS)}")
    return keys


def _key(member: Mapping[str, Any]) -> Key | None:
    """A key; None when it is for something else. Raises ValueError saying what is wrong with it."""
    if member.get("use", "sig") != "sig" or (member.get("kty"), member.get("crv")) not in _KINDS:
        return None
    if member.get("alg") not in (None, *ALGORITHMS):
        return None
    operations = member.get("key_ops", ["verify"])
    if not isinstance(operations, list) or "verify" not in operations:
        return None
    if PRIVATE_MEMBERS & member.keys():
        raise ValueError("is a private one, which belongs in no file of public keys")
    try:
        read = jwt.PyJWK(dict(member))
    except jwt.PyJWKError:
        return None  # for an algorithm that is not known here
    except (jwt.PyJWTError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"makes no sense: {type(error).__name__}") from None
    if read.algorithm_name not in ALGORITHMS:
        return None
    kid = member.get("kid")
    if not isinstance(kid, str) or not 1 <= len(kid) <= KEY_ID_LENGTH_MAX:
        raise ValueError(f"has no kid: a text of 1 to {KEY_ID_LENGTH_MAX} characters")
    public = read.key
    if isinstance(public, RSAPublicKey) and public.key_size < RSA_BITS_MIN:
        raise ValueError(f"has {public.key_size} bits, and RSA needs {RSA_BITS_MIN}")
    if read.algorithm_name == "EdDSA":
        assert isinstance(public, Ed25519PublicKey)
        y = int.from_bytes(public.public_bytes_raw(), "little") & (2**255 - 1)
        if y in _LOW_ORDER:
            raise ValueError("is a point of low order: anybody could sign for it")
    return Key(read.algorithm_name, public, f"{read.algorithm_name} {_fingerprint(public)}")


def _fingerprint(public: Any) -> str:
    encoded: bytes = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return encoded.hex()
