"""Values that are made with every command."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(kind: type[T]) -> type[T]:
    """A frozen dataclass, for whoever checks types. Nothing guards it when it runs: some ten are made for each command, and
    a guarded one with ten fields takes 1.3 µs more to make."""
    return dataclass(slots=True, unsafe_hash=True)(kind)
