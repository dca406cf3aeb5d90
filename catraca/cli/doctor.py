"""`catraca doctor`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catraca.cli.database import find_settings
from catraca.cli.failures import FAILED, expected_failures

if TYPE_CHECKING:
    from rich.console import Console

    from catraca.platform.database.invariants import Verdict
    from catraca.roles.doctor.findings import Finding

SIGNS = {
    "ok": ("green", "ok"),
    "warning": ("yellow", "warning"),
    "problem": ("red", "problem"),
    "held": ("green", "held"),
    "broken": ("red", "broken"),
    "unchecked": ("red", "unchecked"),
}
SIGN_CHARACTERS = max(map(len, SIGNS))


def doctor(
    invariants: Annotated[
        bool,
        typer.Option("--invariants", help="Also check the invariants of the data, on the live database."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Check this installation and print every problem with its remedy.

    Exit code 0 without problems (warnings do not count), 1 otherwise. Changes nothing.

    Example: `catraca doctor --invariants`
    """
    import asyncio

    with expected_failures():
        from catraca.platform.telemetry import configure_logging
        from catraca.roles.doctor.checkup import check_rules, run_checks

        configure_logging("error")
        settings = find_settings()
        findings = asyncio.run(run_checks(settings))
        verdicts = asyncio.run(check_rules(settings)) if invariants else []
    sound = all(one.verdict != "problem" for one in findings) and all(one.state == "held" for one in verdicts)
    if as_json:
        _print_json(sound, findings, verdicts if invariants else None)
    else:
        _print_findings(findings)
        print_verdicts(verdicts)
    raise typer.Exit(0 if sound else FAILED)


def _print_findings(findings: Sequence["Finding"]) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    for finding in findings:
        _print_line(console, finding.verdict, finding.name, [finding.found], finding.remedy)


def print_verdicts(verdicts: Sequence["Verdict"]) -> None:
    """Print each rule with its state, and what breaks it."""
    from rich.console import Console

    console = Console(highlight=False)
    for verdict in verdicts:
        rule = verdict.rule
        name = rule.name if rule.number is None else f"{rule.number}. {rule.name}"
        found = [rule.sentence] if verdict.state == "held" else [rule.sentence, *verdict.found]
        _print_line(console, verdict.state, name, found, "")


def _print_line(console: "Console", sign: str, name: str, found: Sequence[str], remedy: str) -> None:
    from rich.text import Text

    colour, word = SIGNS[sign]
    margin = " " * (SIGN_CHARACTERS + 1)
    line = Text.assemble((word.ljust(SIGN_CHARACTERS + 1), f"bold {colour}"), (name, "bold"), f": {found[0]}")
    for more in found[1:]:
        line.append(f"\n{margin}- {more}")
    if remedy:
        line.append(f"\n{margin}{remedy}", "cyan")
    console.print(line, soft_wrap=True)


def _print_json(sound: bool, findings: Sequence["Finding"], verdicts: "Sequence[Verdict] | None") -> None:
    import json
    from dataclasses import asdict

    document: dict[str, Any] = {"ok": sound, "checks": [asdict(finding) for finding in findings]}
    if verdicts is not None:
        document["invariants"] = verdicts_for_json(verdicts)
    typer.echo(json.dumps(document, indent=2))


def verdicts_for_json(verdicts: Sequence["Verdict"]) -> list[dict[str, Any]]:
    return [
        {
            "number": verdict.rule.number,
            "name": verdict.rule.name,
            "sentence": verdict.rule.sentence,
            "state": verdict.state,
            "found": verdict.found,
        }
        for verdict in verdicts
    ]
