"""Every fuzz target by its name."""

from __future__ import annotations

from typing import Final

from tests.fuzz import clocks, files, plain, records, wires
from tests.fuzz.target import Target

TARGETS: Final[dict[str, Target]] = {
    target.name: target
    for target in (
        *records.TARGETS,
        *plain.TARGETS,
        *wires.TARGETS,
        *clocks.TARGETS,
        *files.TARGETS,
    )
}
