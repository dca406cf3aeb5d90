"""Refused sign-ups: a clear answer, and nothing in the queue."""

from dataclasses import replace
from ipaddress import ip_network
from itertools import cycle
from typing import Any
from uuid import UUID, uuid4

import aiormq
import msgspec

from catraca.events import SIGN_UP_QUEUE
from catraca.roles.parts import open_parts
from tests.domains.onboarding.harness import PATHS, Receipt, SignUpHarness, new_address, on_both_buses
from tests.servers import until
from tests.support.http import served

pytestmark = on_both_buses

ANA = {"name": "Ana", "email": "ana@example.com"}
WRONG_FIELDS = {
    "no name": {"email": "ana@example.com"},
    "no address": {"name": "Ana"},
    "neither": {},
    "a field we do not know": ANA | {"id": "0198a7f0-5d2e-7c41-9f0a-3b1c2d4e5f60"},
    "a role": ANA | {"roles": ["operator"]},
    "null for a name": ANA | {"name": None},
    "a number for a name": ANA | {"name": 7},
    "a list for an address": ANA | {"email": ["ana@example.com"]},
    "true for an address": ANA | {"email": True},
    "an empty name": ANA | {"name": ""},
    "a blank name": ANA | {"name": " \u00a0\u200b "},
    "a long name": ANA | {"name": "a" * 121},
    "a name that is long once composed": ANA | {"name": "\u0958" * 61},
    "two lines": ANA | {"name": "Ana\nMoura"},
    "a bell": ANA | {"name": "Ana\u0007"},
    "a C1 control": ANA | {"name": "Ana\u0085Moura"},
    "a name written backwards": ANA | {"name": "Ana \u202emoc.live"},
    "an isolate": ANA | {"name": "Ana \u2067Moura\u2069"},
    "a line separator": ANA | {"name": "Ana\u2028Moura"},
    "no @": ANA | {"email": "ana.example.com"},
    "two @": ANA | {"email": "ana@@example.com"},
    "a full-width @": ANA | {"email": "ana＠example.com"},
    "no top level": ANA | {"email": "ana@localhost"},
    "a space inside": ANA | {"email": "a na@example.com"},
    "a space before": ANA | {"email": " ana@example.com"},
    "a line break after": ANA | {"email": "ana@example.com\n"},
    "a second header": ANA | {"email": "ana@example.com\r\nBcc: rui@example.com"},
    "a long local part": ANA | {"email": "a" * 65 + "@example.com"},
    "a long address": ANA | {"email": "a@" + ".".join(["b" * 60] * 5) + ".com"},
    "an address that is long once folded": ANA | {"email": "\ufdfa" * 60 + "@example.com"},
    "an invisible space": ANA | {"email": "a\u200bna@example.com"},
    "a right-to-left mark": ANA | {"email": "ana\u200f@example.com"},
    "angle brackets": ANA | {"email": "<ana@example.com>"},
    "an array": [ANA],
    "a text": "Ana",
    "null": None,
}
JSON = {"content-type": "application/json"}
WRONG_BODIES = {
    "nothing": (b"", JSON, 422),
    "half a body": (b'{"name": "Ana", "email": "ana@exam', JSON, 400),
    "two values": (b'{"name": "Ana", "email": "ana@example.com"} {}', JSON, 400),
    "the same field twice": (b'{"name": "Ana", "name": "Rui", "email": "ana@example.com"}', JSON, 400),
    "NUL": (b'{"name": "Ana\\u0000", "email": "ana@example.com"}', JSON, 400),
    "half of a surrogate pair": (b'{"name": "Ana \\ud83d", "email": "ana@example.com"}', JSON, 400),
    "Latin-1": ('{"name": "João", "email": "joao@example.com"}'.encode("latin-1"), JSON, 400),
    "deeply nested": (b'{"name": ' + b"[" * 5000 + b"]" * 5000 + b"}", JSON, 400),
    "too large": (b'{"name": "' + b"a" * 65 * 1024 + b'", "email": "ana@example.com"}', JSON, 413),
    "a form": (b"name=Ana&email=ana%40example.com", {"content-type": "text/plain"}, 415),
    "no media type": (b'{"name": "Ana", "email": "ana@example.com"}', {}, 415),
}


async def only_one_more_is_queued(harness: SignUpHarness) -> None:
    """Send a valid sign-up; only this one is in the queue."""
    await harness.sign_up()
    await harness.until_waiting(1)


async def test_invalid_fields_are_named_and_nothing_is_queued(harness: SignUpHarness) -> None:
    for (name, body), path in zip(WRONG_FIELDS.items(), cycle(PATHS)):
        answer = await harness.api.post(path, content=msgspec.json.encode(body), headers=JSON)
        assert answer.status_code == 422, name
        assert answer.json()["code"] == "request_invalid", name
        assert answer.json()["errors"], name
        assert "example.com" not in answer.text, "sent values are not in the response"
    await only_one_more_is_queued(harness)


async def test_invalid_bodies_are_refused_and_nothing_is_queued(harness: SignUpHarness) -> None:
    for (name, (body, headers, status)), path in zip(WRONG_BODIES.items(), cycle(PATHS)):
        answer = await harness.api.post(path, content=body, headers=headers)
        assert answer.status_code == status, (name, answer.text)
        assert answer.headers["content-type"] == "application/problem+json", name
        assert "Ana" not in answer.text, name
    await only_one_more_is_queued(harness)


async def test_invalid_key_is_refused_and_nothing_is_queued(harness: SignUpHarness) -> None:
    for key in ("", "a b", "é", "a\tb", "x" * 256):
        headers = {"idempotency-key": key.encode()}
        answer = await harness.api.post("/v1/users", json=ANA, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (400, "idempotency_key_invalid"), key
    await only_one_more_is_queued(harness)


async def test_refusals_are_in_the_callers_language(harness: SignUpHarness) -> None:
    details: dict[str, tuple[Any, ...]] = {}
    for language in ("pt-BR", "en"):
        headers = {"accept-language": language}
        wrong = await harness.api.post("/v1/users", json=ANA | {"email": "ana"}, headers=headers)
        bad_key = await harness.api.post("/v1/users", json=ANA, headers=headers | {"idempotency-key": "a b"})
        unknown = await harness.api.get(f"/v1/users/{uuid4()}/status", headers=headers)
        problems = [wrong.json(), bad_key.json(), unknown.json()]
        details[language] = (*(problem["detail"] for problem in problems), str(problems[0]["errors"]))
    assert all(one != other for one, other in zip(details["pt-BR"], details["en"], strict=True))


async def test_sign_ups_are_limited_per_network_address(harness: SignUpHarness) -> None:
    strict = {"rate_limit_sign_up_address": "3/day", "trusted_proxies": [ip_network("127.0.0.1")]}
    async with served(harness.parts, **strict) as here, here.client() as api:
        tag = uuid4().hex[:4]
        one, other = ({"x-forwarded-for": f"2001:db8:{tag}:{network}::1"} for network in (1, 2))
        for _ in range(3):
            answer = await api.post(PATHS[0], json=ANA | {"email": new_address()}, headers=one)
            assert answer.status_code == 200
        for path in PATHS:
            refused = await api.post(path, json=ANA | {"email": new_address()}, headers=one)
            assert (refused.status_code, refused.json()["code"]) == (429, "too_many_requests")
            assert int(refused.headers["retry-after"]) > 3600
        answer = await api.post(PATHS[0], json=ANA | {"email": new_address()}, headers=other)
        assert answer.status_code == 200
    await harness.until_waiting(4)


async def test_sign_ups_are_limited_per_email_in_any_spelling(harness: SignUpHarness) -> None:
    async with served(harness.parts, rate_limit_sign_up_email="2/day") as here, here.client() as api:
        email = f"straße.{uuid4().hex}@example.com"
        for spelling in (email, email.upper()):
            assert (await api.post(PATHS[0], json={"name": "Ana", "email": spelling})).status_code == 200
        refused = await api.post(PATHS[1], json={"name": "Rui", "email": email.title()})
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) > 3600
        assert "straße" not in refused.text
        assert (await api.post(PATHS[1], json={"name": "Rui", "email": new_address()})).status_code == 200
    await harness.until_waiting(3)


async def test_full_queue_refuses_until_there_is_room(harness: SignUpHarness, broker_url: str | None) -> None:
    topology = harness.parts.topology
    queues = [
        replace(queue, max_length=2) if queue.name == SIGN_UP_QUEUE else queue for queue in topology.queues
    ]
    if broker_url is not None:
        await delete_queue(broker_url)
    narrow = open_parts(harness.parts.settings, topology=replace(topology, queues=tuple(queues)))
    async with narrow as parts, served(parts) as here, here.client() as api:
        narrowed, key, email = SignUpHarness(parts, api), uuid4().hex, new_address()
        receipt: list[Receipt] = []
        answer = await narrowed.post(email=email, key=key)
        while answer.status_code == 200 and len(receipt) < 20:  # a broker accepts one or two more
            receipt.append(Receipt(UUID(answer.json()["id"]), answer.json()["status_token"]))
            answer = await narrowed.post(email=email, key=(key := uuid4().hex))
        assert (answer.status_code, answer.json()["code"]) == (503, "sign_ups_full")
        assert answer.headers["retry-after"] == "30"
        assert await narrowed.left() == {SIGN_UP_QUEUE: len(receipt)}, "the refused one is not queued"
        headers = {"accept-language": "pt-BR", "idempotency-key": key}
        em_portugues = await api.post("/v1/users", json={"name": "Ana", "email": email}, headers=headers)
        assert em_portugues.json()["detail"] != answer.json()["detail"]
        await narrowed.ingested(*(one.id for one in receipt))

        async def is_accepted() -> bool:
            return (await narrowed.post(email=email, key=key)).status_code == 200

        await until(is_accepted)
    if broker_url is not None:
        await delete_queue(broker_url)


async def delete_queue(broker_url: str) -> None:
    """The length limit of a queue cannot be changed in place."""
    connection = await aiormq.connect(broker_url)
    await (await connection.channel()).queue_delete(SIGN_UP_QUEUE)
    await connection.close()
