"""What a client that is not ours may put into the queue by plain AMQP."""

from collections import Counter
from uuid import uuid4

from tests.domains.onboarding.desk import Desk, body_of, on_rabbitmq

pytestmark = on_rabbitmq


async def test_without_a_usable_id_or_count_a_message_is_a_dead_letter_and_harms_no_neighbour(
    desk: Desk,
) -> None:
    neighbours = [uuid4(), uuid4()]
    await desk.put_raw(body_of(id=neighbours[0]), message_id=str(uuid4()), headers={"x-other": "1"})
    await desk.put_raw(body_of())
    await desk.put_raw(body_of(), message_id="seven")
    for forged in (-1, "many", {"a": 1}):
        await desk.put_raw(body_of(), message_id=str(uuid4()), headers={"x-retries": forged})
    await desk.put_raw(body_of(id=neighbours[1]), message_id=str(uuid4()), headers={"x-retries": 2**40})
    await desk.ingested(*neighbours, dead=5)
    assert Counter(await desk.reasons()) == {"missing_id": 1, "bad_id": 1, "bad_headers": 3}
    assert [await desk.fate(one) for one in neighbours] == ["created"] * 2
    assert await desk.told(*neighbours) == ["user.created"] * 2


async def test_the_seeds_own_message_is_taken(desk: Desk) -> None:
    """Without headers, delivered once, as a publisher that knows only the document would send it."""
    one = uuid4()
    body = body_of(id=one, name="João Silva")
    await desk.put_raw(body, message_id=str(uuid4()), content_type="application/json", delivery_mode=2)
    await desk.ingested(one)
    assert await desk.fate(one) == "created"


async def test_a_message_of_nothing_but_noise_is_kept_for_review(desk: Desk) -> None:
    noise = bytes(range(256)) * 4
    await desk.put_raw(noise, message_id=str(uuid4()), content_encoding="gzip", priority=9)
    await desk.ingested(dead=1)
    (letter,) = await desk.dead_letters()
    assert (letter["reason"], bytes(letter["body"])) == ("malformed_json", noise)
