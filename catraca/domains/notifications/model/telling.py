"""Who is told what of an event."""

from collections.abc import Iterator
from uuid import UUID

from catraca.domains.notifications.model.appointments import appointment_tellings
from catraca.domains.notifications.model.rides import ride_tellings
from catraca.domains.notifications.model.values import Happened, Telling, World
from catraca.domains.people import UserId
from catraca.platform.event import Event

PARTIES = ("rider_id", "driver_id", "client_id", "worker_user_id", "previous_worker_user_id")


def people_of(event: Event) -> set[UUID]:
    """Whose names and languages its words need."""
    return {one for name in PARTIES if isinstance(one := getattr(event, name, None), UUID)}


def tellings_of(happened: Happened, world: World) -> Iterator[Telling]:
    """In the order in which they are numbered; whoever was erased is told nothing."""
    for tellings in (ride_tellings, appointment_tellings):
        for telling in tellings(happened, world):
            person = world.people.get(UserId(telling.user_id))
            if person is not None and person.erased_at is None:
                yield telling
