"""Bookings that arrive together are made in one transaction, and each has its own answer."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID, uuid4

import pytest

from catraca.domains.scheduling.appointments.model import Appointment
from catraca.domains.scheduling.availability.service import MAX_ALTERNATIVES
from catraca.domains.scheduling.booking_batches.service import (
    CANDIDATES,
    Answer,
    Booking,
    Bookings,
    book_together,
)
from catraca.domains.scheduling.errors import SlotTaken
from catraca.platform.auth import Principal
from catraca.platform.database import Db
from catraca.platform.database.idempotency import Claim, StoredResponse
from catraca.platform.errors import NotFound, Refusal
from catraca.platform.key_queues import KeyQueues
from tests.conftest import bearer
from tests.domains.scheduling.clinic import Clinic, moment
from tests.domains.scheduling.races import (
    RULES,
    by_hand,
    claims_of,
    event_names,
    lock_worker,
    until_blocked_by,
    wish_for,
)


def respond(booked: Appointment) -> StoredResponse:
    return StoredResponse(201, {}, str(booked.id).encode())


async def booking_of(
    clinic: Clinic, clock: str, *, client: UUID | None = None, key: str | None = None, **wish: UUID
) -> Booking:
    """A booking of a new client, or of `client`."""
    client = client or uuid4()
    await clinic.api.get("/v1/me", headers=bearer("passenger", client))
    now, roles = datetime.now(UTC), frozenset({"passenger"})
    use = {"principal_id": client, "roles": roles, "method": "POST", "route": "book", "request": b""}
    return Booking(
        caller=Principal(client, roles, now, now + timedelta(hours=1)),
        request=wish_for(clinic, clock, **wish),
        client=None,
        hold_id=None,
        claim=None if key is None else Claim(key=key, **use),
        respond=respond,
    )


async def decided(clinic: Clinic, *bookings: Booking) -> list[Answer]:
    """Decide bookings in one transaction."""
    return await clinic.parts.database.run(lambda db: book_together(db, bookings, rules=RULES))


def bookings_of(clinic: Clinic) -> Bookings:
    return Bookings(clinic.parts.database, KeyQueues(clinic.parts.redis), RULES)


def kind_of(answer: Answer) -> str:
    if isinstance(answer, Refusal):
        return answer.code
    return "booked" if isinstance(answer, StoredResponse) else answer


async def test_bookings_of_a_batch_do_not_overlap(clinic: Clinic) -> None:
    wanted = [await booking_of(clinic, clock) for clock in ("09:00", "09:00", "09:30", "10:00", "11:30")]
    answers = await decided(clinic, *wanted)
    assert [kind_of(one) for one in answers] == ["booked", "slot_taken", "slot_taken", "booked", "booked"]
    assert (await clinic.starts())[:2] == ["12:30", "13:00"]
    assert await clinic.overlaps() == []


async def test_times_of_a_batch_are_no_alternatives(clinic: Clinic) -> None:
    wanted = [await booking_of(clinic, clock) for clock in ("09:00", "09:00", "10:00", "11:30")]
    _, lost, *_ = await decided(clinic, *wanted)
    assert isinstance(lost, SlotTaken)
    found = [slot["starts_at"] for slot in cast(list[dict[str, Any]], lost.data["alternatives"])]
    assert found == [moment(clinic.at(clock)) for clock in ("12:30", "13:00", "13:30", "14:00", "14:30")]


async def test_a_batch_uses_a_room_once(clinic: Clinic) -> None:
    other, room = await clinic.worker(), await clinic.room()
    await clinic.rooms_for(clinic.service_id, room)
    wanted = [await booking_of(clinic, "09:00"), await booking_of(clinic, "09:00", worker_id=other)]
    assert [kind_of(one) for one in await decided(clinic, *wanted)] == ["booked", "slot_taken"]


async def test_a_batch_spreads_bookings_over_workers(clinic: Clinic) -> None:
    await clinic.worker()
    named = [await booking_of(clinic, "09:00") for _ in range(3)]
    wanted = [replace(one, request=replace(one.request, worker_id=None)) for one in named]
    assert [kind_of(one) for one in await decided(clinic, *wanted)] == ["booked", "booked", "slot_taken"]
    assert await clinic.overlaps() == []


async def test_a_batch_leaves_out_locked_agendas(clinic: Clinic) -> None:
    other = await clinic.worker()
    wanted = [await booking_of(clinic, "09:00"), await booking_of(clinic, "09:00", worker_id=other)]
    async with by_hand(clinic) as db:
        await lock_worker(db, clinic.worker_id)
        assert [kind_of(one) for one in await decided(clinic, *wanted)] == ["locked", "booked"]


async def test_a_busy_client_takes_no_time_from_others(clinic: Clinic) -> None:
    other, busy = await clinic.worker(), uuid4()
    await clinic.booked(busy, clinic.at("09:00"), worker_id=other)
    wanted = [await booking_of(clinic, "09:30", client=busy), await booking_of(clinic, "09:30")]
    assert [kind_of(one) for one in await decided(clinic, *wanted)] == ["special", "booked"]


async def test_a_client_at_its_limit_takes_no_time_from_others(clinic: Clinic) -> None:
    client = uuid4()
    hours = [(clock, day) for day in range(1, 4) for clock in range(9, 18)][: RULES.limits.upcoming]
    for clock, day in hours:
        await clinic.booked(client, clinic.at(f"{clock:02}:00", days=day))
    other = await clinic.worker()
    wanted = [
        await booking_of(clinic, "09:30", client=client, worker_id=other),
        await booking_of(clinic, "09:30", worker_id=other),
    ]
    assert [kind_of(one) for one in await decided(clinic, *wanted)] == ["special", "booked"]


async def test_a_group_that_a_batch_opens_can_be_joined(clinic: Clinic) -> None:
    service_id = await clinic.service(capacity=2)
    await clinic.serves(clinic.worker_id, clinic.service_id, service_id)
    wanted = [await booking_of(clinic, "09:00", service_id=service_id) for _ in range(3)]
    assert [kind_of(one) for one in await decided(clinic, *wanted)] == ["booked", "special", "special"]
    late = await asyncio.gather(*map(bookings_of(clinic).book, wanted[1:]), return_exceptions=True)
    assert {type(one) for one in late} == {StoredResponse, SlotTaken}


async def test_unknown_service_refuses_its_own_booking_only(clinic: Clinic) -> None:
    unknown = await booking_of(clinic, "09:00", service_id=uuid4())
    answers = await decided(clinic, unknown, await booking_of(clinic, "09:00"))
    assert isinstance(answers[0], NotFound)
    assert kind_of(answers[1]) == "booked"


async def test_a_failing_booking_fails_alone(clinic: Clinic) -> None:
    def fail(booked: Appointment) -> StoredResponse:
        raise KeyError(booked.id)

    wanted = [await booking_of(clinic, clock) for clock in ("09:00", "10:00", "11:00")]
    wanted[1] = replace(wanted[1], respond=fail)
    answers = await asyncio.gather(*map(bookings_of(clinic).book, wanted), return_exceptions=True)
    assert [type(one) for one in answers] == [StoredResponse, KeyError, StoredResponse]
    assert "10:00" in await clinic.starts()
    assert "09:00" not in await clinic.starts()


@pytest.mark.parametrize("taken", ["worker", "room"])
async def test_a_writer_without_locks_cannot_overlap_a_batch(clinic: Clinic, taken: str) -> None:
    room_id = await clinic.room()
    await clinic.rooms_for(clinic.service_id, room_id)
    wanted = [await booking_of(clinic, clock) for clock in ("09:00", "12:00")]
    async with by_hand(clinic) as db:
        await db.execute(
            "INSERT INTO claims (id, subject_no, starts_at, ends_at, kind)"
            " SELECT gen_random_uuid(), no, $2, $3, 'time_off' FROM subjects WHERE id = $1",
            clinic.worker_id if taken == "worker" else room_id,
            moment(clinic.at("09:00")),
            moment(clinic.at("10:00")),
        )
        task = asyncio.gather(*map(bookings_of(clinic).book, wanted), return_exceptions=True)
        await until_blocked_by(clinic, db, task)
    assert [type(one) for one in await task] == [SlotTaken, StoredResponse]
    assert await clinic.overlaps() == []


async def test_a_repeat_gets_the_response_of_its_batch(clinic: Clinic) -> None:
    client = uuid4()
    wanted = [await booking_of(clinic, "09:00", client=client, key="k") for _ in range(2)]
    wanted.append(await booking_of(clinic, "10:00"))
    first, again, _ = await asyncio.gather(*map(bookings_of(clinic).book, wanted))
    assert first.body == again.body
    assert again.headers["idempotency-replayed"] == "true"
    rows = await clinic.sql("SELECT FROM appointments WHERE client_id = $1", client)
    assert len(rows) == 1


async def test_events_of_a_batch_have_their_own_requests(clinic: Clinic) -> None:
    answers = await asyncio.gather(
        *(
            clinic.book(uuid4(), clinic.at(f"{hour}:00"), headers={"x-request-id": f"request-{hour}"})
            for hour in range(10, 18)
        )
    )
    for hour, answer in zip(range(10, 18), answers, strict=True):
        appointment_id = answer.json()["appointment_id"]
        rows = await clinic.sql(
            "SELECT headers ->> 'trace' AS trace FROM outbox WHERE aggregate_id = $1"
            " UNION ALL SELECT headers ->> 'trace' FROM outbox_sent WHERE aggregate_id = $1",
            UUID(appointment_id),
        )
        assert [row["trace"] for row in rows] == [f"request-{hour}"]
        assert await event_names(clinic, appointment_id) == ["booked"]


async def any_worker(clinic: Clinic, clock: str, *, bookings: int) -> list[Booking]:
    """Bookings of new clients with any worker."""
    named = [await booking_of(clinic, clock) for _ in range(bookings)]
    return [replace(one, request=replace(one.request, worker_id=None)) for one in named]


async def more_workers(clinic: Clinic, count: int, **more: Any) -> list[UUID]:
    return [await clinic.worker(**more) for _ in range(count)]


async def locked_by(db: Db) -> int:
    """How many agendas the transaction has locked."""
    return await db.fetchval("SELECT count(*) FROM subjects WHERE xmax = pg_current_xact_id()::xid")


async def test_few_workers_are_locked_for_any_worker(clinic: Clinic) -> None:
    await more_workers(clinic, 9)
    (wanted,) = await any_worker(clinic, "09:00", bookings=1)
    async with by_hand(clinic) as db:
        assert [kind_of(one) for one in await book_together(db, [wanted], rules=RULES)] == ["booked"]
        assert await locked_by(db) == CANDIDATES


async def test_locked_workers_are_no_candidates(clinic: Clinic) -> None:
    others = await more_workers(clinic, CANDIDATES - 1)
    async with by_hand(clinic) as db:
        for worker_id in [clinic.worker_id, *others[:-1]]:
            await lock_worker(db, worker_id)
        answers = await decided(clinic, *await any_worker(clinic, "09:00", bookings=1))
    assert [kind_of(one) for one in answers] == ["booked"]
    assert await claims_of(clinic, others[-1]) != []


async def test_busy_and_retired_workers_are_no_candidates(clinic: Clinic) -> None:
    busy, retired = await more_workers(clinic, 5), await more_workers(clinic, 5)
    for worker_id in busy:
        await clinic.booked(uuid4(), clinic.at("09:00"), worker_id=worker_id)
    for worker_id in retired:
        body = {"name": "Ana", "time_zone": "UTC", "retired": True}
        await clinic.call("PUT", f"/workers/{worker_id}", body)
    (wanted,) = await any_worker(clinic, "09:00", bookings=1)
    async with by_hand(clinic) as db:
        assert [kind_of(one) for one in await book_together(db, [wanted], rules=RULES)] == ["booked"]
        assert await locked_by(db) == 1


async def test_the_only_worker_at_that_hour_is_found(clinic: Clinic) -> None:
    late = [{"weekday": weekday, "start": "12:00", "end": "18:00"} for weekday in range(1, 8)]
    await more_workers(clinic, 3 * CANDIDATES, rules=late)
    wanted = await any_worker(clinic, "09:00", bookings=2)
    assert [kind_of(one) for one in await decided(clinic, *wanted)] == ["booked", "slot_taken"]


async def test_time_of_an_expired_hold_is_found_for_any_worker(clinic: Clinic) -> None:
    others = await more_workers(clinic, CANDIDATES)
    hold_id = await clinic.held(uuid4(), clinic.at("09:00"))
    for worker_id in others:
        await clinic.booked(uuid4(), clinic.at("09:00"), worker_id=worker_id)
    await clinic.let_lapse(hold_id)
    booked = await clinic.booked(uuid4(), clinic.at("09:00"), worker_id=None)
    assert booked["worker_id"] == str(clinic.worker_id)


async def test_a_refusal_has_the_alternatives_of_all_workers(clinic: Clinic) -> None:
    late = [{"weekday": weekday, "start": "10:00", "end": "18:00"} for weekday in range(1, 8)]
    await more_workers(clinic, 2 * CANDIDATES, rules=late)
    await clinic.booked(uuid4(), clinic.at("09:00"))
    (lost,) = await decided(clinic, *await any_worker(clinic, "09:00", bookings=1))
    assert isinstance(lost, SlotTaken)
    slots = cast(list[dict[str, Any]], lost.data["alternatives"])
    assert {slot["starts_at"] for slot in slots} == {moment(clinic.at("10:00"))}
    assert len({slot["worker_id"] for slot in slots}) == MAX_ALTERNATIVES


async def test_concurrent_bookings_use_every_worker_of_an_hour(clinic: Clinic) -> None:
    """In three processes; a client is refused only if no worker is free."""
    workers = {clinic.worker_id, *await more_workers(clinic, 3 * CANDIDATES - 1)}
    wanted = await any_worker(clinic, "09:00", bookings=2 * len(workers))
    processes = [bookings_of(clinic) for _ in range(3)]
    answers = await asyncio.gather(
        *(processes[number % 3].book(one) for number, one in enumerate(wanted)), return_exceptions=True
    )
    kinds = [type(one) for one in answers]
    assert (kinds.count(StoredResponse), kinds.count(SlotTaken)) == (len(workers), len(workers))
    assert [len(await claims_of(clinic, one)) for one in workers] == [1] * len(workers)
    assert await clinic.overlaps() == []


async def test_bookings_with_any_worker_spread_evenly(clinic: Clinic) -> None:
    await more_workers(clinic, 3 * CANDIDATES - 1)
    for clock in ("09:00", "10:00", "11:00"):
        wanted = await any_worker(clinic, clock, bookings=CANDIDATES)
        assert {kind_of(one) for one in await decided(clinic, *wanted)} == {"booked"}
    rows = await clinic.sql(
        "SELECT count(*) FROM claims c JOIN service_subjects ss ON ss.subject_no = c.subject_no"
        " WHERE ss.service_id = $1 GROUP BY c.subject_no",
        clinic.service_id,
    )
    assert max(row["count"] for row in rows) <= 2
