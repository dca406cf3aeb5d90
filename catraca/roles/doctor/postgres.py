"""PostgreSQL: nearly every fault of it is a problem."""

from catraca.platform.database import RESERVED_CONNECTIONS
from catraca.platform.database.migrations import known_revisions, newest_revision
from catraca.platform.server_info import PostgresFacts, Unreachable, ask_postgres
from catraca.roles.doctor.findings import Finding, judge_clock, ok, problem
from catraca.settings import Settings

OLDEST = 15


async def check_postgres(settings: Settings) -> list[Finding]:
    if settings.servers.database_url is None:
        remedy = "Run `catraca up`, or give CATRACA_DATABASE_URL."
        return [problem("PostgreSQL", f"not set, and none runs in {settings.process.state_dir}", remedy)]
    try:
        facts = await ask_postgres(settings.servers.database_url)
    except Unreachable as error:
        remedy = "Start it, or correct CATRACA_DATABASE_URL (host, port, user, password, database)."
        return [problem("PostgreSQL", f"cannot be reached: {error}", remedy)]
    return judge_postgres(facts, settings)


def judge_postgres(facts: PostgresFacts, settings: Settings) -> list[Finding]:
    """The findings that follow from the facts and the settings."""
    return [
        _version(facts),
        _schema(facts.revision),
        _durability(facts),
        _writable(facts),
        _connections(facts, settings),
        judge_clock("Clock of PostgreSQL", facts.skew),
    ]


def _version(facts: PostgresFacts) -> Finding:
    if facts.version_number < OLDEST * 10000:
        return problem(
            "PostgreSQL", f"version {facts.version}", f"Catraca needs {OLDEST} or newer: upgrade it."
        )
    return ok("PostgreSQL", f"version {facts.version}")


def _schema(revision: str | None) -> Finding:
    name, newest = "Schema", newest_revision()
    if revision == newest:
        return ok(name, f"{revision}, the newest")
    if revision is None:
        return problem(name, "the database is empty", "Run `catraca migrate`.")
    if revision in known_revisions():
        return problem(name, f"{revision}; this version needs {newest}", "Run `catraca migrate`.")
    return problem(
        name,
        f"{revision}, which this version does not know",
        "Run the version of Catraca that made it, or a newer one.",
    )


def _durability(facts: PostgresFacts) -> Finding:
    off = [name for name, value in facts.settings.items() if value == "off"]
    if off:
        return problem(
            "Durability",
            f"{', '.join(off)} is off: a crash can lose committed changes",
            f"Turn it on for this database and this user (ALTER SYSTEM, DATABASE or ROLE SET {off[0]} = on).",
        )
    return ok("Durability", "commits are flushed to disk")


def _writable(facts: PostgresFacts) -> Finding:
    if facts.is_replica:
        return problem(
            "Writing", "this server is a read-only replica", "Name the primary in CATRACA_DATABASE_URL."
        )
    if facts.is_read_only:
        remedy = "Turn default_transaction_read_only off for this database and this user."
        return problem("Writing", "transactions are read-only by default", remedy)
    return ok("Writing", "allowed")


def _connections(facts: PostgresFacts, settings: Settings) -> Finding:
    # Each process has a pool, a reserve, and one connection for notifications. One more is for migrations,
    # the doctor and administrators.
    each = settings.servers.database_connections + RESERVED_CONNECTIONS + 1
    needed = settings.process.workers * each + 1
    found = f"{facts.connections_allowed} allowed, up to {needed} needed"
    if facts.connections_allowed < needed:
        return problem(
            "Connections",
            f"{found} ({settings.process.workers} workers with {each} each)",
            "Raise max_connections (or the limit of the user or database), or lower CATRACA_WORKERS or"
            " CATRACA_DATABASE_CONNECTIONS.",
        )
    return ok("Connections", found)
