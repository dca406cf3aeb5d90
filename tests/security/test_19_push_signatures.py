"""Finding 19: signatures for push services were remembered without a limit."""

from catraca.platform.web_push import SIGNATURES_REMEMBERED, PushKey


def test_number_of_remembered_signatures_is_limited() -> None:
    key = PushKey("a secret", contact="mailto:operator@example.org")
    first = key.authorization("https://a.push.apple.com")
    assert key.authorization("https://a.push.apple.com") == first
    for number in range(SIGNATURES_REMEMBERED):
        last = key.authorization(f"https://a{number}.push.apple.com")
    assert key.authorization(f"https://a{SIGNATURES_REMEMBERED - 1}.push.apple.com") == last
    assert key.authorization("https://a.push.apple.com") != first, "signed again: it was forgotten"
