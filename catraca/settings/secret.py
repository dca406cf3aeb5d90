"""The secret that signs tokens: whether it is fit for production, and where it is generated."""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from urllib.parse import parse_qs, unquote, urlsplit

MIN_SECRET_CHARACTERS = 32
MIN_SECRET_VARIETY = 8
# A copied example must not reach production.
PLACEHOLDERS = ("change-me", "changeme", "change_me", "replace-me", "placeholder", "example", "your-secret")
SECRET_REMEDY = "Give every process the same CATRACA_SECRET, as from `openssl rand -base64 48`."  # noqa: S105


def fault_of_secret(secret: str | None, database_url: str | None) -> str | None:
    """Why the secret is not fit for production; None if it is."""
    if secret is None:
        # Over a network, other machines may serve the same database, each with a secret of its own.
        remote = database_url is not None and _is_over_network(database_url)
        return "unset, while the database is on another server" if remote else None
    if len(secret) < MIN_SECRET_CHARACTERS:
        return f"shorter than {MIN_SECRET_CHARACTERS} characters"
    if any(word in secret.lower() for word in PLACEHOLDERS):
        return "copied from an example, which is public"
    return "easy to guess" if len(set(secret)) < MIN_SECRET_VARIETY else None


def _is_over_network(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return True
    host = unquote(parts.hostname or parse_qs(parts.query).get("host", [""])[0])
    return host != "" and not host.startswith("/")


def generated_secret(path: Path) -> str:
    """Return the secret at `path`; generate it on first use.

    It is written completely before it is linked: no crash leaves a partial secret, no race a second one.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile("w", dir=path.parent, prefix=".secret-") as file:  # made with mode 0600
            file.write(secrets.token_urlsafe(48))
            file.flush()
            os.fsync(file.fileno())
            if os.geteuid() == 0:  # after a run as root, the folder's owner must be able to read it
                owner = path.parent.stat()
                os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
            with suppress(FileExistsError):
                os.link(file.name, path)
    return path.read_text().strip()
