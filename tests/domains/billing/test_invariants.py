"""The rules of `catraca doctor --invariants` for billing: they hold, and each violation is found."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from uuid import UUID, uuid4

import pytest

from catraca.domains import billing
from catraca.platform.database import Database
from catraca.platform.database.invariants import check_invariants
from catraca.roles.parts import Parts
from tests.domains.billing.till import Till
from tests.servers import Stack
from tests.support.http import served


@dataclass
class World:
    """Three rides in a database of their own: paid, pending and without a charge."""

    till: Till
    paid: UUID
    pending: UUID
    uncharged: UUID

    async def broken(self) -> list[str]:
        verdicts = await check_invariants(self.till.database, billing.INVARIANTS)
        assert "unchecked" not in {verdict.state for verdict in verdicts}, verdicts
        return [verdict.rule.name for verdict in verdicts if verdict.state == "broken"]


@pytest.fixture
async def world(stack: Stack, parts: Parts) -> AsyncIterator[World]:
    database = await Database.open(await stack.migrated_database(f"billing-{uuid4().hex[:8]}"))
    async with served(replace(parts, database=database)) as api, api.client() as client:
        till = Till(client, database)
        paid, driver_id = await till.charged()
        await till.confirm(paid, driver_id)
        pending, _ = await till.charged()
        uncharged, _ = await till.completed()
        yield World(till, paid, pending, uncharged)
    await database.close()


def breaches_of(world: World) -> dict[str, str]:
    """A statement that violates each rule, in an order in which each violates one more."""
    return {
        "a completed ride has its charge": "INSERT INTO outbox_sent"
        " (id, aggregate_id, seq, exchange, routing_key, headers, body, created_at, sent_at)"
        " SELECT id, aggregate_id, seq, exchange, routing_key, headers, body, created_at,"
        "   now() - interval '11 minutes'"
        f" FROM outbox WHERE aggregate_id = '{world.uncharged}' AND routing_key = 'ride.completed';"
        " UPDATE charges SET opened_at = now() - interval '1 day'",
        "a ride is paid with its charge": "ALTER TABLE rides DISABLE TRIGGER ALL;"
        f" UPDATE rides SET status = 'PAYMENT_EXPIRED' WHERE id = '{world.pending}'",
        "charges are posted": "UPDATE charges SET amount_cents = amount_cents + 1"
        f" WHERE ride_id = '{world.pending}'",
        "captures are append-only": "ALTER TABLE captures DISABLE TRIGGER captures_are_append_only",
        "captured money is posted": "UPDATE captures SET amount_cents = amount_cents + 1,"
        " excess_cents = 1, provider = 'pix_static'",
        "a charge is paid by its captures": "UPDATE captures SET excess_cents = 2",
        "one charge for each ride": "DROP INDEX one_charge_a_ride_and_purpose",
        "nothing is captured twice": "ALTER TABLE captures DROP CONSTRAINT one_capture_a_reference",
        "a charge stands where its steps end": "ALTER TABLE charges"
        " DROP CONSTRAINT charges_stand_where_their_steps_end",
        "only allowed moves of a charge": "ALTER TABLE charge_events"
        " DROP CONSTRAINT only_allowed_charge_moves",
        "transfers commit with their postings": "ALTER TABLE ledger_transfers"
        " DISABLE TRIGGER transfers_add_up",
        "no posting is added later": "ALTER TABLE ledger_postings DISABLE TRIGGER postings_add_up",
        "paid in full or not paid": "ALTER TABLE charges DROP CONSTRAINT paid_charges_are_paid_in_full",
        "no charge is overpaid": "ALTER TABLE charges DROP CONSTRAINT no_charge_is_overpaid",
        "no charge is paid without its captures": "ALTER TABLE charges DISABLE TRIGGER payments_are_captured",
        "captures pay their charge": "ALTER TABLE captures DISABLE TRIGGER captures_pay_their_charge",
        "charges commit with their transfer": "ALTER TABLE charges DISABLE TRIGGER charges_are_posted",
        "captured cash commits with its transfer": "ALTER TABLE captures"
        " DISABLE TRIGGER captured_cash_is_posted",
        "captured transfers commit with their posting": "ALTER TABLE captures"
        " DISABLE TRIGGER captured_transfers_are_posted",
        "each fact is posted once": "ALTER TABLE ledger_transfers DROP CONSTRAINT one_transfer_a_fact",
        "transfers are append-only": "ALTER TABLE ledger_transfers DISABLE TRIGGER transfers_are_append_only",
        "postings add up": "UPDATE ledger_transfers SET total_cents = 1",
        "postings are append-only": "ALTER TABLE ledger_postings DISABLE TRIGGER postings_are_append_only",
        "statements end with the balance": "UPDATE ledger_accounts SET entries = entries + 1"
        " WHERE kind = 'driver'",
        "entries continue the balance": "ALTER TABLE ledger_entries"
        " DROP CONSTRAINT entries_continue_the_balance",
        "entries are append-only": "ALTER TABLE ledger_entries DISABLE TRIGGER entries_are_append_only",
        "every posting is in its statement": "DELETE FROM ledger_entries WHERE n = 2",
        "balances are those of the postings": "UPDATE ledger_accounts SET debits_cents = 1"
        " WHERE kind = 'driver'",
        "balances follow the postings": "ALTER TABLE ledger_postings"
        " DISABLE TRIGGER postings_change_balances",
    }


async def test_rules_hold_and_find_each_violation(world: World) -> None:
    assert await world.broken() == []
    breaches = breaches_of(world)
    assert set(breaches) == {rule.name for rule in billing.INVARIANTS}
    seen: set[str] = set()
    for name, breach in breaches.items():
        async with world.till.database.connection() as db:
            await db.execute(breach)
        assert set(await world.broken()) - seen == {name}
        seen.add(name)
