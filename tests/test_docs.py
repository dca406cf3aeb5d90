"""The documents are true: their curl blocks run, and the files, settings and metrics they name exist."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from catraca.roles.demo import fill_demo_city
from catraca.roles.parts import open_parts
from catraca.settings import GROUP_OF, Settings, read_settings, variable_of
from tests.conftest import SECRET, free_port, listening
from tests.servers import Stack

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
OPERATIONS = ROOT / "docs/operations.md"
# How far names of folders are indented in the architecture's tree; feature lists are indented further.
DEEPEST_NAME = 8
ARCHITECTURE = ROOT / "docs/architecture.md"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())

# Sections whose blocks a reader runs one after another.
BY_CURL = ("The API by curl", "A ride in a community")
RUN_SECONDS = 60
BLOCKS = re.DOTALL | re.MULTILINE
# Comes before curl on the PATH: stores each answer with its status, and prints it as curl would.
KEEPING_CURL = """#!/bin/sh
answer="$ANSWERS/$(ls "$ANSWERS" | grep -c status)"
: > "$answer.body"
PATH="$REAL_PATH" curl "$@" -o "$answer.body" -w '%{http_code}' > "$answer.status"
cat "$answer.body"
"""


@dataclass(frozen=True)
class Demo:
    url: str
    database_url: str


@dataclass(frozen=True)
class Expected:
    """An expected answer: the line `# -> 200 ..."name":"Rosa"...` after a curl."""

    status: str
    pieces: list[str]

    def fits(self, answer: str) -> bool:
        """True if the answer contains the pieces in this order."""
        at = 0
        for piece in self.pieces:
            found = answer.find(piece, at)
            if found < 0:
                return False
            at = found + len(piece)
        return True


def section(page: Path, heading: str) -> str:
    return page.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def fenced(text: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, BLOCKS)


def told_answers(script: str) -> list[Expected]:
    lines = re.findall(r"^# -> (\d{3})(?: (.*))?$", script, re.MULTILINE)
    return [Expected(status, [piece for piece in text.split("...") if piece]) for status, text in lines]


def code_in(page: Path) -> str:
    """Only the code blocks and code spans: prose may contain words such as "make sense"."""
    blocks: list[str] = []

    def set_apart(block: re.Match[str]) -> str:
        blocks.append(block[0])
        return ""

    text = re.sub(r"^```.*?^```$|(?<=\n\n)(?: {4}[^\n]*\n+)+", set_apart, page.read_text(), flags=BLOCKS)
    return "\n".join([*blocks, *re.findall(r"`([^`\n]+)`", text)])


@pytest.fixture
async def demo(stack: Stack, settings: Settings) -> AsyncIterator[Demo]:
    """A Catraca as after `make up`: with the demo city only."""
    database_url = await stack.migrated_database(f"docs_{uuid4().hex}")
    own = settings.changed(database_url=database_url, port=free_port())
    async with open_parts(own) as parts:
        await fill_demo_city(parts.database)
        async with listening(parts) as url:
            yield Demo(url, database_url)


async def run_script(script: str, folder: Path, demo: Demo) -> list[tuple[str, str]]:
    """Run the script as a reader would; returns status and body of every curl in it."""
    answers, programs = folder / "answers", folder / "bin"
    answers.mkdir()
    programs.mkdir()
    (programs / "curl").write_text(KEEPING_CURL)
    (programs / "curl").chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CATRACA_")}
    environment = {
        **kept,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "REAL_PATH": os.environ["PATH"],
        "ANSWERS": str(answers),
        "CATRACA_SECRET": SECRET,
        "CATRACA_STATE_DIR": str(folder / "state"),
        "CATRACA_DATABASE_URL": demo.database_url,
    }
    process = await asyncio.create_subprocess_exec(
        "bash",
        "-euc",
        script,
        cwd=ROOT,
        env=environment,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(RUN_SECONDS):
        _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    found = sorted(answers.glob("*.status"), key=lambda path: int(path.stem))
    return [(path.read_text(), path.with_suffix(".body").read_text()) for path in found]


async def test_curl_blocks_of_the_readme_get_the_documented_answers(demo: Demo, tmp_path: Path) -> None:
    blocks = [fenced(section(README, heading), "sh") for heading in BY_CURL]
    assert all(blocks), "the blocks were not found"
    script = "\n".join(block for found in blocks for block in found)
    told = told_answers(script)
    assert len(told) > 10, "the blocks were not found"
    typed = script.replace("http://127.0.0.1:8000", demo.url)
    typed = typed.replace(".venv/bin/catraca", f"{sys.executable} -m catraca")
    given = await run_script(typed, tmp_path, demo)
    assert [status for status, _ in given] == [one.status for one in told]
    for one, (_, answer) in zip(told, given, strict=True):
        assert one.fits(answer), f"{one} does not fit {answer}"


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


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@each_page
def test_make_targets_exist(page: Path) -> None:
    named = set(re.findall(r"\bmake (?:[A-Z]+=\S+ )*([a-z-]+)", code_in(page)))
    assert named <= make_targets()


def test_readme_lists_every_make_target() -> None:
    assert set(re.findall(r"^\| `make ([a-z-]+)`", README.read_text(), re.MULTILINE)) == make_targets()


@each_page
def test_commands_exist(page: Path) -> None:
    from catraca.cli import app

    known = {command.callback.__name__ for command in app.registered_commands if command.callback}
    known |= {group.name for group in app.registered_groups if group.name}
    named = set(re.findall(r"(?<![\w@=-] )(?<![\w@=-])catraca ([a-z]+(?:-[a-z]+)*)\b", code_in(page)))
    assert named <= known


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
    for name in re.findall(r"`([\w./-]+\.(?:py|sh|toml|lock))`", page.read_text()):
        places = [ROOT / name, ROOT / "catraca" / name]
        bare = [] if "/" in name else list(ROOT.glob(f"[!.]*/**/{name}"))
        assert bare or any(place.exists() for place in places), name


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
