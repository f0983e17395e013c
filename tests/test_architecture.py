"""The picture of the imports in docs/architecture.md, kept true by reading them."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("engine", "matchmaker", "services", "client")
SERVICES = ("game", "clock", "matchmaking")
INNER_SERVICES = ("wire", "storage", "common")

# The cores are values and arithmetic: nothing that waits, listens, draws lots, stores or logs.
PURE_STANDARD_LIBRARY = frozenset(
    {
        *(
            "__future__",
            "abc",
            "argparse",
            "bisect",
            "collections",
            "copy",
            "dataclasses",
            "enum",
            "fractions",
        ),
        *(
            "functools",
            "hashlib",
            "heapq",
            "itertools",
            "json",
            "math",
            "operator",
            "pathlib",
            "re",
            "string",
        ),
        *("sys", "textwrap", "types", "typing", "unicodedata"),
    }
)
ALLOWED_ELSEWHERE = {
    "engine.__main__": frozenset({"os"}),  # a command line ends quietly when nobody reads on
    "matchmaker.rating": frozenset({"openskill"}),  # the rating model
    "matchmaker.crowd": frozenset({"numpy"}),  # columns of numbers: arithmetic, many at a time
    "matchmaker.pairing": frozenset({"numpy", "rustworkx"}),  # exact matching
}

Import = tuple[str, int, str]
"""Importing module, line, imported module."""


def modules(package: str) -> Iterator[tuple[str, Path]]:
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imports(package: str) -> Iterator[Import]:
    """Every import in the package, inside functions and under TYPE_CHECKING too."""
    for module, path in modules(package):
        parent = module if path.name == "__init__.py" else module.rpartition(".")[0]
        for node in ast.walk(ast.parse(path.read_text("utf-8"), str(path))):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield module, node.lineno, alias.name
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                if node.level:
                    above = parent.split(".")[: len(parent.split(".")) - node.level + 1]
                    base = ".".join([*above, *filter(None, [base])])
                for alias in node.names:
                    # `from services import game` names a module just as `import services.game` does.
                    yield module, node.lineno, f"{base}.{alias.name}"


def within(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def faults(package: str, *forbidden: str) -> list[str]:
    return [
        f"{module}:{line} imports {name}"
        for module, line, name in imports(package)
        if within(name, *forbidden)
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_the_package_is_there_to_be_read(package: str) -> None:
    assert any(imports(package)), f"no import found in {package}: this file would check nothing"


@pytest.mark.parametrize("core", ["engine", "matchmaker"])
def test_a_core_knows_nothing_but_itself_and_arithmetic(core: str) -> None:
    unexpected = [
        f"{module}:{line} imports {name}"
        for module, line, name in imports(core)
        if not within(name, core)
        and name.partition(".")[0] not in PURE_STANDARD_LIBRARY | ALLOWED_ELSEWHERE.get(module, frozenset())
    ]
    assert unexpected == []


@pytest.mark.parametrize("core", ["engine", "matchmaker"])
def test_a_core_neither_prints_nor_opens_files_outside_its_command_line(core: str) -> None:
    calls = [
        f"{module}:{node.lineno} calls {node.func.id}"
        for module, path in modules(core)
        if not within(module, f"{core}.__main__")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"print", "open", "input"}
    ]
    assert calls == []


@pytest.mark.parametrize("service", SERVICES)
def test_services_meet_in_protos_never_by_import(service: str) -> None:
    others = [f"services.{other}" for other in SERVICES if other != service]
    assert faults(f"services/{service}", *others, "services.local", "client", "tests") == []


@pytest.mark.parametrize("inner", INNER_SERVICES)
def test_what_services_share_knows_no_service(inner: str) -> None:
    services = [f"services.{service}" for service in SERVICES]
    assert faults(f"services/{inner}", *services, "services.local", "client", "tests") == []


def test_the_canary_reaches_the_service_as_players_do() -> None:
    """Through the client library: what it measures is what players feel, and it has no other way in."""
    inner = [f"services.{other}" for other in (*SERVICES, "wire", "storage", "local", "ops")]
    assert faults("services/canary", *inner, "tests", "asyncpg") == []


def test_the_client_library_knows_no_service() -> None:
    assert faults("client", "services", "matchmaker", "tests") == []


def test_the_terminal_client_draws_without_textual() -> None:
    """What is seen, and what a key makes of it, can be tested and drawn without a terminal; screens are thin."""
    thin = [
        module
        for package in PACKAGES
        for module, _, name in imports(package)
        if within(name, "textual")
        and not re.fullmatch(r"client\.terminal\.(\w*screen|app|view|once)", module)
    ]
    assert thin == []


def test_generated_messages_are_built_and_read_in_wire_alone() -> None:
    """`rpc` modules name messages in signatures and the servicer; the clients of other services name their stubs."""
    cores = [*imports("engine"), *imports("matchmaker"), *imports("services/storage")]
    assert [
        f"{module}:{line}" for module, line, name in cores if within(name, "spectacularbid", "grpc")
    ] == []


def test_metrics_are_defined_on_one_page_a_service() -> None:
    """Elsewhere they are counted, and found there by whoever asks what a series means."""
    kinds = {"Counter", "Gauge", "Histogram", "Summary", "Info", "Enum"}
    known = {
        (module, name.rpartition(".")[2]) for module, _, name in imports("services") if "prometheus" in name
    }
    defined = [
        (module, f"{module}:{node.lineno}")
        for module, path in modules("services")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in kinds
        and (module, node.func.id) in known
    ]
    assert len(defined) > 50
    assert [where for module, where in defined if not re.fullmatch(r"services\.\w+\.metrics", module)] == []


def test_no_tracked_file_names_a_place_of_somebodys_machine() -> None:
    """The product stands alone: no path of the machine it was written on, no address of a package index."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    # One letter of each in brackets, so that this file does not find itself.
    places = re.compile(
        r"/[w]ork/|/[h]ome/[a-z]|/[r]oot/|/[U]sers/|\.\./[s]hared|--[i]ndex-url|[p]ypi\.org|[p]ythonhosted"
    )
    found = []
    for name in filter(None, listed.stdout.decode().split("\0")):
        path = ROOT / name
        if not path.is_file():
            continue
        for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1):
            if places.search(line):
                found.append(f"{name}:{number}: {line.strip()[:100]}")
    assert found == []
