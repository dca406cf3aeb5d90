"""An authenticator app for the tests, and sign-ins with its codes."""

import base64
import hmac
import struct
import time
from dataclasses import dataclass, field

import httpx

from tests.conftest import bearer
from tests.domains.people.person import PASSWORD, Person


@dataclass
class Authenticator:
    """Shows the code of each time step once: of the present step first, then of the next one."""

    secret: str
    recovery_codes: list[str] = field(default_factory=list)
    last_step: int = 0

    def code(self) -> str:
        self.last_step = max(int(time.time()) // 30, self.last_step + 1)
        return code_of(self.secret, self.last_step)


def code_of(secret: str, step: int) -> str:
    """RFC 6238, written again: the product's own code is what is tested."""
    digest = hmac.digest(base64.b32decode(secret), struct.pack(">Q", step), "sha1")
    start = digest[-1] & 15
    return f"{(int.from_bytes(digest[start : start + 4]) & 0x7FFFFFFF) % 10**6:06}"


async def begun(api: httpx.AsyncClient, person: Person) -> Authenticator:
    made = await api.post("/v1/me/second-factor", headers=person.headers)
    assert made.status_code == 201, made.text
    return Authenticator(made.json()["secret"])


async def turned_on(api: httpx.AsyncClient, person: Person) -> Authenticator:
    """The person has a second factor; the app can show one more code at once."""
    app = await begun(api, person)
    on = await api.post("/v1/me/second-factor/confirm", headers=person.headers, json={"code": app.code()})
    assert on.status_code == 200, on.text
    app.recovery_codes = on.json()["recovery_codes"]
    return app


async def operator_with_factor(
    api: httpx.AsyncClient, role: str = "operator"
) -> tuple[Person, Authenticator]:
    """A user with password and second factor."""
    person = await Person(role).with_password(api)
    person.headers = bearer(role, person.id)
    return person, await turned_on(api, person)


async def sign_in_with(
    api: httpx.AsyncClient, person: Person, password: str = PASSWORD, **proof: str
) -> httpx.Response:
    body = {"email": person.email, "password": password, **proof}
    return await api.post("/v1/auth/token", json=body)


def headers_of(answer: httpx.Response) -> dict[str, str]:
    assert answer.status_code == 200, answer.text
    return {"authorization": f"Bearer {answer.json()['access_token']}"}
