"""The rules of the game for whoever asks. It knows no match: nobody's clock is any of its business."""

from __future__ import annotations

from typing import Any

import grpc

from engine.rules.book import LANGUAGES, load
from services.wire import rules as wire
from spectacularbid.rules.v1 import rules_service_pb2 as pb
from spectacularbid.rules.v1.rules_service_pb2_grpc import RulesServiceServicer

Context = grpc.aio.ServicerContext[Any, Any]


class RulesRpc(RulesServiceServicer):
    """Texts that are read once. Any process may answer, to anybody."""

    def __init__(self) -> None:
        self._answers = {language: wire.answer_to_pb(load(language)) for language in LANGUAGES}
        self._unchanged = {}
        for language, answer in self._answers.items():
            short = pb.GetRulesResponse()
            short.CopyFrom(answer)
            short.ClearField("rules")
            self._unchanged[language] = short

    async def GetRules(self, request: pb.GetRulesRequest, _context: Context) -> pb.GetRulesResponse:
        language = wire.language_from_pb(request)
        answer = self._answers[language]
        return self._unchanged[language] if request.known_version == answer.version else answer
