"""Messages of foreign AMQP clients."""

from collections import Counter
from uuid import uuid4

from tests.domains.onboarding.harness import SignUpHarness, body_of, on_rabbitmq

pytestmark = on_rabbitmq


async def test_messages_without_a_valid_id_or_count_die(
    harness: SignUpHarness,
) -> None:
    neighbours = [uuid4(), uuid4()]
    await harness.put_raw(body_of(id=neighbours[0]), message_id=str(uuid4()), headers={"x-other": "1"})
    await harness.put_raw(body_of())
    await harness.put_raw(body_of(), message_id="seven")
    for forged in (-1, "many", {"a": 1}):
        await harness.put_raw(body_of(), message_id=str(uuid4()), headers={"x-retries": forged})
    await harness.put_raw(body_of(id=neighbours[1]), message_id=str(uuid4()), headers={"x-retries": 2**40})
    await harness.ingested(*neighbours, dead=5)
    assert Counter(await harness.reasons()) == {"missing_id": 1, "bad_id": 1, "bad_headers": 3}
    assert [await harness.outcome(one) for one in neighbours] == ["created"] * 2
    assert await harness.event_keys(*neighbours) == ["user.created"] * 2


async def test_message_of_the_original_client_is_accepted(harness: SignUpHarness) -> None:
    """Without headers, delivered once, as a publisher that knows only the document would send it."""
    one = uuid4()
    body = body_of(id=one, name="João Silva")
    await harness.put_raw(body, message_id=str(uuid4()), content_type="application/json", delivery_mode=2)
    await harness.ingested(one)
    assert await harness.outcome(one) == "created"


async def test_random_bytes_become_a_dead_letter(harness: SignUpHarness) -> None:
    noise = bytes(range(256)) * 4
    await harness.put_raw(noise, message_id=str(uuid4()), content_encoding="gzip", priority=9)
    await harness.ingested(dead=1)
    (letter,) = await harness.dead_letters()
    assert (letter["reason"], bytes(letter["body"])) == ("malformed_json", noise)
