"""The secret that signs tokens, or the identity provider that does."""

import asyncio
from http.client import HTTPException

from catraca.platform.jwks import fetch_keys
from catraca.roles.doctor.findings import Finding, ok, problem, warning
from catraca.settings import SECRET_REMEDY, Settings

OTHERS = 0o077


async def check_secret(settings: Settings) -> list[Finding]:
    fault = settings.secret_fault()
    if fault is None:
        found = "given" if settings.access.secret else "generated in the state folder"
        return [ok("Secret", found), *_secret_file(settings)]
    is_refused = settings.process.environment == "production" or settings.is_secret_reachable()
    judge = problem if is_refused else warning
    return [judge("Secret", fault, SECRET_REMEDY), *_secret_file(settings)]


def _secret_file(settings: Settings) -> list[Finding]:
    path = settings.process.state_dir / "secret"
    if settings.access.secret or not path.exists():
        return []
    mode = path.stat().st_mode & 0o777
    if mode & OTHERS:
        return [
            problem("Secret file", f"{path} is readable by other users (mode {mode:o})", f"chmod 600 {path}")
        ]
    return [ok("Secret file", f"{path} is readable by its owner only")]


async def check_identity_provider(settings: Settings) -> list[Finding]:
    name, url = "Identity provider", settings.access.jwks_url
    if url is None:
        return [ok(name, "not set: Catraca signs its own tokens")]
    try:
        keys = await asyncio.to_thread(fetch_keys, url)
    except (OSError, HTTPException, ValueError, RecursionError) as error:
        remedy = "Start it, or correct CATRACA_JWKS_URL; until then, tokens signed with new keys get a 503."
        return [problem(name, f"its keys cannot be fetched ({type(error).__name__})", remedy)]
    if not keys:
        return [problem(name, "it publishes no key for signatures", "Correct CATRACA_JWKS_URL.")]
    if settings.process.environment == "production" and not url.startswith("https://"):
        remedy = "Give an https:// address in CATRACA_JWKS_URL."
        return [problem(name, "its keys are fetched without encryption", remedy)]
    return [ok(name, f"{len(keys)} keys")]
