"""The client library: a typed way to find, follow and play matches. Needs no knowledge of the rules.

async with await Client.guest("127.0.0.1:7600", "ada") as me, me.play(await me.seek()) as match:
    async for table in match.questions():
        await match.submit(choose(table))
"""

from client.errors import CallError, ClientError, Refused, UnreachableError
from client.lines import Applied
from client.match import MatchStream, News, Transport
from client.session import CASUAL, RATED, Client, Identity, MatchHandle, new_guest
from client.table import TableState

__all__ = [
    "CASUAL",
    "RATED",
    "Applied",
    "CallError",
    "Client",
    "ClientError",
    "Identity",
    "MatchHandle",
    "MatchStream",
    "News",
    "Refused",
    "TableState",
    "Transport",
    "UnreachableError",
    "new_guest",
]
