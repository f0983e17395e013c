"""Mutations of protobuf messages by their descriptors: random bytes alone reach few fields."""

from __future__ import annotations

import random
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from tests.fuzz.mutation import NUMBERS, mutate_bytes, some_text

Field = Any
"""A FieldDescriptor: of whichever implementation."""

_DEPTH_MAX: Final = 5
_FLOATS: Final = (0.0, -1.5, 1e308, float("nan"), float("inf"), float("-inf"))
_UNKNOWN: Final = (b"\xf8\x3f\x01", b"\xfa\x3f\x03abc", b"\xfb\x3f\xfc\x3f")
"""Fields that no message here has: a number, bytes, a group."""


def mutate_message(kind: type[Message], data: bytes, rng: random.Random) -> bytes:
    """The bytes of another message of this kind; once in a while of none."""
    message = kind()
    try:
        message.ParseFromString(data)
    except DecodeError:
        message = random_message(kind, rng)
    if rng.random() < 0.03:
        message = random_message(kind, rng)
    for _ in range(rng.choice((1, 1, 2, 4))):
        _edit(message, rng)
    changed = message.SerializeToString()
    if rng.random() < 0.05:
        changed += rng.choice(_UNKNOWN)
    return mutate_bytes(changed, rng) if rng.random() < 0.05 else changed


def random_message(kind: type[Message], rng: random.Random, depth: int = 0) -> Message:
    """A message with random fields. What a field cannot hold stays out."""
    message = kind()
    for field in kind.DESCRIPTOR.fields:
        if rng.random() < 0.25:
            continue
        if not field.is_repeated:
            _put(message, field, rng, depth)
            continue
        for _ in range(rng.choice((0, 1, 1, 2, 5))):
            _add(message, field, rng, depth)
    return message


def _edit(message: Message, rng: random.Random) -> None:
    inner = [member for field, value in message.ListFields() for member in _messages(field, value)]
    if inner and rng.random() < 0.65:
        _edit(rng.choice(inner), rng)
        return
    fields: list[Field] = list(message.DESCRIPTOR.fields)
    if not fields:
        return
    field = rng.choice(fields)
    if rng.random() < 0.15:
        message.ClearField(field.name)
    elif field.is_repeated:
        _edit_repeated(message, field, rng)
    else:
        _put(message, field, rng, 0)


def _messages(field: Field, value: Any) -> list[Message]:
    if field.message_type is None or _is_map(field):
        return []
    return list(value) if field.is_repeated else [value]


def _edit_repeated(message: Message, field: Field, rng: random.Random) -> None:
    values = getattr(message, field.name)
    if _is_map(field):
        _add(message, field, rng, 0)
    elif values and rng.random() < 0.6:
        at = rng.randrange(len(values))
        match rng.randrange(3):
            case 0:
                del values[at]
            case 1:
                # A copy: the same element twice is what a careless client sends.
                values.extend([values[at]])
            case _:
                kept = list(values)
                rng.shuffle(kept)
                message.ClearField(field.name)
                getattr(message, field.name).extend(kept)
    else:
        for _ in range(rng.choice((1, 1, 1, 30))):
            _add(message, field, rng, 0)


def _put(message: Message, field: Field, rng: random.Random, depth: int) -> None:
    if field.message_type is not None:
        if depth < _DEPTH_MAX:
            getattr(message, field.name).CopyFrom(
                random_message(GetMessageClass(field.message_type), rng, depth + 1)
            )
        return
    now = getattr(message, field.name)
    value = _value(field, rng)
    if type(now) is int and field.enum_type is None and rng.random() < 0.4:
        value = now + rng.choice((1, -1, 5, now, 10**9))
    try:
        setattr(message, field.name, value)
    except (ValueError, TypeError):
        message.ClearField(field.name)


def _add(message: Message, field: Field, rng: random.Random, depth: int) -> None:
    values = getattr(message, field.name)
    if _is_map(field):
        return
    if field.message_type is not None:
        if depth < _DEPTH_MAX:
            values.append(random_message(GetMessageClass(field.message_type), rng, depth + 1))
        return
    try:
        values.append(_value(field, rng))
    except (ValueError, TypeError):
        return


def _is_map(field: Field) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _value(field: Field, rng: random.Random) -> Any:
    if field.enum_type is not None:
        return rng.choice((*field.enum_type.values_by_number, 99, -1, 2**31 - 1))
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING:
            text = some_text(rng)
            return text.encode("utf-8", "replace") if field.type == FieldDescriptor.TYPE_BYTES else text
        case FieldDescriptor.CPPTYPE_BOOL:
            return rng.random() < 0.5
        case FieldDescriptor.CPPTYPE_DOUBLE | FieldDescriptor.CPPTYPE_FLOAT:
            return rng.choice(_FLOATS)
        case _:
            return rng.choice(NUMBERS)
