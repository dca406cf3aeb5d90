"""The cost of password hashes."""

import pytest
from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError

from catraca.platform.passwords import Passwords


async def test_passwords_are_hashed_at_the_full_cost() -> None:
    """Other tests hash at the lowest cost (`_quick_passwords`); the API has no setting for it."""
    passwords = Passwords()
    made = await passwords.hash("a good password")
    assert made.startswith("$argon2id$")
    assert not PasswordHasher().check_needs_rehash(made)
    assert not passwords.is_outdated(made)
    assert await passwords.matches("a good password", made)


async def test_missing_password_takes_as_long_to_refuse() -> None:
    """A malformed hash would be refused at once, which shows that the account does not exist."""
    passwords = Passwords()
    assert not passwords.is_outdated(passwords._dummy_hash)
    with pytest.raises(VerifyMismatchError):
        PasswordHasher().verify(passwords._dummy_hash, "a good password")
    assert not await passwords.matches("a good password", None)
    assert Passwords()._dummy_hash != passwords._dummy_hash
