"""Stored notifications, page by page; `Client.live` delivers new ones."""

from collections.abc import Sequence
from typing import Final

from catraca.client.http import Http, without_none
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
        """Newest first, or ascending after `since`. Pass the page's `next` as `before` or `since`."""
        query = without_none(
            {"limit": limit, "unread": str(unread).lower(), "since": since, "before": before}
        )
        return await self._http.request("GET", "/v1/notifications", NotificationPage, query=query)

    async def mark_read(self, *seqs: int, up_to: int = 0) -> Marked:
        """Mark these, and all up to a number, as read. Safe to repeat."""
        body: dict[str, int | Sequence[int]] = {"seqs": seqs, "up_to": up_to}
        return await self._http.request("POST", "/v1/notifications/read", Marked, body=body)
