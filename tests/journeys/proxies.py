"""The proxy samples of docs/operations.md as real processes, in front of two real APIs."""

import asyncio
import os
import shutil
import signal
import ssl
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from catraca.platform.embedded.children import end_with_parent
from tests.docs.pages import OPERATIONS, fenced
from tests.servers import until

# Where Debian has them; an ordinary user's PATH may lack the second.
PROGRAMS = "/usr/bin:/usr/sbin"
# The parts around the samples, and the places where a sample differs here: listening address, certificate and
# the addresses of the two APIs. Everything else runs as documented.
NGINX = """
daemon off;
pid {folder}/nginx.pid;
{user}
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/sample;
}}
"""
CADDY = """
{{
    admin off
    auto_https disable_redirects
    storage file_system {folder}/caddy
}}
import {folder}/sample
"""
REPLACED = {
    "nginx": {
        "listen 443 ssl": "listen 127.0.0.1:{port} ssl",
        "/etc/ssl/rides.pem": "{folder}/certificate.pem",
        "/etc/ssl/rides.key": "{folder}/key.pem",
    },
    "haproxy": {
        "bind :443 ssl": "bind 127.0.0.1:{port} ssl",
        "/etc/ssl/rides-and-key.pem": "{folder}/both.pem",
    },
    "caddy": {
        "rides.example.org {{": "https://127.0.0.1:{port} {{\n tls {folder}/certificate.pem {folder}/key.pem"
    },
}
CHECK = {
    "nginx": "nginx -e stderr -t -c {folder}/main",
    "haproxy": "haproxy -c -f {folder}/sample",
    "caddy": "caddy validate --adapter caddyfile --config {folder}/main",
}
RUN = {
    "nginx": "nginx -e stderr -c {folder}/main",
    "haproxy": "haproxy -db -f {folder}/sample",
    "caddy": "caddy run --adapter caddyfile --config {folder}/main",
}


def sample(name: str) -> str:
    (found,) = fenced(OPERATIONS.read_text(), name)
    return found


@dataclass(frozen=True)
class Proxy:
    name: str
    folder: Path
    port: int

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.folder / "certificate.pem")

    def write(self, apis: Sequence[int]) -> None:
        """Write the sample with this proxy's addresses, and its certificate."""
        places = {"folder": self.folder, "port": self.port, "user": "user root;" if os.getuid() == 0 else ""}
        text = sample(self.name)
        replaced = {old.format(**places): new.format(**places) for old, new in REPLACED[self.name].items()}
        documented = zip(("127.0.0.1:8000", "127.0.0.1:8001"), apis, strict=True)
        for old, new in [*replaced.items(), *((old, f"127.0.0.1:{port}") for old, port in documented)]:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        (self.folder / "sample").write_text(text)
        around = {"nginx": NGINX, "caddy": CADDY}.get(self.name, "")
        (self.folder / "main").write_text(around.format(**places))
        _make_certificate(self.folder)

    def check(self) -> None:
        """Let the program itself check its configuration; warnings are failures."""
        done = subprocess.run(self._command(CHECK), env=self._environment(), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "[warn" not in done.stderr.lower(), done.stderr

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        with (self.folder / "log").open("w") as log:
            process = subprocess.Popen(
                self._command(RUN),
                env=self._environment(),
                stdout=log,
                stderr=log,
                preexec_fn=end_with_parent(signal.SIGTERM),
            )
        try:
            await until(lambda: self._listens(process))
            yield
        finally:
            process.terminate()
            await asyncio.to_thread(process.wait, 30)

    async def _listens(self, process: "subprocess.Popen[bytes]") -> bool:
        assert process.poll() is None, (self.folder / "log").read_text()
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.close()
        return True

    def _command(self, commands: dict[str, str]) -> list[str]:
        program, *arguments = commands[self.name].format(folder=self.folder).split()
        path = shutil.which(program, path=PROGRAMS)
        assert path is not None, f"{program} is missing: run tests/install-servers.sh"
        return [path, *arguments]

    def _environment(self) -> dict[str, str]:
        return {"PATH": PROGRAMS, "HOME": str(self.folder)}


def _make_certificate(folder: Path) -> None:
    names = "subjectAltName=IP:127.0.0.1,DNS:rides.example.org"
    request = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=rides"
    )
    files = ["-addext", names, "-keyout", str(folder / "key.pem"), "-out", str(folder / "certificate.pem")]
    subprocess.run([*request.split(), *files], check=True, capture_output=True)
    both = [(folder / name).read_text() for name in ("certificate.pem", "key.pem")]
    (folder / "both.pem").write_text("".join(both))
