"""Pictures of positions, as SVG: `draw(study, position)` for programs, `python -m client.picture` on the command line."""

from client.picture.scene import BOTH, draw

__all__ = ["BOTH", "draw"]
