"""Every column was checked for personal data; tables with some are in the table of docs/operations.md."""

import re
from uuid import uuid4

import asyncpg

from tests.docs.pages import OPERATIONS, section
from tests.servers import Stack, on_one_stack

# Tables that are not in the document, each with the reason.
WITHOUT_PERSONAL_DATA = {
    "alembic_version": "the number of the schema",
    "bus_active": "which process consumes a queue",
    "communities": "ids and versions of communities, which are places",
    "communities_revision": "a counter",
    "community_versions": "names, fences and prices of communities",
    "demand": "counts by hour and cell of 5 km²",
    "demand_alerts": "counts by region",
    "inbox": "ids of events that a queue has handled",
    "match_windows": "counts by region",
    "services": "names and durations of services",
}
# The columns that were checked. Before you add one: does it hold data about a person, and is that in the
# document, with how long it is kept, and in the domain's export and erasure?
CHECKED = {
    "alembic_version": "version_num",
    "appointments": (
        "id service_id worker_no client_id client_name client_contact status session_id seat_no capacity "
        "starts_at ends_at local_starts_at time_zone tzdata_version expires_at hold_no sequence "
        "canceled_by cancel_reason created_at changed_at series_id waitlist_entry_id made_by_operator"
    ),
    "audit_log": "id at actor_id action subject_kind subject_id data request_id",
    "bus_active": "queue lease leased_until",
    "bus_delayed": "id due_at queue message_id exchange routing_key headers body",
    "bus_messages": "queue id message_id exchange routing_key headers body deliveries lease leased_until",
    "bus_transient": "queue id message_id exchange routing_key headers body stale_at",
    "captures": "id charge_id provider provider_ref amount_cents captured_at confirmed_by excess_cents",
    "charge_events": "charge_id seq previous from_status to_status at actor actor_id",
    "charges": (
        "id ride_id purpose payer_id payee_id amount_cents currency commission_basis_points status version "
        "opened_at expires_at updated_at paid_cents"
    ),
    "claims": (
        "id subject_no starts_at ends_at kind service_id begins_at finishes_at capacity session_id reason"
    ),
    "communities": "id version revision",
    "communities_revision": "only_row revision",
    "community_versions": (
        "community_id version previous name fence tariff outside_tariff fallback neighbour_ids "
        "confirmation_ttl_seconds retired changed_at"
    ),
    "dead_letters": (
        "id queue message_id exchange routing_key reason headers body died_at times state decided_at "
        "decided_by decision_reason edited_at edited_by original_body version is_json"
    ),
    "demand": "hour cell requests reassigned matched failed match_sum_ms match_max_ms",
    "demand_alerts": "id region starts_at ends_at matched failed at",
    "driver_communities": "driver_id community_id inside since crossing_since crossing_pings seen_at",
    "driver_presence": (
        "driver_id online changed_at seen_at free_since idle_told lat lng position_at accuracy_meters cell"
    ),
    "drivers": (
        "user_id vehicle plate home_community_id approval approval_reason approval_by approval_at updated_at"
    ),
    "email_changes": "user_id id email tries created_at expires_at",
    "freed_time": "id subject_no starts_at ends_at",
    "idempotency_keys": "scope fingerprint status headers body created_at roles",
    "inbox": "consumer event_id handled_at",
    "ledger_accounts": "no kind owner_id currency debits_cents credits_cents entries",
    "ledger_entries": "account_no n transfer_id posting_n cents balance_cents before_n before_cents",
    "ledger_postings": "transfer_id n debit_no credit_no currency cents",
    "ledger_transfers": "id kind cause_id currency total_cents posted_at",
    "match_windows": "region starts_at ends_at matched failed",
    "matching_searches": (
        "id ride_id round search at radius_meters source cause outcome next_at verdicts seen"
    ),
    "matchings": "ride_id round phase search offers started_at next_search_at wake_at lat lng cell",
    "notification_heads": "user_id seq acked_seq",
    "notifications": "user_id seq type data event_id about_id offer_id created_at read_at",
    "offer_receipts": "offer_id received_at",
    "outbox": (
        "id position aggregate_id seq exchange routing_key headers body created_at lease leased_until "
        "failures queue message_id"
    ),
    "outbox_heads": "aggregate_id seq",
    "outbox_sent": (
        "id aggregate_id seq exchange routing_key headers body created_at sent_at queue message_id"
    ),
    "password_links": "token_sha256 user_id expires_at used_at created_at granted_at",
    "push_subscriptions": "id user_id endpoint p256dh auth created_at granted_at",
    "recovery_codes": "user_id digest",
    "ride_accept_attempts": (
        "id ride_id driver_id offer_id idempotency_key status failure_reason ride_status attempt_at "
        "completed_at actor_id request_id user_agent ip_address place"
    ),
    "ride_confirmations": (
        "id passenger_id token_hash asked asked_hash community_id community_version tier created_at "
        "expires_at used_at ride_id expired_at"
    ),
    "ride_events": "ride_id seq previous from_status to_status round at actor actor_id reason news",
    "ride_flags": "id ride_id kind measured allowed flagged_at reviewed_at reviewed_by",
    "ride_offers": (
        "id ride_id driver_id round attempt offered_at expires_at responded_at response reason held"
    ),
    "ride_tracks": "ride_id lat lng position_at meters covered_seconds",
    "rides": (
        "id passenger_id status round version accepted_driver_id accepted_at pickup_lat pickup_lon "
        "pickup_address dropoff_lat dropoff_lon dropoff_address distance_meters duration_seconds "
        "estimated_fare_cents final_fare_cents created_at updated_at deadline_at arrived_at started_at "
        "completed_at canceled_at canceled_by cancel_reason cancel_note type community_id "
        "community_version tier tariff asked_price_cents confirmation_id reported_meters charged_meters"
    ),
    "second_factors": "user_id secret confirmed_at last_step created_at",
    "service_subjects": "service_id subject_no kind",
    "services": (
        "id name duration_minutes buffer_before_minutes buffer_after_minutes min_notice_minutes "
        "horizon_days slot_step_minutes capacity retired created_at"
    ),
    "sign_in_addresses": "user_id mark seen_at",
    "sign_ups": "id request_id rejected handled_at",
    "subjects": (
        "no id kind name time_zone user_id holidays_country holidays_state feed_hash retired created_at "
        "feed_granted_at"
    ),
    "timers": "kind subject_id due_at awake_at lease failures",
    "trip_shares": "id ride_id passenger_id digest place created_at expires_at granted_at",
    "users": (
        "id name email email_folded phone language roles password_hash tokens_valid_after erased_at "
        "created_at updated_at id_if_driver"
    ),
    "waitlist_entries": (
        "id service_id worker_no client_id starts_from starts_before status hold_id queued_at created_at "
        "changed_at"
    ),
    "worker_overrides": "subject_no day start_minute end_minute",
    "worker_rules": "subject_no weekday start_minute end_minute valid_from valid_to",
    "ws_tickets": "digest user_id roles token_issued_at token_expires_at expires_at",
}


def documented_tables() -> set[str]:
    """The names in the second column of the document's table, except those of RabbitMQ and Redis."""
    places = re.findall(
        r"^\| [^|]+ \| ([^|]+) \| [^|]+ \|$", section(OPERATIONS, "Personal data"), re.MULTILINE
    )
    names = {name for place in places for name in re.findall(r"`([a-z_:*]+)`", place)}
    return names - {"raffle_queue", "catraca:location:*"}


async def columns_of(stack: Stack) -> dict[str, list[str]]:
    """The columns of each table, in a database of its own: other tests add tables to the shared one."""
    connection = await asyncpg.connect(await stack.migrated_database(f"columns_{uuid4().hex}"))
    try:
        rows = await connection.fetch(
            """
            SELECT table_name, array_agg(column_name::text ORDER BY ordinal_position) AS columns
            FROM information_schema.columns WHERE table_schema = 'public' GROUP BY table_name
            """
        )
    finally:
        await connection.close()
    return {row["table_name"]: row["columns"] for row in rows}


@on_one_stack
async def test_tables_are_documented_or_without_personal_data(stack: Stack) -> None:
    documented = documented_tables()
    assert not documented & WITHOUT_PERSONAL_DATA.keys()
    assert documented | WITHOUT_PERSONAL_DATA.keys() == (await columns_of(stack)).keys()


@on_one_stack
async def test_columns_were_checked_for_personal_data(stack: Stack) -> None:
    checked = {table: columns.split() for table, columns in CHECKED.items()}
    assert await columns_of(stack) == checked
