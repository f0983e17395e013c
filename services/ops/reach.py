"""How commands reach the internal ports of services."""

from __future__ import annotations

import typer

from services.common.channels import Connect
from services.common.settings import SettingsError
from services.common.tls import connect_from_environment


def connect_as_configured() -> Connect:
    """With the certificates that the environment names, the same as for a service; in plain text without them.

    Ends the command with status 2 and a line that says why when they cannot be used.
    """
    try:
        return connect_from_environment()
    except SettingsError as error:
        raise typer.BadParameter(str(error)) from None
