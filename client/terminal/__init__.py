"""The terminal client: pure drawing of a table as rows of characters, and thin textual screens around it.

`board`, `selection`, `canvas`, `clockface`, `tiling` and `story` know nothing of textual: a table goes in, rows of
characters and places to click come out. `view` shows them, the modules ending in `screen` listen and send.
"""
