"""Who may do what to an agenda: its worker and operators; to an appointment, its client as well."""

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Query

from catraca.domains import people
from catraca.domains.people import UserId
from catraca.domains.scheduling.errors import TimeZoneUnknown
from catraca.domains.scheduling.model.agendas import ONLY_HELD, Appointment, Client, Party, Worker
from catraca.domains.scheduling.model.zones import zone_names
from catraca.domains.scheduling.schemas.booking import ClientIn
from catraca.domains.scheduling.store.appointments import read_appointment
from catraca.platform.auth import Principal
from catraca.platform.database import Db, audit
from catraca.platform.errors import Forbidden, NotFound


def is_own(caller: Principal, worker: Worker) -> bool:
    return caller.has("worker") and worker.user_id == caller.id


def check_agenda(caller: Principal, worker: Worker) -> None:
    """Its worker or an operator."""
    if not is_own(caller, worker):
        caller.require("operator")


async def party_to(db: Db, caller: Principal, appointment_id: UUID) -> tuple[Appointment, Party]:
    """As whom the caller acts; to anybody else there is no such appointment, nor is a hold one yet."""
    found, party = await party_to_hold(db, caller, appointment_id)
    if found.status in ONLY_HELD:
        raise NotFound
    return found, party


async def party_to_hold(db: Db, caller: Principal, hold_id: UUID) -> tuple[Appointment, Party]:
    """The same of a hold, whatever has become of it."""
    found = await read_appointment(db, hold_id)
    party = found and party_of(caller, found)
    if found is None or party is None:
        raise NotFound
    return found, party


def party_of(caller: Principal, found: Appointment) -> Party | None:
    if caller.has("operator"):
        return "operator"
    if caller.has("worker") and found.worker_user_id == caller.id:
        return "worker"
    return "client" if found.client.id == caller.id else None


async def audit_act(db: Db, caller: Principal, party: Party, act: str, *found: Appointment) -> None:
    """What operators do to appointments is written down with who it was."""
    if party == "operator":
        for one in found:
            await audit.record(
                db,
                actor_id=caller.id,
                action=f"appointment.{act}",
                subject_kind="appointment",
                subject_id=one.id,
            )


async def client_of(db: Db, caller: Principal, sent: ClientIn | None) -> Client:
    """Whom it is for: the caller; operators and services book for others, also without an account."""
    if sent is None or sent.user_id == caller.id:
        return Client(id=UserId(caller.id))
    caller.require("operator", "service")
    if sent.user_id is None:
        return Client(name=sent.name, contact=sent.contact)
    client_id = UserId(sent.user_id)
    client = (await people.lock_users(db, [client_id])).get(client_id)
    if client is None or client.erased_at is not None:
        raise NotFound
    return Client(id=client_id)


def not_a_client(party: Party) -> None:
    if party == "client":
        raise Forbidden


async def _known_zone(
    time_zone: Annotated[
        str | None,
        Query(max_length=64, description="Times are told by the clocks of this zone; left out, in UTC."),
    ] = None,
) -> str | None:
    if time_zone is not None and time_zone not in zone_names():
        raise TimeZoneUnknown
    return time_zone


InZone = Annotated[str | None, Depends(_known_zone)]
