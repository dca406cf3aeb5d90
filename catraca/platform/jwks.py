"""An identity provider's published keys (JWKS): downloaded in a thread, seldom, with limits."""

import asyncio
import json
import urllib.request
from datetime import timedelta
from email.message import Message
from http.client import HTTPException
from math import inf
from typing import IO, Any, cast
from urllib.error import HTTPError

import jwt
import structlog

from catraca.platform.clock import monotonic_seconds
from catraca.platform.errors import IdentityProviderUnavailable, TokenInvalid
from catraca.platform.outbound import read_url

log = structlog.get_logger()

# Asymmetric only: else a token signed with a published key as a shared secret would be valid.
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
FETCH_SECONDS = 3.0
MAX_SET_BYTES = 256 * 1024
MAX_KEYS = 100


class ProviderKeys:
    """Keys by their id. One download at a time, and at least `pause_seconds` between two.

    While the provider is away, known keys keep working; a token with another key cannot be verified. A
    withdrawn key stops working within `kept_seconds`, and the cached tokens signed with it a little later.
    """

    algorithms = ALGORITHMS
    # The provider's clock differs from ours: a revocation covers this much time after it.
    clock_margin = timedelta(seconds=5)

    def __init__(self, url: str, *, kept_seconds: float = 300.0, pause_seconds: float = 5.0) -> None:
        # The form only: the provider is the operator's choice, and is often inside the operator's network.
        read_url(url, schemes=("https", "http"), inside=True)
        self._url = url
        self._kept_seconds = kept_seconds
        self._pause_seconds = pause_seconds
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetching: asyncio.Task[None] | None = None
        self._failed = False
        self._tried_at = self._fetched_at = -inf

    async def key_for(self, token: str) -> jwt.PyJWK:
        """The key with the id in the token's header. A URL or key in the header is ignored."""
        key_id = jwt.get_unverified_header(token).get("kid")
        if not isinstance(key_id, str):
            raise TokenInvalid
        stale = monotonic_seconds() - self._fetched_at >= self._kept_seconds
        if key_id not in self._keys or stale:
            self._fetch_if_due()
            if key_id not in self._keys or not self._away:
                await self._wait_for_fetch()
        key = self._keys.get(key_id)
        if key is not None:
            return key
        # A download that outlasts the wait is an outage. Not by the clock: the wait may end a little early.
        raise IdentityProviderUnavailable if self._failed or self._fetching else TokenInvalid

    @property
    def _away(self) -> bool:
        hangs = self._fetching is not None and monotonic_seconds() - self._tried_at >= FETCH_SECONDS
        return self._failed or hangs

    def _fetch_if_due(self) -> None:
        if self._fetching is None and monotonic_seconds() - self._tried_at >= self._pause_seconds:
            self._tried_at = monotonic_seconds()
            self._fetching = asyncio.create_task(self._fetch())

    async def _wait_for_fetch(self) -> None:
        if self._fetching is not None:
            left_seconds = self._tried_at + FETCH_SECONDS - monotonic_seconds()
            await asyncio.wait({self._fetching}, timeout=max(0.0, left_seconds))

    async def _fetch(self) -> None:
        try:
            self._keys = await asyncio.to_thread(fetch_keys, self._url)
            self._fetched_at = monotonic_seconds()
            self._failed = False
        except (OSError, HTTPException, ValueError, RecursionError) as error:
            self._failed = True
            log.warning("identity_keys_unavailable", reason=type(error).__name__)
        finally:
            self._fetching = None


def fetch_keys(url: str) -> dict[str, jwt.PyJWK]:
    """Download the set and return the keys that may sign tokens. Blocks, with limits on time and size."""
    document: Any = json.loads(_download(url))
    entries: Any = cast(dict[str, Any], document).get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise ValueError("not a JSON Web Key Set")  # noqa: TRY004 - the document is wrong, not an argument
    keys: dict[str, jwt.PyJWK] = {}
    for entry in cast(list[Any], entries)[:MAX_KEYS]:
        key = _signing_key(entry)
        if key is not None and key.key_id:
            keys.setdefault(key.key_id, key)
    return keys


def _signing_key(entry: Any) -> jwt.PyJWK | None:
    """The key with its algorithm; None if it is weak, for another use, or of another kind."""
    try:
        key = jwt.PyJWK(entry)
        weak = key.Algorithm.check_key_length(key.key)
    except (jwt.PyJWTError, ValueError, TypeError, AttributeError, KeyError):
        return None
    fit = key.public_key_use in ("sig", None) and isinstance(key.key_id, str) and not weak
    return key if fit and key.algorithm_name in ALGORITHMS else None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The URL is a setting; a response must not lead to another one, perhaps without TLS."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        return None


def _download(url: str) -> bytes:
    deadline = monotonic_seconds() + FETCH_SECONDS
    request = urllib.request.Request(url, headers={"Accept": "application/json", "User-Agent": "catraca"})  # noqa: S310
    body = bytearray()
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=FETCH_SECONDS) as response:
            while chunk := response.read1(16 * 1024):
                body += chunk
                # The socket's timeout starts again with every read; this one does not.
                if monotonic_seconds() > deadline:
                    raise TimeoutError
                if len(body) > MAX_SET_BYTES:
                    raise ValueError("the key set is too large")
    except HTTPError as error:
        error.close()
        raise
    return bytes(body)
