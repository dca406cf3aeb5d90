"""Key pairs for tests, and a small identity provider that publishes them over real HTTP."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa


@dataclass
class Key:
    """A key pair, and its form in a key set."""

    id: str
    algorithm: str
    bits: int = 2048

    @cached_property
    def private(self) -> Any:
        if self.algorithm.startswith("ES"):
            return ec.generate_private_key({"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1()}[self.algorithm])
        if self.algorithm == "EdDSA":
            return ed25519.Ed25519PrivateKey.generate()
        return rsa.generate_private_key(65537, self.bits)

    def published(self, **changes: Any) -> dict[str, Any]:
        document = jwt.get_algorithm_by_name(self.algorithm).to_jwk(self.private.public_key(), as_dict=True)
        document.pop("key_ops", None)
        return document | {"kid": self.id, "use": "sig", "alg": self.algorithm} | changes


RSA = Key("rsa", "RS256")


@dataclass
class Provider:
    """The published keys, and the number of requests."""

    url: str = ""
    keys: list[dict[str, Any]] = field(default_factory=list)
    body: bytes | None = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    asked: int = 0
    silent: bool = False
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def answer(self) -> bytes:
        return json.dumps({"keys": self.keys}).encode() if self.body is None else self.body


@contextmanager
def provider(*keys: Key) -> Iterator[Provider]:
    """A provider listening on loopback until the block ends."""
    publishes = Provider(keys=[key.published() for key in keys])

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            publishes.asked += 1
            if publishes.silent:
                publishes.over.wait()
                return
            self.send_response(publishes.status)
            for name, value in publishes.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(publishes.answer)

        def log_message(self, *_: Any) -> None:
            """No log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    publishes.url = f"http://127.0.0.1:{server.server_port}/keys"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield publishes
    finally:
        publishes.over.set()
        server.shutdown()
        thread.join()
        server.server_close()
