"""`catraca token`."""

from datetime import timedelta
from typing import Annotated
from uuid import UUID

import typer

from catraca.cli.failures import REFUSED, expected_failures, fail


def token(
    sub: Annotated[list[UUID], typer.Option(help="Id of the account; may be repeated.")],
    role: Annotated[list[str], typer.Option(help="A role of the token; may be repeated.")],
    ttl: Annotated[int, typer.Option(help="Lifetime in seconds.", min=1, max=10 * 365 * 86400)] = 3600,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list for programs.")] = False,
) -> None:
    """Print one token a line, signed with this state folder's secret or CATRACA_SECRET. Needs no server.

    Example: `catraca token --sub "$(uuidgen)" --role driver --ttl 86400`
    """
    import json

    with expected_failures():
        from catraca.platform.auth import ROLES, sign_token
        from catraca.settings import read_settings

        if unknown := set(role) - ROLES:
            fail(f"no such role: {', '.join(sorted(unknown))}; there are {', '.join(sorted(ROLES))}", REFUSED)
        settings = read_settings()
        if settings.access.jwks_url:
            fail("your identity provider signs the tokens here (CATRACA_JWKS_URL)", REFUSED)
        secret = settings.existing_secret()
        lifetime = timedelta(seconds=ttl)
        tokens = [
            sign_token(secret, subject=subject, roles=role, lifetime=lifetime, rules=settings.token_rules())
            for subject in sub
        ]
    typer.echo(json.dumps(tokens) if as_json else "\n".join(tokens))
