"""The documents name only files, commands, settings, roles, routes, constraints and counts that exist."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from fastapi import APIRouter
from fastapi.routing import iter_route_contexts
from typer.core import TyperGroup

from catraca.cli import app
from catraca.events import EVENTS, TOPOLOGY
from catraca.platform.http import docs, health
from catraca.roles import ROLES
from catraca.roles.api import ROUTERS
from catraca.settings import GROUP_OF, read_settings, variable_of
from tests.docs.pages import (
    ARCHITECTURE,
    OPERATIONS,
    PAGES,
    ROOT,
    blocks_of,
    code_of,
    each_page,
    fenced,
)

# How far names of folders are indented in the architecture's tree; feature lists are indented further.
DEEPEST_NAME = 8
# Pages whose paths are those below this one.
PATHS_UNDER = dict.fromkeys(("docs/scheduling.md", "docs/decisions/0032-agendas.md"), "/v1/scheduling")
METHODS = "GET|POST|PUT|PATCH|DELETE|HEAD"
# Words of a command line that begin its command: in a path, after a variable, or alone.
COMMAND_LINE = re.compile(
    r"(?<![\w@=-] )(?<![\w@=-])(?:(?<=bin/)|(?<!/))catraca((?: +[\w./:=,$<>{}\"*+-]+)+)"
)


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_both_readmes_have_the_same_commands_and_links() -> None:
    english, portuguese = ROOT / "README.md", ROOT / "README.pt-BR.md"
    links = [re.findall(r"\]\((?!README)([^)\s]+)\)", page.read_text()) for page in (english, portuguese)]
    assert links[0] == links[1]
    commands = [[one for one in blocks_of(page) if "mermaid" not in one] for page in (english, portuguese)]
    assert commands[0] == commands[1] != []


@each_page
def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"\bmake (?:[A-Z]+=\S+ )*([a-z-]+)", code_of(page)))
    assert named <= targets


def test_every_make_target_has_a_help_text() -> None:
    makefile = (ROOT / "Makefile").read_text()
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert set(phony.split()) == set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))


def command_lines(code: str) -> Iterator[list[str]]:
    """The words after `catraca` of each command in this code."""
    for line in code.replace("\\\n", " ").splitlines():
        found = [words.split() for words in COMMAND_LINE.findall(line.partition("#")[0])]
        yield from (words for words in found if not words[0].isupper())  # COMMAND stands for any


def served_roles(code: str) -> set[str]:
    """The roles of all `catraca serve` in this code."""
    served = [words[1:] for words in command_lines(code) if words[0] == "serve"]
    return {word for words in served for word in words if re.fullmatch(r"[a-z]+", word)}


@each_page
def test_commands_and_their_options_exist(page: Path) -> None:
    for words in command_lines(code_of(page)):
        found = typer.main.get_command(app)
        while isinstance(found, TyperGroup) and words and not words[0].startswith("-"):
            assert words[0] in found.commands, words
            found = found.commands[words.pop(0)]
        known = {name for option in found.params for name in option.opts} | {"--help"}
        assert {word for word in words if word.startswith("--")} <= known, words


@each_page
def test_roles_exist(page: Path) -> None:
    assert served_roles(code_of(page)) <= {*ROLES, "all"}


@each_page
def test_installations_run_every_role(page: Path) -> None:
    """A block that starts APIs starts the other roles too: without one, its queues fill."""
    for block in blocks_of(page):
        roles = served_roles(block)
        assert "api" not in roles or roles == ROLES.keys(), block


def paths_of(routers: list[APIRouter]) -> set[str]:
    """Methods and paths of all routes, with `{}` for each parameter."""
    return {
        f"{method} {re.sub(r'{[^}]*}', '{}', context.path_format)}"
        for router in routers
        for context in iter_route_contexts(router.routes)
        for method in context.methods or {"GET"}
    }


@each_page
def test_routes_exist(page: Path) -> None:
    known = paths_of([*ROUTERS, health.router, docs.router])
    under = PATHS_UNDER.get(page.relative_to(ROOT).as_posix(), "")
    for method, path in re.findall(rf"\b({METHODS})\s+(/[\w./${{}}:-]*)", code_of(page)):
        plain = re.sub(r"{[^}]*}|\$\w+", "{}", path).rstrip(".,;:")
        given = "GET" if method == "HEAD" else method
        assert {f"{given} {plain}", f"{given} {under}{plain}"} & known, f"{method} {path}"


@each_page
def test_settings_exist(page: Path) -> None:
    known = {variable_of(name) for name in GROUP_OF}
    assert set(re.findall(r"CATRACA_[A-Z_]*[A-Z]", page.read_text())) <= known


def settings_rows() -> dict[str, tuple[str, str]]:
    rows = re.findall(r"^\| `(CATRACA_\w+)` \| (.*?) \| (.*?) \|$", OPERATIONS.read_text(), re.MULTILINE)
    return {name: (default.strip("`"), meaning) for name, default, meaning in rows}


def test_every_setting_is_documented_with_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("CATRACA_")]:
        monkeypatch.delenv(name)
    rows = settings_rows()
    assert rows.keys() == {variable_of(name) for name in GROUP_OF}
    defaults = read_settings()
    for name, (default, meaning) in rows.items():
        setting = name.removeprefix("CATRACA_").lower()
        value = getattr(getattr(defaults, GROUP_OF[setting]), setting)
        assert meaning
        if default in ("unset", "none"):
            assert value in (None, []), name
            continue
        with monkeypatch.context() as patch:
            patch.setenv(name, default)
            assert read_settings() == defaults, f"{name} is {value} by default"


def source_text() -> str:
    return "".join(path.read_text() for path in (ROOT / "catraca").rglob("*.py"))


def test_every_metric_is_documented_and_no_other() -> None:
    known = set(re.findall(r'"(catraca_[a-z_]+)",', source_text()))
    assert known
    named = {name for page in PAGES for name in re.findall(r"\bcatraca_[a-z_]+[a-z]\b", page.read_text())}
    assert named == known


@each_page
def test_source_files_named_exist(page: Path) -> None:
    for name in re.findall(r"`([\w./-]+\.(?:py|sh|toml|lock|md|geojson))`", page.read_text()):
        places = [ROOT / name, ROOT / "catraca" / name]
        bare = [] if "/" in name else list(ROOT.glob(f"[!.]*/**/{name}"))
        assert bare or any(place.exists() for place in places), name


@pytest.mark.parametrize("walk", sorted((ROOT / "docs/walks").glob("*.md")), ids=lambda walk: walk.stem)
def test_functions_and_types_named_in_walks_exist(walk: Path) -> None:
    """Names with an underscore or of a type, as `read_schedule` or `Database.run`."""
    source = source_text()
    for name in re.findall(r"`(_?[a-z]+(?:_[a-z]+)+|[A-Z][a-z]+\w*(?:\.\w+)?)`", walk.read_text()):
        for word in name.split("."):
            assert re.search(rf"\b{word}\b", source), name


def test_exchanges_and_queues_of_the_sign_up_walk_exist() -> None:
    own = [queue.retries_in for queue in TOPOLOGY.queues if queue.retries_in is not None]
    known = {*TOPOLOGY.exchanges, *(queue.name for queue in TOPOLOGY.queues)}
    known |= {name for retries in own for name in (retries.name, retries.exchange)}
    text = (ROOT / "docs/walks/sign-up.md").read_text()
    named = set(re.findall(r"\braffle_\w*[a-z0-9]\b|\b\w+_queue\b|\b\w+\.events\b", text))
    assert {name for name in known if name.startswith("raffle_")} <= named <= known


def test_constraints_named_exist_in_the_schema() -> None:
    schema = "".join(path.read_text() for path in (ROOT / "migrations/versions").glob("*.py"))
    page = (ROOT / "docs/constraints.md").read_text()
    named = set(re.findall(r"`(?:[A-Z]+ )?([a-z]+(?:_[a-z]+)+)`", page))
    assert len(named) > 20
    assert not {name for name in named if not re.search(rf"\b{name}\b", schema)}


def counted() -> dict[str, int]:
    """How many there are of what documents count, by its plural."""
    return {
        "migrations": len(list((ROOT / "migrations/versions").glob("[0-9]*.py"))),
        "roles": len(ROLES),
        "queues": len(TOPOLOGY.queues),
        "exchanges": len(TOPOLOGY.exchanges),
        "events": len(EVENTS),
        "settings": len(GROUP_OF),
        "decisions": len(list((ROOT / "docs/decisions").glob("*.md"))),
    }


@each_page
def test_counts_are_right(page: Path) -> None:
    """A number before one of these words is the number of them all, unless the sentence says "up to"."""
    plurals = "|".join(counted())
    for before, number, plural in re.findall(rf"(\w+ )?\b(\d+) ({plurals})\b", page.read_text()):
        assert before.strip() == "to" or int(number) == counted()[plural], f"{number} {plural}"


def largest_batch() -> int:
    return max(
        queue.batch for queue in TOPOLOGY.queues if queue.role == "notifier" and not queue.transient_seconds
    )


def test_batch_of_the_notifier_is_as_in_its_walk() -> None:
    walk = (ROOT / "docs/walks/notification.md").read_text()
    assert f"takes up to {largest_batch()} messages" in walk


def drawn_tree() -> Iterator[str]:
    """The paths in the tree of architecture.md: two spaces a level, a name, then its description.

    Lines indented deeper than any name list the features of the domain above.
    """
    (drawing,) = fenced(ARCHITECTURE.read_text(), "text")
    above: list[str] = []
    for line in drawing.splitlines():
        indent, name = re.match(r"( *)(\S+)", line).groups()  # type: ignore[union-attr]
        if len(indent) > DEEPEST_NAME:
            yield from ("/".join([*above, feature]) for feature in line.split())
        else:
            above = [*above[: len(indent) // 2], name]
            yield "/".join(above)


def test_tree_in_the_architecture_is_the_tree() -> None:
    drawn = set(drawn_tree())
    assert not {path for path in drawn if not (ROOT / path).exists()}
    packages = {path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "catraca").rglob("__init__.py")}
    assert packages <= drawn, "a folder is missing in the drawing"


def test_decisions_are_numbered_in_a_row_and_have_one_shape() -> None:
    pages = sorted((ROOT / "docs/decisions").glob("*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    for page in pages:
        text = page.read_text()
        assert text.startswith(f"# {int(page.name[:4])}. "), page.name
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]
