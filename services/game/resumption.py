"""A match that goes on after an outage: how long nobody listened, and the incidents that say so."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from services.storage.incidents import Effect, Incident, Touched

RESUME_GRACE_SECONDS: Final = 5.0
"""How long the player to act may take to come back before the clock goes on."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """Why and since when."""

    gap_ns: int
    """By the database's clock, since the last owner's last proof of life, or since the newest ruling if that came later;
    a clock that remembers knows better."""
    incident: Incident
    earlier: tuple[Incident, ...] = ()
    """The changes of owner before this one that no ruling has credited yet, oldest first."""
    left_at: float | None = None
    """When the last owner, which handed the match over, took its last command: by the database's clock, on the loop's."""
    waited_ns: int = 0
    """How long ago the phase of the match began, by the database's clock, without the outages since its newest ruling."""

    def waited(self, since_ns: int) -> Resumed:
        """The same, when the phase began `since_ns` ago: what was an outage nobody could use."""
        outages_ns = self.gap_ns + sum(incident.lasted_ns for incident in self.earlier)
        return replace(self, waited_ns=max(0, since_ns - outages_ns))

    def touched(self, credited_ns: int, effect: Effect) -> list[Touched]:
        """What a ruling credits for outages, each booked with its own.

        A clock tells one sum. Of that each outage has what it lasted, the newest first, since a clock without memory
        credits no other. The rest, the time to come back and what was granted for the floor, is the newest one's.
        """
        rest_ns = max(0, credited_ns - self.gap_ns)
        earlier = []
        for incident in reversed(self.earlier):
            size_ns = min(rest_ns, incident.lasted_ns)
            if size_ns:
                earlier.append(Touched(incident, effect, size_ns))
                rest_ns -= size_ns
        newest_ns = min(credited_ns, self.gap_ns) + rest_ns
        # An outage that was too long voids without crediting anything.
        did = effect if newest_ns or effect is Effect.VOID else Effect.CONTINUED
        return [*reversed(earlier), Touched(self.incident, did, newest_ns)]
