"""Mails the code of an e-mail change to the new address, and a notice to the present one."""

from dataclasses import dataclass

from catraca.domains.people.email_changes import service
from catraca.domains.people.email_changes.model import EmailCodes
from catraca.domains.people.model import UserId
from catraca.events import UserEmailChangeRequested
from catraca.platform.bus import EventHandlers, Message
from catraca.platform.database import Db
from catraca.platform.mail import Mailer


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailLetters:
    mailer: Mailer
    codes: EmailCodes


# Without a mail server there are no letters; an operator can confirm the address.
handles = EventHandlers[EmailLetters | None]("notification_emails_queue")


@handles(UserEmailChangeRequested)
async def send_letter(
    db: Db, event: UserEmailChangeRequested, _message: Message, letters: EmailLetters | None
) -> None:
    if letters is None:
        return
    letter = await service.compose_letter(
        db, UserId(event.user_id), event.change_id, event.letter, letters.codes
    )
    if letter is not None:
        await letters.mailer.send(letter)
