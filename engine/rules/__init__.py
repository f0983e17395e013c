"""The rules explained for players: texts in several languages, their worked figures, and the reader of both."""
