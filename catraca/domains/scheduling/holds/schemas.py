"""Bodies and answers of the routes for holds."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import Field
from pydantic.config import JsonDict

from catraca.domains.scheduling.appointments.model import Client
from catraca.domains.scheduling.appointments.schemas import AccountIn, TimeIn
from catraca.domains.scheduling.shared.schemas import HOLD_ID, REQUESTED_TIME, TEN
from catraca.platform.forms import Answer, examples

HOLD: JsonDict = {
    "hold_id": HOLD_ID,
    **REQUESTED_TIME,
    "ends_at": TEN,
    "expires_at": "2026-11-20T17:36:08.214Z",
}


class HolderIn(AccountIn):
    """A client with an account: holds are counted per account. Default: the caller."""


class HoldIn(TimeIn):
    model_config = examples(REQUESTED_TIME)

    client: HolderIn | None = None

    def to_client(self) -> Client | None:
        return self.client and self.client.to_client()


class HoldOut(Answer):
    model_config = examples(HOLD)

    hold_id: Annotated[UUID, Field(validation_alias="id")]
    service_id: UUID
    worker_id: UUID
    starts_at: datetime
    ends_at: datetime
    expires_at: Annotated[datetime, Field(description="From then on the hold is ignored.")]
