"""Authorisation: every route of the API, called over HTTP by each kind of caller.

A route without a row here fails the suite, and so does a row without a route. To add a route, add its row:
the five statuses, and, where the path or body needs more than the owner's id, a function that prepares it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast
from uuid import UUID, uuid4

import httpx
import pytest
from fastapi.routing import iter_route_contexts

from catraca.domains.billing.pix_codes.model import reference_of
from catraca.platform.database import Database
from catraca.platform.http.health import Health
from catraca.roles.api import build_app
from catraca.roles.parts import Parts
from tests.conftest import bearer
from tests.domains.communities.places import community_body, post_community
from tests.domains.people.authenticator import begun, turned_on
from tests.domains.people.person import PASSWORD, Person, link_for
from tests.domains.scheduling.clinic import Clinic, open_clinic
from tests.servers import on_one_stack

# Authorisation does not depend on the servers; each route's own tests run on both stacks.
pytestmark = on_one_stack

LETTER_ID = uuid4()
Caller = Literal["nobody", "stranger", "peer", "owner", "operator"]


@dataclass(frozen=True)
class Prepared:
    """The parts of a request: values for the path and the query, and a body."""

    path: dict[str, str] = field(default_factory=dict)
    body: object = None
    file: bytes | None = None
    query: dict[str, str] = field(default_factory=dict)


Prepare = Callable[[httpx.AsyncClient, Person], Awaitable[Prepared]]


async def the_owner(api: httpx.AsyncClient, owner: Person) -> Prepared:
    """The path has the owner's id, under either name."""
    await owner.known_to(api)
    return Prepared({"user_id": str(owner.id), "driver_id": str(owner.id)})


async def a_device(api: httpx.AsyncClient, owner: Person) -> Prepared:
    return Prepared({"subscription_id": str(uuid4())})


A_DEVICE = {
    "endpoint": "https://fcm.googleapis.com/fcm/send/abc",
    "keys": {"p256dh": "B" * 87, "auth": "a" * 22},
}


def with_body(body: object) -> Prepare:
    async def prepare(api: httpx.AsyncClient, owner: Person) -> Prepared:
        return Prepared((await the_owner(api, owner)).path, body)

    return prepare


async def a_password(api: httpx.AsyncClient, owner: Person) -> Prepared:
    await owner.with_password(api)
    return Prepared(body={"email": owner.email, "password": PASSWORD})


async def a_password_link(api: httpx.AsyncClient, owner: Person) -> Prepared:
    await owner.with_email(api)
    return Prepared(body={"token": await link_for(api, owner), "password": PASSWORD})


async def a_begun_factor(api: httpx.AsyncClient, owner: Person) -> Prepared:
    """The owner has begun to set up a second factor; the code confirms it."""
    app = await begun(api, owner)
    return Prepared(body={"code": app.code()})


async def a_factor(api: httpx.AsyncClient, owner: Person) -> Prepared:
    """The owner's second factor is on; the code is the owner's."""
    app = await turned_on(api, owner)
    return Prepared({"user_id": str(owner.id)}, {"code": app.code()})


async def a_new_address(api: httpx.AsyncClient, owner: Person) -> Prepared:
    """The owner has asked for another address. Only its mailbox has the code: every caller's is wrong."""
    await owner.change(api, email=owner.email)
    return Prepared({"user_id": str(owner.id)}, {"code": "00000000"})


async def a_newcomer(api: httpx.AsyncClient, owner: Person) -> Prepared:
    return Prepared(body={"name": "Ana", "email": owner.email})


async def a_file(api: httpx.AsyncClient, owner: Person) -> Prepared:
    return Prepared(file=f"name,email\nAna,{owner.email}\n".encode())


async def a_sign_up(api: httpx.AsyncClient, owner: Person) -> Prepared:
    """The owner is the caller with the sign-up's token."""
    taken = (await api.post("/v1/users", json={"name": "Ana", "email": owner.email})).json()
    owner.headers = {"authorization": f"Bearer {taken['status_token']}"}
    return Prepared({"user_id": taken["id"]})


async def at_work(api: httpx.AsyncClient, owner: Person) -> Prepared:
    """The owner is an online driver."""
    prepared = await the_owner(api, owner)
    status = f"/v1/location/drivers/{owner.id}/status"
    assert (await api.put(status, json={"online": True}, headers=owner.headers)).status_code == 200
    return Prepared(prepared.path, {"lat": -12.9777, "lng": -38.5016})


async def many_pings(api: httpx.AsyncClient, owner: Person) -> Prepared:
    return Prepared(body=[{"driver_id": str(owner.id), "lat": -12.9777, "lng": -38.5016}])


async def a_place(api: httpx.AsyncClient, owner: Person) -> Prepared:
    return Prepared(query={"lat": "-12.9777", "lng": "-38.5016"})


async def a_lock(api: httpx.AsyncClient, owner: Person) -> Prepared:
    prepared = await the_owner(api, owner)
    return Prepared(prepared.path, {"ride_id": str(LETTER_ID)})


async def held_lock(api: httpx.AsyncClient, owner: Person) -> Prepared:
    prepared = await the_owner(api, owner)
    return Prepared(prepared.path, query={"ride_id": str(LETTER_ID)})


WAY = {"pickup_lat": -12.9777, "pickup_lon": -38.5016, "dropoff_lat": -13.0102, "dropoff_lon": -38.5326}


async def a_way(api: httpx.AsyncClient, owner: Person) -> Prepared:
    return Prepared(body=WAY)


async def an_own_ride(api: httpx.AsyncClient, owner: Person) -> Prepared:
    """The owner is the ride's passenger."""
    ride = await api.post("/v1/rides", json=WAY, headers=owner.headers)
    return Prepared({"ride_id": ride.json()["ride_id"]}, {"reason": "other"})


async def for_the_owner(api: httpx.AsyncClient, owner: Person) -> Prepared:
    """A ride for the owner, requested by any caller."""
    await owner.known_to(api)
    place = {"passengerLat": -12.9777, "passengerLng": -38.5016}
    return Prepared(body={"passengerId": str(owner.id), "type": "normal", **place})


async def a_ride_to_share(api: httpx.AsyncClient, owner: Person) -> Prepared:
    return Prepared((await an_own_ride(api, owner)).path, {"ttl_seconds": 60})


async def a_shared_ride(api: httpx.AsyncClient, owner: Person) -> Prepared:
    """The owner is the ride's passenger, and has made a link to it."""
    prepared = await a_ride_to_share(api, owner)
    made = await api.post(f"/v1/rides/{prepared.path['ride_id']}/shares", headers=owner.headers)
    return Prepared(prepared.path | {"share_id": made.json()["id"], "token": made.json()["token"]})


async def offers_of_it(api: httpx.AsyncClient, owner: Person) -> Prepared:
    return Prepared((await an_own_ride(api, owner)).path, {"driver_ids": [str(owner.id)]})


async def an_offered_ride(api: httpx.AsyncClient, owner: Person) -> Prepared:
    """The owner is a driver with an offer of the ride."""
    await owner.known_to(api)
    prepared = await offers_of_it(api, Person("passenger"))
    path = f"/v1/rides/{prepared.path['ride_id']}/offers"
    made = await api.post(path, json={"driver_ids": [str(owner.id)]}, headers=bearer("operator"))
    assert len(made.json()["offers"]) == 1, made.text
    return Prepared(prepared.path | {"driver_id": str(owner.id)}, {"driver_id": str(owner.id)})


def driven(*verbs: str) -> Prepare:
    """The owner is the ride's driver, and has sent these verbs."""

    async def prepare(api: httpx.AsyncClient, owner: Person) -> Prepared:
        prepared = await an_offered_ride(api, owner)
        for verb in ("accept", *verbs):
            path = f"/v1/rides/{prepared.path['ride_id']}/{verb}"
            assert (await api.post(path, json={}, headers=owner.headers)).status_code == 200
        return Prepared(prepared.path, {})

    return prepare


def a_charge(body: dict[str, object] | None = None) -> Prepare:
    """Of a ride that the owner has driven, paid in cash."""

    async def prepare(api: httpx.AsyncClient, owner: Person) -> Prepared:
        prepared = await driven("arrive", "start", "complete", "charge/cash")(api, owner)
        path = f"/v1/rides/{prepared.path['ride_id']}/charge"
        charge_id = (await api.get(path, headers=owner.headers)).json()["charge_id"]
        return Prepared({"charge_id": charge_id, "reference": reference_of(UUID(charge_id))}, body or {})

    return prepare


async def a_ride_to_end(api: httpx.AsyncClient, owner: Person) -> Prepared:
    prepared = await driven("arrive", "start")(api, owner)
    return Prepared(prepared.path, {"outcome": "canceled", "reason": "other"})


async def a_flag(api: httpx.AsyncClient, owner: Person) -> Prepared:
    """Of a ride with a destination that is completed at once."""
    prepared = await driven("arrive", "start", "complete")(api, owner)
    query = {"ride_id": prepared.path["ride_id"]}
    listed = await api.get("/v1/ride-flags", params=query, headers=bearer("operator"))
    return Prepared({"flag_id": listed.json()["flags"][0]["flag_id"]})


def of_a_letter(body: object = None) -> Prepare:
    async def prepare(api: httpx.AsyncClient, owner: Person) -> Prepared:
        return Prepared({"letter_id": str(LETTER_ID)}, body)

    return prepare


async def a_fence(api: httpx.AsyncClient, owner: Person) -> Prepared:
    return Prepared(body=community_body())


async def a_village(api: httpx.AsyncClient, owner: Person) -> Prepared:
    """A community, and a body that would leave it unchanged."""
    made = await post_community(api)
    return Prepared({"community_id": made["community_id"], "version": "1"}, community_body(version=1))


async def a_village_to_retire(api: httpx.AsyncClient, owner: Person) -> Prepared:
    return replace(await a_village(api, owner), query={"version": "1"})


@pytest.fixture(autouse=True)
async def letter(database: Database) -> None:
    """A waiting dead letter."""
    async with database.connection() as db:
        await db.execute(
            "INSERT INTO dead_letters (id, queue, message_id, exchange, routing_key, reason, headers, body)"
            " VALUES ($1, 'audit_log_queue', $1, 'users.events', 'user.created', 'KeyError', '{}', '{}')"
            " ON CONFLICT (id) DO UPDATE"
            "   SET state = 'waiting', decided_at = NULL, decided_by = NULL, decision_reason = NULL",
            LETTER_ID,
        )


Wanted = Callable[[Clinic], object]
Query = Callable[[Clinic], dict[str, str]]


def at_a_clinic(body: Wanted | None = None, query: Query | None = None) -> Prepare:
    """The owner is a worker there, with a day off."""

    async def prepare(api: httpx.AsyncClient, owner: Person) -> Prepared:
        await owner.known_to(api)
        clinic = await open_clinic(api, cast(Parts, None))
        worker_id, room_id = await clinic.worker(user_id=str(owner.id)), await clinic.room()
        off = await clinic.call("POST", f"/workers/{worker_id}/time-off", a_day_off(clinic))
        path = {"worker_id": str(worker_id), "service_id": str(clinic.service_id), "room_id": str(room_id)}
        path |= {"time_off_id": off["time_off_id"]}
        return Prepared(path, body and body(clinic), query=query(clinic) if query else {})

    return prepare


def a_day_off(clinic: Clinic, days: int = 7) -> dict[str, str]:
    return {"starts_at": clinic.at("00:00", days=days), "ends_at": clinic.at("00:00", days=days + 1)}


async def a_closed_room(api: httpx.AsyncClient, owner: Person) -> Prepared:
    clinic = await open_clinic(api, cast(Parts, None))
    room_id = await clinic.room()
    closed = await clinic.call("POST", f"/rooms/{room_id}/time-off", a_day_off(clinic))
    return Prepared({"room_id": str(room_id), "time_off_id": closed["time_off_id"]})


def whole_day(clinic: Clinic) -> dict[str, str]:
    return {"from": clinic.at("00:00"), "to": clinic.at("00:00", days=1)}


def slots_of_a_day(clinic: Clinic) -> dict[str, str]:
    return {"service_id": str(clinic.service_id), **whole_day(clinic)}


def slot_at_nine(clinic: Clinic) -> dict[str, str]:
    return {"service_id": str(clinic.service_id), "starts_at": clinic.at("09:00")}


async def a_time_for_the_owner(api: httpx.AsyncClient, owner: Person) -> Prepared:
    """A time to book or hold, requested by any caller."""
    await owner.known_to(api)
    clinic = await open_clinic(api, cast(Parts, None))
    return Prepared(body=clinic.wish(clinic.at("09:00"), client={"user_id": str(owner.id)}))


async def list_of_the_owner(api: httpx.AsyncClient, owner: Person) -> Prepared:
    return Prepared(query={"client_id": str(owner.id)})


def booked_by_the_owner(body: Wanted | None = None) -> Prepare:
    """The owner is the client of an appointment and of a hold."""

    async def prepare(api: httpx.AsyncClient, owner: Person) -> Prepared:
        clinic = await open_clinic(api, cast(Parts, None))
        booked = await clinic.booked(owner.id, clinic.at("09:00"))
        held = await clinic.held(owner.id, clinic.at("11:00"))
        path = {"appointment_id": booked["appointment_id"], "hold_id": str(held)}
        return Prepared(path, body and body(clinic))

    return prepare


async def with_the_owner(api: httpx.AsyncClient, owner: Person) -> Prepared:
    """The owner is the appointment's worker."""
    await owner.known_to(api)
    clinic = await open_clinic(api, cast(Parts, None))
    worker_id = await clinic.worker(user_id=str(owner.id))
    booked = await clinic.booked(uuid4(), clinic.at("09:00"), worker_id=worker_id)
    return Prepared({"appointment_id": booked["appointment_id"]})


async def two_to_swap(api: httpx.AsyncClient, owner: Person) -> Prepared:
    """The owner is the client of both appointments."""
    clinic = await open_clinic(api, cast(Parts, None))
    ids = [
        (await clinic.booked(owner.id, clinic.at(clock)))["appointment_id"] for clock in ("09:00", "11:00")
    ]
    return Prepared({"appointment_id": ids[0]}, {"appointment_id": ids[1]})


async def an_agenda_to_link(api: httpx.AsyncClient, owner: Person) -> Prepared:
    """The owner is the agenda's worker, and has made a link to it."""
    await owner.known_to(api)
    body = {"name": "Ana", "time_zone": "UTC", "user_id": str(owner.id)}
    made = await api.post("/v1/scheduling/workers", json=body, headers=bearer("operator"))
    worker_id = made.json()["worker_id"]
    link = await api.post(f"/v1/scheduling/workers/{worker_id}/calendar-link", headers=owner.headers)
    token = link.json()["path"].rpartition("/")[2].removesuffix(".ics")
    return Prepared({"worker_id": worker_id, "token": token})


async def an_appointment_to_keep(api: httpx.AsyncClient, owner: Person) -> Prepared:
    """The owner is the appointment's client."""
    clinic = await open_clinic(api, cast(Parts, None))
    booked = await clinic.booked(owner.id, clinic.at("09:00"))
    return Prepared({"appointment_id": booked["appointment_id"]})


async def a_series(api: httpx.AsyncClient, owner: Person) -> Prepared:
    """The owner is the client of the series; the body would create another."""
    clinic = await open_clinic(api, cast(Parts, None))
    body = clinic.wish(clinic.at("09:00"), every="week", count=2)
    made = await api.post("/v1/scheduling/series", json=body, headers=owner.headers)
    return Prepared(
        {"series_id": made.json()["series_id"]}, clinic.wish(clinic.at("11:00"), every="week", count=2)
    )


async def no_reason(api: httpx.AsyncClient, owner: Person) -> Prepared:
    return Prepared((await a_series(api, owner)).path)


async def a_place_in_line(api: httpx.AsyncClient, owner: Person) -> Prepared:
    """The owner's waitlist entry; the body would create another."""
    clinic = await open_clinic(api, cast(Parts, None))
    body = {"service_id": str(clinic.service_id), "from": clinic.at("09:00"), "to": clinic.at("10:00")}
    made = await api.post("/v1/scheduling/waitlist", json=body, headers=owner.headers)
    return Prepared({"entry_id": made.json()["entry_id"]}, body)


async def an_asset(api: httpx.AsyncClient, owner: Person) -> Prepared:
    return Prepared({"name": "swagger-ui.css"})


@dataclass(frozen=True)
class Case:
    """One route. `owner` is the role of owner and peer; `stranger_role` is a role without access."""

    route: str
    nobody: int
    stranger: int
    peer: int
    own: int
    operator: int
    prepare: Prepare = the_owner
    owner: str = "passenger"
    stranger_role: str = "worker"

    @property
    def is_get(self) -> bool:
        return self.route.startswith("GET ")

    def status_for(self, caller: Caller) -> int:
        return self.own if caller == "owner" else getattr(self, caller)

    def headers_of(self, caller: Caller, owner: Person) -> dict[str, str]:
        return {
            "nobody": {},
            "stranger": bearer(self.stranger_role),
            "peer": bearer(self.owner),
            "owner": owner.headers,
            "operator": bearer("operator"),
        }[caller]


APPROVAL = with_body({"approval": "approved"})
ROLES = with_body({"roles": ["passenger"]})
NEW_NAME = with_body({"name": "Ana"})
NEW_BODY = of_a_letter({"body": {}})
DISCARD = of_a_letter({"reason": "a test"})
# Both are dry runs.
REPLAY_ALL = of_a_letter({"filter": {"all": True}})
DISCARD_ALL = of_a_letter({"filter": {"all": True}, "reason": "a test"})
DEAD = "/v1/dead-letters"
ONLINE = with_body({"online": False})
PLACE = "/v1/location/drivers"
RIDE = "/v1/rides/{ride_id}"
FENCED = "/v1/communities/{community_id}"
BOOKED = "/v1/scheduling/appointments/{appointment_id}"
AGENDA = "/v1/scheduling/workers/{worker_id}"
SERIES, WAITLIST = "/v1/scheduling/series", "/v1/scheduling/waitlist"
AN_APPOINTMENT, LINKED = an_appointment_to_keep, an_agenda_to_link
SCHED, CLOSABLE = "/v1/scheduling", "/v1/scheduling/rooms/{room_id}"
# The owner's role, and a stranger's role other than worker.
A_WORKERS = ("worker", "passenger")
CLINIC = at_a_clinic()
A_WORKER = at_a_clinic(lambda clinic: {"name": "Bia", "time_zone": "UTC"})
A_SERVICE = at_a_clinic(lambda clinic: {"name": "Corte", "duration_minutes": 30})
A_ROOM = at_a_clinic(lambda clinic: {"name": "Sala 2"})
NO_HOURS = at_a_clinic(lambda clinic: [])
IDLE = at_a_clinic(lambda clinic: {"service_ids": []})
NOWHERE = at_a_clinic(lambda clinic: {"room_ids": []})
DAY_OFF = at_a_clinic(lambda clinic: a_day_off(clinic, days=9))
DAY = at_a_clinic(query=whole_day)
FREE, AT_NINE = at_a_clinic(query=slots_of_a_day), at_a_clinic(query=slot_at_nine)
FOR_OWNER, LISTED, WITH = a_time_for_the_owner, list_of_the_owner, with_the_owner
RETIRED = a_village_to_retire
OWN = booked_by_the_owner()
LATER = booked_by_the_owner(lambda clinic: {"starts_at": clinic.at("14:00")})
OFFERED = an_offered_ride
ACCEPTED = driven()
ARRIVING = driven("arrive")
STARTED = driven("arrive", "start")
COMPLETED = driven("arrive", "start", "complete")
PAID_RIDE = driven("arrive", "start", "complete", "charge/cash")
A_CHARGE, A_RECEIPT = a_charge(), a_charge({"reference": uuid4().hex, "amount_cents": 1})
TO_END, FLAGGED = a_ride_to_end, a_flag

UPGRADE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
}

# fmt: off
CASES = [
    # route                                    nobody  stranger  peer  owner  operator
    Case("GET /livez",                            200,      200,  200,   200,      200),
    Case("GET /readyz",                           200,      200,  200,   200,      200),
    Case("GET /metrics",                          200,      200,  200,   200,      200),
    Case("GET /openapi.json",                     200,      200,  200,   200,      200),
    Case("GET /docs",                             200,      200,  200,   200,      200),
    Case("GET /docs/start.js",                    200,      200,  200,   200,      200),
    Case("GET /docs/{name}",                      200,      200,  200,   200,      200, an_asset),

    Case("POST /v1/auth/token",                   200,      200,  200,   200,      200, a_password),
    Case("POST /v1/auth/password",                204,      204,  204,   204,      204, a_password_link),

    Case("GET /v1/me",                            401,      200,  200,   200,      200),
    Case("PATCH /v1/me",                          401,      200,  200,   200,      200, NEW_NAME),
    Case("DELETE /v1/me",                         401,      204,  204,   204,      204),
    Case("GET /v1/me/export",                     401,      200,  200,   200,      200),
    Case("POST /v1/me/sign-out",                  401,      204,  204,   204,      204),
    Case("POST /v1/me/email/confirm",             401,      422,  422,   422,      422, a_new_address),
    Case("POST /v1/users/{user_id}/email/confirm", 401,     403,  403,   403,      200, a_new_address),
    Case("GET /v1/me/second-factor",              401,      200,  200,   200,      200),
    Case("POST /v1/me/second-factor",             401,      201,  201,   201,      201),
    Case("POST /v1/me/second-factor/confirm",     401,      409,  409,   200,      409, a_begun_factor),
    Case("POST /v1/me/second-factor/recovery-codes", 401,   409,  409,   200,      409, a_factor),
    Case("POST /v1/me/second-factor/remove",      401,      409,  409,   204,      409, a_factor),
    Case("DELETE /v1/users/{user_id}/second-factor", 401,   403,  403,   403,      204, a_factor),

    Case("POST /v1/users",                        200,      200,  200,   200,      200, a_newcomer),
    Case("POST /api/v1/users",                    200,      200,  200,   200,      200, a_newcomer),
    Case("POST /users",                           200,      200,  200,   200,      200, a_newcomer),
    Case("POST /v1/users/bulk",                   401,      403,  403,   403,      200, a_file),
    Case("GET /v1/users/{user_id}/status",        404,      404,  404,   200,      404, a_sign_up),

    Case("GET /v1/users",                         401,      403,  403,   403,      200),
    Case("GET /v1/users/{user_id}",               401,      404,  404,   200,      200),
    Case("DELETE /v1/users/{user_id}",            401,      403,  403,   403,      204),
    Case("GET /v1/users/{user_id}/export",        401,      403,  403,   403,      200),
    Case("POST /v1/users/{user_id}/sign-out",     401,      403,  403,   403,      204),
    Case("POST /v1/users/{user_id}/password-link", 401,     403,  403,   403,      201),
    Case("PUT /v1/users/{user_id}/roles",         401,      403,  403,   403,      200, ROLES),
    Case("PUT /v1/drivers/{driver_id}/approval",  401,      403,  403,   403,      200, APPROVAL, "driver"),

    Case("POST /v1/quotes",                       401,      200,  200,   200,      200, a_way),
    Case("POST /v1/rides",                        401,      403,  201,   201,      403, a_way),
    Case("GET /v1/rides",                         401,      200,  200,   200,      200),
    Case(f"GET {RIDE}",                           401,      404,  404,   200,      200, an_own_ride),
    Case("GET /rides/{ride_id}",                  401,      404,  404,   200,      200, an_own_ride),
    Case(f"POST {RIDE}/offers",                   401,      403,  403,   403,      201, offers_of_it),
    Case(f"POST {RIDE}/accept",                   401,      403,  403,   200,      200, OFFERED, "driver"),
    Case(f"PATCH {RIDE}/accept",                  401,      403,  403,   200,      200, OFFERED, "driver"),
    Case("POST /rides/{ride_id}/accept",          401,      403,  403,   200,      200, OFFERED, "driver"),
    Case("PATCH /rides/{ride_id}/accept",         401,      403,  403,   200,      200, OFFERED, "driver"),
    Case(f"PATCH {RIDE}/reject",                  401,      403,  403,   200,      200, OFFERED, "driver"),
    Case("PATCH /rides/{ride_id}/reject",         401,      403,  403,   200,      200, OFFERED, "driver"),
    Case(f"POST {RIDE}/arrive",                   401,      403,  404,   200,      403, ACCEPTED, "driver"),
    Case(f"POST {RIDE}/start",                    401,      403,  404,   200,      403, ARRIVING, "driver"),
    Case(f"POST {RIDE}/complete",                 401,      403,  404,   200,      403, STARTED, "driver"),
    Case(f"POST {RIDE}/cancel",                   401,      404,  404,   200,      200, an_own_ride),
    Case(f"POST {RIDE}/end",                      401,      403,  403,   403,      200, TO_END, "driver"),
    Case(f"GET {RIDE}/charge",                    401,      404,  404,   200,      200, PAID_RIDE, "driver"),
    Case(f"POST {RIDE}/charge/cash",              401,      403,  404,   200,      403, COMPLETED, "driver"),
    Case(f"GET {RIDE}/charge/pix",                401,      404,  404,   409,      409, PAID_RIDE, "driver"),
    Case("GET /v1/charges",                       401,      403,  403,   403,      200),
    Case("GET /v1/charges/{charge_id}/captures",  401,      403,  403,   403,      200, A_CHARGE, "driver"),
    Case("POST /v1/charges/{charge_id}/captures", 401,      403,  403,   403,      201, A_RECEIPT, "driver"),
    Case("GET /v1/drivers/{driver_id}/statement", 401,      403,  403,   200,      200, the_owner, "driver"),
    Case("GET /v1/pix-codes/{reference}/charge",  401,      403,  403,   403,      200, A_CHARGE, "driver"),
    Case("GET /v1/ride-flags",                    401,      403,  403,   403,      200),
    Case("POST /v1/ride-flags/{flag_id}/review",  401,      403,  403,   403,      200, FLAGGED, "driver"),
    Case(f"GET {RIDE}/attempts",                  401,      403,  403,   403,      200, an_own_ride),
    Case(f"GET {RIDE}/timeline",                  401,      403,  403,   403,      200, an_own_ride),
    Case(f"GET {RIDE}/position",                  401,      404,  404,   204,      204, ACCEPTED, "driver"),
    Case(f"POST {RIDE}/shares",                   401,      404,  404,   201,      403, a_ride_to_share),
    Case(f"GET {RIDE}/shares",                    401,      404,  404,   200,      200, a_shared_ride),
    Case(f"DELETE {RIDE}/shares/{{share_id}}",    401,      404,  404,   204,      204, a_shared_ride),
    Case("GET /v1/trips/{token}",                 200,      200,  200,   200,      200, a_shared_ride),
    Case("GET /v1/drivers/{driver_id}/active-ride", 401,    403,  403,   200,      200, ACCEPTED, "driver"),
    Case("GET /drivers/{driver_id}/active-ride",  401,      403,  403,   200,      200, ACCEPTED, "driver"),

    Case("POST /api/governance/ride/request",     401,      403,  403,   201,      201, for_the_owner),
    Case("POST /v1/governance/ride/request",      401,      403,  403,   201,      201, for_the_owner),

    Case("POST /v1/communities",                  401,      403,  403,   403,      201, a_fence),
    Case("GET /v1/communities",                   401,      200,  200,   200,      200),
    Case("GET /v1/communities/at",                401,      200,  200,   200,      200, a_place),
    Case(f"GET {FENCED}",                         401,      200,  200,   200,      200, a_village),
    Case(f"PUT {FENCED}",                         401,      403,  403,   403,      200, a_village, "driver"),
    Case(f"DELETE {FENCED}",                      401,      403,  403,   403,      200, RETIRED, "driver"),
    Case(f"GET {FENCED}/versions",                401,      200,  200,   200,      200, a_village),
    Case(f"GET {FENCED}/versions/{{version}}",    401,      200,  200,   200,      200, a_village),

    Case(f"PUT {PLACE}/{{driver_id}}/status",     401,      403,  403,   200,      200, ONLINE, "driver"),
    Case(f"POST {PLACE}/{{driver_id}}/pings",     401,      403,  403,   200,      200, at_work, "driver"),
    Case(f"POST {PLACE}/{{driver_id}}/lock",      401,      403,  403,   403,      200, a_lock, "driver"),
    Case(f"DELETE {PLACE}/{{driver_id}}/lock",    401,      403,  403,   403,      200, held_lock, "driver"),
    Case(f"GET {PLACE}/nearby",                   401,      403,  403,   403,      200, a_place, "driver"),
    Case("POST /v1/location/pings",               401,      403,  403,   403,      200, many_pings, "driver"),

    Case(f"POST {SCHED}/workers",                 401,      403,  403,   403,      201, A_WORKER, "worker"),
    Case(f"GET {SCHED}/workers",                  401,      200,  200,   200,      200),
    Case(f"GET {AGENDA}",                         401,      200,  200,   200,      200, CLINIC, "worker"),
    Case(f"PUT {AGENDA}",                         401,      403,  403,   403,      200, A_WORKER, "worker"),
    Case(f"GET {AGENDA}/hours",                   401,      403,  403,   200,      200, CLINIC, *A_WORKERS),
    Case(f"PUT {AGENDA}/rules",                   401,      403,  403,   200,      200, NO_HOURS, *A_WORKERS),
    Case(f"PUT {AGENDA}/overrides",               401,      403,  403,   200,      200, NO_HOURS, *A_WORKERS),
    Case(f"GET {AGENDA}/services",                401,      200,  200,   200,      200, CLINIC, "worker"),
    Case(f"PUT {AGENDA}/services",                401,      403,  403,   403,      200, IDLE, "worker"),
    Case(f"POST {AGENDA}/time-off",               401,      403,  403,   201,      201, DAY_OFF, *A_WORKERS),
    Case(f"GET {AGENDA}/time-off",                401,      403,  403,   200,      200, DAY, *A_WORKERS),
    Case(f"DELETE {AGENDA}/time-off/{{time_off_id}}", 401,  403,  403,   204,      204, CLINIC, *A_WORKERS),
    Case(f"POST {SCHED}/services",                401,      403,  403,   403,      201, A_SERVICE, "worker"),
    Case(f"GET {SCHED}/services",                 401,      200,  200,   200,      200),
    Case(f"GET {SCHED}/services/{{service_id}}",  401,      200,  200,   200,      200, CLINIC, "worker"),
    Case(f"PUT {SCHED}/services/{{service_id}}",  401,      403,  403,   403,      200, A_SERVICE, "worker"),
    Case(f"GET {SCHED}/services/{{service_id}}/rooms", 401, 200,  200,   200,      200, CLINIC, "worker"),
    Case(f"PUT {SCHED}/services/{{service_id}}/rooms", 401, 403,  403,   403,      200, NOWHERE, "worker"),
    Case(f"POST {SCHED}/rooms",                   401,      403,  403,   403,      201, A_ROOM, "worker"),
    Case(f"GET {SCHED}/rooms",                    401,      200,  200,   200,      200),
    Case(f"GET {CLOSABLE}",                       401,      200,  200,   200,      200, CLINIC, "worker"),
    Case(f"PUT {CLOSABLE}",                       401,      403,  403,   403,      200, A_ROOM, "worker"),
    Case(f"POST {CLOSABLE}/time-off",             401,      403,  403,   403,      201, DAY_OFF, "worker"),
    Case(f"GET {CLOSABLE}/time-off",              401,      403,  403,   403,      200, DAY, "worker"),
    Case(f"DELETE {CLOSABLE}/time-off/{{time_off_id}}", 401, 403, 403,   403,      204, a_closed_room),
    Case(f"GET {SCHED}/availability",             401,      200,  200,   200,      200, FREE),
    Case(f"GET {SCHED}/availability/explain",     401,      200,  200,   200,      200, AT_NINE),
    Case(f"POST {SCHED}/appointments",            401,      403,  403,   201,      201, FOR_OWNER),
    Case(f"GET {SCHED}/appointments",             401,      403,  403,   200,      200, LISTED),
    Case(f"GET {BOOKED}",                         401,      404,  404,   200,      200, OWN),
    Case(f"POST {BOOKED}/reschedule",             401,      404,  404,   200,      200, LATER),
    Case(f"POST {BOOKED}/swap",                   401,      403,  403,   403,      200, two_to_swap),
    Case(f"POST {BOOKED}/cancel",                 401,      404,  404,   200,      200, OWN),
    Case(f"POST {BOOKED}/confirm",                401,      404,  404,   200,      200, WITH, *A_WORKERS),
    # The appointment has not begun; `test_changes` tests that its client is refused after the start too.
    Case(f"POST {BOOKED}/no-show",                401,      404,  404,   409,      409, WITH, *A_WORKERS),
    Case(f"POST {SCHED}/holds",                   401,      403,  403,   201,      201, FOR_OWNER),
    Case(f"DELETE {SCHED}/holds/{{hold_id}}",     401,      404,  404,   204,      204, OWN),
    Case(f"GET {BOOKED}/calendar.ics",            401,      404,  404,   200,      200, AN_APPOINTMENT),
    Case(f"POST {AGENDA}/calendar-link",          401,      403,  403,   201,      201, LINKED, "worker"),
    Case(f"DELETE {AGENDA}/calendar-link",        401,      403,  403,   204,      204, LINKED, "worker"),
    Case("GET /v1/scheduling/calendars/{token}.ics", 200,   200,  200,   200,      200, LINKED, "worker"),
    Case(f"POST {SERIES}",                        401,      201,  201,   201,      201, a_series),
    Case(f"GET {SERIES}/{{series_id}}",           401,      404,  404,   200,      200, a_series),
    Case(f"POST {SERIES}/{{series_id}}/cancel",   401,      404,  404,   200,      200, no_reason),
    Case(f"POST {WAITLIST}",                      401,      201,  201,   201,      201, a_place_in_line),
    Case(f"GET {WAITLIST}",                       401,      200,  200,   200,      200),
    Case(f"DELETE {WAITLIST}/{{entry_id}}",       401,      404,  404,   204,      204, a_place_in_line),

    Case(f"GET {DEAD}",                           401,      403,  403,   403,      200),
    Case(f"GET {DEAD}/groups",                    401,      403,  403,   403,      200),
    Case(f"GET {DEAD}/{{letter_id}}",             401,      403,  403,   403,      200, of_a_letter()),
    Case(f"PUT {DEAD}/{{letter_id}}/body",        401,      403,  403,   403,      200, NEW_BODY),
    Case(f"POST {DEAD}/{{letter_id}}/replay",     401,      403,  403,   403,      200, of_a_letter()),
    Case(f"POST {DEAD}/{{letter_id}}/discard",    401,      403,  403,   403,      200, DISCARD),
    Case(f"POST {DEAD}/replay",                   401,      403,  403,   403,      200, REPLAY_ALL),
    Case(f"POST {DEAD}/discard",                  401,      403,  403,   403,      200, DISCARD_ALL),

    # Each caller gets its own data, by its token.
    Case("GET /v1/notifications",                 401,      200,  200,   200,      200),
    Case("POST /v1/notifications/read",           401,      200,  200,   200,      200, with_body({})),
    Case("POST /v1/ws/ticket",                    401,      201,  201,   201,      201),
    Case("SOCKET /v1/ws",                         401,      101,  101,   101,      101),

    Case("GET /v1/audit",                         401,      403,  403,   403,      200),
    Case("GET /v1/analytics/demand",              401,      403,  403,   403,      200),
    Case("GET /v1/analytics/alerts",              401,      403,  403,   403,      200),
    # Web push is not configured here; `test_push` tests the access to devices.
    Case("GET /v1/push/key",                      401,      409,  409,   409,      409),
    Case("GET /v1/push/subscriptions",            401,      200,  200,   200,      200),
    Case("POST /v1/push/subscriptions",           401,      409,  409,   409,      409, with_body(A_DEVICE)),
    Case("DELETE /v1/push/subscriptions/{subscription_id}", 401, 204, 204, 204,    204, a_device),
]
# fmt: on
# The routes of the seed documents, as they write them. Their rows above show that each answers.
SEED_ROUTES = {
    "GET /v1/location/drivers/nearby",
    "POST /v1/location/drivers/{driver_id}/lock",
    "DELETE /v1/location/drivers/{driver_id}/lock",
    "PATCH /rides/{ride_id}/accept",
    "PATCH /rides/{ride_id}/reject",
    "GET /rides/{ride_id}",
    "POST /rides/{ride_id}/accept",
    "GET /drivers/{driver_id}/active-ride",
    "POST /users",
    "POST /api/v1/users",
    "POST /api/governance/ride/request",
}
CALLERS: tuple[Caller, ...] = ("nobody", "stranger", "peer", "owner", "operator")


def routes_of(parts: Parts) -> set[str]:
    """Every route, in the OpenAPI document or not."""
    app = build_app(parts, Health())
    answering = {
        f"{method} {context.path_format}"
        for context in iter_route_contexts(app.routes)
        for method in context.methods or {"SOCKET"}
        if method not in {"HEAD", "OPTIONS"}
    }
    documented = {
        f"{method.upper()} {path}"
        for path, operations in app.openapi()["paths"].items()
        for method in operations
    }
    assert documented <= answering
    return answering


async def test_routes_and_rows_match(parts: Parts) -> None:
    rows = [case.route for case in CASES]
    assert len(rows) == len(set(rows)), "a route stands in the table twice"
    assert routes_of(parts) == set(rows)


async def test_routes_of_the_seed_documents_exist(parts: Parts) -> None:
    assert routes_of(parts) >= SEED_ROUTES


@pytest.mark.parametrize("case", [pytest.param(case, id=case.route) for case in CASES])
async def test_each_caller_gets_the_expected_status(api: httpx.AsyncClient, case: Case) -> None:
    found: dict[Caller, int] = {}
    for callers in groups_of(case):
        owner = Person(case.owner)
        prepared = await case.prepare(api, owner)
        for caller in callers:
            found[caller] = await status_of(api, case.route, prepared, case.headers_of(caller, owner))
    assert found == {caller: case.status_for(caller) for caller in CALLERS}


def groups_of(case: Case) -> list[list[Caller]]:
    """Callers that can share what was prepared: all that change nothing. The others get their own."""
    is_read = case.route.startswith(("GET ", "SOCKET "))
    idle = [caller for caller in CALLERS if is_read or case.status_for(caller) >= 400]
    return [group for group in [idle, *([caller] for caller in CALLERS if caller not in idle)] if group]


async def status_of(api: httpx.AsyncClient, route: str, prepared: Prepared, headers: dict[str, str]) -> int:
    return (await send(api, route, prepared, headers)).status_code


async def send(
    api: httpx.AsyncClient, route: str, prepared: Prepared, headers: dict[str, str]
) -> httpx.Response:
    method, path = route.split(" ")
    sent: dict[str, Any] = {} if prepared.body is None else {"json": prepared.body}
    if prepared.file is not None:
        sent, headers = {"content": prepared.file}, headers | {"content-type": "text/csv"}
    if method == "SOCKET":
        method, headers = "GET", headers | UPGRADE
    url = httpx.URL(path.format(**prepared.path), params=prepared.query)
    answer = await api.request(method, url, headers=headers, **sent)
    assert not answer.is_error or answer.headers["content-type"] == "application/problem+json"
    return answer


# Each response has its own; the exports and figures change from request to request.
OWN_HEADERS = {"date", "x-request-id"}
CHANGING = ("/metrics", "/export")


@pytest.mark.parametrize("case", [pytest.param(case, id=case.route) for case in CASES if case.is_get])
async def test_head_is_answered_like_get(api: httpx.AsyncClient, case: Case) -> None:
    owner = Person(case.owner)
    prepared = await case.prepare(api, owner)
    path = case.route.split(" ")[1].format(**prepared.path)
    ignored = OWN_HEADERS | ({"content-length"} if path.endswith(CHANGING) else set())
    for caller in CALLERS:
        headers = case.headers_of(caller, owner)
        got, head = [
            await api.request(method, path, params=prepared.query, headers=headers)
            for method in ("GET", "HEAD")
        ]
        assert got.status_code == head.status_code == case.status_for(caller)
        assert head.content == b""
        for name in {*got.headers, *head.headers} - ignored:
            assert head.headers.get(name) == got.headers.get(name), name


async def test_services_may_read_people_only(api: httpx.AsyncClient) -> None:
    ana = await Person().known_to(api)
    service = bearer("service")
    assert (await api.get(f"/v1/users/{ana.id}", headers=service)).status_code == 200
    assert (await api.delete(f"/v1/users/{ana.id}", headers=service)).status_code == 403
    assert (await api.get("/v1/users", headers=service)).status_code == 403
