"""Make the secrets of the development overlay: passwords and keys that are random, and of no use elsewhere.

They land in `secrets/` beside this file, which git ignores; what is there is kept.
"""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path

from services.common.auth import write_new_keys
from services.storage.logins import new_passwords
from services.storage.privileges import ROLE_PREFIX

HERE = Path(__file__).resolve().parent


def make(folder: Path) -> None:
    """Fill `folder` with what is missing in it."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if not (folder / "database-roles.env").exists():
        passwords = new_passwords()
        (folder / "database-roles.env").write_text(f"passwords={json.dumps(passwords)}\n", encoding="ascii")
        for role, password in passwords.items():
            text = f"username={ROLE_PREFIX}{role}\npassword={password}\n"
            (folder / f"database-{role}.env").write_text(text, encoding="ascii")
    for name, text in {
        "database.env": f"username=spectacular_bid\npassword={secrets.token_hex(24)}\n",
        "internal.env": f"secret={secrets.token_urlsafe(32)}\n",
    }.items():
        if not (folder / name).exists():
            (folder / name).write_text(text, encoding="ascii")
    if not (folder / "jwks.json").exists():
        write_new_keys(folder / "signing.pem", folder / "jwks.json")


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "secrets")
