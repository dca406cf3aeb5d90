"""docs/operations.md names every command and role, and rules of the doctor that exist."""

import re
from collections.abc import Iterator

import typer

from catraca.cli import app
from catraca.roles import ROLES
from catraca.roles.doctor.checkup import RULES
from tests.docs.pages import OPERATIONS, section


def commands(group: typer.Typer, prefix: str) -> Iterator[str]:
    for command in group.registered_commands:
        assert command.callback is not None
        yield f"{prefix} {command.name or command.callback.__name__.replace('_', '-')}"
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from commands(inner.typer_instance, f"{prefix} {inner.name}")


def test_every_command_has_a_row() -> None:
    rows = re.findall(
        r"^\| `(catraca [a-z -]+?)(?: -.*?| [A-Z].*?)?` \|", section(OPERATIONS, "Commands"), re.MULTILINE
    )
    assert sorted(rows) == sorted(commands(app, "catraca"))


def test_every_role_has_a_row() -> None:
    text = section(OPERATIONS, "Servers of your own")
    assert set(re.findall(r"^\| `([a-z]+)` \|", text, re.MULTILINE)) == set(ROLES)


def test_samples_of_rules_are_rules() -> None:
    shown = re.findall(r"^    held      (.+?): (.+)$", section(OPERATIONS, "The doctor"), re.MULTILINE)
    assert shown
    assert set(shown) <= {(rule.name, rule.sentence) for rule in RULES}
