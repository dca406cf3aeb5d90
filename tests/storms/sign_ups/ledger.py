"""The requests of a sign-up storm, and the answers they got."""

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from operator import itemgetter
from uuid import UUID, uuid4

import msgspec

from catraca.domains.onboarding import Seal
from tests.conftest import SECRET

POISON_SHARE = 0.001
DUPLICATE_SHARE = 0.01
HANG_UP_SHARE = 0.01
# Callers that hang up do so at a random time, before or after the request is handled.
LONGEST_PATIENCE_SECONDS = 0.05
# Half of the duplicates follow their original at once, half up to this many sign-ups later.
FAR = 3000
NAMES = ("Ana", "João", "Conceição", "Iracema", "Zé", "Mónika", "李娜", "Øyvind")
SPELLINGS = (
    str.upper,
    str.title,
    # A full-width letter is the same letter after case folding.
    lambda email: chr(ord(email[0]) + 0xFEE0) + email[1:],
)


@dataclass(frozen=True, slots=True)
class SignUp:
    """A request to sign up. The same `person` has the same address in different spellings."""

    key: str
    person: int
    name: str
    email: str
    # The caller hangs up after this time without an answer; then repeats with the same key, or not.
    hangs_up_after_seconds: float | None = None
    comes_again: bool = True

    @property
    def body(self) -> bytes:
        return msgspec.json.encode({"name": self.name, "email": self.email})


@dataclass(frozen=True, slots=True)
class Poison:
    """Not a sign-up, published to the queue directly; it must become a dead letter with this reason."""

    message_id: UUID
    body: bytes
    reason: str


@dataclass
class Ledger:
    """By id: acknowledged sign-ups, all that were sent, and poison."""

    acknowledged: dict[UUID, SignUp] = field(default_factory=dict)
    tried: dict[UUID, SignUp] = field(default_factory=dict)
    poison: dict[UUID, Poison] = field(default_factory=dict)
    answers: Counter[str] = field(default_factory=Counter)
    _seal: Seal = field(default_factory=lambda: Seal(SECRET))

    def acknowledge(self, sign_up_id: UUID, sign_up: SignUp) -> None:
        known = self.acknowledged.setdefault(sign_up_id, sign_up)
        assert known.key == sign_up.key, f"{known} and {sign_up} were answered with one id"
        assert sign_up_id == self.id_of(sign_up), f"{sign_up} was answered with another's id"

    def note_try(self, sign_up: SignUp) -> None:
        self.tried[self.id_of(sign_up)] = sign_up

    def id_of(self, sign_up: SignUp) -> UUID:
        """The id as derived from the key and the secret."""
        return self._seal.id_for(sign_up.key)

    @property
    def unanswered(self) -> dict[UUID, SignUp]:
        """Sign-ups sent and never acknowledged: each may exist or not."""
        return {one: sign_up for one, sign_up in self.tried.items() if one not in self.acknowledged}


def plan(count: int, seed: int) -> list[SignUp | Poison]:
    """`count` requests in their order; another seed gives other requests."""
    chance = random.Random(seed)
    tag = uuid4().hex[:8]
    poison = [make_poison(number) for number in range(max(len(KINDS), round(count * POISON_SHARE)))]
    doubles = round(count * DUPLICATE_SHARE)
    fresh = [newcomer(number, tag) for number in range(count - len(poison) - doubles)]
    placed: list[tuple[float, SignUp | Poison]] = list(enumerate(fresh))
    for number in range(doubles):
        place = chance.randrange(len(fresh))
        later = place + (0 if chance.random() < 0.5 else chance.randrange(FAR)) + 0.5
        placed.append((later, fresh[place] if number % 2 else respelled(fresh[place], number)))
    placed += [(chance.randrange(len(fresh)) + 0.7, one) for one in poison]
    placed.sort(key=itemgetter(0))
    return [_perhaps_impatient(one, chance) for _, one in placed]


def newcomer(number: int, tag: str) -> SignUp:
    name = f"{NAMES[number % len(NAMES)]} {number}"
    return SignUp(key=f"{tag}-{number}", person=number, name=name, email=f"p{number}.{tag}@example.com")


def respelled(sign_up: SignUp, number: int) -> SignUp:
    """The same address in another spelling, as a request of its own."""
    spell = SPELLINGS[number % len(SPELLINGS)]
    return replace(sign_up, key=f"{sign_up.key}-double-{number}", email=spell(sign_up.email))


def make_poison(number: int) -> Poison:
    kind, body = KINDS[number % len(KINDS)]
    written = body % {b"id": str(uuid4()).encode(), b"address": b"poison%d@example.com" % number}
    return Poison(message_id=uuid4(), body=written, reason=kind)


# The reason of each dead letter, and its body.
KINDS = (
    ("malformed_json", b'{"id": "%(id)b", "name": "Ana", "email": "%(address)b"'),
    ("wrong_shape", b'["%(id)b", "Ana", "%(address)b"]'),
    ("wrong_shape", b'{"name": "Without id", "email": "%(address)b"}'),
    ("email_malformed", b'{"id": "%(id)b", "name": "Ana", "email": "nowhere %(address)b"}'),
    ("body_too_large", b'{"id": "%(id)b", "email": "%(address)b", "name": "' + b"Ana " * 10_000 + b'"}'),
)


def _perhaps_impatient(one: SignUp | Poison, chance: random.Random) -> SignUp | Poison:
    if isinstance(one, Poison) or chance.random() >= HANG_UP_SHARE:
        return one
    seconds = chance.uniform(0, LONGEST_PATIENCE_SECONDS)
    return replace(one, hangs_up_after_seconds=seconds, comes_again=chance.random() < 0.5)
