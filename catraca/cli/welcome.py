"""The output of `catraca up` when it is ready: its address, and demo tokens."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from catraca.platform.auth import sign_token
from catraca.roles.listener import callable_address

if TYPE_CHECKING:
    from catraca.roles.demo import DemoCity
    from catraca.settings import Settings

DEMO_TOKEN_LIFETIME = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class DemoToken:
    role: str
    name: str
    token: str


@dataclass(frozen=True, slots=True)
class Welcome:
    """A ready instance."""

    url: str
    state_dir: Path
    seconds: float
    tokens: Sequence[DemoToken]

    @classmethod
    def to(cls, settings: "Settings", city: "DemoCity | None", *, seconds: float) -> "Welcome":
        url = f"http://{callable_address(settings.process.host, settings.process.port)}"
        return cls(url, settings.process.state_dir.resolve(), seconds, demo_tokens(settings, city))

    def print_json(self) -> None:
        """One object, for programs."""
        found = {
            "url": self.url,
            "docs": f"{self.url}/docs",
            "pid": os.getpid(),
            "state_dir": str(self.state_dir),
            "seconds": round(self.seconds, 2),
            "demo_tokens": {demo.role: demo.token for demo in self.tokens},
        }
        # Flushed, because the reader may wait at a pipe.
        print(json.dumps(found), flush=True)  # noqa: T201 - this is the command's result

    def print(self) -> None:
        """Some lines, for people; tokens on one line, to be copied."""
        console = Console(highlight=False, soft_wrap=True)
        console.print(f"\n[bold green]Catraca is ready[/] at [bold]{self.url}[/] ({self.seconds:.1f} s)")
        console.print(f"  documentation  {self.url}/docs")
        console.print(f"  data and logs  {escape(str(self.state_dir))}")
        if self.tokens:
            hours = DEMO_TOKEN_LIFETIME // timedelta(hours=1)
            console.print(f"\n[bold yellow]Demo tokens[/] (to try it with; valid for {hours} hours)")
            for demo in self.tokens:
                console.print(f"  [bold]{demo.role}[/], {escape(demo.name)}\n  [dim]{demo.token}[/]")
            console.print("\nTry it")
            console.print(f'  curl -H "Authorization: Bearer {self.tokens[-1].token}" {self.url}/v1/me')
        console.print("\nCtrl-C stops it; the data stay.")


def demo_tokens(settings: "Settings", city: "DemoCity | None") -> list[DemoToken]:
    """Tokens of three people of the demo city; none if an identity provider signs tokens."""
    if city is None or settings.access.jwks_url:
        return []
    secret, rules = settings.signing_secret(), settings.token_rules()
    return [
        DemoToken(
            person.role,
            person.name,
            sign_token(
                secret, subject=person.id, roles=[person.role], lifetime=DEMO_TOKEN_LIFETIME, rules=rules
            ),
        )
        for person in (city.operator, city.drivers[0], city.passengers[0])
    ]
