"""`python -m services ROLE …`: every process of a deployment, by one command. An image has one entry point."""

from __future__ import annotations

import runpy
import sys
from typing import Final

ROLES: Final = {
    "clock": ("services.clock",),
    "game": ("services.game",),
    "matchmaking": ("services.matchmaking",),
    "migrate": ("services.storage.migrate",),
    "canary": ("services.canary",),
    "compact": ("services.ops", "compact"),
    "ops": ("services.ops",),
}
"""What each role runs: a module, and the words before those of the command line."""

USAGE: Final = f"""\
usage: python -m services ROLE [ARGUMENT …]
ROLE is one of {", ".join(ROLES)}; the arguments are those of the role.
"""


def main(arguments: list[str]) -> None:
    """Become the role that `arguments` begin with. Exits with status 2 when there is none."""
    if arguments[:1] in (["-h"], ["--help"]):
        sys.stdout.write(USAGE)
        return
    role = ROLES.get(arguments[0]) if arguments else None
    if role is None:
        sys.stderr.write(USAGE)
        raise SystemExit(2)
    module, *words = role
    # No import: the services do not know each other, and a role loads nothing of another.
    sys.argv = [f"python -m {module}", *words, *arguments[1:]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
