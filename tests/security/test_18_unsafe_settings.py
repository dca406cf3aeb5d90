"""Finding 18: settings with which tokens could be forged or mail read, and tokens that are not accepted."""

import ssl
from pathlib import Path
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from catraca.platform.mail import Letter, MailAway, Mailer
from catraca.settings import Settings, UnfitForProduction, WrongSettings, read_settings
from tests.cli.shell import catraca
from tests.conftest import free_port
from tests.support.certificates import write_certificate
from tests.support.mail_server import mail_server

STRONG = "Zq3vN8sT1xK6bR0mW5yH9cJ2dF7gL4pA"
LETTER = Letter(to="ana@example.com", subject="Welcome", text="https://coop.example/password#token=x\n")


# Keys of an identity provider


@pytest.mark.parametrize(
    "url", ["http://id.example/keys", "http://10.0.0.1/keys", "http://keycloak:8080/keys"]
)
def test_keys_without_encryption_are_refused(url: str) -> None:
    with pytest.raises(WrongSettings, match=r"CATRACA_JWKS_URL.*https://"):
        read_settings(jwks_url=url)


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost:8080", "LOCALHOST"])
def test_keys_without_encryption_are_for_development(host: str) -> None:
    given = {"jwks_url": f"http://{host}/keys", "secret": STRONG}
    read_settings(**given, environment="development").ensure_fit()
    with pytest.raises(UnfitForProduction, match="CATRACA_JWKS_URL"):
        read_settings(**given, environment="production").ensure_fit()


@pytest.mark.parametrize(
    "url", ["https://id.example/keys", "https://keycloak:8443/keys", "https://10.0.0.1/keys"]
)
def test_provider_may_be_inside_the_network(url: str) -> None:
    read_settings(jwks_url=url, secret=STRONG, environment="production").ensure_fit()


@pytest.mark.parametrize(
    "url", ["https://user@id.example/keys", "https://[::1%25.id.example]/", "https://a b/"]
)
def test_provider_url_of_another_form_is_refused(url: str) -> None:
    with pytest.raises(WrongSettings, match="CATRACA_JWKS_URL"):
        read_settings(jwks_url=url)


# The secret


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "catraca.example"])
@pytest.mark.parametrize("environment", ["development", None])
def test_weak_secret_is_refused_where_others_reach_it(host: str, environment: str | None) -> None:
    for secret in ("change-me", "change-me-" * 5, "ab" * 32):
        settings = read_settings(host=host, secret=secret, environment=environment)
        with pytest.raises(UnfitForProduction, match="CATRACA_SECRET"):
            settings.ensure_fit()
    read_settings(host=host, secret=STRONG, environment=environment).ensure_fit()
    read_settings(host=host, environment=environment).ensure_fit()  # it is generated


def test_weak_secret_is_accepted_on_this_machine_only() -> None:
    read_settings(host="127.0.0.1", secret="change-me", environment="development").ensure_fit()


async def test_up_refuses_a_weak_secret_for_others(tmp_path: Path) -> None:
    given = {"CATRACA_HOST": "0.0.0.0", "CATRACA_SECRET": "change-me", "CATRACA_ENVIRONMENT": "development"}
    result = await catraca("up", folder=tmp_path, **given)
    assert (result.returncode, result.stdout) == (2, "")
    assert "CATRACA_SECRET" in result.stderr


# Mail


async def test_mail_is_not_sent_without_encryption() -> None:
    """0.0.0.0 is this machine, but not a loopback address."""
    async with mail_server(port := free_port()) as server:
        with capture_logs() as logs, pytest.raises(MailAway, match="SMTPNotSupportedError"):
            await Mailer(f"smtp://0.0.0.0:{port}", sender="a@example.org").send(LETTER)
        assert server.letters == []
        assert [entry["event"] for entry in logs] == ["mail_server_without_tls"]
        await Mailer(f"smtp://0.0.0.0:{port}", sender="a@example.org", needs_tls=False).send(LETTER)
    assert server.encrypted == [False]


async def test_mail_server_with_an_unknown_certificate_is_away(tmp_path: Path) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(write_certificate(tmp_path, "mail.example"))
    async with mail_server(port := free_port(), tls=tls) as server:
        with pytest.raises(MailAway, match="SSLCertVerificationError"):
            await Mailer(f"smtp://0.0.0.0:{port}", sender="a@example.org").send(LETTER)
        assert server.letters == []
        # Encrypted as well as possible where the operator does not demand more.
        await Mailer(f"smtp://0.0.0.0:{port}", sender="a@example.org", needs_tls=False).send(LETTER)
    assert server.encrypted == [True]


@pytest.mark.parametrize(
    ("url", "tls", "needs"),
    [
        ("smtp://mail.example", "required", True),
        ("smtp://mail.example", "optional", False),
        ("smtp://127.0.0.1:25", "required", False),
        ("smtp://localhost", "required", False),
        ("smtp://[::1]:25", "required", False),
        ("smtp://10.0.0.1", "required", True),
    ],
)
def test_mail_needs_encryption_by_default(url: str, tls: str, needs: bool) -> None:
    settings = read_settings(mail_url=url, mail_tls=tls, password_page_url="https://coop.example/password")
    assert settings.onboarding.needs_tls() == needs


# `catraca token` in a wrong folder


@pytest.mark.parametrize(
    "arguments",
    [
        ["token", "--sub", str(uuid4()), "--role", "operator"],
        ["token", "--sub", str(uuid4()), "--role", "driver", "--json"],
    ],
)
async def test_token_makes_no_secret_in_a_wrong_folder(tmp_path: Path, arguments: list[str]) -> None:
    result = await catraca(*arguments, folder=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert str(tmp_path / "state") in line
    assert "CATRACA_STATE_DIR" in line
    assert not (tmp_path / "state").exists()


async def test_import_makes_no_secret_in_a_wrong_folder(tmp_path: Path, settings: Settings) -> None:
    url = settings.servers.database_url
    assert url is not None
    file = tmp_path / "people.csv"
    file.write_text("name,email\nAna,ana@example.com\n")
    result = await catraca("users", "import", str(file), folder=tmp_path, CATRACA_DATABASE_URL=url)
    assert result.returncode == 2
    assert "there is no secret in" in result.stderr
    assert not (tmp_path / "state/secret").exists()
