"""Concurrent bookings of the same slot, of overlapping slots and of adjacent slots."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise

from catraca.platform.clock import now
from tests.servers import until
from tests.storms.appointments.crowd import Crowd
from tests.storms.appointments.data import SLOT, STEP, book_act, hold_act
from tests.storms.callers import JsonAnswer

# Starts a quarter of an hour apart, each for an hour: 9:00, 9:15, 9:30 and so on.
STAGGERED_STARTS = 13
ANY_HOURS, ANY_WORKERS, ANY_ROOMS = 10, 4, 3


async def want_one_slot(crowd: Crowd) -> None:
    """One client gets the slot; all others are refused with `slot_taken`."""
    clinic = await crowd.clinic()
    worker_id = clinic.worker_ids[0]
    acts = [book_act(clinic, client, clinic.at(SLOT), worker_id) for client in crowd.clients]
    codes = codes_of(await crowd.burst(acts))
    assert codes == Counter(booked=1, slot_taken=len(acts) - 1), f"one slot: {codes}"
    crowd.count("one slot", 1)


async def want_overlapping(crowd: Crowd) -> None:
    """Booked slots do not overlap, and no requested slot that would still fit is left free."""
    clinic = await crowd.clinic()
    starts = [clinic.opens_at + number * STEP for number in range(STAGGERED_STARTS)]
    acts = [
        book_act(clinic, client, starts[number % len(starts)].isoformat(), clinic.worker_ids[0])
        for number, client in enumerate(crowd.clients)
    ]
    answers = await crowd.burst(acts)
    assert codes_of(answers).keys() <= {"booked", "slot_taken"}, f"overlapping: {codes_of(answers)}"
    won = sorted(starts_of(answers))
    close = [pair for pair in pairwise(won) if pair[1] - pair[0] < SLOT]
    assert not close, f"booked though they overlap: {close}"
    lost = [start for start in starts if all(abs(start - winner) >= SLOT for winner in won)]
    assert not lost, f"requested and left free: {lost}; booked: {won}"
    crowd.count("overlapping starts", len(starts))


async def want_adjacent(crowd: Crowd, slots: int) -> None:
    """Adjacent slots do not overlap: every client gets its slot."""
    clinic = await crowd.clinic()
    acts = [
        book_act(clinic, client, clinic.at(number * SLOT), clinic.worker_ids[0])
        for number, client in enumerate(crowd.clients[:slots])
    ]
    codes = codes_of(await crowd.burst(acts))
    assert codes == Counter(booked=len(acts)), f"adjacent: {codes}"
    crowd.count("adjacent slots", len(acts))


async def want_two_places(crowd: Crowd) -> None:
    """One client wants all workers at one time and gets one of them."""
    clinic = await crowd.clinic(workers=ANY_WORKERS)
    client = crowd.clients[0]
    acts = [book_act(clinic, client, clinic.at(SLOT), worker_id) for worker_id in clinic.worker_ids]
    codes = codes_of(await crowd.burst(acts))
    assert codes == Counter(booked=1, client_busy=len(acts) - 1), f"two places: {codes}"
    crowd.count("of several workers at once", 1)


async def want_any_worker(crowd: Crowd) -> None:
    """Bookings without a named worker: each hour is filled to the number of rooms, and no further."""
    clinic = await crowd.clinic(workers=ANY_WORKERS, rooms=ANY_ROOMS)
    acts = [
        book_act(clinic, client, clinic.at(number % ANY_HOURS * SLOT), None)
        for number, client in enumerate(crowd.clients)
    ]
    answers = await crowd.burst(acts)
    each = Counter(starts_of(answers))
    wanted = {
        clinic.opens_at + hour * SLOT: min(ANY_ROOMS, len(acts[hour::ANY_HOURS]))
        for hour in range(min(ANY_HOURS, len(acts)))
    }
    assert each == wanted, f"any worker: {each}"
    assert codes_of(answers).keys() <= {"booked", "slot_taken"}, f"any worker: {codes_of(answers)}"
    crowd.count("with any of the workers, in any of the rooms", ANY_HOURS * ANY_ROOMS)


async def want_expired_hold(crowd: Crowd) -> None:
    """When a hold expires, the first client to book gets the slot, the former holder included."""
    clinic = await crowd.clinic()
    worker_id, starts_at = clinic.worker_ids[0], clinic.at(SLOT)
    holder, *others = crowd.clients
    held = await crowd.ask(hold_act(clinic, holder, starts_at, worker_id))
    assert held.status == 201, held.body
    hold_id, ends_at = held.json()["hold_id"], datetime.fromisoformat(held.json()["expires_at"])
    acts = [
        book_act(clinic, holder, starts_at, worker_id, hold_id=hold_id),
        *(book_act(clinic, client, starts_at, worker_id) for client in others),
    ]
    answers = await crowd.burst(acts, around=ends_at)
    codes = codes_of(answers)
    assert codes["booked"] <= 1, f"after a hold: {codes}"
    assert codes.keys() <= {"booked", "slot_taken"}, f"after a hold: {codes}"
    crowd.seen[f"expired hold, booked by {_winner(answers)}"] += 1
    if codes["booked"] == 0:
        await until(lambda: now() > ends_at)
        last = await crowd.ask(book_act(clinic, others[0], starts_at, worker_id))
        assert last.status == 201, f"the slot was not free: {last.body}"
    crowd.count("held before", 1)


def _winner(answers: Sequence[JsonAnswer]) -> str:
    if answers[0].status == 201:
        return "its holder"
    return "another client" if any(answer.status == 201 for answer in answers) else "a later client"


def codes_of(answers: Sequence[JsonAnswer]) -> Counter[str]:
    return Counter("booked" if answer.status == 201 else str(answer.problem()["code"]) for answer in answers)


def starts_of(answers: Sequence[JsonAnswer]) -> list[datetime]:
    """The starts of the bookings that succeeded."""
    return [datetime.fromisoformat(one.json()["starts_at"]) for one in answers if one.status == 201]
