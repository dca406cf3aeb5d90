"""Messages to devices without a connection, through push services (RFC 8030, 8291, 8292).

The server's key is derived from its secret: all processes have the same key, and it need not be stored.
"""

import base64
import hashlib
import secrets
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import Literal
from urllib.parse import urlsplit

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from catraca.platform.clock import monotonic_seconds, now

SEND_SECONDS = 5.0
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

    def authorization(self, endpoint: str) -> str:
        """The `Authorization` header for the endpoint's push service; cached."""
        parts = urlsplit(endpoint)
        audience = f"{parts.scheme}://{parts.netloc}"
        until, header = self._signed.get(audience, (0.0, ""))
        if until < monotonic_seconds():
            claims = {"aud": audience, "exp": now() + SIGNED_FOR, "sub": self._contact}
            token = jwt.encode(claims, self._private, algorithm="ES256")
            header = f"vapid t={token}, k={self.public}"
            self._signed[audience] = (monotonic_seconds() + SIGNED_FOR.total_seconds() / 2, header)
        return header


class PushHosts:
    """The allowed push services: a subscription's address comes from the client and must not be trusted."""

    def __init__(self, hosts: Sequence[str]) -> None:
        """Each is a host, a host with `*.` for its subdomains, or a whole origin for tests and proxies."""
        self._hosts = [host.lower() for host in hosts]

    def allow(self, endpoint: str) -> bool:
        try:
            parts = urlsplit(endpoint)
            host, port = (parts.hostname or "").lower(), parts.port
        except ValueError:
            return False
        if len(endpoint) > ENDPOINT_CHARACTERS or parts.username is not None or not endpoint.isprintable():
            return False
        if f"{parts.scheme}://{parts.netloc}".lower() in self._hosts:
            return True
        return (
            parts.scheme == "https"
            and port in (None, 443)
            and any(
                host == known or (known.startswith("*.") and host.endswith(known[1:]))
                for known in self._hosts
            )
        )


def read_keys(p256dh: str, auth: str) -> bool:
    """True if a message can be encrypted with these keys."""
    try:
        point, secret = _read64(p256dh), _read64(auth)
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    except (ValueError, UnsupportedAlgorithm):
        return False
    return len(point) == PUBLIC_KEY_BYTES and len(secret) == AUTH_BYTES


class Pusher:
    """Sends to push services, with a new connection for each message: there are few."""

    def __init__(self, key: PushKey) -> None:
        self._key = key
        self._trusted: ssl.SSLContext | None = None

    async def push(
        self, to: Subscription, payload: bytes, *, ttl_seconds: int, urgency: Urgency = "normal"
    ) -> None:
        """Raises `PushGone` if the subscription has ended, `PushFailed` for any other failure."""
        import httpx

        headers = {
            "authorization": self._key.authorization(to.endpoint),
            "content-encoding": "aes128gcm",
            "content-type": "application/octet-stream",
            "ttl": str(ttl_seconds),
            "urgency": urgency,
        }
        self._trusted = self._trusted or ssl.create_default_context()
        try:
            async with httpx.AsyncClient(timeout=SEND_SECONDS, verify=self._trusted) as http:
                answer = await http.post(to.endpoint, content=seal(to, payload), headers=headers)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise PushFailed(type(error).__name__) from error
        if answer.status_code in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
            raise PushGone
        if not answer.is_success:
            raise PushFailed(f"status_{answer.status_code}")


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
