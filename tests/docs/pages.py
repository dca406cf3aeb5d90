"""The documents of the repository, and their code."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
TOUR = ROOT / "docs/tour.md"
OPERATIONS = ROOT / "docs/operations.md"
ARCHITECTURE = ROOT / "docs/architecture.md"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = re.DOTALL | re.MULTILINE

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


def section(page: Path, heading: str) -> str:
    """The text below a heading of the second level."""
    return page.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def fenced(text: str, kind: str) -> list[str]:
    """The contents of fenced blocks of this kind."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, BLOCKS)


def code_of(page: Path) -> str:
    """Only the code blocks and code spans: prose may contain words such as "make sense"."""
    blocks, prose = _separated(page)
    return "\n".join([*blocks, *re.findall(r"`([^`]+)`", prose)])


def blocks_of(page: Path) -> list[str]:
    """The code blocks, fenced or indented."""
    return _separated(page)[0]


def _separated(page: Path) -> tuple[list[str], str]:
    blocks: list[str] = []

    def set_apart(block: re.Match[str]) -> str:
        blocks.append(block[0])
        return ""

    prose = re.sub(r"^```.*?^```$|(?<=\n\n)(?: {4}[^\n]*\n+)+", set_apart, page.read_text(), flags=BLOCKS)
    return blocks, prose
