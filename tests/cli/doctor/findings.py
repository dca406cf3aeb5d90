"""Helpers to read the doctor's findings and to run SQL that breaks a database."""

import asyncpg

from catraca.roles.doctor.findings import Finding


def faults(findings: list[Finding]) -> dict[str, str]:
    """The verdicts that are not ok, by name; each must have a remedy."""
    assert all(finding.remedy for finding in findings if finding.verdict != "ok")
    return {finding.name: finding.verdict for finding in findings if finding.verdict != "ok"}


def named(findings: list[Finding], name: str) -> Finding:
    (finding,) = [finding for finding in findings if finding.name == name]
    return finding


async def execute(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()
