"""HTTP form of a ticket."""

from datetime import datetime

from pydantic import BaseModel, Field

from catraca.platform.forms import examples


class TicketOut(BaseModel):
    model_config = examples({"ticket": "o3n0Q1m8yS2h", "expires_at": "2026-03-01T12:00:30Z"})

    ticket: str = Field(description="For `GET /v1/ws?ticket=...`, once.")
    expires_at: datetime
