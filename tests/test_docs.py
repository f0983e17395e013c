"""The tables of README and docs are those of the code, of the protos and of running processes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import annotated_types
import pytest
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from client.__main__ import app
from client.bots.account import HEADER
from engine.refusal import Refusal
from services.canary.settings import CanarySettings
from services.clock.settings import ClockSettings
from services.clock.timekeeper import MISSED_MAX, PING_NS
from services.clock.witness import DISRUPTION_MAX_NS, DRIFT_PPM
from services.common import host
from services.common.settings import PREFIX, CommonSettings, Settings
from services.game.massloss import COOLDOWN_SECONDS, HOLD_SECONDS_MAX, LOST_MIN, WINDOW_SECONDS
from services.game.resumption import RESUME_GRACE_SECONDS
from services.game.settings import GameSettings
from services.matchmaking.settings import MatchmakingSettings
from services.wire.clock_messages import Policy, VoidReason
from services.wire.commands import STATUS
from spectacularbid.common.v1 import error_pb2
from spectacularbid.identity.v1 import guest_service_pb2, player_service_pb2
from spectacularbid.internal.clock.v1 import clock_service_pb2
from spectacularbid.internal.operations.v1 import operations_service_pb2
from spectacularbid.internal.placement.v1 import placement_service_pb2
from spectacularbid.ladder.v1 import ladder_service_pb2
from spectacularbid.match.v1 import match_service_pb2, refusal_pb2
from spectacularbid.matchmaking.v1 import matchmaking_service_pb2
from spectacularbid.rules.v1 import rules_service_pb2

ROOT = Path(__file__).resolve().parent.parent
README = "README.md"
API = "docs/api.md"
ARCHITECTURE = "docs/architecture.md"
OPERATIONS = "docs/operations.md"
TIME = "docs/time.md"
LADDER = "docs/ladder.md"
MATCHMAKING = "docs/matchmaking.md"
BOTS = "docs/bots.md"
PAGES = (
    README,
    "CHANGELOG.md",
    API,
    ARCHITECTURE,
    OPERATIONS,
    TIME,
    LADDER,
    MATCHMAKING,
    "docs/clients.md",
    BOTS,
    "docs/records.md",
    "docs/terminal.md",
    "docs/runbook.md",
    "k8s/README.md",
)
PROTOS = ROOT / "protos" / "spectacularbid"

Rows = list[list[str]]


@cache
def text(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


def table(page: str, heading: str) -> Rows:
    """The rows of the first table under a heading, without title and rule."""
    lines = text(page).splitlines()
    start = next(n for n, line in enumerate(lines) if line.lstrip("#") == f" {heading}" and line[0] == "#")
    begin = next(n for n in range(start, len(lines)) if lines[n].startswith("|"))
    rows = []
    for line in lines[begin:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    assert len(rows) > 2, f"no table under {heading} in {page}"
    return rows[2:]


def code(cell: str) -> list[str]:
    """What stands between backticks."""
    return re.findall(r"`([^`]+)`", cell)


def name(cell: str) -> str:
    """The one thing between backticks."""
    (only,) = code(cell)
    return only


def enum_comments(proto: str, enum: str, prefix: str) -> dict[str, str]:
    """The values of an enum without prefix, in order, with the comment above each."""
    found = re.search(rf"enum {enum} {{\n(.*?)\n}}", (PROTOS / proto).read_text("utf-8"), re.DOTALL)
    assert found is not None
    pairs = re.findall(r"// (.*)\n\s+(\w+) = \d+;", found.group(1))
    return {value.removeprefix(prefix): comment for comment, value in pairs[1:]}


def sources() -> Iterator[tuple[Path, ast.AST]]:
    """Every node of every module of the services."""
    for path in sorted((ROOT / "services").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            yield path, node


# docs/api.md


def test_the_refusals_are_those_of_the_rules_of_the_protos_and_of_the_wire_in_order() -> None:
    said = [(name(reason), rule, name(status)) for reason, rule, status, _ in table(API, "Refusals")]
    assert said == [(refusal.value, refusal.rule, STATUS[refusal].name) for refusal in Refusal]
    values = refusal_pb2.RefusalReason.items()
    numbered = [(f"REFUSAL_REASON_{reason}", number) for number, (reason, _, _) in enumerate(said, 1)]
    assert [("REFUSAL_REASON_UNSPECIFIED", 0), *numbered] == values


def test_a_refusal_means_what_its_proto_says() -> None:
    comments = enum_comments("match/v1/refusal.proto", "RefusalReason", "REFUSAL_REASON_")
    said = {name(reason): f"{meaning} Rule {rule}." for reason, rule, _, meaning in table(API, "Refusals")}
    assert said == comments


def test_the_error_reasons_are_those_of_the_proto_with_their_statuses() -> None:
    comments = enum_comments("common/v1/error.proto", "ErrorReason", "ERROR_REASON_")
    said = {
        name(reason): f"{name(status)}: {meaning[0].lower()}{meaning[1:]}"
        for reason, status, meaning in table(API, "Error reasons")
    }
    assert list(said.items()) == list(comments.items())
    assert [f"ERROR_REASON_{reason}" for reason in said] == error_pb2.ErrorReason.keys()[1:]


def test_an_error_has_the_status_of_the_table_wherever_it_is_raised() -> None:
    statuses = {name(reason): name(status) for reason, status, _ in table(API, "Error reasons")}
    raised = {}
    for path, node in sources():
        match node:
            case ast.Call(
                func=ast.Name(id="ServiceError"),
                args=[ast.Attribute(attr=status), ast.Constant(value=str(reason)), *_],
            ):
                raised[f"{path.relative_to(ROOT)}:{node.lineno} {reason}"] = (reason, status)
    assert len(raised) > 10
    assert {where: found for where, found in raised.items() if statuses.get(found[0]) != found[1]} == {}


def test_the_services_are_those_of_the_protos() -> None:
    files = (
        matchmaking_service_pb2,
        ladder_service_pb2,
        player_service_pb2,
        guest_service_pb2,
        rules_service_pb2,
        match_service_pb2,
        placement_service_pb2,
        operations_service_pb2,
        clock_service_pb2,
    )
    found = {}
    for file in files:
        for service in file.DESCRIPTOR.services_by_name.values():
            found[service.full_name] = ", ".join(
                f"`{method.name}`{_kind(method)}" for method in service.methods
            )
    assert {name(service): calls for service, calls, _ in table(API, "Services")} == found


def _kind(method: Any) -> str:
    if method.client_streaming:
        return " (bidirectional stream)"
    return " (server stream)" if method.server_streaming else ""


def test_the_fields_of_a_test_configuration_are_those_the_proto_marks() -> None:
    proto = (PROTOS / "match/v1/match_service.proto").read_text("utf-8")
    marked = re.findall(r"// Test configuration only: .*\n(?:\s*//.*\n)*\s+(?:repeated )?\w+ (\w+) =", proto)
    assert [name(field) for field, _ in table(API, "Test configuration")] == marked
    module = ast.parse((ROOT / "services/game/creation.py").read_text("utf-8"))
    (refuse,) = (
        node
        for node in module.body
        if isinstance(node, ast.FunctionDef) and node.name == "_refuse_test_fields"
    )
    refused = {
        node.elts[0].value
        for node in ast.walk(refuse)
        if isinstance(node, ast.Tuple) and isinstance(node.elts[0], ast.Constant)
    }
    assert refused == set(marked)


# docs/operations.md


def shown_default(kind: type[CommonSettings], field: str) -> str:
    """The default of a setting as the pages show it."""
    return _shown(kind.model_fields[field])


def _shown(field: FieldInfo) -> str:
    default = field.default
    if default is PydanticUndefined:
        return "required"
    if default is None:
        return "not set"
    if default == "":
        return "empty"
    if isinstance(default, tuple):
        return "[" + ", ".join(f'"{part}"' for part in default) + "]"
    return f"{default:g}" if isinstance(default, float) else str(default)


def _range(field: FieldInfo) -> str:
    low = high = ""
    for fact in field.metadata:
        match fact:
            case annotated_types.Ge(ge=bound):
                low = f"{bound:g} to"
            case annotated_types.Gt(gt=bound):
                low = f"above {bound:g}, to"
            case annotated_types.Le(le=bound):
                high = f" {bound:,}".replace(",", "")
    return low + high


def _settings(page_rows: Rows) -> dict[str, tuple[str, str]]:
    return {name(variable): (default.strip("`"), span) for variable, default, span, _ in page_rows}


@pytest.mark.parametrize(
    ("heading", "kind"),
    [
        ("Every service", CommonSettings),
        ("game", GameSettings),
        ("matchmaking", MatchmakingSettings),
        ("clock", ClockSettings),
        ("canary", CanarySettings),
    ],
)
def test_the_settings_are_those_of_the_service(heading: str, kind: type[Settings]) -> None:
    fields = kind.model_fields
    common = CommonSettings.model_fields
    # What a service has as every other is said once.
    own = {
        field: info
        for field, info in fields.items()
        if kind is CommonSettings or field not in common or _shown(info) != _shown(common[field])
    }
    expected = {PREFIX + field.upper(): (_shown(info), _range(info)) for field, info in own.items()}
    if kind is CommonSettings:
        expected[f"{PREFIX}LISTEN"] = ("see each service", "")
    if kind is GameSettings:  # it depends on the machine
        assert expected[f"{PREFIX}ENGINE_ID"][0].startswith("game-")
        expected[f"{PREFIX}ENGINE_ID"] = ("game-` and the host name", "")
    assert _settings(table(OPERATIONS, heading)) == expected


def test_the_conditions_of_readiness_are_those_of_the_code() -> None:
    found = set()
    for path, node in sources():
        match node:
            case ast.Call(func=ast.Attribute(attr="add_readiness"), args=[ast.Constant(value=str(held)), *_]):
                found.add((held, WHERE.get(path.parent.name, path.parent.name)))
    assert {(name(condition), where) for condition, where, _ in table(OPERATIONS, "Conditions")} == found
    assert f"`{host.READY}`" in {service for service, _ in table(OPERATIONS, "Health and readiness")}


LEVELS = {"debug": "debug", "info": "info", "warning": "warning", "error": "error", "exception": "error"}
WHERE = {"common": "every service", "storage": "game"}


def test_the_events_of_the_logs_are_those_of_the_code() -> None:
    found = set()
    for path, node in sources():
        match node:
            case ast.Call(
                func=ast.Attribute(attr="write_frequent"), args=[ast.Constant(value=str(event)), _]
            ):
                found.add((event, "info", path.parent.name))
            case ast.Call(
                func=ast.Attribute(attr=level, value=logger), args=[ast.Constant(value=str(event))]
            ) if level in LEVELS and "log" in ast.unparse(logger):
                where = WHERE.get(path.parent.name, path.parent.name)
                # The canary begins and ends as every service does.
                if where == "canary" and event in ("settings", "listening", "stopped"):
                    where = "every service"
                found.add((event, LEVELS[level], where))
    assert {(name(event), level, where) for event, level, where, _ in table(OPERATIONS, "Logs")} == found


@pytest.mark.parametrize("event", ["settings", "readiness"])
def test_the_events_that_the_text_names_are_in_the_table(event: str) -> None:
    assert event in {name(row[0]) for row in table(OPERATIONS, "Logs")}


# docs/architecture.md


def test_the_tables_of_the_database_are_those_of_the_migrations() -> None:
    made = []
    for path in sorted((ROOT / "services/storage/migrations").glob("*.sql")):
        made += re.findall(r"^create table (\w+)", path.read_text("utf-8"), re.MULTILINE)
    assert sorted(name(row[0]) for row in table(ARCHITECTURE, "The data")) == sorted(made)


# README.md


def test_the_make_targets_are_those_of_the_makefile() -> None:
    made = re.findall(r"^([a-z-]+):.*## (.*)$", text("Makefile"), re.MULTILINE)
    said = [(name(target), what) for target, what in table(README, "Make targets")]
    assert said == [(f"make {target}", what) for target, what in made]


def test_the_commands_to_look_around_exist() -> None:
    commands = {command.name or command.callback.__name__ for command in app.registered_commands}  # type: ignore[union-attr]
    said = set()
    for command, _ in table(README, "Look around"):
        words = name(command).split()
        assert words[:2] == [".venv/bin/python", "-m"]
        if words[2] == "client":
            said.add(words[3])
    assert said == commands


def test_the_pictures_of_a_match_have_the_titles_of_today() -> None:
    assert f"\n{HEADER}\n" in text(README)
    # The picture has each run of text in its own element and hard spaces between words.
    shown = re.sub(r"<[^>]*>", "", text("docs/demo.svg")).replace("&#160;", " ").replace("\xa0", " ")
    assert HEADER in shown


# docs/time.md


def test_the_reasons_of_a_void_are_those_of_the_code() -> None:
    found = {reason.value for reason in VoidReason}
    for _, node in sources():
        match node:
            case ast.Call(func=ast.Attribute(attr="_void"), args=[ast.Constant(value=str(reason)), *_]):
                found.add(reason)
    assert {name(reason) for reason, _ in table(TIME, "For client writers")} == found


def test_the_figures_of_time_are_those_of_the_code() -> None:
    policy, second = Policy(), 1_000_000_000
    assert policy.version == "v1", "another policy: look through docs/time.md"
    said = {row[0]: row[1] for row in table(TIME, "The figures")}
    figures = {
        "a stretch without an idle instant counts as a gap from": f"{policy.stall_threshold_ns // 1_000_000} ms",
        "one gap, longest that does not void": f"{policy.gap_max_ns // second} s",
        "all credit of a match, most that does not void": f"{policy.credit_total_max_ns // second} s",
        "a decision or ruling held, longest that does not void": f"{policy.hold_max_ns // second} s",
        "time to come back after a process was replaced": f"{RESUME_GRACE_SECONDS:g} s",
        "doubt about a clock, most that does not void a forfeit": f"{DISRUPTION_MAX_NS // 1_000_000} ms",
        "drift between two sound clocks": f"{DRIFT_PPM} ppm",
        "lease of a game process": f"{GameSettings.model_fields['lease_seconds'].default:g} s",
    }
    assert {what: said.get(what) for what in figures} == figures
    floor = said["least time left after a process was replaced"]
    assert floor.startswith(f"{policy.resume_floor_ns // second} s")
    pings = said["pings of the clock"]
    assert pings == f"every {PING_NS // 1_000_000} ms; {MISSED_MAX} missed end the session"
    prose = " ".join(text(TIME).split())
    assert f"lose a player's stream within {WINDOW_SECONDS:g} s, and they are at least {LOST_MIN}" in prose
    assert f"are back, {HOLD_SECONDS_MAX:g} s at most and once in {COOLDOWN_SECONDS / 60:g} minutes" in prose


# All pages


def _anchors(page: str) -> set[str]:
    """The anchors that headings get."""
    titles = re.findall(r"^#+ (.*)$", text(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES)
def test_every_link_inside_leads_somewhere(page: str) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text(page)):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        if not target.exists() or (
            anchor and anchor not in _anchors(str(target.resolve().relative_to(ROOT)))
        ):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_is_named_exists(page: str) -> None:
    folders = ("engine", "matchmaker", "services", "client", "protos", "tests", "docs")
    named = [part for part in code(text(page)) if re.fullmatch(rf"({'|'.join(folders)})/[\w./-]*", part)]
    assert [part for part in named if not (ROOT / part).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_lines_of_prose_can_be_read_in_a_terminal(page: str) -> None:
    long = [line for line in text(page).splitlines() if len(line) > 120 and not line.startswith("|")]
    assert long == []
