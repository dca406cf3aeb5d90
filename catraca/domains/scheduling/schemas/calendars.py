"""What the routes of calendars give."""

from typing import Annotated, Self

from pydantic import BaseModel, Field

EXAMPLE = "/v1/scheduling/calendars/q0eJ3m8TnVb1cXz5LkR7yWd2HsPfGaUo4iMtKjNxEhQ.ics"


class CalendarLinkOut(BaseModel):
    path: Annotated[
        str,
        Field(
            description="On this server. Told this once: whoever has it has the calendar.", examples=[EXAMPLE]
        ),
    ]

    @classmethod
    def of(cls, token: str) -> Self:
        return cls(path=f"/v1/scheduling/calendars/{token}.ics")
