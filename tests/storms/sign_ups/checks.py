"""Checks of every sign-up: the database against the storm's ledger."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from catraca.events import SIGN_UP_QUEUE
from catraca.platform.database import Db, Row
from tests.storms.checks import NOTHING_LEFT, failed_checks
from tests.storms.sign_ups.ledger import Ledger, SignUp

SHOWN = 5
QUIET = {what: query for what, query in NOTHING_LEFT.items() if what != "messages died"}
EVENTS = (
    "SELECT id, routing_key, aggregate_id FROM outbox WHERE queue IS NULL UNION ALL"
    " SELECT id, routing_key, aggregate_id FROM outbox_sent WHERE queue IS NULL"
)
CHECKS = {
    "addresses belong to two people": """
        SELECT email_folded FROM users WHERE email IS NOT NULL GROUP BY 1 HAVING count(*) > 1""",
    "events do not have exactly one line in the audit log, or lines have no event": f"""
        SELECT * FROM (SELECT id, true AS is_event FROM ({EVENTS}) AS kept) e
        FULL JOIN (
            SELECT (data ->> 'event_id')::uuid AS id, count(*) AS lines FROM audit_log
            WHERE action IN ('user.created', 'user.rejected') GROUP BY 1) a
            USING (id)
        WHERE is_event IS NULL OR lines IS DISTINCT FROM 1""",
    "sign-ups have no user and no rejection, or users have no sign-up": """
        SELECT * FROM (SELECT id, rejected FROM sign_ups) s
        FULL JOIN (SELECT id, true AS is_user FROM users) u USING (id)
        WHERE (s.id IS NULL) OR (rejected IS NULL) = (is_user IS NULL)""",
}


@dataclass
class Outcome:
    """The users, rejections, dead letters and events in the database."""

    users: dict[UUID, Row]
    rejected: dict[UUID, str]
    letters: dict[UUID, list[Row]]
    created_events: Counter[UUID]
    rejected_events: Counter[UUID]


async def read_outcome(db: Db) -> Outcome:
    letters: dict[UUID, list[Row]] = defaultdict(list)
    for row in await db.fetch("SELECT queue, message_id, reason, body FROM dead_letters"):
        letters[row["message_id"]].append(row)
    events = await db.fetch(f"SELECT routing_key, aggregate_id FROM ({EVENTS}) AS kept")
    return Outcome(
        users={row["id"]: row for row in await db.fetch("SELECT id, name, email FROM users")},
        rejected={
            row["id"]: row["rejected"]
            for row in await db.fetch("SELECT id, rejected FROM sign_ups WHERE rejected IS NOT NULL")
        },
        letters=letters,
        created_events=_count(events, "user.created"),
        rejected_events=_count(events, "user.rejected"),
    )


def _count(events: Sequence[Row], key: str) -> Counter[UUID]:
    return Counter(row["aggregate_id"] for row in events if row["routing_key"] == key)


async def broken_by(db: Db, ledger: Ledger) -> list[str]:
    """The failed checks, each with its first findings."""
    outcome = await read_outcome(db)
    broken: list[str] = []
    for what, judge in VERDICTS.items():
        if offending := list(judge(ledger, outcome)):
            broken += [f"{len(offending)} {what}:", *(f"  {one}" for one in offending[:SHOWN])]
    return [*broken, *await failed_checks(db, CHECKS)]


def _lost(ledger: Ledger, outcome: Outcome) -> Iterable[SignUp]:
    for sign_up_id, sign_up in ledger.acknowledged.items():
        if sign_up_id not in outcome.users and sign_up_id not in outcome.rejected:
            yield sign_up


def _doubled(ledger: Ledger, outcome: Outcome) -> Iterable[object]:
    yield from outcome.users.keys() & outcome.rejected.keys()
    owners = Counter(_sign_up_of(ledger, one).person for one in outcome.users if _sign_up_of(ledger, one))
    yield from (f"person {person}" for person, count in owners.items() if count > 1)


def _changed(ledger: Ledger, outcome: Outcome) -> Iterable[Row]:
    for sign_up_id, row in outcome.users.items():
        sign_up = _sign_up_of(ledger, sign_up_id)
        if sign_up is not None and (row["name"], row["email"]) != (sign_up.name, sign_up.email):
            yield row


def _strangers(ledger: Ledger, outcome: Outcome) -> Iterable[UUID]:
    for sign_up_id in outcome.users.keys() | outcome.rejected.keys():
        if _sign_up_of(ledger, sign_up_id) is None:
            yield sign_up_id


def _wrongly_rejected(ledger: Ledger, outcome: Outcome) -> Iterable[str]:
    """A sign-up may be rejected only when another user of the ledger has its address."""
    owners = {sign_up.person for one in outcome.users if (sign_up := _sign_up_of(ledger, one))}
    for sign_up_id, reason in outcome.rejected.items():
        sign_up = _sign_up_of(ledger, sign_up_id)
        if sign_up is not None and (reason != "email_taken" or sign_up.person not in owners):
            yield f"{sign_up}: {reason}"


def _wrong_events(ledger: Ledger, outcome: Outcome) -> Iterable[str]:
    for events, there in (
        (outcome.created_events, outcome.users),
        (outcome.rejected_events, outcome.rejected),
    ):
        for one in events.keys() | there.keys():
            if events[one] != 1 or one not in there:
                yield f"{one}: {events[one]} events, {'there' if one in there else 'not there'}"


def _unburied(ledger: Ledger, outcome: Outcome) -> Iterable[str]:
    for message_id, poison in ledger.poison.items():
        letters = [(row["queue"], row["reason"], row["body"]) for row in outcome.letters.get(message_id, ())]
        if letters != [(SIGN_UP_QUEUE, poison.reason, poison.body)]:
            yield f"{poison.reason}: {[letter[:2] for letter in letters]}"


def _wrongly_buried(ledger: Ledger, outcome: Outcome) -> Iterable[str]:
    for message_id, rows in outcome.letters.items():
        if message_id not in ledger.poison:
            yield from (f"{row['queue']}: {row['reason']}, {row['body'][:100]!r}" for row in rows)


def _sign_up_of(ledger: Ledger, sign_up_id: UUID) -> SignUp | None:
    return ledger.acknowledged.get(sign_up_id) or ledger.tried.get(sign_up_id)


VERDICTS: dict[str, Callable[[Ledger, Outcome], Iterable[object]]] = {
    "acknowledged sign-ups are neither users nor rejected": _lost,
    "sign-ups or users exist twice": _doubled,
    "users differ from their sign-up": _changed,
    "users or rejections without a sent sign-up": _strangers,
    "sign-ups were rejected though no other user has the address": _wrongly_rejected,
    "users or rejections do not have exactly one event": _wrong_events,
    "poison messages do not have one dead letter with the right reason": _unburied,
    "healthy messages are dead letters": _wrongly_buried,
}
