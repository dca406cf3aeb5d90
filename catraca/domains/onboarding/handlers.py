"""From the queue to rows: each sign-up is read and checked by itself, and written with many others.

And from the new person to a letter that says welcome, with a link to set a first password.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from catraca.domains import people
from catraca.domains.onboarding import model, service
from catraca.domains.onboarding.model import Seal, SignUp
from catraca.events import SIGN_UP_QUEUE, UserCreated
from catraca.platform.bus import Message, QueueHandlers, Unreadable, handlers_for
from catraca.platform.bus.batch_worker import BatchHandlers
from catraca.platform.database import Db
from catraca.platform.mail import Mailer

ANY_REQUEST = UUID(int=0)


async def _prepare(message: Message) -> SignUp:
    return _read(message.body, request_id=message.id)


def check_body(_key: str, body: bytes) -> None:
    """Raise `Unreadable` for a body that could not become a person."""
    _read(body, request_id=ANY_REQUEST)


def _read(body: bytes, *, request_id: UUID) -> SignUp:
    try:
        return model.read_sign_up(body, request_id=request_id)
    except model.BadSignUp as bad:
        raise Unreadable(bad.code) from bad


async def _write(db: Db, sign_ups: Sequence[SignUp]) -> Mapping[int, Exception]:
    await service.write_sign_ups(db, sign_ups)
    return {}


handles = BatchHandlers(queue=SIGN_UP_QUEUE, keys={SIGN_UP_QUEUE}, prepare=_prepare, write=_write)


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """What a welcome needs: a mail server, and a page of the operator's where the link leads."""

    mailer: Mailer
    seal: Seal
    password_page_url: str
    link_lifetime: timedelta


def welcome_handlers(welcome: Welcome | None) -> QueueHandlers:
    """Without a mail server nobody is written to; an operator can still hand out links."""
    handles = handlers_for("notification_users_queue")

    @handles(UserCreated)
    async def send_welcome(db: Db, event: UserCreated, message: Message) -> None:
        if welcome is None or not event.signed_up:
            return
        # A repeat after a crash carries the same link, so whichever letter is opened works.
        token = welcome.seal.password_token(message.id)
        person = await people.offer_first_password(
            db, people.UserId(event.user_id), token=token, lifetime=welcome.link_lifetime
        )
        if person is not None:
            link = f"{welcome.password_page_url}#token={token}"
            await welcome.mailer.send(model.welcome_letter(person, link, lifetime=welcome.link_lifetime))

    return handles
