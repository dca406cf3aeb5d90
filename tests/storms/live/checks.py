"""Checks that each device received all notifications of its user, in order, once, and no other user's."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from catraca.platform.database import Db
from tests.storms.live.device import Device
from tests.storms.rides.checks import EVENTS

SHOWN = 5
# Positions are sent within five seconds; the listener itself may be late.
FRESH_SECONDS = 6.0
# The times of a ride's end and of a ping are a moment before their commit.
AT_ONCE = timedelta(seconds=1)

# The notifications of each event, and the field with the recipient's id.
RECIPIENTS = """(VALUES
    ('ride.matched', 'rider_id', 'ride.accepted'), ('ride.matched', 'rider_id', 'ride.matched'),
    ('ride.matched', 'driver_id', 'ride.accepted'), ('ride.arriving', 'rider_id', 'ride.arriving'),
    ('ride.started', 'rider_id', 'ride.started'), ('ride.reassigning', 'rider_id', 'ride.reassigning'),
    ('ride.completed', 'rider_id', 'ride.completed'), ('ride.completed', 'driver_id', 'ride.completed'),
    ('ride.paid', 'rider_id', 'ride.paid'), ('ride.paid', 'driver_id', 'ride.paid'),
    ('ride.payment_expired', 'rider_id', 'ride.payment_expired'),
    ('ride.payment_expired', 'driver_id', 'ride.payment_expired'),
    ('ride.cancelled', 'rider_id', 'ride.cancelled'), ('ride.cancelled', 'driver_id', 'ride.cancelled'),
    ('matching.timeout', 'rider_id', 'matching.no_drivers_available'),
    ('matching.no_drivers_available', 'rider_id', 'matching.no_drivers_available'),
    ('offer.canceled', 'driver_id', 'offer.canceled')) AS recipients (routing_key, id_field, type)"""
CHECKS = {
    "events did not notify each recipient exactly once": f"""
        SELECT * FROM (
            SELECT t.id AS event_id, (t.body ->> recipients.id_field)::uuid AS user_id, recipients.type,
                true AS wanted
            FROM ({EVENTS}) t JOIN {RECIPIENTS} USING (routing_key)
            WHERE t.body ->> recipients.id_field IS NOT NULL
            AND NOT (routing_key = 'ride.cancelled' AND t.body ->> 'reason' = 'no_drivers_available')) w
        FULL JOIN (
            SELECT event_id, user_id, type, count(*) AS times FROM notifications
            WHERE type <> 'matching.candidate_found' GROUP BY 1, 2, 3) n USING (event_id, user_id, type)
        WHERE wanted IS NULL OR times IS DISTINCT FROM 1""",
    "offers notified another driver, or notified twice": """
        SELECT n.user_id, n.data ->> 'offer_id' AS offer_id, count(*) FROM notifications n
        LEFT JOIN ride_offers o ON o.id = (n.data ->> 'offer_id')::uuid AND o.driver_id = n.user_id
        WHERE n.type = 'matching.candidate_found'
        GROUP BY 1, 2 HAVING count(*) > 1 OR count(o.id) = 0""",
    # An accept names the ride, so it counts for a newer offer that its driver has not received yet.
    "offers were answered by drivers without a notification of the ride": """
        SELECT o.id, o.driver_id, o.response FROM ride_offers o
        WHERE o.response IN ('ACCEPTED', 'REJECTED') AND NOT EXISTS (
            SELECT FROM notifications n WHERE n.user_id = o.driver_id
            AND n.type = 'matching.candidate_found' AND n.data ->> 'ride_id' = o.ride_id::text)""",
}


@dataclass(frozen=True, slots=True)
class Town:
    """The users of each ride, from the database."""

    passengers: Mapping[UUID, UUID]
    offers: Mapping[UUID, tuple[UUID, UUID]]
    # Since when and until when each driver had each ride.
    driven: Mapping[tuple[UUID, UUID], tuple[datetime, datetime | None]]


async def broken_by_devices(db: Db, devices: Sequence[Device], *, late_seconds: float) -> list[str]:
    """Failed checks of the devices' logs; `late_seconds` is the largest delay of the listeners themselves."""
    stored: dict[UUID, dict[int, str]] = {}
    for row in await db.fetch("SELECT user_id, seq, type, data::text AS data FROM notifications"):
        frame = f'{{"seq":{row["seq"]},"type":"{row["type"]}","data":{row["data"]}}}'
        stored.setdefault(row["user_id"], {})[row["seq"]] = _lasting(frame)
    town = await _read_town(db)
    found: dict[str, Iterable[str]] = {
        "faults of devices": (fault for one in devices for fault in _named(one, one.faults)),
        "logs differ from the user's notifications": _each(devices, lambda one: _broken_log(one, stored)),
        "frames name ids of other users": _each(devices, lambda one: _strange_ids(one, town)),
        "positions are of another's ride, or old": _each(
            devices, lambda one: _strange_positions(one, town, FRESH_SECONDS + late_seconds)
        ),
        "`offer_sent` events do not match the acknowledgements": await _wrong_receipts(db, devices),
    }
    broken: list[str] = []
    for what, offending in found.items():
        if first := list(offending):
            broken += [f"{len(first)} {what}:", *(f"  {one}" for one in first[:SHOWN])]
    return broken


def _each(devices: Sequence[Device], judge: Any) -> Iterator[str]:
    for device in devices:
        yield from _named(device, judge(device))


def _named(device: Device, faults: Iterable[str]) -> Iterator[str]:
    yield from (f"{device.role} {device.user_id} {fault}" for fault in faults)


def _broken_log(device: Device, stored: Mapping[UUID, Mapping[int, str]]) -> Iterator[str]:
    """The first difference between the log and the rows."""
    if device.first_seq is None:
        yield "was never greeted"
        return
    rows = stored.get(device.user_id, {})
    wanted = [frame for seq, frame in sorted(rows.items()) if seq > device.first_seq]
    log = [_lasting(frame) for frame in device.log]
    if log == wanted:
        return
    place = next(
        (n for n, (got, want) in enumerate(zip(log, wanted, strict=False)) if got != want),
        min(len(log), len(wanted)),
    )
    got, want = (frames[place] if place < len(frames) else "nothing" for frames in (log, wanted))
    known = "repeated" if got in log[:place] else "known to another" if _others(got, device, stored) else ""
    yield f"got {len(log)} of {len(wanted)}; at {place}: wanted {want}, got {known} {got}"


def _lasting(frame: str) -> str:
    """The frame without the passenger and the pickup, which are cleared when the driver stops driving."""
    if '"ride.accepted"' not in frame:
        return frame
    message = msgspec.json.decode(frame)
    message["data"] |= dict.fromkeys({"passenger_id", "pickup_location"} & message["data"].keys())
    return msgspec.json.encode(message, order="sorted").decode()


def _others(frame: str, device: Device, stored: Mapping[UUID, Mapping[int, str]]) -> bool:
    return any(frame in rows.values() for user_id, rows in stored.items() if user_id != device.user_id)


def _strange_ids(device: Device, town: Town) -> Iterator[str]:
    for frame in device.log:
        data = msgspec.json.decode(frame)["data"]
        if not all(
            _concerns(device, town, name, UUID(one), UUID(data["ride_id"])) for name, one in _ids(data)
        ):
            yield f"got {frame}"


def _ids(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield from (
        (name, data[name]) for name in ("ride_id", "offer_id", "driver_id", "passenger_id") if data.get(name)
    )
    if "driver" in data:
        yield "driver_id", data["driver"]["id"]


def _concerns(device: Device, town: Town, name: str, one: UUID, ride_id: UUID) -> bool:
    match name:
        case "ride_id" if device.role == "passenger":
            return town.passengers.get(one) == device.user_id
        case "ride_id":
            return (one, device.user_id) in town.offers.values()
        case "offer_id":
            return town.offers.get(one) == (ride_id, device.user_id)
        case "driver_id":
            return (ride_id, one) in town.driven
        case _:
            return town.passengers.get(ride_id) == one


def _strange_positions(device: Device, town: Town, fresh_seconds: float) -> Iterator[str]:
    for received_at, data in device.positions:
        ride_id, driver_id = UUID(data["ride_id"]), UUID(data["driver_id"])
        since, until = town.driven.get((ride_id, driver_id), (None, None))
        at = datetime.fromisoformat(data["updated_at"])
        age_seconds = (received_at - at).total_seconds()
        if town.passengers.get(ride_id) != device.user_id or since is None:
            yield f"saw another's {data}"
        elif at < since - AT_ONCE or (until is not None and at > until + AT_ONCE):
            yield f"saw {data}, when it was driven from {since} to {until}"
        elif age_seconds > fresh_seconds:
            yield f"saw a position {age_seconds:.1f} s old: {data}"


async def _wrong_receipts(db: Db, devices: Sequence[Device]) -> list[str]:
    """`offer_sent` comes once for a confirmed acknowledgement, at most once for an unconfirmed one."""
    rows = await db.fetch(
        "SELECT n.user_id, n.seq, n.offer_id, count(t.id) AS sent FROM notifications n"
        f" LEFT JOIN ({EVENTS}) t ON t.aggregate_id = n.offer_id AND t.routing_key = 'matching.offer_sent'"
        " WHERE n.offer_id IS NOT NULL GROUP BY 1, 2, 3"
    )
    sent: dict[UUID, int] = {}
    acked: dict[UUID, int] = {}
    for one in devices:
        sent[one.user_id] = max(sent.get(one.user_id, 0), one.asked_seq)
        acked[one.user_id] = max(acked.get(one.user_id, 0), one.acked_seq)
    return [
        f"{dict(row)}, sent up to {sent[row['user_id']]}, confirmed up to {acked[row['user_id']]}"
        for row in rows
        if not (row["seq"] <= acked[row["user_id"]]) <= row["sent"] <= (row["seq"] <= sent[row["user_id"]])
    ]


async def _read_town(db: Db) -> Town:
    rides = await db.fetch("SELECT id, passenger_id FROM rides")
    offers = await db.fetch("SELECT id, ride_id, driver_id FROM ride_offers")
    driven = await db.fetch(
        "SELECT a.ride_id, a.actor_id AS driver_id, a.at AS since, ("
        "   SELECT min(e.at) FROM ride_events e WHERE e.ride_id = a.ride_id AND e.seq > a.seq"
        "   AND (e.to_status IN ('COMPLETED', 'CANCELED') OR e.news = 'ride.reassigning')) AS until"
        " FROM ride_events a WHERE a.to_status = 'ACCEPTED'"
    )
    return Town(
        {row["id"]: row["passenger_id"] for row in rides},
        {row["id"]: (row["ride_id"], row["driver_id"]) for row in offers},
        {(row["ride_id"], row["driver_id"]): (row["since"], row["until"]) for row in driven},
    )
