"""Use cases on second factors. Each takes an open transaction and never commits."""

from uuid import UUID

from catraca.domains.people.model import UserId
from catraca.domains.people.second_factor import store
from catraca.domains.people.second_factor.errors import (
    CodeWrong,
    SecondFactorMissing,
    SecondFactorOff,
    SecondFactorOn,
    SecondFactorWrong,
)
from catraca.domains.people.second_factor.model import (
    BEGUN_LIFETIME,
    RECOVERY_CODES,
    Factor,
    FactorVault,
    NewFactor,
    Proof,
    factor_for_app,
    matching_step,
    new_recovery_code,
    new_secret,
)
from catraca.domains.people.service import lock_active_user, record_audit
from catraca.platform.database import Db
from catraca.platform.errors import NotFound


async def begin_factor(db: Db, user_id: UserId, vault: FactorVault) -> NewFactor:
    """A new secret to confirm; it replaces one begun before. Sign-ins do not ask for it yet."""
    user = await lock_active_user(db, user_id)
    secret = new_secret()
    if not await store.begin_factor(db, user_id, sealed_secret=vault.seal(user_id, secret)):
        raise SecondFactorOn
    return factor_for_app(secret, account=user.email or str(user_id))


async def confirm_factor(db: Db, user_id: UserId, vault: FactorVault, code: str) -> list[str]:
    """Turn the begun factor on; returns its recovery codes. Of many calls, one succeeds."""
    await lock_active_user(db, user_id)
    factor = await get_factor(db, user_id)
    if factor is None or factor.is_stale:
        raise SecondFactorOff
    if factor.confirmed_at is not None:
        raise SecondFactorOn
    step = _step(factor, user_id, vault, code)
    if step is None:
        raise CodeWrong
    await store.turn_on(db, user_id, sealed_secret=factor.sealed_secret, step=step)
    await record_audit(db, "second_factor_turned_on", user_id, by=user_id)
    return await _renew_codes(db, user_id, vault)


async def renew_recovery_codes(db: Db, user_id: UserId, vault: FactorVault, proof: Proof) -> list[str]:
    """New recovery codes; the old ones stop working."""
    await _demand_proof(db, user_id, vault, proof)
    return await _renew_codes(db, user_id, vault)


async def remove_own_factor(db: Db, user_id: UserId, vault: FactorVault, proof: Proof) -> None:
    await _demand_proof(db, user_id, vault, proof)
    await store.delete_factor(db, user_id)
    await record_audit(db, "second_factor_removed", user_id, by=user_id)


async def remove_factor(db: Db, user_id: UserId, *, by: UUID | None) -> None:
    """Remove a lost factor, with its recovery codes; `NotFound` if none is on."""
    await lock_active_user(db, user_id)
    if not await store.delete_factor(db, user_id):
        raise NotFound
    await record_audit(db, "second_factor_removed", user_id, by=by)


async def check_factor(db: Db, user_id: UserId, vault: FactorVault, proof: Proof) -> bool:
    """For a sign-in with the right password: True if a second factor was used, False if none is on.

    A code is used up by this; refuses a sign-in without the code, or with a wrong or used one.
    """
    factor = await get_factor(db, user_id)
    if factor is None or factor.confirmed_at is None:
        return False
    if not proof.is_given:
        raise SecondFactorMissing
    if not await _use(db, factor, user_id, vault, proof):
        raise SecondFactorWrong
    return True


async def get_factor(db: Db, user_id: UserId) -> Factor | None:
    return await store.read_factor(db, user_id, begun_lifetime=BEGUN_LIFETIME)


async def _demand_proof(db: Db, user_id: UserId, vault: FactorVault, proof: Proof) -> None:
    """Use up a code of a caller who is signed in."""
    await lock_active_user(db, user_id)
    factor = await get_factor(db, user_id)
    if factor is None or factor.confirmed_at is None:
        raise SecondFactorOff
    if not await _use(db, factor, user_id, vault, proof):
        raise CodeWrong


async def _use(db: Db, factor: Factor, user_id: UserId, vault: FactorVault, proof: Proof) -> bool:
    """True if the proof is right and this call used it up."""
    if proof.code is not None:
        step = _step(factor, user_id, vault, proof.code)
        return step is not None and await store.use_step(db, user_id, step)
    if proof.recovery_code is None:
        return False
    digest = vault.recovery_digest(user_id, proof.recovery_code)
    return await store.use_recovery_code(db, user_id, digest)


def _step(factor: Factor, user_id: UserId, vault: FactorVault, code: str) -> int | None:
    secret = vault.open(user_id, factor.sealed_secret)
    return None if secret is None else matching_step(secret, code, at=factor.as_of)


async def _renew_codes(db: Db, user_id: UserId, vault: FactorVault) -> list[str]:
    codes = [new_recovery_code() for _ in range(RECOVERY_CODES)]
    await store.delete_recovery_codes(db, user_id)
    await store.insert_recovery_codes(db, user_id, [vault.recovery_digest(user_id, code) for code in codes])
    return codes


async def export_factor(db: Db, user_id: UserId) -> dict[str, object] | None:
    """Without the secret and the codes."""
    factor = await get_factor(db, user_id)
    if factor is None:
        return None
    return {"confirmed_at": factor.confirmed_at, "recovery_codes_left": factor.recovery_codes_left}
