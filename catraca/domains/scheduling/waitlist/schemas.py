"""Bodies and answers of the routes for the waitlist."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Self
from uuid import UUID

from pydantic import BaseModel, Field

from catraca.domains.scheduling.appointments.model import Client
from catraca.domains.scheduling.appointments.schemas import AccountIn
from catraca.domains.scheduling.shared.schemas import WholeMoment
from catraca.domains.scheduling.waitlist.model import EntryStatus, WaitlistEntry
from catraca.platform.forms import Answer, Body, Next, split_page


class WaitlistEntryIn(Body):
    service_id: UUID
    worker_id: Annotated[UUID | None, Field(description="Default: any worker.")] = None
    from_: Annotated[WholeMoment, Field(alias="from", description="The earliest start.")]
    to: Annotated[WholeMoment, Field(description="Starts are before this moment.")]
    client: AccountIn | None = None

    def to_client(self) -> Client | None:
        return self.client and self.client.to_client()


class WaitlistOfferOut(Answer):
    """Book it with its `hold_id` before it expires, or release the hold."""

    hold_id: UUID
    worker_id: UUID
    starts_at: datetime
    ends_at: datetime
    expires_at: datetime | None


class WaitlistEntryOut(BaseModel):
    entry_id: UUID
    service_id: UUID
    worker_id: UUID | None
    client_id: UUID
    from_: Annotated[datetime, Field(alias="from")]
    to: datetime
    status: EntryStatus
    position: Annotated[
        int | None,
        Field(description="Among entries that want some of the same times; null if it does not wait."),
    ]
    offer: Annotated[WaitlistOfferOut | None, Field(description="The open offer.")]
    appointment_id: Annotated[UUID | None, Field(description="The appointment booked from an offer.")]
    created_at: datetime
    changed_at: datetime

    @classmethod
    def of(cls, entry: WaitlistEntry) -> Self:
        offer, is_booked = entry.offer, entry.status == "BOOKED"
        return cls(
            entry_id=entry.id,
            service_id=entry.service_id,
            worker_id=entry.worker_id,
            client_id=entry.client_id,
            **{"from": entry.starts_from},
            to=entry.starts_before,
            status=entry.status,
            position=entry.position,
            offer=None if offer is None or is_booked else WaitlistOfferOut.model_validate(offer),
            appointment_id=offer.hold_id if offer and is_booked else None,
            created_at=entry.created_at,
            changed_at=entry.changed_at,
        )


class WaitlistPage(BaseModel):
    entries: list[WaitlistEntryOut]
    next: Next[UUID]

    @classmethod
    def of(cls, found: Sequence[WaitlistEntry], *, limit: int) -> Self:
        page, after = split_page(found, limit=limit, cursor=lambda entry: entry.id)
        return cls(entries=[WaitlistEntryOut.of(entry) for entry in page], next=after)
