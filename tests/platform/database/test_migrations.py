"""Migrations run once, completely, in order, by one process at a time."""

import asyncio
import os
import shutil
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest

from catraca.platform.database import migrations
from catraca.platform.database.migrations import (
    DatabaseUnreachable,
    SchemaOutdated,
    SchemaUnknown,
    check_schema,
    known_revisions,
    migrate,
    newest_revision,
    schema_revision,
)
from tests.servers import Stack, on_one_stack, until
from tests.support import forked
from tests.support.forked import run_catraca


@pytest.fixture
async def url(stack: Stack) -> str:
    return await stack.new_database(f"migrations_{uuid4().hex}")


@pytest.fixture
def newer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the migrations' folder, to which a test can add one."""
    folder = tmp_path / "migrations"
    shutil.copytree(migrations.FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(migrations, "FOLDER", folder)
    return folder / "versions"


async def tables(url: str) -> set[str]:
    connection = await asyncpg.connect(url)
    rows = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    await connection.close()
    return {row["tablename"] for row in rows}


async def test_empty_database_is_migrated_once(url: str) -> None:
    assert await schema_revision(url) is None
    assert await migrate(url) == known_revisions()
    assert await schema_revision(url) == newest_revision()
    assert await migrate(url) == []


def test_file_numbers_follow_the_order_of_alembic() -> None:
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory(str(migrations.FOLDER))
    assert [script.revision for script in scripts.walk_revisions()][::-1] == known_revisions()


@on_one_stack
async def test_four_concurrent_migrators_migrate_once(url: str) -> None:
    environment = {**os.environ, "CATRACA_DATABASE_URL": url}
    commands = (run_catraca("migrate", "--json", environment=environment) for _ in range(4))
    done = await asyncio.gather(*commands)
    assert [code for code, _, _ in done] == [0] * 4, done
    assert sum('"migrated": ["0001"' in output for _, output, _ in done) == 1, done
    assert await schema_revision(url) == newest_revision()


async def test_failing_migration_leaves_the_schema_before_it(url: str, newer: Path) -> None:
    before = known_revisions()
    (newer / "9999_broken.py").write_text(
        "from catraca.platform.database.migrations import run_sql\n"
        f"revision, down_revision = '9999', '{before[-1]}'\n"
        "def upgrade():\n"
        "    run_sql('CREATE TABLE half (id int)')\n"
        "    run_sql('CREATE TABLE half (id int)')\n"
    )
    with pytest.raises(asyncpg.DuplicateTableError):
        await migrate(url)
    assert await schema_revision(url) == before[-1]
    assert "half" not in await tables(url)
    assert "users" in await tables(url)


async def test_killed_migration_is_rolled_back_and_run_again(url: str) -> None:
    blocker = await asyncpg.connect(url)
    await blocker.execute("BEGIN; CREATE TABLE password_links (id int)")
    process = forked.start(forked.CATRACA, "migrate", environment={**os.environ, "CATRACA_DATABASE_URL": url})
    watcher = await asyncpg.connect(url)
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'"
    await until(lambda: watcher.fetchval(waiting))
    process.kill()
    process.wait()
    await blocker.execute("ROLLBACK")
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    await until(lambda: _is(watcher, others, 2))
    await blocker.close()
    await watcher.close()
    assert await schema_revision(url) == "0001"
    assert "users" not in await tables(url)
    assert await migrate(url) == known_revisions()[1:]


async def _is(connection: asyncpg.Connection, query: str, value: int) -> bool:
    return await connection.fetchval(query) == value


async def test_schema_of_a_newer_version_is_refused(url: str, newer: Path) -> None:
    extra = newer / "9999_tomorrow.py"
    extra.write_text(f"revision, down_revision = '9999', '{newest_revision()}'\ndef upgrade():\n    pass\n")
    await migrate(url)
    extra.unlink()
    for act in (migrate, check_schema):
        with pytest.raises(SchemaUnknown, match="9999"):
            await act(url)


async def test_outdated_schema_error_names_the_command(url: str) -> None:
    with pytest.raises(SchemaOutdated, match="catraca migrate"):
        await check_schema(url)


async def test_unreachable_database_error_has_no_password() -> None:
    with pytest.raises(DatabaseUnreachable, match=r"127\.0\.0\.1:1 .*CATRACA_DATABASE_URL") as failure:
        await migrate("postgresql://catraca:hush@127.0.0.1:1/catraca")
    assert "hush" not in str(failure.value)


def remove_from(folder: Path, revision: str) -> dict[Path, str]:
    """Remove this revision and later ones; returns their texts."""
    later = {path: path.read_text() for path in folder.glob("*.py") if path.name >= revision}
    for path in later:
        path.unlink()
    return later


async def test_stored_times_out_of_range_are_clamped(url: str, newer: Path) -> None:
    """Installations before revision 0017 may have infinite dates: a request could set them."""
    later = remove_from(newer, "0017")
    await migrate(url)
    connection = await asyncpg.connect(url)
    await connection.execute(
        """
        INSERT INTO subjects (id, kind, name, time_zone) VALUES (gen_random_uuid(), 'worker', 'Ana', 'UTC');
        INSERT INTO worker_rules SELECT no, 1, 540, 600, day::date, till::date FROM subjects, (VALUES
          ('-infinity', 'infinity'), ('infinity', 'infinity'), (NULL, '20000-01-01'), ('2026-01-01', NULL))
          AS rule (day, till);
        INSERT INTO worker_overrides (subject_no, day)
          SELECT no, day::date FROM subjects,
            (VALUES ('infinity'), ('0001-01-01'), ('2026-12-24')) AS override (day);
        INSERT INTO claims (id, subject_no, starts_at, ends_at, kind)
          SELECT gen_random_uuid(), no, starts_at::timestamptz, ends_at::timestamptz, 'time_off'
          FROM subjects, (VALUES ('1960-01-01Z', '1965-01-01Z'), ('1969-01-01Z', '1971-01-01Z'),
                    ('2199-01-01Z', '2300-01-01Z')) AS off (starts_at, ends_at);
        """
    )
    for path, text in later.items():
        path.write_text(text)
    await migrate(url)
    found = {
        name: await connection.fetchval(f"SELECT array_agg({row}::text ORDER BY {row}) FROM {name}")
        for name, row in {
            "worker_rules": "(valid_from, valid_to)",
            "worker_overrides": "day",
            "claims": "(starts_at AT TIME ZONE 'UTC', ends_at AT TIME ZONE 'UTC')",
        }.items()
    }
    await connection.close()
    assert found == {
        "worker_rules": [
            "(1970-01-01,2199-12-31)",
            "(2026-01-01,)",
            "(2199-12-31,2199-12-31)",
            "(,2199-12-31)",
        ],
        "worker_overrides": ["1970-01-01", "2026-12-24", "2199-12-31"],
        "claims": [
            '("1970-01-01 00:00:00","1971-01-01 00:00:00")',
            '("2199-01-01 00:00:00","2199-12-31 23:59:59")',
        ],
    }


def number_of(folder: Path, name: str) -> str:
    (path,) = folder.glob(f"*_{name}.py")
    return path.name[:4]


async def test_stored_devices_and_links_get_the_time_they_were_made(url: str, newer: Path) -> None:
    later = remove_from(newer, number_of(newer, "access_ends_with_tokens"))
    await migrate(url)
    connection = await asyncpg.connect(url)
    await connection.execute(
        """
        INSERT INTO users (id, roles, tokens_valid_after) VALUES
          (gen_random_uuid(), '{worker}', '2026-01-02Z');
        INSERT INTO push_subscriptions (id, user_id, endpoint, p256dh, auth, created_at)
          SELECT gen_random_uuid(), id, at, repeat('B', 87), repeat('a', 22), at::timestamptz
          FROM users, (VALUES ('2026-01-01Z'), ('2026-01-03Z')) AS device (at);
        INSERT INTO password_links (token_sha256, user_id, expires_at)
          SELECT sha256('link'), id, '2100-01-01Z' FROM users;
        INSERT INTO subjects (id, kind, name, time_zone, feed_hash, retired) VALUES
          ('00000000-0000-0000-0000-000000000001', 'worker', 'audited', 'UTC', 'a', false),
          ('00000000-0000-0000-0000-000000000002', 'worker', 'not audited', 'UTC', 'b', false),
          ('00000000-0000-0000-0000-000000000003', 'worker', 'retired', 'UTC', 'c', true);
        INSERT INTO audit_log (id, actor_id, action, subject_kind, subject_id, at)
          SELECT gen_random_uuid(), u.id, 'worker.calendar_linked', 'worker', s.id::text, '2026-01-03Z'
          FROM users u, subjects s WHERE s.name <> 'not audited';
        """
    )
    for path, text in later.items():
        path.write_text(text)
    await migrate(url)
    living = "SELECT array_agg(endpoint) FROM push_subscriptions WHERE access_holds(user_id, granted_at)"
    assert await connection.fetchval(living) == ["2026-01-03Z"]
    links = "SELECT count(*) FROM password_links WHERE access_holds(user_id, granted_at)"
    assert await connection.fetchval(links) == 1
    linked = "SELECT array_agg(name) FROM subjects WHERE feed_hash IS NOT NULL"
    assert await connection.fetchval(linked) == ["audited"]
    await connection.close()


async def test_stored_attempts_get_numbers(url: str, newer: Path) -> None:
    """Surplus attempts stay, with negative numbers; started rides get their timer."""
    later = remove_from(newer, number_of(newer, "rides_against_abuse"))
    await migrate(url)
    connection = await asyncpg.connect(url)
    await connection.execute(
        """
        SET session_replication_role = replica;
        INSERT INTO rides (id, passenger_id, status, pickup_lat, pickup_lon, deadline_at, started_at,
            accepted_driver_id, accepted_at)
          VALUES (gen_random_uuid(), gen_random_uuid(), 'STARTED', 0, 0, now(), now(), gen_random_uuid(),
            now());
        INSERT INTO ride_accept_attempts (id, ride_id, driver_id, offer_id, idempotency_key, status,
            failure_reason, ride_status, attempt_at, completed_at, actor_id)
          SELECT lpad((2 * n + num_nulls(d.offer_id))::text, 32, '0')::uuid, r.id, d.id, d.offer_id, n::text,
            CASE WHEN n < 22 OR d.offer_id IS NULL THEN 'FAILED' ELSE 'SUCCESS' END,
            CASE WHEN n < 22 OR d.offer_id IS NULL THEN 'x' END, 'OFFERED', now(), now(), d.id
          FROM rides r, (VALUES (gen_random_uuid(), gen_random_uuid()), (gen_random_uuid(), NULL))
            AS d (id, offer_id), generate_series(1, 22) AS n;
        """
    )
    for path, text in later.items():
        path.write_text(text)
    await migrate(url)
    rows = await connection.fetch(
        "SELECT array_agg(place ORDER BY id) AS places FROM ride_accept_attempts GROUP BY offer_id"
        " ORDER BY offer_id NULLS LAST"
    )
    timers = await connection.fetchval(
        "SELECT count(*) FROM timers t JOIN rides r ON r.id = t.subject_id"
        " WHERE t.kind = 'rides.due' AND t.due_at = r.started_at + interval '6 h'"
    )
    await connection.close()
    assert [row["places"] for row in rows] == [
        [*range(1, 21), -21, 22],
        [1, *(-number for number in range(2, 23))],
    ]
    assert timers == 1
