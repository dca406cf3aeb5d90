"""What the routes of the waitlist take and give."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Self
from uuid import UUID

from pydantic import BaseModel, Field

from catraca.domains.scheduling.model.waiting import Entry, EntryStatus, Offer
from catraca.domains.scheduling.schemas.booking import ClientIn
from catraca.domains.scheduling.schemas.fields import Body, WholeMoment


class AccountIn(Body):
    """Somebody with an account, who can be told of an offer."""

    user_id: UUID


class EntryIn(Body):
    service_id: UUID
    worker_id: Annotated[UUID | None, Field(description="Left out: with anybody.")] = None
    from_: Annotated[WholeMoment, Field(alias="from", description="It may begin from here on.")]
    to: Annotated[WholeMoment, Field(description="And must begin before here.")]
    client: AccountIn | None = None

    def to_client(self) -> ClientIn | None:
        return None if self.client is None else ClientIn(user_id=self.client.user_id)


class OfferOut(BaseModel):
    """Book it with its `hold_id` before it expires, or give it back."""

    hold_id: UUID
    worker_id: UUID
    starts_at: datetime
    ends_at: datetime
    expires_at: datetime | None

    @classmethod
    def of(cls, offer: Offer) -> Self:
        return cls(
            hold_id=offer.hold_id,
            worker_id=offer.worker_id,
            starts_at=offer.starts_at,
            ends_at=offer.ends_at,
            expires_at=offer.expires_at,
        )


class EntryOut(BaseModel):
    entry_id: UUID
    service_id: UUID
    worker_id: UUID | None
    client_id: UUID
    from_: Annotated[datetime, Field(alias="from")]
    to: datetime
    status: EntryStatus
    position: Annotated[
        int | None,
        Field(description="In the line of those who want some of the same; null when it is not in it."),
    ]
    offer: Annotated[OfferOut | None, Field(description="What is held for it now.")]
    appointment_id: Annotated[UUID | None, Field(description="What was booked of an offer.")]
    created_at: datetime
    changed_at: datetime

    @classmethod
    def of(cls, entry: Entry) -> Self:
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
            offer=None if offer is None or is_booked else OfferOut.of(offer),
            appointment_id=offer.hold_id if offer and is_booked else None,
            created_at=entry.created_at,
            changed_at=entry.changed_at,
        )


class EntryPage(BaseModel):
    entries: list[EntryOut]
    next: Annotated[UUID | None, Field(description="Send it as `after` for the next page.")]

    @classmethod
    def of(cls, found: Sequence[Entry], *, limit: int) -> Self:
        page = found[:limit]
        return cls(
            entries=[EntryOut.of(one) for one in page], next=page[-1].id if len(found) > limit else None
        )
