"""Changes of e-mail addresses: codes, tries, letters, operators' confirmation."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import httpx
import pytest

from catraca.domains.people.email_changes.model import EmailCodes
from catraca.domains.people.email_changes.service import compose_letter
from catraca.domains.people.email_changes.store import prune_email_changes
from catraca.domains.people.model import UserId
from catraca.platform.database import Database
from catraca.platform.mail import Letter
from catraca.roles.parts import open_parts
from catraca.settings import Settings
from tests.conftest import SECRET, bearer, free_port, listening
from tests.domains.people.mailbox import Mailbox, opened_mailbox
from tests.domains.people.person import Person, actions_on
from tests.servers import Stack

CONFIRM = "/v1/me/email/confirm"


@pytest.fixture
async def mail(stack: Stack, settings: Settings) -> AsyncIterator[Mailbox]:
    async with opened_mailbox(stack, settings, port=free_port()) as mailbox:
        yield mailbox


async def code_of(database: Database, person: Person) -> str:
    """The code, derived as the letter's is."""
    async with database.connection() as db:
        change_id = await db.fetchval("SELECT id FROM email_changes WHERE user_id = $1", person.id)
    return EmailCodes(SECRET).of(change_id)


def wrong(code: str) -> str:
    return f"{(int(code) + 1) % 10**8:08}"


async def confirmed(api: httpx.AsyncClient, person: Person, code: str) -> tuple[int, str | None]:
    answer = await api.post(CONFIRM, headers=person.headers, json={"code": code})
    return answer.status_code, answer.json()["code"] if answer.content else None


async def pending_of(api: httpx.AsyncClient, person: Person) -> tuple[str | None, str | None]:
    me = (await api.get("/v1/me", headers=person.headers)).json()
    return me["email"], me["email_pending"]


async def test_present_address_gets_a_notice(mail: Mailbox) -> None:
    ana = Person()
    await ana.change(mail.api, email=ana.email, language="en")
    await mail.confirm(ana, await mail.code_for(ana.email))
    new = f"new.{ana.email}"
    await ana.change(mail.api, email=new, name="Ana <b>")
    assert (await mail.letter_to(ana.email))["Subject"] == "Your e-mail address will change"
    letter = await mail.letter_to(new)
    assert letter["Subject"] == "Confirm your e-mail address"
    assert "Ana" not in letter.get_content(), "a user could put any text into our mail"
    assert await mail.profile(ana) == (ana.email, new)


async def test_refused_letter_leaves_the_change_pending(mail: Mailbox) -> None:
    mail.server.answer = "451 later"
    ana = Person()
    assert (await ana.change(mail.api, email=ana.email)).status_code == 200
    mail.server.answer = "250 taken"
    assert (await mail.confirm(ana, await mail.code_for(ana.email))).status_code == 204


async def test_code_can_be_tried_five_times(api: httpx.AsyncClient, database: Database) -> None:
    ana = Person()
    await ana.change(api, email=ana.email)
    code = await code_of(database, ana)
    refused = (422, "email_code_invalid")
    assert [await confirmed(api, ana, wrong(code)) for _ in range(5)] == [refused] * 5
    assert await confirmed(api, ana, code) == refused, "also the right code, after the last try"
    assert (await ana.change(api, email=ana.email)).status_code == 200, "a new change has new tries"
    assert await code_of(database, ana) != code
    assert await confirmed(api, ana, await code_of(database, ana)) == (204, None)


async def test_concurrent_guesses_get_five_tries(api: httpx.AsyncClient, database: Database) -> None:
    ana = Person()
    await ana.change(api, email=ana.email)
    code = wrong(await code_of(database, ana))
    await asyncio.gather(*(confirmed(api, ana, code) for _ in range(20)))
    async with database.connection() as db:
        assert await db.fetchval("SELECT tries FROM email_changes WHERE user_id = $1", ana.id) == 5


async def test_concurrent_confirmations_have_one_winner(api: httpx.AsyncClient, database: Database) -> None:
    """Twelve users confirm the same free address."""
    email, people = f"{uuid4()}@example.com", [Person() for _ in range(12)]
    for person in people:
        await person.change(api, email=email)
    codes = [await code_of(database, person) for person in people]
    answers = await asyncio.gather(
        *(confirmed(api, person, code) for person, code in zip(people, codes, strict=True))
    )
    assert sorted(answers, key=str) == [(204, None)] + [(409, "email_taken")] * 11


async def test_repeated_change_is_the_same_change(api: httpx.AsyncClient, database: Database) -> None:
    ana = Person()
    for _ in range(3):
        await ana.change(api, email=ana.email)
    async with database.connection() as db:
        recorded = await db.fetchval(
            "SELECT count(*) FROM outbox WHERE aggregate_id = $1"
            " AND routing_key = 'user.email_change_requested'",
            ana.id,
        )
    assert recorded == 1


async def test_newer_change_replaces_the_older(api: httpx.AsyncClient, database: Database) -> None:
    ana = Person()
    await ana.change(api, email=ana.email)
    old = await code_of(database, ana)
    await ana.change(api, email=f"new.{ana.email}")
    assert await confirmed(api, ana, old) == (422, "email_code_invalid")
    assert await confirmed(api, ana, await code_of(database, ana)) == (204, None)
    assert await pending_of(api, ana) == (f"new.{ana.email}", None)


async def test_present_address_and_none_count_at_once(api: httpx.AsyncClient) -> None:
    ana = await Person().with_email(api)
    await ana.change(api, email=f"new.{ana.email}")
    await ana.change(api, email=ana.email.title())
    assert await pending_of(api, ana) == (ana.email.title(), None)
    await ana.change(api, email=f"new.{ana.email}")
    await ana.change(api, email=None)
    assert await pending_of(api, ana) == (None, None)
    await Person().with_address(api, ana.email)


async def test_expired_change_is_refused_and_pruned(api: httpx.AsyncClient, database: Database) -> None:
    ana = Person()
    await ana.change(api, email=ana.email)
    code = await code_of(database, ana)
    async with database.transaction() as db:
        await db.execute("UPDATE email_changes SET expires_at = clock_timestamp() WHERE user_id = $1", ana.id)
    assert await pending_of(api, ana) == (None, None)
    assert await confirmed(api, ana, code) == (422, "email_code_invalid")
    operator = await api.post(f"/v1/users/{ana.id}/email/confirm", headers=bearer("operator"))
    assert operator.status_code == 404
    while await database.run(prune_email_changes):
        pass
    async with database.connection() as db:
        assert await db.fetchval("SELECT count(*) FROM email_changes WHERE user_id = $1", ana.id) == 0


async def test_operator_confirms_an_address_with_an_audit(api: httpx.AsyncClient, database: Database) -> None:
    ana, operator = Person(), Person("operator")
    await ana.change(api, email=ana.email)
    seen = await api.get(f"/v1/users/{ana.id}", headers=operator.headers)
    assert seen.json()["email_pending"] == ana.email
    path = f"/v1/users/{ana.id}/email/confirm"
    answer = await api.post(path, headers=operator.headers)
    assert (answer.json()["email"], answer.json()["email_pending"]) == (ana.email, None)
    assert (await api.post(path, headers=operator.headers)).status_code == 404
    assert await actions_on(database, ana) == [(operator.id, "email_confirmed")]
    taken = Person()
    await taken.change(api, email=ana.email)
    refused = await api.post(f"/v1/users/{taken.id}/email/confirm", headers=operator.headers)
    assert (refused.status_code, refused.json()["code"]) == (409, "email_taken")


async def test_changes_are_limited_per_user_and_address(settings: Settings) -> None:
    limited = settings.changed(port=free_port(), rate_limit_email_change="3/day")
    async with (
        open_parts(limited) as parts,
        listening(parts) as url,
        httpx.AsyncClient(base_url=url, timeout=30) as client,
    ):
        ana = Person()
        by_user = [(await ana.change(client, email=f"{n}.{ana.email}")).status_code for n in range(4)]
        address = f"{uuid4()}@example.com"
        to_address = [(await Person().change(client, email=address)).status_code for _ in range(4)]
        assert (await ana.change(client, name="Ana")).status_code == 200, "other fields have no such limit"
    assert by_user == to_address == [200, 200, 200, 429]


async def test_event_has_no_address_in_it(api: httpx.AsyncClient, database: Database) -> None:
    ana = Person()
    await ana.change(api, email=ana.email)
    async with database.connection() as db:
        bodies = await db.fetch("SELECT body::text AS body FROM outbox WHERE aggregate_id = $1", ana.id)
    assert len(bodies) == 2
    assert not any(ana.email in row["body"] for row in bodies)


async def test_ended_change_has_no_letter(api: httpx.AsyncClient, database: Database) -> None:
    """The event may be handled after the change was replaced, withdrawn or confirmed."""
    ana = Person()

    async def letter_of(change_id: UUID) -> Letter | None:
        codes = EmailCodes(SECRET)
        return await database.run(lambda db: compose_letter(db, UserId(ana.id), change_id, "code", codes))

    async def change_id() -> UUID:
        async with database.connection() as db:
            return await db.fetchval("SELECT id FROM email_changes WHERE user_id = $1", ana.id)

    await ana.change(api, email=ana.email)
    first = await change_id()
    live = await letter_of(first)
    assert live is not None
    assert live == await letter_of(first), "a repeat sends the same letter"
    await ana.change(api, email=f"new.{ana.email}")
    second = await change_id()
    assert await letter_of(first) is None
    assert await letter_of(second) is not None
    await ana.change(api, email=None)
    assert await letter_of(second) is None
