"""The rulebook as a message of spectacularbid.rules.v1."""

from __future__ import annotations

from typing import assert_never

from engine.rules.book import LANGUAGES, Block, Chapter, Drawing, Example, Remark, Rule, Rulebook, matching
from engine.rules.figures import FIGURES
from engine.view import open_ends
from services.common.errors import malformed
from services.wire.tables import layout_to_pb
from spectacularbid.rules.v1 import rules_service_pb2 as pb


def language_from_pb(request: pb.GetRulesRequest) -> str:
    """The language to answer in: the one asked for, or the first there is. Raises ServiceError naming those there are."""
    default = next(iter(LANGUAGES))
    try:
        return (matching(request.language) if request.language else None) or default
    except ValueError as error:
        raise malformed(f"language: {error}") from None


def answer_to_pb(book: Rulebook) -> pb.GetRulesResponse:
    """The answer with the whole text."""
    return pb.GetRulesResponse(
        language=book.language,
        available=[pb.Language(tag=tag, name=name) for tag, name in LANGUAGES.items()],
        version=book.version,
        rules=pb.Rulebook(
            title=book.title,
            introduction=book.introduction,
            terms_title=book.words,
            terms=[
                pb.Term(word=term.word, english=term.english, meaning=term.meaning) for term in book.terms
            ],
            chapters=map(_chapter_to_pb, book.chapters),
        ),
    )


def _chapter_to_pb(chapter: Chapter) -> pb.Chapter:
    return pb.Chapter(number=chapter.number, title=chapter.title, blocks=map(_block_to_pb, chapter.blocks))


def _block_to_pb(block: Block) -> pb.Block:
    match block:
        case Rule(number, text):
            return pb.Block(rule=pb.Rule(number=number, text=text))
        case Example(name, text):
            return pb.Block(example=pb.Example(name=name, text=text))
        case Drawing(name, art, caption):
            figure = FIGURES[name]
            return pb.Block(
                figure=pb.Figure(
                    name=name,
                    caption=caption,
                    drawing=art,
                    layout=layout_to_pb(
                        figure.layout.placements,
                        open_ends(figure.layout),
                        figure.layout.spinner,
                        figure.layout.total,
                    ),
                    points=figure.points,
                )
            )
        case Remark(text):
            return pb.Block(remark=pb.Remark(text=text))
        case _:
            assert_never(block)
