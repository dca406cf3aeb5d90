"""One HTTP call: repeated under one key until there is an answer that counts, or no time is left."""

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

# A server allows itself 15 s for one answer.
ANSWER_SECONDS = 20.0
UNAUTHORIZED = 401
SAFE = frozenset({"GET", "HEAD"})
# Nobody knows whether it happened, or it did not: with the same key, once more does no harm.
AGAIN_STATUSES = frozenset({429, 502, 503, 504})
AGAIN_CODE = "idempotency_key_in_use"


class Bearer:
    """The token to send. What a callable answered serves until the server no longer takes it."""

    def __init__(self, token: Token) -> None:
        self._token = token
        self._current = token if isinstance(token, str) else None
        self._asking = asyncio.Lock()

    @property
    def is_renewable(self) -> bool:
        return not isinstance(self._token, str)

    async def current(self) -> str:
        return self._current or await self.renew(None)

    async def renew(self, refused: str | None) -> str:
        """Another token than the refused one; of many who were refused together, one asks."""
        async with self._asking:
            if callable(self._token) and self._current in (None, refused):
                answer = self._token()
                self._current = await answer if isawaitable(answer) else answer
        assert self._current is not None
        return self._current


class Http:
    """Calls to one server as one person."""

    def __init__(self, url: str, bearer: Bearer, *, language: str | None, deadline_seconds: float) -> None:
        self.bearer = bearer
        self.deadline_seconds = deadline_seconds
        headers = {"accept-language": language} if language else {}
        self._client = httpx.AsyncClient(
            base_url=url,
            headers=headers,
            timeout=ANSWER_SECONDS,
            verify=tls(),
            # A proxy cannot know this machine's own addresses.
            trust_env=not is_local(url),
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def ask(
        self,
        method: str,
        path: str,
        into: type[T],
        *,
        body: object = None,
        query: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> T:
        """The answer as a value. An unsafe call has one effect, however often it had to be sent."""
        content = await self._content(method, path, body=body, query=query, key=key)
        return msgspec.json.decode(content, type=into)

    async def look(self, path: str, into: type[T]) -> T | None:
        """The answer to a GET, or nothing where there is none just now."""
        content = await self._content("GET", path)
        return msgspec.json.decode(content, type=into) if content else None

    async def tell(self, method: str, path: str, *, body: object = None) -> None:
        """A call of which no answer is expected but that it was done."""
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
        return (await self._answer(request)).content

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        give_up_at = asyncio.get_running_loop().time() + self.deadline_seconds
        pauses = Pauses()
        while True:
            trouble: Exception
            asked_for_seconds = 0.0
            try:
                async with asyncio.timeout_at(give_up_at):
                    answer = await self._send(request)
            except (httpx.TransportError, TimeoutError) as error:
                trouble = error
            else:
                if answer.is_success:
                    return answer
                trouble = refusal_in(answer.status_code, answer.content)
                if not _may_try_again(trouble):
                    raise trouble
                asked_for_seconds = retry_after_seconds(answer.headers.get("retry-after"))
            pause_seconds = pauses.next_seconds(at_least=asked_for_seconds)
            if asyncio.get_running_loop().time() + pause_seconds >= give_up_at:
                what = f"{request.method} {request.url.path} within {self.deadline_seconds:g} s"
                raise Unreachable(
                    f"no answer to {what}: {str(trouble) or type(trouble).__name__}"
                ) from trouble
            await asyncio.sleep(pause_seconds)

    async def _send(self, request: httpx.Request) -> httpx.Response:
        """Sent once; or twice, where the token had run out and there is another."""
        token = await self.bearer.current()
        request.headers["authorization"] = f"Bearer {token}"
        answer = await self._client.send(request)
        if answer.status_code != UNAUTHORIZED or not self.bearer.is_renewable:
            return answer
        request.headers["authorization"] = f"Bearer {await self.bearer.renew(token)}"
        return await self._client.send(request)


def refusal_in(status: int, content: bytes) -> Refused:
    """What a problem says; an answer that is none, such as a proxy's page, is told by its status."""
    try:
        problem: dict[str, Any] = msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        problem = {}
    code, detail = problem.pop("code", None), problem.pop("detail", None)
    return Refused(status, str(code or f"http_{status}"), str(detail or "No reason was given."), problem)


def retry_after_seconds(header: str | None) -> float:
    """In seconds, as Catraca writes it; a proxy's date counts as nothing said."""
    return float(header) if header is not None and header.isdecimal() else 0.0


def is_local(url: str) -> bool:
    return urlsplit(url).hostname in ("127.0.0.1", "::1", "localhost")


def _may_try_again(refusal: Refused) -> bool:
    return refusal.status in AGAIN_STATUSES or (refusal.status == 409 and refusal.code == AGAIN_CODE)


@cache
def tls() -> ssl.SSLContext:
    """One for all clients: each would read every authority's certificate anew."""
    return httpx.create_ssl_context()
