"""Data of the appointment storms: workers with empty agendas, and clients."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from catraca.events import UserCreated
from catraca.platform.database import Database, outbox
from tests.storms.callers import Caller, JsonAnswer, request, token_of

PATH = "/v1/scheduling"
# Around the clock, so that a long row of slots has no gap.
ALWAYS_OPEN = [{"weekday": weekday, "start": "00:00", "end": "00:00"} for weekday in range(1, 8)]
SLOT = timedelta(hours=1)
STEP = timedelta(minutes=15)
# The same request is running elsewhere: the client sends it again.
UNDER_WAY = "idempotency_key_in_use"


@dataclass(frozen=True, slots=True)
class Clinic:
    """A service of an hour, bookable every 15 minutes, with as many rooms as given."""

    operator_id: UUID
    service_id: UUID
    worker_ids: Sequence[UUID]
    # A moment in the next days from which nothing is booked.
    opens_at: datetime

    def at(self, after: timedelta) -> str:
        return (self.opens_at + after).isoformat()

    def wish(self, starts_at: str, worker_id: UUID | None) -> dict[str, Any]:
        wish = {"service_id": str(self.service_id), "starts_at": starts_at}
        return wish if worker_id is None else {**wish, "worker_id": str(worker_id)}


@dataclass(frozen=True, slots=True)
class Act:
    """A request with its idempotency key; sent again, it is the same request."""

    verb: str
    path: str
    body: Any
    role: str
    who: UUID
    method: str = "POST"
    key: str = field(default_factory=lambda: uuid4().hex)

    def message(self) -> bytes:
        token = token_of(self.role, self.who)
        return request(self.method, f"{PATH}{self.path}", token=token, body=self.body, key=self.key)


async def do(caller: Caller, act: Act) -> JsonAnswer:
    """Repeat the request until its outcome is known."""
    while True:
        answer = await caller.ask(act.message())
        if answer.status != 409 or answer.problem()["code"] != UNDER_WAY:
            return answer


def book_act(clinic: Clinic, client: UUID, starts_at: str, worker_id: UUID | None, **more: Any) -> Act:
    return Act("book", "/appointments", {**clinic.wish(starts_at, worker_id), **more}, "passenger", client)


def hold_act(clinic: Clinic, client: UUID, starts_at: str, worker_id: UUID) -> Act:
    return Act("hold", "/holds", clinic.wish(starts_at, worker_id), "passenger", client)


def change_act(verb: str, one_id: str, who: UUID, *, role: str = "passenger", **body: Any) -> Act:
    return Act(verb, f"/appointments/{one_id}/{verb}", body or None, role, who)


def away_act(clinic: Clinic, worker_id: UUID, after: timedelta) -> Act:
    body = {"starts_at": clinic.at(after), "ends_at": clinic.at(after + SLOT)}
    return Act("time off", f"/workers/{worker_id}/time-off", body, "operator", clinic.operator_id)


async def open_clinic(caller: Caller, *, workers: int = 1, rooms: int = 0) -> Clinic:
    """Create a clinic over HTTP as an operator."""
    operator_id = uuid4()

    async def done(method: str, path: str, body: Any) -> Any:
        answer = await do(caller, Act("set up", path, body, "operator", operator_id, method))
        assert answer.status < 300, answer.body
        return answer.json()

    terms = {"name": "Consulta", "duration_minutes": 60, "slot_step_minutes": 15}
    service_id = (await done("POST", "/services", terms))["service_id"]
    worker_ids: list[UUID] = []
    for _ in range(workers):
        made = await done("POST", "/workers", {"name": "Ana", "time_zone": "UTC"})
        worker_ids.append(UUID(made["worker_id"]))
        await done("PUT", f"/workers/{worker_ids[-1]}/rules", ALWAYS_OPEN)
        await done("PUT", f"/workers/{worker_ids[-1]}/services", {"service_ids": [service_id]})
    if rooms:
        room_ids = [(await done("POST", "/rooms", {"name": "Sala"}))["room_id"] for _ in range(rooms)]
        await done("PUT", f"/services/{service_id}/rooms", {"room_ids": room_ids})
    opens_at = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(days=2)
    return Clinic(operator_id, UUID(service_id), worker_ids, opens_at)


async def new_clients(database: Database, count: int) -> list[UUID]:
    """Insert users in one transaction; the API would insert them one by one at their first request."""
    ids = [uuid4() for _ in range(count)]
    async with database.transaction() as db:
        await db.execute(
            "INSERT INTO users (id, roles) SELECT id, '{passenger}' FROM unnest($1::uuid[]) AS id", ids
        )
        await outbox.record(db, *(UserCreated(user_id=one, roles=("passenger",)) for one in ids))
    return ids
