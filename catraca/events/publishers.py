"""Which domains publish an event: those whose source code creates one."""

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from catraca.platform.event import Event

DOMAINS = Path(__file__).parents[1] / "domains"


def publishers_of(kind: type[Event], domains: Path = DOMAINS) -> list[str]:
    """The domains that create such events; one that only handles them names the type but creates none."""
    return [domain for domain, made in _made_in(domains).items() if kind.__name__ in made]


@cache
def _made_in(domains: Path) -> dict[str, set[str]]:
    """The names that each domain calls, directly or by a method: `Kind(...)` and `Kind.of(...)`."""
    return {
        folder.name: {name for source in folder.rglob("*.py") for name in _called(source.read_text("utf-8"))}
        for folder in sorted(domains.iterdir())
        if folder.is_dir()
    }


def _called(source: str) -> Iterable[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            maker = node.func.value if isinstance(node.func, ast.Attribute) else node.func
            if isinstance(maker, ast.Name):
                yield maker.id
