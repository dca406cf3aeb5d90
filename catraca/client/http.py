"""HTTP calls: retried with one idempotency key until there is a final response or no time is left."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from inspect import isawaitable
from typing import Any, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import msgspec

from catraca.client.errors import Refused, Unreachable
from catraca.client.pauses import Pauses

T = TypeVar("T")
Token = str | Callable[[], str | Awaitable[str]]

# The server limits itself to 15 s.
RESPONSE_SECONDS = 20.0
UNAUTHORIZED = 401
SAFE = frozenset({"GET", "HEAD"})
# The change did not happen, or it is unknown: a retry with the same key is safe.
RETRY_STATUSES = frozenset({429, 502, 503, 504})
RETRY_CODE = "idempotency_key_in_use"


class Bearer:
    """The token to send. A token from a callable is used until the server refuses it."""

    def __init__(self, token: Token) -> None:
        self._token = token
        self._current = token if isinstance(token, str) else None
        self._renewing = asyncio.Lock()

    @property
    def is_renewable(self) -> bool:
        return not isinstance(self._token, str)

    async def current(self) -> str:
        return self._current or await self.renew(None)

    async def renew(self, refused: str | None) -> str:
        """A token other than the refused one; concurrent callers share one renewal."""
        async with self._renewing:
            if callable(self._token) and self._current in (None, refused):
                token = self._token()
                self._current = await token if isawaitable(token) else token
        assert self._current is not None
        return self._current


class Http:
    """Calls to one server as one caller."""

    def __init__(self, url: str, bearer: Bearer, *, language: str | None, deadline_seconds: float) -> None:
        self.bearer = bearer
        self.deadline_seconds = deadline_seconds
        headers = {"accept-language": language} if language else {}
        self._client = httpx.AsyncClient(
            base_url=url,
            headers=headers,
            timeout=RESPONSE_SECONDS,
            verify=tls(),
            # A proxy cannot reach the local addresses of this machine.
            trust_env=not is_local(url),
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def request(
        self,
        method: str,
        path: str,
        into: type[T],
        *,
        body: object = None,
        query: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> T:
        """The decoded response. A change happens once, however often it is sent."""
        content = await self._content(method, path, body=body, query=query, key=key)
        return msgspec.json.decode(content, type=into)

    async def get_or_none(self, path: str, into: type[T]) -> T | None:
        """The decoded response to a GET; None if the response is empty (204)."""
        content = await self._content("GET", path)
        return msgspec.json.decode(content, type=into) if content else None

    async def send(self, method: str, path: str, *, body: object = None) -> None:
        """A call without a response body."""
        await self._content(method, path, body=body)

    async def _content(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        query: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> bytes:
        headers = {} if method in SAFE else {"idempotency-key": key or str(uuid4())}
        content = None if body is None else msgspec.json.encode(body)
        if content is not None:
            headers["content-type"] = "application/json"
        request = self._client.build_request(method, path, content=content, params=query, headers=headers)
        return (await self._response(request)).content

    async def _response(self, request: httpx.Request) -> httpx.Response:
        give_up_at = asyncio.get_running_loop().time() + self.deadline_seconds
        pauses = Pauses()
        while True:
            failure: Exception
            requested_seconds = 0.0
            try:
                async with asyncio.timeout_at(give_up_at):
                    response = await self._send(request)
            except (httpx.TransportError, TimeoutError) as error:
                failure = error
            else:
                if response.is_success:
                    return response
                failure = refusal_in(response.status_code, response.content)
                if not _may_retry(failure):
                    raise failure
                requested_seconds = retry_after_seconds(response.headers.get("retry-after"))
            pause_seconds = pauses.next_seconds(at_least=requested_seconds)
            if asyncio.get_running_loop().time() + pause_seconds >= give_up_at:
                what = f"{request.method} {request.url.path} within {self.deadline_seconds:g} s"
                raise Unreachable(
                    f"no answer to {what}: {str(failure) or type(failure).__name__}"
                ) from failure
            await asyncio.sleep(pause_seconds)

    async def _send(self, request: httpx.Request) -> httpx.Response:
        """Send once; a second time with a new token if the first was refused."""
        token = await self.bearer.current()
        request.headers["authorization"] = f"Bearer {token}"
        response = await self._client.send(request)
        if response.status_code != UNAUTHORIZED or not self.bearer.is_renewable:
            return response
        request.headers["authorization"] = f"Bearer {await self.bearer.renew(token)}"
        return await self._client.send(request)


def without_none(fields: dict[str, Any]) -> dict[str, Any]:
    """Leave out None: for the server a missing field differs from null."""
    return {name: value for name, value in fields.items() if value is not None}


def refusal_in(status: int, content: bytes) -> Refused:
    """The refusal in a problem response; any other body, such as a proxy's page, gives only the status."""
    try:
        problem: dict[str, Any] = msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        problem = {}
    code, detail = problem.pop("code", None), problem.pop("detail", None)
    return Refused(status, str(code or f"http_{status}"), str(detail or "No reason was given."), problem)


def retry_after_seconds(header: str | None) -> float:
    """Seconds in a Retry-After header; 0 for a date, which only proxies send."""
    return float(header) if header is not None and header.isdecimal() else 0.0


def is_local(url: str) -> bool:
    return urlsplit(url).hostname in ("127.0.0.1", "::1", "localhost")


def _may_retry(refusal: Refused) -> bool:
    return refusal.status in RETRY_STATUSES or (refusal.status == 409 and refusal.code == RETRY_CODE)


@cache
def tls() -> ssl.SSLContext:
    """One context for all clients: each would load all certificates again."""
    return httpx.create_ssl_context()
