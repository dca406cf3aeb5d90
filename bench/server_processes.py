"""Servers of one run: started with its settings, ended with it."""

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import ExitStack
from dataclasses import dataclass

from catraca.platform.embedded.children import end_with_parent
from tests.conftest import free_port
from tests.servers import Stack

SECRET = "only for measuring, and thrown away afterwards"


@dataclass(frozen=True, slots=True)
class Server:
    url: str
    pid: int

    def answers(self) -> bool:
        return answers(self.url)


def serve(stack: Stack, running: ExitStack, *command: str, **settings: str) -> Server:
    """Start a server that ends with this run, without waiting for its first answer."""
    port = free_port()
    defaults = {
        "CATRACA_PORT": str(port),
        "CATRACA_STATE_DIR": str(stack.folder),
        "CATRACA_DATABASE_URL": stack.database_url,
        "CATRACA_REDIS_URL": stack.redis_url,
        "CATRACA_SECRET": SECRET,
        "CATRACA_RATE_LIMIT_PRINCIPAL": "100000000/minute",
        "CATRACA_RATE_LIMIT_ANONYMOUS": "100000000/minute",
        "CATRACA_RATE_LIMIT_SIGN_UP_ADDRESS": "100000000/minute",
        "CATRACA_MAX_UPCOMING_APPOINTMENTS": "1000",
        "CATRACA_MAX_UPCOMING_IN_SERIES": "1000",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        env=os.environ | defaults | settings,
        preexec_fn=end_with_parent(signal.SIGKILL),
    )
    running.callback(process.wait)
    running.callback(process.terminate)
    return Server(f"http://127.0.0.1:{port}", process.pid)


def answers(url: str) -> bool:
    try:
        urllib.request.urlopen(f"{url}/openapi.json", timeout=2).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True
