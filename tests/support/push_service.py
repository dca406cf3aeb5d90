"""A push service that records the pushes it gets, and a browser that can decrypt them."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


@dataclass
class Pushed:
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class PushService:
    origin: str
    status: int = 201
    taken: list[Pushed] = field(default_factory=list[Pushed])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await _head(reader):
            line, *rest = head.decode().split("\r\n")
            headers = {name.lower(): value for name, value in (one.split(": ", 1) for one in rest if one)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            self.taken.append(Pushed(line.split(" ")[1], headers, body))
            writer.write(f"HTTP/1.1 {self.status} So\r\ncontent-length: 0\r\n\r\n".encode())
            await writer.drain()
        writer.close()


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return (await reader.readuntil(b"\r\n\r\n"))[:-2]
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


@asynccontextmanager
async def push_service() -> AsyncIterator[PushService]:
    service = PushService("")
    server = await asyncio.start_server(service.serve, "127.0.0.1", 0)
    service.origin = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield service
    finally:
        server.close()


class Browser:
    """The receiver after RFC 8291, implemented independently of the sender."""

    def __init__(self, endpoint: str) -> None:
        self._private = ec.generate_private_key(ec.SECP256R1())
        self._public = self._private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        self._auth = b"sixteen bytes ok"
        self.subscription = {
            "endpoint": endpoint,
            "keys": {"p256dh": _write64(self._public), "auth": _write64(self._auth)},
        }

    def read(self, body: bytes) -> dict[str, Any]:
        salt, length = body[:16], body[20]
        theirs, sealed = body[21 : 21 + length], body[21 + length :]
        shared = self._private.exchange(
            ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), theirs)
        )
        material = _hkdf(shared, self._auth, b"WebPush: info\x00" + self._public + theirs, 32)
        key = _hkdf(material, salt, b"Content-Encoding: aes128gcm\x00", 16)
        opened = AESGCM(key).decrypt(_hkdf(material, salt, b"Content-Encoding: nonce\x00", 12), sealed, None)
        assert opened.endswith(b"\x02")
        return msgspec.json.decode(opened[:-1])


def _hkdf(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(hashes.SHA256(), length, salt, info).derive(secret)


def _write64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
