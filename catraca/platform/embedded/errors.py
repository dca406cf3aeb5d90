"""Reasons why an embedded server cannot run. Every message says what to do."""


class EmbeddedFailure(Exception):
    """An embedded server cannot run here."""


class ProgramsMissing(EmbeddedFailure):
    """The wheel with a server's programs is not installed, or has none for this system."""


class StateFolderUnusable(EmbeddedFailure):
    """The state folder, or the account that should use it, cannot be used."""


class StateFolderInUse(EmbeddedFailure):
    """Another running process uses this folder."""

    def __init__(self, folder: object, pid: int | None) -> None:
        holder = f"process {pid}" if pid else "another process"
        super().__init__(
            f"{folder} is in use by {holder}: stop it first, or choose another folder with CATRACA_STATE_DIR"
        )
        self.pid = pid


class WorkersStillRun(EmbeddedFailure):
    """A process of an earlier `catraca up` on this state folder does not end."""

    def __init__(self, lock: object) -> None:
        super().__init__(
            f"a worker of an earlier run does not end: kill it; `fuser {lock}` shows its process id"
        )


class DataFolderForeign(EmbeddedFailure):
    """The PostgreSQL data folder has another major version, or is no data folder."""


class EmbeddedServerFailed(EmbeddedFailure):
    """A server ended, or did not answer, while it was started."""

    def __init__(self, title: str, what: str, log_tail: list[str]) -> None:
        lines = "".join(f"\n    {line}" for line in log_tail)
        super().__init__(f"{title} {what}" + (f"; the end of its log:{lines}" if lines else ""))
        self.log_tail = log_tail
