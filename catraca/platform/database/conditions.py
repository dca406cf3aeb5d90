"""WHERE conditions of searches with optional filters."""


class Conditions:
    """Conditions joined by AND, and the values of the statement.

    Only the filters in use become part of the statement, so that PostgreSQL plans for exactly these.
    """

    def __init__(self) -> None:
        self.values: list[object] = []
        self._conditions: list[str] = []

    def add(self, condition: str, *values: object) -> None:
        """Each `{}` of the condition stands for a value; a number in it, as `{0}`, allows repeated use."""
        self._conditions.append(condition.format(*map(self.value, values)))

    def value(self, value: object) -> str:
        """Add a value; returns its placeholder, such as `$3`."""
        self.values.append(value)
        return f"${len(self.values)}"

    def __str__(self) -> str:
        return " AND ".join(self._conditions) or "true"
