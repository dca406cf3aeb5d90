"""The queues that take replays of dead letters: what they can read, and what a discard causes."""

from collections.abc import Sequence
from contextlib import suppress
from uuid import UUID

from catraca.domains import onboarding
from catraca.domains.dead_letters import OpenLetter, ReplayTarget, ReplayTargets
from catraca.domains.onboarding import BadSignUp
from catraca.events import SIGN_UP_QUEUE
from catraca.platform.bus import Topology
from catraca.platform.database import Db
from catraca.roles.consumers import declared_handlers


def replay_targets(topology: Topology) -> ReplayTargets:
    """Queues that this version consumes and whose dead letters are stored."""
    with_dead_letters = {queue.name for queue in topology.queues if queue.dead_letters_to is not None}
    checks = {one.queue: one.check for one in declared_handlers() if one.queue in with_dead_letters}
    return {
        queue: ReplayTarget(check, _reject_sign_ups) if queue == SIGN_UP_QUEUE else ReplayTarget(check)
        for queue, check in checks.items()
    }


async def _reject_sign_ups(db: Db, letters: Sequence[OpenLetter]) -> None:
    for letter in letters:
        sign_up_id = _sign_up_of(letter)
        if sign_up_id is not None:
            await onboarding.discard_sign_up(db, sign_up_id, request_id=letter.message_id)


def _sign_up_of(letter: OpenLetter) -> UUID | None:
    """The id of the sign-up; None if the message never was one."""
    with suppress(BadSignUp):
        return onboarding.read_sign_up(letter.body, request_id=letter.message_id).id
    return letter.headers.aggregate_id
