"""Web push: encrypted as in the RFC's example, signed with our key, sent only to push services."""

import base64

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from catraca.platform.web_push import (
    PUSH_SERVICES,
    Pusher,
    PushFailed,
    PushGone,
    PushHosts,
    PushKey,
    Subscription,
    read_keys,
    seal,
)
from tests.support.push_service import Browser, push_service

# RFC 8291, appendix A.
THEIRS = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
AUTH = "BTBZMqHH6r4Tts7J_aSIgg"
OURS = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"
SALT = "DGv6ra1nlYgDCS1FRnbzlw"
SEALED = (
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK"
    "6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
)
CONTACT = "mailto:operator@example.org"


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def test_encryption_matches_the_example_of_the_rfc() -> None:
    ours = ec.derive_private_key(int.from_bytes(decoded(OURS)), ec.SECP256R1())
    sealed = seal(
        Subscription("https://push.example.net/x", THEIRS, AUTH),
        b"When I grow up, I want to be a watermelon",
        ours=ours,
        salt=decoded(SALT),
    )
    assert sealed == decoded(SEALED)


def test_each_message_has_its_own_key_and_salt() -> None:
    to = Subscription("https://push.example.net/x", THEIRS, AUTH)
    one, other = seal(to, b"the same"), seal(to, b"the same")
    assert one[:16] != other[:16]
    assert one[21:86] != other[21:86]


def test_push_key_is_derived_from_the_secret() -> None:
    assert PushKey("a secret", contact=CONTACT).public == PushKey("a secret", contact=CONTACT).public
    assert PushKey("a secret", contact=CONTACT).public != PushKey("another", contact=CONTACT).public


def test_signature_names_the_sender_and_the_push_service() -> None:
    key = PushKey("a secret", contact=CONTACT)
    header = key.authorization("https://push.example.net")
    token, public = header.removeprefix("vapid t=").split(", k=")
    assert public == key.public
    verifying = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), decoded(public))
    claims = jwt.decode(token, verifying, algorithms=["ES256"], audience="https://push.example.net")
    assert claims["sub"] == CONTACT
    assert key.authorization("https://push.example.net") == header, "signing is not done for each"
    assert key.authorization("https://other.example.net") != header


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://fcm.googleapis.com/fcm/send/abc",
        "https://updates.push.services.mozilla.com/wpush/v2/abc",
        "https://web.push.apple.com/abc",
    ],
)
def test_known_push_services_are_allowed(endpoint: str) -> None:
    assert PushHosts(PUSH_SERVICES).allow(endpoint)


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://fcm.googleapis.com/fcm/send/abc",
        "https://fcm.googleapis.com:8443/",
        "https://fcm.googleapis.com.evil.example/",
        "https://evilfcm.googleapis.com/",
        "https://push.apple.com.evil.example/",
        "https://user@fcm.googleapis.com/",
        "https://fcm.googleapis.com@evil.example/",
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://[::1/",
        "https://[::1%25.push.apple.com]/x",
        "https://::1%25.push.apple.com/x",
        "https://fcm.googleapis.com\\@evil.example/",
        "https://evil.example#.push.apple.com/",
        "https://evil.example\\.push.apple.com/",
        "https://evil.example/.push.apple.com",
        "https://web.push.apple.com./x",
        "https://.push.apple.com/x",
        "https://web_.push.apple.com/x",
        "https://\u212aey.push.apple.com/x",
        "https://fcm.googleapis.com:0443x/",
        "https://fcm.googleapis.com /",
        "https://169.254.169.254/latest/meta-data",
        "ftp://fcm.googleapis.com/",
        "https:fcm.googleapis.com",
        "https://fcm.googleapis.com/\r\nx: y",
        "https://fcm.googleapis.com/" + "a" * 1000,
        "",
    ],
)
def test_other_hosts_are_not_allowed(endpoint: str) -> None:
    assert not PushHosts(PUSH_SERVICES).allow(endpoint)


def test_malformed_keys_are_refused() -> None:
    assert read_keys(THEIRS, AUTH)
    assert not read_keys(THEIRS[:-4] + "AAAA", AUTH), "not a point of the curve"
    assert not read_keys(AUTH, AUTH)
    assert not read_keys(THEIRS, THEIRS)
    assert not read_keys("not base64!", AUTH)


async def test_device_decrypts_and_failures_of_the_service_are_typed() -> None:
    async with push_service() as service:
        pusher = Pusher(PushKey("a secret", contact=CONTACT), PushHosts([service.origin]))
        browser = Browser(f"{service.origin}/send/abc")
        keys = browser.subscription["keys"]
        to = Subscription(str(browser.subscription["endpoint"]), keys["p256dh"], keys["auth"])
        await pusher.push(to, b'{"message": "Ol\xc3\xa1"}', ttl_seconds=60, urgency="high")
        (pushed,) = service.taken
        assert browser.read(pushed.body) == {"message": "Olá"}
        assert (pushed.path, pushed.headers["ttl"], pushed.headers["urgency"]) == ("/send/abc", "60", "high")
        assert "Olá".encode() not in pushed.body
        for status in (404, 410):
            service.status = status
            with pytest.raises(PushGone):
                await pusher.push(to, b"{}", ttl_seconds=60)
        for status in (302, 400, 413, 429, 503):
            service.status = status
            with pytest.raises(PushFailed, match=str(status)):
                await pusher.push(to, b"{}", ttl_seconds=60)
    with pytest.raises(PushFailed):
        await pusher.push(to, b"{}", ttl_seconds=60)
