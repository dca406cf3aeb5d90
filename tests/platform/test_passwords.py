"""What a hash of a password costs whoever tries them all."""

from argon2 import PasswordHasher

from catraca.platform.passwords import Passwords


async def test_passwords_are_hashed_at_the_full_cost() -> None:
    """The other tests' APIs hash at the least cost (`_quick_passwords`); an API itself cannot ask for it."""
    passwords = Passwords()
    made = await passwords.hash("a good password")
    assert made.startswith("$argon2id$")
    assert not PasswordHasher().check_needs_rehash(made)
    assert not passwords.is_outdated(made)
    assert await passwords.matches("a good password", made)
