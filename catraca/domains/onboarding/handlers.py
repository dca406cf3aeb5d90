"""Writes queued sign-ups in batches, and mails new users a link to set their first password."""

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from catraca.domains import people
from catraca.domains.onboarding import model, service
from catraca.domains.onboarding.model import Seal, SignUp
from catraca.events import SIGN_UP_QUEUE, UserCreated
from catraca.platform.bus import EventHandlers, Message, QueueHandlers, Unreadable
from catraca.platform.database import Db
from catraca.platform.mail import Mailer

ANY_REQUEST = UUID(int=0)


async def _prepare(message: Message) -> SignUp:
    return _read(message.body, request_id=message.id)


def _check(_key: str, body: bytes) -> None:
    _read(body, request_id=ANY_REQUEST)


def _read(body: bytes, *, request_id: UUID) -> SignUp:
    try:
        return model.read_sign_up(body, request_id=request_id)
    except model.BadSignUp as bad:
        raise Unreadable(bad.code) from bad


sign_ups = QueueHandlers[SignUp](
    queue=SIGN_UP_QUEUE, keys={SIGN_UP_QUEUE}, prepare=_prepare, write=service.write_sign_ups, check=_check
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """What a welcome mail needs: a mail server, and the operator's page that the link opens."""

    mailer: Mailer
    seal: Seal
    password_page_url: str
    link_lifetime: timedelta


# Without a mail server there is no `Welcome`, and no mail is sent; an operator can still issue links.
welcomes = EventHandlers[Welcome | None]("notification_users_queue")


@welcomes(UserCreated)
async def send_welcome(db: Db, event: UserCreated, message: Message, welcome: Welcome | None) -> None:
    if welcome is None or not event.signed_up:
        return
    # A repeat after a crash has the same link, so either mail works.
    token = welcome.seal.password_token(message.id)
    user = await people.offer_first_password(
        db, people.UserId(event.user_id), token=token, lifetime=welcome.link_lifetime
    )
    if user is not None:
        link = f"{welcome.password_page_url}#token={token}"
        await welcome.mailer.send(model.welcome_letter(user, link, lifetime=welcome.link_lifetime))
