"""The rules of the game as the service explains them, or, where none answers, as this program knows them itself."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from client.connection import Addresses, Connections
from client.errors import ClientError, UnreachableError
from engine.rules.book import (
    LANGUAGES,
    Block,
    Chapter,
    Drawing,
    Example,
    Remark,
    Rule,
    Rulebook,
    Term,
    load,
    matching,
)
from spectacularbid.rules.v1 import rules_service_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import grpc

PATIENCE_SECONDS: Final = 3.0
"""How long the service is waited for: what this program has itself is nearly always the same."""


@dataclass(frozen=True, slots=True)
class Help:
    """A rulebook to show, and where it is from."""

    book: Rulebook
    available: Mapping[str, str]
    """Every language there is, by its tag, as it calls itself."""
    fault: str = ""
    """Why it is this program's own text; empty when the service said which one is right."""


def own(language: str = "") -> Help:
    """What came with this program, in English where there is no such text. ValueError for what is no language tag."""
    found = matching(language) if language else None
    return Help(load(found or next(iter(LANGUAGES))), LANGUAGES)


async def ask(server: str, language: str = "", credentials: grpc.ChannelCredentials | None = None) -> Help:
    """The rules of the service at `server` (`host:port`, or several with commas between); no account is needed.

    What this program has is not sent again. Without an answer it is shown, and `fault` says so; the same holds when the
    service knows no such call. ValueError for what is no language tag, or no address.
    """
    mine = own(language)
    request = pb.GetRulesRequest(language=language, known_version=mine.book.version)
    addresses = Addresses(server)
    connections = Connections(None, credentials, patience_seconds=0.0)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            answer = await connections.ask(addresses, lambda service: service.rules.GetRules, request)
    except (TimeoutError, UnreachableError):
        return replace(mine, fault="no service answers there")
    except ClientError as error:
        return replace(mine, fault=str(error))
    finally:
        await connections.close()
    available = {each.tag: each.name for each in answer.available}
    return Help(_rulebook(answer) if answer.HasField("rules") else mine.book, available)


def _rulebook(answer: pb.GetRulesResponse) -> Rulebook:
    rules = answer.rules
    return Rulebook(
        language=answer.language,
        version=answer.version,
        title=rules.title,
        introduction=tuple(rules.introduction),
        words=rules.terms_title,
        terms=tuple(Term(term.word, term.english, term.meaning) for term in rules.terms),
        chapters=tuple(
            Chapter(chapter.number, chapter.title, tuple(_blocks(chapter.blocks)))
            for chapter in rules.chapters
        ),
    )


def _blocks(blocks: Iterable[pb.Block]) -> Iterator[Block]:
    """Blocks of a kind that only a newer program knows are left out."""
    for block in blocks:
        match block.WhichOneof("kind"):
            case "rule":
                yield Rule(block.rule.number, block.rule.text)
            case "example":
                yield Example(block.example.name, block.example.text)
            case "figure":
                yield Drawing(block.figure.name, block.figure.drawing, block.figure.caption)
            case "remark":
                yield Remark(block.remark.text)
