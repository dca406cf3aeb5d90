"""Straight into the queue: whatever lies there ends in its right place, and harms nothing beside it."""

from collections import Counter
from dataclasses import replace
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
from tests.domains.onboarding.desk import Desk, an_address, body_of, message, on_both_buses, sound
from tests.domains.people.someone import Someone
from tests.servers import until

pytestmark = on_both_buses

MB = 1024 * 1024
SEAL = Seal(SECRET)


def bodies_that_never_will() -> dict[str, list[bytes]]:
    """By the reason they end with."""
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


async def test_what_never_will_be_a_sign_up_is_a_dead_letter_with_its_reason_and_harms_no_neighbour(
    desk: Desk,
) -> None:
    bad = bodies_that_never_will()
    neighbours = [uuid4() for _ in range(sum(map(len, bad.values())))]
    mixed: list[Message] = []
    for body, neighbour in zip((body for bodies in bad.values() for body in bodies), neighbours, strict=True):
        mixed += [message(body), sound(neighbour)]
    await desk.put(*mixed)
    await desk.ingested(*neighbours, dead=len(neighbours))
    assert Counter(await desk.reasons()) == {reason: len(bodies) for reason, bodies in bad.items()}
    for letter in await desk.dead_letters():
        assert letter["queue"] == SIGN_UP_QUEUE
        assert bytes(letter["body"]) in bad[letter["reason"]], "kept as it was, for review"
        assert letter["times"] == 1
        assert "retries" not in letter["headers"], "it was not tried again"
    assert [await desk.fate(one) for one in neighbours] == ["created"] * len(neighbours)
    assert await desk.told(*neighbours) == ["user.created"] * len(neighbours)


async def test_the_same_sign_up_again_and_again_is_one_person(desk: Desk) -> None:
    one, other = uuid4(), uuid4()
    again = sound(one)
    # The same message, and the same words in another message.
    await desk.put(again, again, replace(again, id=uuid4()), sound(other))
    await desk.ingested(one, other)
    # Again, and other words under the same id.
    await desk.put(again, sound(one, name="Rui"))
    await desk.ingested()
    person = await desk.person(one)
    assert person is not None
    assert person["name"] == "Ana Moura", "whoever came first has the id"
    assert await desk.told(one, other) == ["user.created"] * 2


async def test_of_two_requests_under_one_id_in_one_batch_one_has_it(desk: Desk) -> None:
    one = uuid4()
    rivals = {rival.id: rival for rival in (sound(one, name="Ana"), sound(one, name="Rui"))}
    await desk.put(*rivals.values())
    await desk.ingested(one)
    (kept,) = await desk.fetch("SELECT request_id FROM sign_ups WHERE id = $1", one)
    person = await desk.person(one)
    assert person is not None
    assert person["name"].encode() in rivals[kept["request_id"]].body
    assert await desk.told(one) == ["user.created"]


async def test_one_address_twice_is_one_person_and_one_rejection(desk: Desk) -> None:
    email, later = an_address(), an_address()
    ids = [uuid4() for _ in range(5)]
    await desk.put(
        sound(ids[0], email), sound(ids[1], email.upper()), sound(ids[2], later), sound(ids[3], email)
    )
    await desk.ingested(*ids[:4])
    await desk.put(sound(ids[4], later))
    await desk.ingested(ids[4])
    fates = Counter([await desk.fate(one) for one in ids])
    assert fates == {"created": 2, "email_taken": 3}
    assert await desk.told(*ids) == ["user.created"] * 2 + ["user.rejected"] * 3
    for one in ids:
        person = await desk.person(one)
        assert (person is not None) == (await desk.fate(one) == "created")


async def test_the_id_of_somebody_who_is_there_is_rejected_and_nothing_of_them_changes(desk: Desk) -> None:
    rui = await Someone().with_email(desk.api)
    before, neighbour = await desk.person(rui.id), uuid4()
    await desk.put(sound(rui.id), sound(neighbour))
    await desk.ingested(rui.id, neighbour)
    assert await desk.fate(rui.id) == "id_taken"
    assert await desk.person(rui.id) == before
    assert (await desk.told(rui.id)).count("user.rejected") == 1
    assert await desk.fate(neighbour) == "created"


async def test_a_rejected_sign_up_stays_rejected_when_its_address_is_free_again(desk: Desk) -> None:
    rui, one = await Someone().with_email(desk.api), uuid4()
    late = sound(one, rui.email)
    await desk.put(late)
    await desk.ingested(one)
    assert (await desk.api.delete("/v1/me", headers=rui.headers)).status_code == 204
    await desk.put(late)
    await desk.ingested()
    assert await desk.fate(one) == "email_taken"
    assert await desk.told(one) == ["user.rejected"]


@pytest.mark.parametrize("retries", [1, 3, 99])
async def test_whoever_says_it_was_tried_before_is_believed_and_a_sound_sign_up_taken(
    desk: Desk, retries: int
) -> None:
    one = uuid4()
    await desk.put(
        sound(one, retries=retries, retry_reason="x", reason="forged", queue="forged"),
        message(b"{", retries=retries),
    )
    await desk.ingested(one, dead=1)
    assert await desk.fate(one) == "created"
    assert await desk.reasons() == ["malformed_json"]


async def test_a_sign_up_mended_on_its_way_is_still_the_request_it_was(desk: Desk) -> None:
    """As a replay of an edited dead letter: another body under the same id."""
    taken = await desk.sign_up("Ana", an_address())
    request_id = SEAL.open_token(taken.id, taken.token)
    await desk.empty()
    await desk.put(message(body_of(id=taken.id, name="Ana Moura"), message_id=request_id))
    await desk.ingested(taken.id)
    assert await desk.ask(taken) == ("created", None)


async def test_a_discarded_sign_up_is_rejected_and_one_that_was_handled_stays_as_it_is(desk: Desk) -> None:
    taken = await desk.sign_up()
    request_id = SEAL.open_token(taken.id, taken.token)
    assert request_id is not None
    lost = SignUp(id=taken.id, name="Ana", email=an_address(), language="en", request_id=request_id)
    handled = uuid4()
    await desk.empty()
    await desk.put(sound(handled))
    await desk.ingested(handled)
    for _ in range(2):
        for one in (lost, replace(lost, id=handled)):
            await desk.parts.database.run(
                lambda db, one=one: discard_sign_up(db, one.id, request_id=one.request_id)
            )
    assert await desk.ask(taken) == ("rejected", "discarded")
    assert await desk.told(taken.id) == ["user.rejected"]
    await desk.put(sound(taken.id))
    await desk.ingested()
    assert await desk.person(taken.id) is None, "a late copy of it changes nothing"
    assert await desk.fate(handled) == "created"
    assert await desk.told(handled) == ["user.created"]


async def test_what_waits_for_another_try_says_how_often_and_why_in_a_code(desk: Desk) -> None:
    slow = desk.parts.settings.changed(retry_ttl_ms=600_000)
    doomed, neighbour = sound(uuid4(), name="Doomed Dora"), uuid4()
    await desk.put(doomed, sound(neighbour))
    async with open_parts(slow) as parts, desk.refusing("Doomed Dora"):
        patient = Desk(parts, desk.api)

        async def it_alone_waits() -> bool:
            waiting = sum((await parts.bus.retrying()).values())
            return waiting == 1 and await desk.fate(neighbour) == "created"

        async with patient.ingesting("ingester"):
            await until(it_alone_waits)
        if slow.servers.amqp_url is None:
            (waiting,) = await desk.fetch("SELECT headers, body FROM bus_delayed")
            headers, body = msgspec.json.decode(waiting["headers"]), waiting["body"]
            found = headers["retries"], headers["retry_reason"], bytes(body)
        else:
            waiting = await take_one(slow.servers.amqp_url, "raffle_retry_600s")
            table = waiting.header.properties.headers
            found = table["x-retries"], table["x-retry-reason"], waiting.body
    assert found == (1, "RaiseError", doomed.body)


async def take_one(amqp_url: str, queue: str) -> DeliveredMessage:
    connection = await aiormq.connect(amqp_url)
    try:
        return await (await connection.channel()).basic_get(queue, no_ack=True)
    finally:
        await connection.close()
