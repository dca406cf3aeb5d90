"""The entry point: the calls of one caller to one server."""

from types import TracebackType
from typing import Final
from urllib.parse import urlsplit
from uuid import UUID

import msgspec

from catraca.client.communities import Communities
from catraca.client.http import Bearer, Http, Token
from catraca.client.live import Live
from catraca.client.location import Location
from catraca.client.notifications import Notifications
from catraca.client.rides import Rides
from catraca.client.scheduling import Scheduling
from catraca.client.trips import Trips

CALL_SECONDS = 30.0
LIVE_SECONDS = 300.0


class _Me(msgspec.Struct):
    id: UUID


class Client:
    """`async with Client(url, token=...) as catraca:`; connections are closed at the end of the block."""

    def __init__(
        self,
        url: str,
        *,
        token: Token,
        deadline_seconds: float = CALL_SECONDS,
        language: str | None = None,
    ) -> None:
        """`token` is a token, or a function that returns one and is called again when it has expired.

        Each call takes at most `deadline_seconds`, retries included. `language` ("pt-BR" or "en") is the
        language of texts.
        """
        if urlsplit(url).scheme not in ("http", "https"):
            raise ValueError(f"the URL must begin with http:// or https://: {url}")
        self.url: Final = url.rstrip("/")
        self._bearer = Bearer(token)
        self._language = language
        self._http = Http(self.url, self._bearer, language=language, deadline_seconds=deadline_seconds)
        self._lives: set[Live] = set()
        self._own_id: UUID | None = None
        self.rides: Final = Rides(self._http)
        self.location: Final = Location(self._http, self.own_id)
        self.notifications: Final = Notifications(self._http)
        self.trips: Final = Trips(self._http)
        self.communities: Final = Communities(self._http)
        self.scheduling: Final = Scheduling(self._http)

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        for live in self._lives:
            await live.close()
        await self._http.close()

    async def own_id(self) -> UUID:
        """The id of the caller; requested once."""
        if self._own_id is None:
            self._own_id = (await self._http.request("GET", "/v1/me", _Me)).id
        return self._own_id

    def live(
        self,
        *,
        since: int | None = None,
        acknowledge: bool = False,
        patience_seconds: float = LIVE_SECONDS,
    ) -> Live:
        """The caller's messages after number `since`; without it, new messages only.

        With `acknowledge` the server learns which messages were delivered. After `patience_seconds` without a
        connection it raises `Unreachable`. As a context manager it connects first and closes at the end.
        """
        live = Live(
            self.url,
            self._bearer,
            since=since,
            acknowledge=acknowledge,
            patience_seconds=patience_seconds,
            language=self._language,
        )
        self._lives = {one for one in self._lives if not one.is_closed} | {live}
        return live
