"""What a player has set: a small TOML file in the user's configuration folder, and flags that go before it.

# ~/.config/spectacular-bid/terminal.toml
auto_pass = true     # a pass that is the only thing to do is sent at once
auto_draw = false    # so is a draw
colours = true
ascii = false
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path

from client.terminal.theme import Theme


class SettingsError(ValueError):
    """The file cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How the terminal client behaves. Every field is a line of the file."""

    auto_pass: bool = True
    """Whether a pass is sent by itself when nothing else is possible (rule 4.4)."""
    auto_draw: bool = False
    """Whether a draw is sent by itself when nothing else is possible (rule 4.2)."""
    colours: bool = True
    """Off: bold, reverse and marks alone. `NO_COLOR` in the environment turns them off too."""
    ascii: bool = False
    """Lines and arrows of plain ASCII characters."""
    bell: bool = True
    """Whether the terminal's bell rings when it becomes this player's turn."""

    @property
    def theme(self) -> Theme:
        """How things look with these settings."""
        return Theme(colours=self.colours, ascii=self.ascii)


def default_file() -> Path:
    """The file in the user's configuration folder."""
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "spectacular-bid" / "terminal.toml"


def read(file: Path) -> Settings:
    """The settings of a file; the defaults when there is none. Raises SettingsError for one that makes no sense."""
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError:
        return with_environment(Settings())
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{file}: {error}"
        raise SettingsError(msg) from None
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        msg = f"{file}: {error}"
        raise SettingsError(msg) from None
    except RecursionError:
        msg = f"{file}: nested too deeply"
        raise SettingsError(msg) from None
    known = {field.name for field in fields(Settings)}
    for name, value in found.items():
        if name not in known:
            msg = f"{file}: there is no setting {name}; there are {', '.join(sorted(known))}"
            raise SettingsError(msg)
        if not isinstance(value, bool):
            msg = f"{file}: {name} is true or false"
            raise SettingsError(msg)
    return with_environment(Settings(**found))


def with_environment(settings: Settings) -> Settings:
    """What the terminal itself says: NO_COLOR, a dumb terminal, a locale without the characters for lines."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        settings = replace(settings, colours=False)
    locale = os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG") or ""
    if locale in ("C", "POSIX"):
        settings = replace(settings, ascii=True)
    return settings


def overridden(settings: Settings, **flags: bool | None) -> Settings:
    """The settings with the flags that were given."""
    return replace(settings, **{name: value for name, value in flags.items() if value is not None})
