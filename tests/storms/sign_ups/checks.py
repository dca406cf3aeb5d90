"""Checks of every sign-up: the database against the storm's ledger."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from catraca.events import SIGN_UP_QUEUE
from catraca.platform.database import Db, Row
from tests.storms.checks import NOTHING_LEFT, failed_checks
from tests.storms.sign_ups.ledger import Asked, Ledger

SHOWN = 5
QUIET = {what: query for what, query in NOTHING_LEFT.items() if what != "messages died"}
EVENTS = (
    "SELECT id, routing_key, aggregate_id FROM outbox WHERE queue IS NULL UNION ALL"
    " SELECT id, routing_key, aggregate_id FROM outbox_sent WHERE queue IS NULL"
)
CHECKS = {
    "addresses belong to two people": """
        SELECT email_folded FROM users WHERE email IS NOT NULL GROUP BY 1 HAVING count(*) > 1""",
    "events have not exactly one line in the audit log, or lines no event": f"""
        SELECT * FROM (SELECT id, true AS is_event FROM ({EVENTS}) AS kept) e
        FULL JOIN (
            SELECT (data ->> 'event_id')::uuid AS id, count(*) AS lines FROM audit_log
            WHERE action IN ('user.created', 'user.rejected') GROUP BY 1) a
            USING (id)
        WHERE is_event IS NULL OR lines IS DISTINCT FROM 1""",
    "sign-ups were handled without a person or a rejection, or people came without one": """
        SELECT * FROM (SELECT id, rejected FROM sign_ups) s
        FULL JOIN (SELECT id, true AS is_user FROM users) u USING (id)
        WHERE (s.id IS NULL) OR (rejected IS NULL) = (is_user IS NULL)""",
}


@dataclass
class Found:
    """The users, rejections, dead letters and events in the database."""

    users: dict[UUID, Row]
    rejected: dict[UUID, str]
    letters: dict[UUID, list[Row]]
    created: Counter[UUID]
    told_rejected: Counter[UUID]


async def look(db: Db) -> Found:
    letters: dict[UUID, list[Row]] = defaultdict(list)
    for row in await db.fetch("SELECT queue, message_id, reason, body FROM dead_letters"):
        letters[row["message_id"]].append(row)
    events = await db.fetch(f"SELECT routing_key, aggregate_id FROM ({EVENTS}) AS kept")
    return Found(
        users={row["id"]: row for row in await db.fetch("SELECT id, name, email FROM users")},
        rejected={
            row["id"]: row["rejected"]
            for row in await db.fetch("SELECT id, rejected FROM sign_ups WHERE rejected IS NOT NULL")
        },
        letters=letters,
        created=_told(events, "user.created"),
        told_rejected=_told(events, "user.rejected"),
    )


def _told(events: Sequence[Row], key: str) -> Counter[UUID]:
    return Counter(row["aggregate_id"] for row in events if row["routing_key"] == key)


async def broken_by(db: Db, ledger: Ledger) -> list[str]:
    """The failed checks, each with its first findings."""
    found = await look(db)
    broken: list[str] = []
    for what, judge in VERDICTS.items():
        if offending := list(judge(ledger, found)):
            broken += [f"{len(offending)} {what}:", *(f"  {one}" for one in offending[:SHOWN])]
    return [*broken, *await failed_checks(db, CHECKS)]


def _lost(ledger: Ledger, found: Found) -> Iterable[Asked]:
    for sign_up_id, asked in ledger.acknowledged.items():
        if sign_up_id not in found.users and sign_up_id not in found.rejected:
            yield asked


def _doubled(ledger: Ledger, found: Found) -> Iterable[object]:
    yield from found.users.keys() & found.rejected.keys()
    owners = Counter(_asked(ledger, one).person for one in found.users if _asked(ledger, one))
    yield from (f"person {person}" for person, count in owners.items() if count > 1)


def _changed(ledger: Ledger, found: Found) -> Iterable[Row]:
    for sign_up_id, row in found.users.items():
        asked = _asked(ledger, sign_up_id)
        if asked is not None and (row["name"], row["email"]) != (asked.name, asked.email):
            yield row


def _strangers(ledger: Ledger, found: Found) -> Iterable[UUID]:
    for sign_up_id in found.users.keys() | found.rejected.keys():
        if _asked(ledger, sign_up_id) is None:
            yield sign_up_id


def _wrongly_rejected(ledger: Ledger, found: Found) -> Iterable[str]:
    """A sign-up may be rejected only when another user of the ledger has its address."""
    owners = {asked.person for one in found.users if (asked := _asked(ledger, one))}
    for sign_up_id, reason in found.rejected.items():
        asked = _asked(ledger, sign_up_id)
        if asked is not None and (reason != "email_taken" or asked.person not in owners):
            yield f"{asked}: {reason}"


def _mistold(ledger: Ledger, found: Found) -> Iterable[str]:
    for told, there in ((found.created, found.users), (found.told_rejected, found.rejected)):
        for one in told.keys() | there.keys():
            if told[one] != 1 or one not in there:
                yield f"{one}: {told[one]} events, {'there' if one in there else 'not there'}"


def _unburied(ledger: Ledger, found: Found) -> Iterable[str]:
    for message_id, poison in ledger.poison.items():
        letters = [(row["queue"], row["reason"], row["body"]) for row in found.letters.get(message_id, ())]
        if letters != [(SIGN_UP_QUEUE, poison.reason, poison.body)]:
            yield f"{poison.reason}: {[letter[:2] for letter in letters]}"


def _wrongly_buried(ledger: Ledger, found: Found) -> Iterable[str]:
    for message_id, rows in found.letters.items():
        if message_id not in ledger.poison:
            yield from (f"{row['queue']}: {row['reason']}, {row['body'][:100]!r}" for row in rows)


def _asked(ledger: Ledger, sign_up_id: UUID) -> Asked | None:
    return ledger.acknowledged.get(sign_up_id) or ledger.tried.get(sign_up_id)


VERDICTS: dict[str, Callable[[Ledger, Found], Iterable[object]]] = {
    "acknowledged sign-ups are neither people nor rejected": _lost,
    "sign-ups or people are there twice": _doubled,
    "people are not as they signed up": _changed,
    "people or rejections nobody asked for": _strangers,
    "sign-ups were rejected without another who has their address": _wrongly_rejected,
    "people or rejections have not exactly one event, or events nobody": _mistold,
    "poisonous messages are not one dead letter with the right reason": _unburied,
    "healthy messages are dead letters": _wrongly_buried,
}
