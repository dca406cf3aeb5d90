"""`catraca dead-letters ...`: the API's operations on dead letters, for a shell on the machine."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from uuid import UUID

import typer

from catraca.cli.database import run_on_database
from catraca.cli.failures import FAILED, REFUSED, expected_failures, fail
from catraca.cli.terminal import moment_of

if TYPE_CHECKING:
    from catraca.domains.dead_letters import Filter, ReplayTargets
    from catraca.domains.dead_letters.replay.model import Outcome
    from catraca.platform.database import Db
    from catraca.platform.errors import Refusal

T = TypeVar("T")

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    help="List, edit, replay and discard messages that could not be handled.\n\n"
    "Start with `catraca dead-letters groups`. Every change is written to the audit log.",
)

STATES = ("waiting", "replayed", "discarded", "any")

TheLetter = Annotated[UUID, typer.Argument(metavar="ID", help="The id of the letter, as `list` prints it.")]
OneLetter = Annotated[
    UUID | None, typer.Argument(metavar="ID", help="One letter; or select letters by options.")
]
Queue = Annotated[str | None, typer.Option(help="Letters that died in this queue.")]
Reason = Annotated[str | None, typer.Option(help="Letters that died for this reason.")]
Key = Annotated[str | None, typer.Option(help="Letters with this routing key.")]
MessageId = Annotated[UUID | None, typer.Option(help="Letters of this message.")]
DiedAfter = Annotated[str | None, typer.Option(metavar="TIME", help="Such as 2031-05-30T14:00; local time.")]
DiedBefore = Annotated[str | None, typer.Option(metavar="TIME", help="Such as 2031-05-30T14:00Z.")]
Everything = Annotated[bool, typer.Option("--all", help="All letters; required if there is no other filter.")]
Limit = Annotated[int, typer.Option(min=1, max=10_000, help="At most this many, the oldest first.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count; change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, as the API returns it.")]


@app.command()
def groups(as_json: AsJson = False) -> None:
    """Count waiting letters by queue and reason.

    Example: `catraca dead-letters groups`
    """
    from catraca.domains.dead_letters import find_groups

    found = _run(lambda db, _: find_groups(db))
    if as_json:
        from catraca.domains.dead_letters.letters.schemas import GroupsOut

        typer.echo(GroupsOut.of(found).model_dump_json(indent=2))
    else:
        from catraca.cli.dead_letter_tables import print_groups

        print_groups(found)


@app.command("list")
def list_letters(
    queue: Queue = None,
    reason: Reason = None,
    key: Key = None,
    state: Annotated[str, typer.Option(help=f"One of {', '.join(STATES)}.")] = "waiting",
    message_id: MessageId = None,
    died_after: DiedAfter = None,
    died_before: DiedBefore = None,
    after: Annotated[UUID | None, typer.Option(help="Start behind this letter.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100)] = 20,
    as_json: AsJson = False,
) -> None:
    """List letters, the newest first, without the values in their bodies.

    Example: `catraca dead-letters list --queue notification_rides_queue --reason KeyError`
    """
    from catraca.domains.dead_letters import LetterId, find_letters

    wanted = _filter(queue, reason, key, message_id, died_after, died_before, state=state)
    start = None if after is None else LetterId(after)
    found = _run(lambda db, _: find_letters(db, wanted, after=start, limit=limit + 1))
    if as_json:
        from catraca.domains.dead_letters.letters.schemas import LetterPage

        typer.echo(LetterPage.of(found, limit=limit).model_dump_json(indent=2))
    else:
        from catraca.cli.dead_letter_tables import print_letters

        print_letters(found[:limit], more=len(found) > limit)


@app.command()
def show(
    letter: TheLetter,
    body: Annotated[bool, typer.Option("--body", help="Print only the body, byte for byte.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show one letter with its whole body. The read is written to the audit log.

    Example: `catraca dead-letters show ID --body > letter.json`
    """
    from catraca.domains.dead_letters import LetterId, open_letter

    found = _run(lambda db, _: open_letter(db, LetterId(letter), by=None))
    if body:
        typer.get_binary_stream("stdout").write(found.body)
    elif as_json:
        from catraca.domains.dead_letters.letters.schemas import OpenLetterOut

        typer.echo(OpenLetterOut.of(found).model_dump_json(indent=2))
    else:
        from catraca.cli.dead_letter_tables import print_letter

        print_letter(found)


@app.command()
def edit(
    letter: TheLetter,
    file: Annotated[Path, typer.Option(help="The new body, JSON; - reads standard input.", allow_dash=True)],
) -> None:
    """Replace the body of a letter by one that its queue can read. The first body is kept.

    Example: `catraca dead-letters edit ID --file letter.json`
    """
    from catraca.domains.dead_letters import LetterId, edit_letter

    try:
        body = typer.get_binary_stream("stdin").read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        fail(f"cannot read {file}: {error.strerror}", REFUSED)
    _run(lambda db, targets: edit_letter(db, LetterId(letter), body, targets=targets, by=None))
    typer.echo(f"Edited. Replay it with: catraca dead-letters replay {letter}")


@app.command()
def replay(
    letter: OneLetter = None,
    queue: Queue = None,
    reason: Reason = None,
    key: Key = None,
    message_id: MessageId = None,
    died_after: DiedAfter = None,
    died_before: DiedBefore = None,
    everything: Everything = False,
    state: Annotated[str, typer.Option(help="One of waiting, replayed, discarded.")] = "waiting",
    rate: Annotated[int, typer.Option(min=1, max=1000, help="At most this many per second.")] = 50,
    limit: Limit = 10_000,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Send letters again to the queue they died in, and to no other.

    Safe to repeat: a message that was handled is not handled again. The relay sends them at the given rate.

    Examples: `catraca dead-letters replay ID`,
    `catraca dead-letters replay --queue notification_rides_queue --reason KeyError --rate 20 --dry-run`
    """
    from catraca.domains.dead_letters import LetterId, replay_letter, replay_letters

    wanted = _filter(queue, reason, key, message_id, died_after, died_before, state=state)
    if letter is not None:
        _refuse_both(wanted, everything=everything)
        one = LetterId(letter)
        _run(lambda db, targets: replay_letter(db, one, targets=targets, by=None))
        typer.echo("Replayed: the relay sends it within a second.")
        return

    def act(dry_run: bool) -> "Outcome":
        return _run(
            lambda db, targets: replay_letters(
                db,
                wanted,
                everything=everything,
                rate_per_second=rate,
                limit=limit,
                dry_run=dry_run,
                targets=targets,
                by=None,
            )
        )

    _act_on_many(act, "replay", "Replayed", dry_run=dry_run, yes=yes)


@app.command()
def discard(
    because: Annotated[str, typer.Option(help="The reason; stored with the letter.")],
    letter: OneLetter = None,
    queue: Queue = None,
    reason: Reason = None,
    key: Key = None,
    message_id: MessageId = None,
    died_after: DiedAfter = None,
    died_before: DiedBefore = None,
    everything: Everything = False,
    limit: Limit = 10_000,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Mark waiting letters as not to be replayed. They can be read until their retention ends.

    Examples: `catraca dead-letters discard ID --because "a test"`,
    `catraca dead-letters discard --queue raffle_queue --reason malformed_json --because "a test" --dry-run`
    """
    import re

    from catraca.domains.dead_letters import LetterId, discard_letter, discard_letters
    from catraca.domains.dead_letters.replay.model import REASON_MAX_CHARACTERS, REASON_PATTERN

    if not re.fullmatch(REASON_PATTERN, because) or len(because) > REASON_MAX_CHARACTERS:
        fail(f"--because takes one line of at most {REASON_MAX_CHARACTERS} characters", REFUSED)
    wanted = _filter(queue, reason, key, message_id, died_after, died_before)
    if letter is not None:
        _refuse_both(wanted, everything=everything)
        one = LetterId(letter)
        _run(lambda db, targets: discard_letter(db, one, reason=because, targets=targets, by=None))
        typer.echo("Discarded.")
        return

    def act(dry_run: bool) -> "Outcome":
        return _run(
            lambda db, targets: discard_letters(
                db,
                wanted,
                everything=everything,
                reason=because,
                limit=limit,
                dry_run=dry_run,
                targets=targets,
                by=None,
            )
        )

    _act_on_many(act, "discard", "Discarded", dry_run=dry_run, yes=yes)


def _act_on_many(act: Callable[[bool], "Outcome"], verb: str, done: str, *, dry_run: bool, yes: bool) -> None:
    """Print the outcome of a dry run, ask for confirmation, and act."""
    from catraca.cli.dead_letter_tables import summary

    expected = act(True)
    if dry_run or expected.done == 0:
        typer.echo(f"Would {verb}: {summary(expected)}")
        return
    if not yes:
        typer.echo(f"This will {verb}: {summary(expected)}", err=True)
        if not typer.get_text_stream("stdin").isatty():
            fail("cannot ask for confirmation without a terminal: use --yes or --dry-run", REFUSED)
        typer.confirm("Continue?", abort=True, err=True)
    typer.echo(f"{done}: {summary(act(False))}")


def _filter(
    queue: str | None,
    reason: str | None,
    key: str | None,
    message_id: UUID | None,
    died_after: str | None,
    died_before: str | None,
    *,
    state: str = "waiting",
) -> "Filter":
    from catraca.domains.dead_letters import Filter

    if state not in STATES:
        fail(f"--state is one of {', '.join(STATES)}", REFUSED)
    given: Any = None if state == "any" else state
    return Filter(
        state=given,
        queue=queue,
        reason=reason,
        key=key,
        message_id=message_id,
        died_after=moment_of(died_after),
        died_before=moment_of(died_before),
    )


def _refuse_both(wanted: "Filter", *, everything: bool) -> None:
    if everything or not wanted.is_empty:
        fail("give an id or a filter, not both", REFUSED)


def _run(work: "Callable[[Db, ReplayTargets], Awaitable[T]]") -> T:
    """Run `work` in one transaction; a refusal is printed as one line."""
    from catraca.platform.errors import Refusal

    with expected_failures():
        from catraca.events import TOPOLOGY
        from catraca.roles.replay_targets import replay_targets

        try:
            return run_on_database(lambda db: work(db, replay_targets(TOPOLOGY)))
        except Refusal as refusal:
            fail(_message(refusal), REFUSED if refusal.status == 422 else FAILED)


def _message(refusal: "Refusal") -> str:
    from catraca.platform.errors import NotFound
    from catraca.platform.texts import text, words

    if isinstance(refusal, NotFound):
        return "there is no letter with this id"
    if refusal.code == "dead_letter_filter_empty":
        return "select letters with --queue, --reason, ..., or all with --all"
    data = dict(refusal.data)
    if (reason := f"reasons.{data.get('reason')}") in words("en"):
        data["reason"] = text(reason, "en", data)
    return text(refusal.text_name, "en", data)
