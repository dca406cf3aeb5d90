"""Rules that linters cannot check: where SQL and commits may stand, texts for every refusal."""

import ast
import importlib
import pkgutil
import re
import string
from functools import cache
from pathlib import Path

import catraca
from catraca.events import EVENTS
from catraca.events.publishers import publishers_of
from catraca.platform.errors import refusal_types
from catraca.platform.event import Event
from catraca.platform.texts import LANGUAGES, words

PACKAGE = Path(catraca.__file__).parent
SQL = re.compile(
    r"^\s*(SELECT\b|INSERT\s+INTO\b|UPDATE\s+\w+.*\bSET\b|DELETE\s+FROM\b|WITH\s+\w+\s+AS\b|MERGE\s+INTO\b"
    r"|BEGIN\b(?!:)|COMMIT\b|ROLLBACK\b|LOCK\s+TABLE\b|TRUNCATE\b|CREATE\s+(TABLE|INDEX)\b)",
    re.DOTALL,
)
COMMITTERS = {"platform/database/transactions.py", "platform/database/migrations.py"}


@cache
def sources() -> list[tuple[str, ast.Module]]:
    return [
        (path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text("utf-8")))
        for path in sorted(PACKAGE.rglob("*.py"))
    ]


def may_hold_sql(name: str) -> bool:
    return name.endswith(("/store.py", "/invariants.py")) or "/store/" in name or name.startswith("platform/")


def docstrings(tree: ast.Module) -> set[int]:
    return {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def test_sql_lives_in_stores_and_platform() -> None:
    strays = [
        f"{name}:{node.lineno}"
        for name, tree in sources()
        if not may_hold_sql(name)
        for skip in [docstrings(tree)]
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if id(node) not in skip and SQL.match(node.value)
    ]
    assert not strays, "move these statements into a store.py"


def test_only_the_platform_commits() -> None:
    strays = [
        f"{name}:{node.lineno}"
        for name, tree in sources()
        if name not in COMMITTERS
        for node in ast.walk(tree)
        if (isinstance(node, ast.Attribute) and node.attr in {"commit", "rollback"})
        or (isinstance(node, ast.Constant) and node.value in {"COMMIT", "ROLLBACK"})
    ]
    assert not strays, "services take an open transaction; only platform/database ends one"


def test_the_platform_alone_opens_transactions_for_routes() -> None:
    strays = [
        f"{name}:{node.lineno}"
        for name, tree in sources()
        if name.startswith("domains/")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in {"transaction", "acquire"}
    ]
    assert not strays, "a domain's verbs are handed an open transaction"


def import_everything() -> None:
    for module in pkgutil.walk_packages([str(PACKAGE)], "catraca."):
        if module.name != "catraca.__main__":
            importlib.import_module(module.name)


def test_every_refusal_has_words_in_every_language() -> None:
    import_everything()
    names = [kind.text or kind.code for kind in refusal_types()]
    assert len(names) == len(set(names)), "two refusals share a text"
    for language in LANGUAGES:
        known = {key.removeprefix("refusals.") for key in words(language) if key.startswith("refusals.")}
        assert known == set(names), f"{language}: words and refusals differ"


def test_languages_say_the_same_things() -> None:
    def placeholders(text: str) -> set[str]:
        return {field for _, field, _, _ in string.Formatter().parse(text) if field}

    first, *others = (words(language) for language in LANGUAGES)
    for other in others:
        assert first.keys() == other.keys()
        for key in first:
            assert placeholders(first[key]) == placeholders(other[key]), key


def events_in_the_package() -> set[type[Event]]:
    import_everything()
    found: set[type[Event]] = set()
    kinds = [Event]
    while kinds:
        kinds += (more := kinds.pop().__subclasses__())
        found |= {kind for kind in more if kind.__module__.startswith("catraca.events")}
    # A base class of events is no event itself.
    return {kind for kind in found if not kind.__subclasses__()}


def test_every_event_is_listed_described_and_published() -> None:
    assert set(EVENTS) == events_in_the_package(), "EVENTS in catraca/events is the list of what is published"
    for kind in EVENTS:
        assert vars(kind).get("__doc__"), f"{kind.__name__} needs a sentence: the catalogue shows it"
        assert publishers_of(kind), f"no domain makes a {kind.__name__}"


def test_only_domains_record_events() -> None:
    strays = [
        f"{name}:{node.lineno}"
        for name, tree in sources()
        if not name.startswith("domains/")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        if node.attr == "record" and isinstance(node.value, ast.Name) and node.value.id == "outbox"
    ]
    assert not strays, "an event belongs to a change, and changes to domains"


ROOT = PACKAGE.parent
# Not in backquotes: `nobody` is the name of a system account.
PRONOUN = re.compile(r"(?<!`)\b(whoever|nobody|somebody)\b", re.IGNORECASE)
GERUND = re.compile(r"(?:test_)?[a-z_]*ing")
# Nouns of the business that end in -ing.
NOUNS = {
    "billing",
    "booking",
    "matching",
    "onboarding",
    "pricing",
    "rating",
    "routing",
    "scheduling",
    "sharing",
}


@cache
def python_files() -> list[Path]:
    return [path for top in ("catraca", "tests", "bench", "prove") for path in (ROOT / top).rglob("*.py")]


def test_files_are_named_by_nouns() -> None:
    strays = [
        path.relative_to(ROOT).as_posix()
        for path in python_files()
        if GERUND.fullmatch(path.stem) and path.stem.removeprefix("test_").rpartition("_")[2] not in NOUNS
    ]
    assert not strays, "name a file by what it holds, not by what it does"


def test_docstrings_and_test_names_name_their_subject() -> None:
    strays = [
        f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"
        for path in python_files()
        for source in [path.read_text("utf-8")]
        if PRONOUN.search(source.replace("_", " "))  # most files need not be parsed
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        if PRONOUN.search(ast.get_docstring(node) or "")
        or PRONOUN.search(getattr(node, "name", "").replace("_", " "))
    ]
    assert not strays, "say driver, request, process or row instead of a pronoun"


def test_test_names_are_short() -> None:
    strays = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in python_files()
        for name in re.findall(r"def (test_\w+)", path.read_text("utf-8"))
        if len(name) > 60
    ]
    assert not strays, "name the behaviour in at most 60 characters"
