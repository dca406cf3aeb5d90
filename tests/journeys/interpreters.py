"""An interpreter that an ordinary user can run; ours may be in root's home."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TRIED = "import catraca.roles.api"


def interpreter_for(options: dict[str, Any], folder: Path) -> str:
    """Ours, the system's, or a copy of ours in `folder`; `options["env"]` is completed for the copy."""
    for python in (sys.executable, "/usr/bin/python3"):
        if _works(python, options):
            return python
    home = _copy(folder / "python")
    options["env"] |= {"PYTHONHOME": str(home), "LD_LIBRARY_PATH": str(home / "lib")}
    python = str(home / "bin/python")
    if not _works(python, options):
        pytest.skip("no interpreter that an ordinary user can reach imports this checkout")
    return python


def _works(python: str, options: dict[str, Any]) -> bool:
    try:
        done = subprocess.run([python, "-c", TRIED], capture_output=True, check=False, **options)
    except OSError:
        return False
    return done.returncode == 0


def _copy(home: Path) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "lib").mkdir()
    ours = Path(sys.base_prefix)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    shutil.copy(ours / "bin" / version, home / "bin/python")
    for library in (ours / "lib").glob("libpython*.so*"):
        shutil.copy(library, home / "lib")
    # With compiled files: an account that may not write them would compile everything at each start.
    unneeded = shutil.ignore_patterns("test", "site-packages", "idlelib", "config-*")
    shutil.copytree(ours / "lib" / version, home / "lib" / version, ignore=unneeded)
    return home
