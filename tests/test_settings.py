"""Settings: each reads from its own variable, and a wrong one is named without its value."""

import os
import stat
import subprocess
import sys
import threading
from dataclasses import FrozenInstanceError
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import ValidationError

from catraca.cli.failures import expected_failures
from catraca.settings import GROUP_OF, GROUPS, Settings, UnfitForProduction, read_settings, variable_of

# For every setting a value other than its default: the variable's text and the value read.
GIVEN: dict[str, tuple[str, Any]] = {
    "environment": ("production", "production"),
    "host": ("0.0.0.0", "0.0.0.0"),
    "port": ("9000", 9000),
    "workers": ("4", 4),
    "state_dir": ("/srv/catraca", Path("/srv/catraca")),
    "drain_delay": ("2.5", 2.5),
    "log_level": ("warning", "warning"),
    "database_url": ("postgresql://db/x", "postgresql://db/x"),
    "redis_url": ("rediss://cache/1", "rediss://cache/1"),
    "redis_timeout": ("1.5", 1.5),
    "amqp_url": ("amqps://bus/", "amqps://bus/"),
    "database_connections": ("20", 20),
    "secret": ("s" * 40, "s" * 40),
    "jwks_url": ("https://id.example/keys", "https://id.example/keys"),
    "jwt_issuer": ("https://id.example", "https://id.example"),
    "jwt_audience": ("rides", "rides"),
    "jwt_roles_claim": ("realm_access.roles", "realm_access.roles"),
    "operator_second_factor": ("required", "required"),
    "fresh_sign_in": ("5m", timedelta(minutes=5)),
    "token_ttl": ("900", timedelta(minutes=15)),
    "driver_approval": ("required", "required"),
    "password_link_ttl": ("2h", timedelta(hours=2)),
    "rate_limit_principal": ("5/second", "5/second"),
    "rate_limit_anonymous": ("6/hour", "6/hour"),
    "rate_limit_sign_in_account": ("7/day", "7/day"),
    "rate_limit_sign_in_address": ("8/minute", "8/minute"),
    "rate_limit_email_change": ("9/day", "9/day"),
    "max_body_bytes": ("2048", 2048),
    "connections_per_address": ("64", 64),
    "trusted_proxies": ("10.0.0.0/8, ::1", [ip_network("10.0.0.0/8"), ip_network("::1/128")]),
    "cors_origins": ("https://a.example,https://b.example", ["https://a.example", "https://b.example"]),
    "metrics_public": ("false", False),
    "idempotency_retention": ("7d", timedelta(days=7)),
    "outbox_retention": ("1d", timedelta(days=1)),
    "dead_letter_retention": ("90d", timedelta(days=90)),
    "push_contact": ("mailto:a@b.example", "mailto:a@b.example"),
    "push_hosts": ("push.example, *.b.example", ["push.example", "*.b.example"]),
    "notification_retention": ("60d", timedelta(days=60)),
    "search_retention": ("14d", timedelta(days=14)),
    "presence_timeout": ("90", timedelta(seconds=90)),
    "idle_after": ("10m", timedelta(minutes=10)),
    "position_interval": ("2.5", timedelta(seconds=2.5)),
    "ping_max_speed": ("55.5", 55.5),
    "ping_max_accuracy": ("100", 100.0),
    "community_edge_pings": ("5", 5),
    "community_edge_dwell": ("12.5", timedelta(seconds=12.5)),
    "lock_ttl": ("20", timedelta(seconds=20)),
    "driver_response_timeout": ("12.5", timedelta(seconds=12.5)),
    "global_matching_timeout": ("10m", timedelta(minutes=10)),
    "attempt_retention": ("30d", timedelta(days=30)),
    "longest_ride": ("3h", timedelta(hours=3)),
    "ride_top_speed": ("90", 90),
    "free_cancellations": ("0", 0),
    "cancellation_pause": ("2.5", timedelta(seconds=2.5)),
    "max_attempts_per_search": ("5", 5),
    "search_retry_interval": ("0.5", timedelta(seconds=0.5)),
    "initial_search_radius": ("3000", 3000),
    "max_search_radius": ("20000", 20_000),
    "radius_increment": ("0", 0),
    "offers_at_once": ("3", 3),
    "failure_alert_percent": ("12.5", 12.5),
    "failure_alert_window": ("15m", timedelta(minutes=15)),
    "failure_alert_minimum": ("25", 25),
    "enable_geofence": ("false", False),
    "confirmation_ttl": ("90", timedelta(seconds=90)),
    "rate_limit_confirmation": ("3/hour", "3/hour"),
    "hold_ttl": ("90", timedelta(seconds=90)),
    "max_holds": ("5", 5),
    "max_upcoming_appointments": ("30", 30),
    "max_upcoming_in_series": ("6", 6),
    "waitlist_offer_ttl": ("20m", timedelta(minutes=20)),
    "appointment_reminder": ("2h", timedelta(hours=2)),
    "walk_in_retention": ("90d", timedelta(days=90)),
    "tariff_base_cents": ("450", 450),
    "tariff_per_km_cents": ("210", 210),
    "tariff_per_minute_cents": ("0", 0),
    "tariff_minimum_cents": ("900", 900),
    "commission_basis_points": ("1500", 1500),
    "payment_timeout": ("2h", timedelta(hours=2)),
    "pix_key": ("caixa@coop.example", "caixa@coop.example"),
    "pix_name": ("Cooperativa Norte", "Cooperativa Norte"),
    "pix_city": ("Belém", "Belém"),
    "currency": ("EUR", "EUR"),
    "mail_url": ("smtps://mail.example:465", "smtps://mail.example:465"),
    "mail_tls": ("optional", "optional"),
    "mail_from": ("rides@coop.example", "rides@coop.example"),
    "password_page_url": ("https://coop.example/password", "https://coop.example/password"),
    "retry_ttl_ms": ("1500", 1500),
    "max_retries": ("0", 0),
    "users_batch_size": ("50", 50),
    "users_batch_timeout_ms": ("200", 200),
    "users_proc_concurrency": ("3", 3),
    "users_batch_concurrency": ("5", 5),
    "rate_limit_sign_up_address": ("9/minute", "9/minute"),
    "rate_limit_sign_up_email": ("10/day", "10/day"),
}
# Settings that need others.
BESIDE = {"mail_url": ("password_page_url",), "pix_key": ("pix_name", "pix_city")}
# Read without the prefix too.
ALSO_BARE = [
    name
    for name in GIVEN
    if name in ("retry_ttl_ms", "max_retries", "enable_geofence") or name.startswith("users_")
]
WRONG = {
    "environment": "staging",
    "port": "70000",
    "workers": "0",
    "drain_delay": "-1",
    "log_level": "loud",
    "database_url": "mysql://user:hunter2@db/x",
    "redis_url": "http://:hunter2@cache",
    "redis_timeout": "11",
    "amqp_url": "redis://:hunter2@bus",
    "database_connections": "hunter2",
    "jwks_url": "file:///hunter2",
    "operator_second_factor": "hunter2",
    "fresh_sign_in": "0",
    "token_ttl": "hunter2",
    "password_link_ttl": "0",
    "rate_limit_principal": "5",
    "rate_limit_anonymous": "0/minute",
    "rate_limit_sign_in_account": "5/fortnight",
    "rate_limit_sign_in_address": "-1/minute",
    "rate_limit_email_change": "5/fortnight",
    "max_body_bytes": "10",
    "trusted_proxies": "10.0.0.0/8, hunter2",
    "metrics_public": "hunter2",
    "idempotency_retention": "-5",
    "outbox_retention": "23h",
    "dead_letter_retention": "never",
    "push_contact": "hunter2",
    "notification_retention": "23h",
    "search_retention": "23h",
    "driver_approval": "hunter2",
    "enable_geofence": "hunter2",
    "confirmation_ttl": "0.5",
    "rate_limit_confirmation": "few",
    "hold_ttl": "0",
    "max_holds": "101",
    "max_upcoming_appointments": "0",
    "max_upcoming_in_series": "0",
    "waitlist_offer_ttl": "0",
    "appointment_reminder": "soon",
    "walk_in_retention": "23h",
    "presence_timeout": "soon",
    "idle_after": "0",
    "position_interval": "hunter2",
    "ping_max_speed": "0",
    "ping_max_accuracy": "-1",
    "community_edge_pings": "0",
    "community_edge_dwell": "-5",
    "lock_ttl": "2h",
    "driver_response_timeout": "0",
    "global_matching_timeout": "2d",
    "attempt_retention": "23h",
    "longest_ride": "8d",
    "ride_top_speed": "251",
    "free_cancellations": "-1",
    "cancellation_pause": "0",
    "max_attempts_per_search": "0",
    "search_retry_interval": "0",
    "initial_search_radius": "5km",
    "max_search_radius": "500001",
    "radius_increment": "-1",
    "offers_at_once": "101",
    "failure_alert_percent": "101",
    "failure_alert_window": "0",
    "failure_alert_minimum": "0",
    "tariff_base_cents": "-1",
    "tariff_per_km_cents": "1.8",
    "tariff_per_minute_cents": "hunter2",
    "tariff_minimum_cents": "-800",
    "commission_basis_points": "10001",
    "payment_timeout": "366d",
    "pix_key": "two words",
    "pix_name": "Cooperativa de Taxistas hunter2",
    "pix_city": "hunter2 do Norte do Sul",
    "currency": "real",
    "mail_url": "http://user:hunter2@mail.example",
    "mail_tls": "hunter2",
    "password_page_url": "ftp://hunter2.example/",
    "retry_ttl_ms": "0",
    "max_retries": "-1",
    "users_batch_size": "0",
    "users_batch_timeout_ms": "hunter2",
    "users_proc_concurrency": "0",
    "users_batch_concurrency": "21",
    "rate_limit_sign_up_address": "5",
    "rate_limit_sign_up_email": "0/hour",
}


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("CATRACA_") or name.lower() in ALSO_BARE:
            monkeypatch.delenv(name)


def value_of(settings: Settings, name: str) -> Any:
    return getattr(getattr(settings, GROUP_OF[name]), name)


def test_every_setting_is_in_this_table() -> None:
    assert GIVEN.keys() == GROUP_OF.keys()


def test_setting_names_are_unique() -> None:
    names = [name for group in GROUPS.values() for name in group.model_fields]
    assert len(names) == len(GROUP_OF)


@pytest.mark.parametrize("name", GIVEN)
def test_setting_is_read_from_its_variable(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written, read = GIVEN[name]
    assert value_of(read_settings(), name) != read, "the table must differ from the default to prove anything"
    for other in BESIDE.get(name, ()):
        monkeypatch.setenv(variable_of(other), GIVEN[other][0])
    monkeypatch.setenv(variable_of(name), written)
    assert value_of(read_settings(), name) == read
    monkeypatch.setenv(variable_of(name), "")
    assert value_of(read_settings(), name) == value_of(Settings.defaults(), name), "empty is unset"


@pytest.mark.parametrize("name", ALSO_BARE)
def test_contract_setting_is_read_without_prefix_too(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written, read = GIVEN[name]
    monkeypatch.setenv(name.upper(), written)
    assert value_of(read_settings(), name) == read
    other, meant = ("true", True) if isinstance(read, bool) else ("7", 7)
    monkeypatch.setenv(variable_of(name), other)
    assert value_of(read_settings(), name) == meant, "the name with the prefix takes precedence"
    monkeypatch.setenv(variable_of(name), "")
    assert value_of(read_settings(), name) == read, "empty is unset"


def test_no_other_setting_is_read_without_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in GIVEN.keys() - set(ALSO_BARE):
        monkeypatch.setenv(name.upper(), GIVEN[name][0])
    assert read_settings() == Settings.defaults()


@pytest.mark.parametrize("name", WRONG)
def test_wrong_value_is_refused_with_its_variable(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, without the value, which may hold a password."""
    variable = variable_of(name)
    monkeypatch.setenv(variable, WRONG[name])
    with pytest.raises(typer.Exit) as ended, expected_failures():
        read_settings()
    said = capsys.readouterr().err
    assert ended.value.exit_code == 2
    assert said.startswith(f"catraca: {variable}: ")
    assert said.count("\n") == 1
    assert "hunter2" not in said


@pytest.mark.parametrize(
    ("name", "missing"), [(name, one) for name, others in BESIDE.items() for one in others]
)
def test_setting_that_needs_another_is_refused(
    name: str, missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable := variable_of(name), GIVEN[name][0])
    for other in BESIDE[name]:
        if other != missing:
            monkeypatch.setenv(variable_of(other), GIVEN[other][0])
    with pytest.raises(typer.Exit) as ended, expected_failures():
        read_settings()
    said = capsys.readouterr().err
    assert ended.value.exit_code == 2
    assert said.startswith(f"catraca: {variable} needs CATRACA_{missing.upper()}")
    assert GIVEN[name][0] not in said


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [
        (("initial_search_radius", "5001"), ("max_search_radius", "5000")),
        (("driver_response_timeout", "20.5"), ("global_matching_timeout", "20")),
    ],
    ids=["radius", "time"],
)
def test_contradicting_settings_are_both_named(
    smaller: tuple[str, str],
    larger: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in (smaller, larger):
        monkeypatch.setenv(variable_of(name), value)
    with pytest.raises(typer.Exit) as ended, expected_failures():
        read_settings()
    said = capsys.readouterr().err
    assert ended.value.exit_code == 2
    assert said.startswith(f"catraca: CATRACA_{smaller[0].upper()} is ")
    assert f"CATRACA_{larger[0].upper()}" in said
    monkeypatch.setenv(f"CATRACA_{smaller[0].upper()}", larger[1])
    assert value_of(read_settings(), smaller[0]) == value_of(read_settings(), larger[0]), (
        "equal values are allowed"
    )


@pytest.mark.parametrize("lock_ttl", ["1", "15", "1h"])
@pytest.mark.parametrize("driver_response_timeout", ["0.5", "20", "5m"])
def test_offer_lease_is_longer_than_the_offer(lock_ttl: str, driver_response_timeout: str) -> None:
    settings = read_settings(lock_ttl=lock_ttl, driver_response_timeout=driver_response_timeout)
    assert settings.offer_lease > settings.rides.driver_response_timeout
    assert settings.offer_lease >= settings.location.lock_ttl


def test_command_line_names_all_wrong_variables() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "catraca", "doctor"],
        env={"PATH": os.environ["PATH"], "CATRACA_PORT": "none", "CATRACA_WORKERS": "many"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "CATRACA_PORT: " in ran.stderr
    assert "; CATRACA_WORKERS: " in ran.stderr


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError):
        read_settings().process.port = 1
    with pytest.raises(FrozenInstanceError):
        read_settings().process = Settings.defaults().process


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1", "localhost"])
def test_demo_data_are_allowed_on_loopback_addresses(host: str) -> None:
    assert read_settings(host=host).demo_fault() is None
    assert read_settings(host=host, environment="production").demo_fault()
    assert read_settings(host=host, database_url="postgresql://127.0.0.1/catraca").demo_fault()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.5", "::ffff:10.0.0.5", "localhost.example.org"])
def test_demo_data_elsewhere_need_the_word_development(host: str) -> None:
    assert "CATRACA_HOST" in str(read_settings(host=host).demo_fault())
    given = {"host": host, "database_url": "postgresql://db/catraca", "environment": "development"}
    assert read_settings(**given).demo_fault() is None


def test_inbox_is_kept_longer_than_dead_letters() -> None:
    bus = read_settings(dead_letter_retention="2d").bus
    assert bus.inbox_retention > bus.dead_letter_retention == timedelta(days=2)


def test_representations_show_no_passwords() -> None:
    settings = read_settings(
        secret="hunter2" * 6,
        database_url="postgresql://u:hunter2@db/x",
        redis_url="redis://:hunter2@cache",
        amqp_url="amqp://u:hunter2@bus",
        mail_url="smtp://u:hunter2@mail",
        password_page_url="https://coop.example/password",
    )
    assert "hunter2" not in repr(settings) + str(settings)


LONG = "Zq3vN8sT1xK6bR0mW5yH9cJ2dF7gL4pA"


@pytest.mark.parametrize(
    ("secret", "database_url", "fit"),
    [
        (LONG, "postgresql://db/x", True),
        (LONG, None, True),
        (LONG[:-1], None, False),
        ("", None, False),
        ("change-me-" * 5, None, False),
        ("This-Is-An-EXAMPLE-secret-from-the-documentation", None, False),
        ("ab" * 32, None, False),
        (None, None, True),
        (None, "postgresql://catraca@/catraca?host=/srv/catraca/run&port=5432", True),
        (None, "postgresql://catraca@%2Fvar%2Frun/catraca", True),
        (None, "postgresql://db.internal/x", False),
        (None, "postgresql://localhost/x", False),
        (None, "postgresql://catraca@/catraca?host=db.internal", False),
        (None, "postgresql://[broken/x", False),
    ],
)
def test_production_needs_a_strong_secret(secret: str | None, database_url: str | None, fit: bool) -> None:
    """A generated secret is fit on one machine; over a network every machine would generate its own."""
    given = {"secret": secret, "database_url": database_url}
    read_settings(**given).ensure_fit()
    settings = read_settings(environment="production", **given)
    if fit:
        settings.ensure_fit()
    else:
        with pytest.raises(UnfitForProduction, match="CATRACA_SECRET") as refused:
            settings.ensure_fit()
        assert not secret or secret not in str(refused.value)


def test_secret_is_generated_once_and_private(tmp_path: Path) -> None:
    settings = read_settings(state_dir=tmp_path / "new")
    found: list[str] = []
    together = threading.Barrier(8)

    def make() -> None:
        together.wait()
        found.append(settings.signing_secret())

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert len(found[0]) >= 64
    path = tmp_path / "new" / "secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["secret"], "no temporary file stays"
