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
class Asked:
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

    acknowledged: dict[UUID, Asked] = field(default_factory=dict)
    tried: dict[UUID, Asked] = field(default_factory=dict)
    poison: dict[UUID, Poison] = field(default_factory=dict)
    answers: Counter[str] = field(default_factory=Counter)
    _seal: Seal = field(default_factory=lambda: Seal(SECRET))

    def acknowledge(self, sign_up_id: UUID, asked: Asked) -> None:
        known = self.acknowledged.setdefault(sign_up_id, asked)
        assert known.key == asked.key, f"{known} and {asked} were answered with one id"
        assert sign_up_id == self.id_of(asked), f"{asked} was answered with another's id"

    def note_try(self, asked: Asked) -> None:
        self.tried[self.id_of(asked)] = asked

    def id_of(self, asked: Asked) -> UUID:
        """The id as derived from the key and the secret."""
        return self._seal.id_for(asked.key)

    @property
    def unanswered(self) -> dict[UUID, Asked]:
        """Sign-ups sent and never acknowledged: each may exist or not."""
        return {one: asked for one, asked in self.tried.items() if one not in self.acknowledged}


def plan(count: int, seed: int) -> list[Asked | Poison]:
    """`count` requests in their order; another seed gives other requests."""
    chance = random.Random(seed)
    tag = uuid4().hex[:8]
    poison = [make_poison(number) for number in range(max(len(KINDS), round(count * POISON_SHARE)))]
    doubles = round(count * DUPLICATE_SHARE)
    fresh = [newcomer(number, tag) for number in range(count - len(poison) - doubles)]
    placed: list[tuple[float, Asked | Poison]] = list(enumerate(fresh))
    for number in range(doubles):
        place = chance.randrange(len(fresh))
        later = place + (0 if chance.random() < 0.5 else chance.randrange(FAR)) + 0.5
        placed.append((later, fresh[place] if number % 2 else respelled(fresh[place], number)))
    placed += [(chance.randrange(len(fresh)) + 0.7, one) for one in poison]
    placed.sort(key=itemgetter(0))
    return [_perhaps_impatient(one, chance) for _, one in placed]


def newcomer(number: int, tag: str) -> Asked:
    name = f"{NAMES[number % len(NAMES)]} {number}"
    return Asked(key=f"{tag}-{number}", person=number, name=name, email=f"p{number}.{tag}@example.com")


def respelled(asked: Asked, number: int) -> Asked:
    """The same address in another spelling, as a request of its own."""
    spell = SPELLINGS[number % len(SPELLINGS)]
    return replace(asked, key=f"{asked.key}-double-{number}", email=spell(asked.email))


def make_poison(number: int) -> Poison:
    kind, body = KINDS[number % len(KINDS)]
    told = body % {b"id": str(uuid4()).encode(), b"address": b"poison%d@example.com" % number}
    return Poison(message_id=uuid4(), body=told, reason=kind)


# The reason of each dead letter, and its body.
KINDS = (
    ("malformed_json", b'{"id": "%(id)b", "name": "Ana", "email": "%(address)b"'),
    ("wrong_shape", b'["%(id)b", "Ana", "%(address)b"]'),
    ("wrong_shape", b'{"name": "Without id", "email": "%(address)b"}'),
    ("email_malformed", b'{"id": "%(id)b", "name": "Ana", "email": "nowhere %(address)b"}'),
    ("body_too_large", b'{"id": "%(id)b", "email": "%(address)b", "name": "' + b"Ana " * 10_000 + b'"}'),
)


def _perhaps_impatient(one: Asked | Poison, chance: random.Random) -> Asked | Poison:
    if isinstance(one, Poison) or chance.random() >= HANG_UP_SHARE:
        return one
    seconds = chance.uniform(0, LONGEST_PATIENCE_SECONDS)
    return replace(one, hangs_up_after_seconds=seconds, comes_again=chance.random() < 0.5)
