"""Messages published to the queue: each becomes a user, a rejection or a dead letter on its own."""

from collections import Counter
from uuid import uuid4

import aiormq
import msgspec
import pytest
from aiormq.abc import DeliveredMessage

from catraca.domains.onboarding import Seal, discard_sign_up
from catraca.domains.onboarding.model import SignUp
from catraca.events import SIGN_UP_QUEUE
from catraca.platform.bus import Message
from catraca.roles.parts import open_parts
from tests.conftest import SECRET
from tests.domains.onboarding.harness import (
    SignUpHarness,
    body_of,
    message,
    new_address,
    on_both_buses,
    valid_message,
)
from tests.domains.people.person import Person
from tests.servers import until

pytestmark = on_both_buses

MB = 1024 * 1024
SEAL = Seal(SECRET)


def invalid_bodies() -> dict[str, list[bytes]]:
    """Invalid bodies by the reason of their dead letter."""
    return {
        "malformed_json": [b"", b"{", b"\x00\xff", b'{"id": "x', body_of()[:-1]],
        "wrong_shape": [
            b"null",
            b"[]",
            b"7",
            b'{"name": "Ana", "email": "ana@example.com"}',
            body_of(id="7"),
        ],
        "text_blank": [body_of(name=""), body_of(name=" \u200b ")],
        "text_unprintable": [body_of(name="Ana\u0000"), body_of(name="Ana \u202emoc")],
        "text_too_long": [body_of(name="a" * 121)],
        "email_malformed": [body_of(email="ana"), body_of(email="ana@example.com\r\nBcc: x")],
        "body_too_large": [body_of(more="x" * MB)],
    }


async def test_invalid_sign_ups_die_and_others_of_the_batch_succeed(
    harness: SignUpHarness,
) -> None:
    bad = invalid_bodies()
    neighbours = [uuid4() for _ in range(sum(map(len, bad.values())))]
    mixed: list[Message] = []
    for body, neighbour in zip((body for bodies in bad.values() for body in bodies), neighbours, strict=True):
        mixed += [message(body), valid_message(neighbour)]
    await harness.put(*mixed)
    await harness.ingested(*neighbours, dead=len(neighbours))
    assert Counter(await harness.reasons()) == {reason: len(bodies) for reason, bodies in bad.items()}
    for letter in await harness.dead_letters():
        assert letter["queue"] == SIGN_UP_QUEUE
        assert bytes(letter["body"]) in bad[letter["reason"]], "the body is kept unchanged"
        assert letter["times"] == 1
        assert "retries" not in letter["headers"], "it was not retried"
    assert [await harness.outcome(one) for one in neighbours] == ["created"] * len(neighbours)
    assert await harness.event_keys(*neighbours) == ["user.created"] * len(neighbours)


async def test_repeated_sign_up_adds_one_user(harness: SignUpHarness) -> None:
    one, other = uuid4(), uuid4()
    again = valid_message(one)
    # The same message, and the same body in another message.
    await harness.put(again, again, msgspec.structs.replace(again, id=uuid4()), valid_message(other))
    await harness.ingested(one, other)
    # The same message again, and another body with the same id.
    await harness.put(again, valid_message(one, name="Rui"))
    await harness.ingested()
    person = await harness.person(one)
    assert person is not None
    assert person["name"] == "Ana Moura", "the first message has the id"
    assert await harness.event_keys(one, other) == ["user.created"] * 2


async def test_one_of_two_requests_with_an_id_in_a_batch_wins(harness: SignUpHarness) -> None:
    one = uuid4()
    rivals = {rival.id: rival for rival in (valid_message(one, name="Ana"), valid_message(one, name="Rui"))}
    await harness.put(*rivals.values())
    await harness.ingested(one)
    (kept,) = await harness.fetch("SELECT request_id FROM sign_ups WHERE id = $1", one)
    person = await harness.person(one)
    assert person is not None
    assert person["name"].encode() in rivals[kept["request_id"]].body
    assert await harness.event_keys(one) == ["user.created"]


async def test_second_sign_up_of_an_address_is_rejected(harness: SignUpHarness) -> None:
    email, later = new_address(), new_address()
    ids = [uuid4() for _ in range(5)]
    await harness.put(
        valid_message(ids[0], email),
        valid_message(ids[1], email.upper()),
        valid_message(ids[2], later),
        valid_message(ids[3], email),
    )
    await harness.ingested(*ids[:4])
    await harness.put(valid_message(ids[4], later))
    await harness.ingested(ids[4])
    fates = Counter([await harness.outcome(one) for one in ids])
    assert fates == {"created": 2, "email_taken": 3}
    assert await harness.event_keys(*ids) == ["user.created"] * 2 + ["user.rejected"] * 3
    for one in ids:
        person = await harness.person(one)
        assert (person is not None) == (await harness.outcome(one) == "created")


async def test_id_of_an_existing_user_is_rejected(harness: SignUpHarness) -> None:
    rui = await Person().with_email(harness.api)
    before, neighbour = await harness.person(rui.id), uuid4()
    await harness.put(valid_message(rui.id), valid_message(neighbour))
    await harness.ingested(rui.id, neighbour)
    assert await harness.outcome(rui.id) == "id_taken"
    assert await harness.person(rui.id) == before
    assert (await harness.event_keys(rui.id)).count("user.rejected") == 1
    assert await harness.outcome(neighbour) == "created"


async def test_rejection_stays_when_the_address_is_free_again(harness: SignUpHarness) -> None:
    rui, one = await Person().with_email(harness.api), uuid4()
    late = valid_message(one, rui.email)
    await harness.put(late)
    await harness.ingested(one)
    assert (await harness.api.delete("/v1/me", headers=rui.headers)).status_code == 204
    await harness.put(late)
    await harness.ingested()
    assert await harness.outcome(one) == "email_taken"
    assert await harness.event_keys(one) == ["user.rejected"]


@pytest.mark.parametrize("retries", [1, 3, 99])
async def test_valid_sign_up_with_retries_in_its_headers_succeeds(
    harness: SignUpHarness, retries: int
) -> None:
    one = uuid4()
    await harness.put(
        valid_message(one, retries=retries, retry_reason="x", reason="forged", queue="forged"),
        message(b"{", retries=retries),
    )
    await harness.ingested(one, dead=1)
    assert await harness.outcome(one) == "created"
    assert await harness.reasons() == ["malformed_json"]


async def test_edited_sign_up_keeps_its_request(harness: SignUpHarness) -> None:
    """Like a replay of an edited dead letter: another body under the same id."""
    receipt = await harness.sign_up("Ana", new_address())
    request_id = SEAL.open_token(receipt.id, receipt.token)
    await harness.empty()
    await harness.put(message(body_of(id=receipt.id, name="Ana Moura"), message_id=request_id))
    await harness.ingested(receipt.id)
    assert await harness.ask(receipt) == ("created", None)


async def test_discard_rejects_only_unhandled_sign_ups(harness: SignUpHarness) -> None:
    receipt = await harness.sign_up()
    request_id = SEAL.open_token(receipt.id, receipt.token)
    assert request_id is not None
    lost = SignUp(id=receipt.id, name="Ana", email=new_address(), language="en", request_id=request_id)
    handled = uuid4()
    await harness.empty()
    await harness.put(valid_message(handled))
    await harness.ingested(handled)
    for _ in range(2):
        for one in (lost, msgspec.structs.replace(lost, id=handled)):
            await harness.parts.database.run(
                lambda db, one=one: discard_sign_up(db, one.id, request_id=one.request_id)
            )
    assert await harness.ask(receipt) == ("rejected", "discarded")
    assert await harness.event_keys(receipt.id) == ["user.rejected"]
    await harness.put(valid_message(receipt.id))
    await harness.ingested()
    assert await harness.person(receipt.id) is None, "a late copy changes nothing"
    assert await harness.outcome(handled) == "created"
    assert await harness.event_keys(handled) == ["user.created"]


async def test_retry_headers_hold_a_count_and_a_code(harness: SignUpHarness) -> None:
    slow = harness.parts.settings.changed(retry_ttl_ms=600_000)
    doomed, neighbour = valid_message(uuid4(), name="Doomed Dora"), uuid4()
    await harness.put(doomed, valid_message(neighbour))
    async with open_parts(slow) as parts, harness.refusing("Doomed Dora"):
        patient = SignUpHarness(parts, harness.api)

        async def one_retry_waits() -> bool:
            waiting = sum((await parts.bus.retrying()).values())
            return waiting == 1 and await harness.outcome(neighbour) == "created"

        async with patient.ingesting("ingester"):
            await until(one_retry_waits)
        if slow.servers.amqp_url is None:
            (waiting,) = await harness.fetch("SELECT headers, body FROM bus_delayed")
            headers, body = msgspec.json.decode(waiting["headers"]), waiting["body"]
            found = headers["retries"], headers["retry_reason"], bytes(body)
        else:
            waiting = await get_message(slow.servers.amqp_url, "raffle_retry_600s")
            table = waiting.header.properties.headers
            found = table["x-retries"], table["x-retry-reason"], waiting.body
    assert found == (1, "RaiseError", doomed.body)


async def get_message(amqp_url: str, queue: str) -> DeliveredMessage:
    connection = await aiormq.connect(amqp_url)
    try:
        return await (await connection.channel()).basic_get(queue, no_ack=True)
    finally:
        await connection.close()
