"""Use cases on sign-ups. With a `db` they take an open transaction and never commit."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

from prometheus_client import Counter

from catraca.domains import people
from catraca.domains.onboarding import store
from catraca.domains.onboarding.errors import ImportHeadingMissing, SignUpsFull, SignUpsUnavailable
from catraca.domains.onboarding.model import (
    BODY_MAX_BYTES,
    BadHeading,
    BadSignUp,
    FileKind,
    FileReader,
    Rejection,
    Seal,
    SignUp,
    Status,
    encode_sign_up,
)
from catraca.domains.people import NewUser, PersonalData, UserId
from catraca.events import SIGN_UP_EXCHANGE, SIGN_UP_QUEUE, UserRejected
from catraca.platform.bus import Headers, Message, QueueFull
from catraca.platform.database import Db, outbox
from catraca.platform.errors import NotFound
from catraca.platform.ids import new_id
from catraca.platform.lines import fold_email
from catraca.platform.texts import Language

Publish = Callable[[Message], Awaitable[Exception | None]]
PublishMany = Callable[[Sequence[Message]], Awaitable[Sequence[Exception | None]]]

IMPORTED_AT_ONCE = 500
# With seven tries of up to five seconds, less than a request may pause between two parts of its body.
IMPORT_PAUSES_SECONDS = (0.2, 0.5, 1, 2, 4, 8)
MAX_FAULTS = 1000

OUTCOMES = Counter("catraca_sign_ups_total", "Handled sign-ups by outcome.", ["outcome"])


@dataclass(slots=True)
class ImportProgress:
    lines: int = 0
    accepted: int = 0
    refused: int = 0
    # The first refused lines: number and reason.
    faults: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    # Called for every refused line.
    on_refused: Callable[[int, str], object] | None = None

    def refuse(self, code: str) -> None:
        self.refused += 1
        if self.on_refused is not None:
            self.on_refused(self.lines, code)
        if len(self.faults) < MAX_FAULTS:
            self.faults.append((self.lines, code))


def make_sign_up(
    seal: Seal, *, name: str, email: str, language: Language, idempotency_key: str | None
) -> SignUp:
    """A sign-up with its ids; the same ids for every request with the same key and content."""
    sign_up_id = new_id() if idempotency_key is None else seal.id_for(idempotency_key)
    return SignUp(
        id=sign_up_id,
        name=name,
        email=email,
        language=language,
        request_id=seal.request_id(sign_up_id, name=name, email=email),
    )


async def queue_sign_up(publish: Publish, sign_up: SignUp, *, trace: str | None) -> None:
    """Publish a sign-up and wait for the confirmation of the bus. Safe to repeat."""
    _refuse(await publish(_message(sign_up, trace=trace)))


async def queue_sign_ups(publish: PublishMany, sign_ups: Sequence[SignUp], *, trace: str | None) -> None:
    """Like `queue_sign_up` for many; retries for a limited time while the bus is unavailable or full."""
    waiting = [_message(sign_up, trace=trace) for sign_up in sign_ups]
    for pause_seconds in (*IMPORT_PAUSES_SECONDS, None):
        outcomes = await publish(waiting)
        waiting = [message for message, outcome in zip(waiting, outcomes, strict=True) if outcome]
        if not waiting:
            return
        if pause_seconds is None:
            _refuse(next(outcome for outcome in outcomes if outcome))
        else:
            await asyncio.sleep(pause_seconds)


def _message(sign_up: SignUp, *, trace: str | None) -> Message:
    return Message(
        id=sign_up.request_id,
        exchange=SIGN_UP_EXCHANGE,
        key=SIGN_UP_QUEUE,
        body=encode_sign_up(sign_up),
        headers=Headers(aggregate_id=sign_up.id, trace=trace, sent_at=int(time.time() * 1000)),
    )


def _refuse(outcome: Exception | None) -> None:
    if isinstance(outcome, QueueFull):
        raise SignUpsFull
    if outcome is not None:
        raise SignUpsUnavailable from outcome


async def import_sign_ups(
    publish: PublishMany,
    seal: Seal,
    file: AsyncIterable[bytes],
    *,
    kind: FileKind,
    key: str | None,
    language: Language,
    progress: ImportProgress,
    trace: str | None = None,
) -> None:
    """Queue a file of sign-ups, a few lines in memory at a time, and update `progress`.

    With the same `key`, each address is the same sign-up: a file can be sent again from its start.
    """
    reader, batch = FileReader(kind), list[SignUp]()
    async for line in _lines(file):
        progress.lines += 1
        try:
            given = reader.read(line)
        except BadHeading as error:
            raise ImportHeadingMissing from error
        except BadSignUp as bad:
            progress.refuse(bad.code)
            continue
        if given is None:
            continue
        own_key = None if key is None else f"{key}\n{fold_email(given.email)}"
        batch.append(
            make_sign_up(
                seal,
                name=given.name,
                email=given.email,
                language=language,
                idempotency_key=own_key,
            )
        )
        if len(batch) == IMPORTED_AT_ONCE:
            await queue_sign_ups(publish, batch, trace=trace)
            progress.accepted += len(batch)
            batch.clear()
    if batch:
        await queue_sign_ups(publish, batch, trace=trace)
        progress.accepted += len(batch)


async def _lines(file: AsyncIterable[bytes]) -> AsyncGenerator[bytes]:
    """Lines without line ends; a line that is too long is cut behind the limit."""
    rest = b""
    async for chunk in file:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line
        rest = rest[: BODY_MAX_BYTES + 1]
    if rest:
        yield rest


async def write_sign_ups(db: Db, sign_ups: Sequence[SignUp]) -> None:
    """Add users for sign-ups, or reject them. Each sign-up is handled once, however often it arrives."""
    claimed = await store.claim_sign_ups(db, sign_ups)
    fresh = {sign_up.id: sign_up for sign_up in sign_ups if (sign_up.id, sign_up.request_id) in claimed}
    new_users = [
        NewUser(id=UserId(one.id), role="passenger", name=one.name, email=one.email, language=one.language)
        for one in fresh.values()
    ]
    created = await people.add_users(db, new_users)
    if len(created) < len(fresh):
        await _reject(db, [sign_up_id for sign_up_id in fresh if sign_up_id not in created])
    _count(db, "created", len(created))
    _count(db, "repeated", len(sign_ups) - len(fresh))


async def _reject(db: Db, sign_up_ids: Sequence[UUID]) -> None:
    known = await people.get_users(db, [UserId(sign_up_id) for sign_up_id in sign_up_ids])
    reasons: dict[UUID, Rejection] = {
        sign_up_id: "id_taken" if sign_up_id in known else "email_taken" for sign_up_id in sign_up_ids
    }
    await _record_rejections(db, reasons)


async def discard_sign_up(db: Db, sign_up_id: UUID, *, request_id: UUID) -> None:
    """Reject a sign-up that an operator has discarded. A handled sign-up stays as it is."""
    if await store.claim_sign_up(db, sign_up_id, request_id=request_id):
        await _record_rejections(db, {sign_up_id: "discarded"})


async def status_of(db: Db, sign_up_id: UUID, *, request_id: UUID) -> Status:
    """The status of this request; `NotFound` if its user was erased."""
    row = await store.read_sign_up(db, sign_up_id)
    if row is None:
        return Status("queued")
    if row["request_id"] is None:
        raise NotFound
    if row["request_id"] != request_id:
        return Status("rejected", "key_reused")
    return Status("rejected", row["rejected"]) if row["rejected"] else Status("created")


async def _export(db: Db, user_id: UserId) -> object:
    row = await store.read_sign_up(db, user_id)
    return None if row is None else {"handled_at": row["handled_at"], "rejected": row["rejected"]}


async def _erase(db: Db, user_id: UserId) -> None:
    await store.forget_request(db, user_id)


PERSONAL_DATA = PersonalData("sign_up", export=_export, erase=_erase)


async def _record_rejections(db: Db, reasons: dict[UUID, Rejection]) -> None:
    await store.reject_sign_ups(db, reasons)
    await outbox.record(
        db, *(UserRejected(user_id=sign_up_id, reason=reason) for sign_up_id, reason in reasons.items())
    )
    for reason in set(reasons.values()):
        _count(db, reason, list(reasons.values()).count(reason))


def _count(db: Db, outcome: str, number: int) -> None:
    if number:
        db.after_commit(partial(OUTCOMES.labels(outcome).inc, number))
