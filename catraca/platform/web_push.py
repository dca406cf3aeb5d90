"""Messages to devices without a connection, through push services (RFC 8030, 8291, 8292).

The server's key is derived from its secret: all processes have the same key, and it need not be stored.
"""

import base64
import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import Literal

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from catraca.platform.call_limits import HostPauses, KeyLimits, NoTurn
from catraca.platform.clock import monotonic_seconds, now
from catraca.platform.outbound import (
    AddressRefused,
    CallFailed,
    OutboundCaller,
    OutboundUrl,
    UrlRefused,
    read_url,
)

SEND_SECONDS = 5.0
# One slow push service must not take all senders of a process.
CALLS_PER_HOST, HOST_WAIT_SECONDS = 16, 2.0
SILENT_CALLS, PAUSE_SECONDS = 3, 30.0
SIGNATURES_REMEMBERED = 100
# Push services may refuse longer ones; the device reads the rest from the API.
PAYLOAD_BYTES = 3000
# A signature is reused for half of this time.
SIGNED_FOR = timedelta(hours=12)
ENDPOINT_CHARACTERS = 1000
PUBLIC_KEY_BYTES, AUTH_BYTES, SALT_BYTES, RECORD_BYTES = 65, 16, 16, 4096
LAST_RECORD = b"\x02"

# Of Chrome and related browsers, Firefox, Edge, Safari.
PUSH_SERVICES = (
    "fcm.googleapis.com",
    "*.push.services.mozilla.com",
    "*.notify.windows.com",
    "*.push.apple.com",
)

Urgency = Literal["high", "normal"]


class PushGone(Exception):
    """The device's subscription has ended."""


class PushFailed(Exception):
    """The push service did not accept the message; `code` is the reason."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class Subscription:
    """A device's address at its push service, and its public keys."""

    endpoint: str
    p256dh: str
    auth: str


class PushKey:
    """This server's key for push services (VAPID)."""

    def __init__(self, secret: str, *, contact: str) -> None:
        """`contact` is the operator's address for push services: `mailto:` or `https:`."""
        seed = hashlib.sha512(b"catraca web push\0" + secret.encode()).digest()
        order = int("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551", 16)
        self._private = ec.derive_private_key(int.from_bytes(seed) % (order - 1) + 1, ec.SECP256R1())
        self._contact = contact
        self._signed: dict[str, tuple[float, str]] = {}
        self.public = _write64(_point_of(self._private))

    def authorization(self, audience: str) -> str:
        """The `Authorization` header for a push service, given by its origin; cached."""
        until, header = self._signed.get(audience, (0.0, ""))
        if until < monotonic_seconds():
            self._signed.pop(audience, None)
            if len(self._signed) >= SIGNATURES_REMEMBERED:
                del self._signed[next(iter(self._signed))]
            claims = {"aud": audience, "exp": now() + SIGNED_FOR, "sub": self._contact}
            token = jwt.encode(claims, self._private, algorithm="ES256")
            header = f"vapid t={token}, k={self.public}"
            self._signed[audience] = (monotonic_seconds() + SIGNED_FOR.total_seconds() / 2, header)
        return header


class PushHosts:
    """The allowed push services: a subscription's address comes from the client and must not be trusted."""

    def __init__(self, hosts: Sequence[str]) -> None:
        """Each is a host, a host with `*.` for its subdomains, or a whole origin for tests and proxies.

        A whole origin is the operator's own: it may have any port and address, and be without TLS.
        """
        self._hosts = [host.lower() for host in hosts if "://" not in host]
        self.own_origins = frozenset(
            read_url(host, schemes=("https", "http"), inside=True).origin for host in hosts if "://" in host
        )

    def read(self, endpoint: str) -> OutboundUrl | None:
        """The parts of an allowed endpoint; None for any other."""
        if len(endpoint) > ENDPOINT_CHARACTERS:
            return None
        try:
            url = read_url(endpoint, schemes=("https", "http"), inside=True)
        except UrlRefused:
            return None
        is_allowed = url.origin in self.own_origins or (
            (url.scheme, url.port) == ("https", 443)
            and any(
                url.host == known or (known.startswith("*.") and url.host.endswith(known[1:]))
                for known in self._hosts
            )
        )
        return url if is_allowed else None

    def allow(self, endpoint: str) -> bool:
        return self.read(endpoint) is not None


def read_keys(p256dh: str, auth: str) -> bool:
    """True if a message can be encrypted with these keys."""
    try:
        point, secret = _read64(p256dh), _read64(auth)
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    except (ValueError, UnsupportedAlgorithm):
        return False
    return len(point) == PUBLIC_KEY_BYTES and len(secret) == AUTH_BYTES


class Pusher:
    """Sends to push services. One that does not answer is paused, and few calls to each run at a time."""

    def __init__(self, key: PushKey, hosts: PushHosts) -> None:
        self._key = key
        self._hosts = hosts
        self._caller = OutboundCaller(seconds=SEND_SECONDS, own_origins=hosts.own_origins)
        self._limits = KeyLimits(at_once=CALLS_PER_HOST, wait_seconds=HOST_WAIT_SECONDS)
        self._pauses = HostPauses(failures=SILENT_CALLS, pause_seconds=PAUSE_SECONDS)

    async def push(
        self, to: Subscription, payload: bytes, *, ttl_seconds: int, urgency: Urgency = "normal"
    ) -> None:
        """Raises `PushGone` if the subscription has ended, `PushFailed` for any other failure."""
        url = self._hosts.read(to.endpoint)
        if url is None:  # allowed when it was stored, by other settings or an older version
            raise PushGone
        headers = {
            "authorization": self._key.authorization(url.origin),
            "content-encoding": "aes128gcm",
            "content-type": "application/octet-stream",
            "ttl": str(ttl_seconds),
            "urgency": urgency,
        }
        try:
            async with self._limits.turn(url.origin):
                status = await self._post(url, seal(to, payload), headers)
        except NoTurn as error:
            raise PushFailed("push_service_busy") from error
        if status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
            raise PushGone
        if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            raise PushFailed(f"status_{status}")

    async def _post(self, url: OutboundUrl, content: bytes, headers: Mapping[str, str]) -> int:
        # Checked after the wait for a turn: those who wait for a silent service stop waiting with its pause.
        if self._pauses.is_paused(url.origin):
            raise PushFailed("push_service_paused")
        try:
            status = await self._caller.post(url, content, headers)
        except AddressRefused as error:
            raise PushFailed(error.code) from error
        except CallFailed as error:
            self._pauses.record_silence(url.origin)
            raise PushFailed(error.code) from error
        self._pauses.record_answer(url.origin)
        return status


def seal(
    to: Subscription,
    payload: bytes,
    *,
    ours: ec.EllipticCurvePrivateKey | None = None,
    salt: bytes | None = None,
) -> bytes:
    """Encrypt for the device (aes128gcm, one record): the push service cannot read the message."""
    ours, salt = ours or ec.generate_private_key(ec.SECP256R1()), salt or secrets.token_bytes(SALT_BYTES)
    theirs = _read64(to.p256dh)
    our_point = _point_of(ours)
    shared = ours.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), theirs))
    material = _derived(shared, _read64(to.auth), b"WebPush: info\0" + theirs + our_point, 32)
    key = _derived(material, salt, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derived(material, salt, b"Content-Encoding: nonce\0", 12)
    head = salt + RECORD_BYTES.to_bytes(4) + bytes([len(our_point)]) + our_point
    return head + AESGCM(key).encrypt(nonce, payload + LAST_RECORD, None)


def _derived(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(hashes.SHA256(), length, salt, info).derive(secret)


def _point_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def _write64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _read64(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
