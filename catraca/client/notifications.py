"""What a person was told, page by page; `Client.live` tells it as it happens."""

from collections.abc import Sequence
from typing import Any, Final

from catraca.client.http import Http
from catraca.client.models import Marked, NotificationPage


class Notifications:
    def __init__(self, http: Http) -> None:
        self._http: Final = http

    async def page(
        self,
        *,
        since: int | None = None,
        before: int | None = None,
        unread: bool = False,
        limit: int = 50,
    ) -> NotificationPage:
        """The newest first; or upwards from `since`. The page's `next` goes where one's own number went."""
        query: dict[str, Any] = {"limit": limit, "unread": str(unread).lower()}
        query |= {} if since is None else {"since": since}
        query |= {} if before is None else {"before": before}
        return await self._http.ask("GET", "/v1/notifications", NotificationPage, query=query)

    async def mark_read(self, *seqs: int, up_to: int = 0) -> Marked:
        """These, and all up to a number; doing it again changes nothing."""
        body: dict[str, int | Sequence[int]] = {"seqs": seqs, "up_to": up_to}
        return await self._http.ask("POST", "/v1/notifications/read", Marked, body=body)
