"""The baseline of booking: pgbench inserting the rows that a booking leaves, in one transaction."""

import asyncio
import os
import re
import subprocess
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import msgspec

from bench.rides.pgbench import PGBENCH
from bench.rides.world import numbered_sql
from bench.scheduling.booking import BOOKINGS_A_SECOND, PATH
from bench.scheduling.world import CLIENT, HOURS, Agendas, make_agendas
from catraca.platform.database import PREFER_INDEXES

APPOINTMENT, SESSION = "4", "5"
# The tables in which a booking inserts a row, and the condition for it.
TABLES = {
    "claims": "id = (SELECT session_id FROM appointments WHERE id = $1)",
    "appointments": "id = $1",
    "outbox_heads": "aggregate_id = $1",
    "outbox": "aggregate_id = $1",
    "timers": "subject_id = $1",
    "idempotency_keys": "body LIKE convert_to('%' || $1::uuid || '%', 'utf8')",
}
# Columns that differ from row to row; the others are copied. `:no` is the worker, `:n` the booking.
BEGINS = "(timestamptz '{starts_at}' + :hour::int * interval '1 hour')"
ENDS = f"({BEGINS} + interval '1 hour')"
ITSELF, ITS_SESSION = numbered_sql(APPOINTMENT, ":n"), numbered_sql(SESSION, ":n")
TIMES = {"starts_at": BEGINS, "ends_at": ENDS}
OPEN = {
    "claims": {"id": ITS_SESSION, "subject_no": ":no", "begins_at": BEGINS, "finishes_at": ENDS} | TIMES,
    # A client is in one place at a time.
    "appointments": {
        "id": ITSELF,
        "session_id": ITS_SESSION,
        "worker_no": ":no",
        "client_id": numbered_sql(CLIENT, "{first_client} + :place"),
    }
    | TIMES,
    "outbox_heads": {"aggregate_id": ITSELF},
    "outbox": {"id": "gen_random_uuid()", "aggregate_id": ITSELF},
    "timers": {"subject_id": ITSELF},
    "idempotency_keys": {"scope": "decode(lpad(to_hex(:n::int), 64, '0'), 'hex')"},
}


@dataclass(frozen=True, slots=True)
class InsertLoad:
    url: str
    database_url: str
    secret: str

    def per_second(self, *, seconds: int, connections: int, folder: Path) -> float:
        agendas = asyncio.run(make_agendas(self.database_url, BOOKINGS_A_SECOND * 2 * seconds))
        rows = asyncio.run(_rows_of(self._book(agendas), self.database_url))
        each = (agendas.bookings - 1) // connections
        script = folder / "booking.sql"
        # Each client has its own hours, consecutive ones in other agendas; the first is booked already.
        rows = rows.replace("{starts_at}", agendas.starts_at.isoformat())
        rows = rows.replace("{first_client}", str(agendas.first_client))
        script.write_text(
            f"\\set i :i + 1\n\\set place 1 + :client_id * {each} + :i\n"
            f"\\set no {agendas.first_no} + :place % {agendas.workers}\n"
            f"\\set hour :place / {agendas.workers}\n"
            f"\\set n :no * {HOURS} + :hour\nBEGIN;\n{rows}\nCOMMIT;\n"
        )
        return _run(script, self.database_url, seconds=seconds, connections=connections)

    def _book(self, agendas: Agendas) -> str:
        """Book the first hour over HTTP; returns the appointment's id."""
        wish = next(agendas.wishes(self.secret))
        headers = {
            "Content-Type": "application/json",
            "Authorization": f"Bearer {wish.bearer}",
            "Idempotency-Key": "measured",
        }
        request = urllib.request.Request(self.url + PATH, wish.body.encode(), headers)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return msgspec.json.decode(answer.read())["appointment_id"]


async def _rows_of(appointment_id: str, database_url: str) -> str:
    """INSERT statements for rows like those of the booking."""
    db = await asyncpg.connect(database_url)
    try:
        return "\n".join([await _insert_of(db, table, appointment_id) for table in TABLES])
    finally:
        await db.close()


async def _insert_of(db: asyncpg.Connection, table: str, appointment_id: str) -> str:
    columns = await db.fetch(
        "SELECT attname AS name, format_type(atttypid, atttypmod) AS type FROM pg_attribute"
        " WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped AND attidentity = ''"
        " ORDER BY attnum",
        table,
    )
    rows = await db.fetch(
        f"SELECT {', '.join(column['name'] + '::text' for column in columns)} FROM {table}"
        f" WHERE {TABLES[table]}",
        appointment_id,
    )
    (row,) = rows
    values = [
        OPEN[table].get(column["name"]) or _literal(row[column["name"]], column["type"]) for column in columns
    ]
    names = ", ".join(column["name"] for column in columns)
    return f"INSERT INTO {table} ({names}) VALUES ({', '.join(values)});"


def _literal(value: str | None, kind: str) -> str:
    if value is None:
        return "NULL"
    # pgbench reads a colon as a variable.
    return (
        f"convert_from('\\x{value.encode().hex()}', 'utf8')::{kind}" if ":" in value else f"'{value}'::{kind}"
    )


def _run(script: Path, database_url: str, *, seconds: int, connections: int) -> float:
    output = subprocess.run(
        [*PGBENCH, "-c", str(connections), "-T", str(seconds), "-f", str(script), database_url],
        env=os.environ
        | {"PGOPTIONS": " ".join(f"-c {name}={value}" for name, value in PREFER_INDEXES.items())},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    found = re.search(r"tps = ([\d.]+)", output)
    if found is None or "number of failed transactions: 0 " not in output:
        raise RuntimeError(output)
    return float(found[1])
