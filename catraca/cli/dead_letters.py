"""`catraca dead-letters ...`: what the API's routes do, for whoever sits at the machine."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from catraca.cli.dead_letter_work import STATES, filter_of, refuse_both, run
from catraca.cli.failures import REFUSED, fail

if TYPE_CHECKING:
    from catraca.domains.dead_letters import Outcome

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    help="See, mend, replay and discard messages that could not be handled.\n\n"
    "Begin with `catraca dead-letters groups`. Every act is written to the audit log.",
)

TheLetter = Annotated[UUID, typer.Argument(metavar="ID", help="The letter's id, as `list` shows it.")]
OneLetter = Annotated[UUID | None, typer.Argument(metavar="ID", help="One letter; or say which by options.")]
Queue = Annotated[str | None, typer.Option(help="Those that died in this queue.")]
Reason = Annotated[str | None, typer.Option(help="Those that died for this reason.")]
Key = Annotated[str | None, typer.Option(help="Those with this routing key.")]
MessageId = Annotated[UUID | None, typer.Option(help="Those of this message.")]
DiedAfter = Annotated[str | None, typer.Option(metavar="TIME", help="Such as 2031-05-30T14:00; local time.")]
DiedBefore = Annotated[str | None, typer.Option(metavar="TIME", help="Such as 2031-05-30T14:00Z.")]
Everything = Annotated[bool, typer.Option("--all", help="All of them: without a filter this must be said.")]
Limit = Annotated[int, typer.Option(min=1, max=10_000, help="At most so many, the oldest first.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would happen.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs, as the API answers it.")]


@app.command()
def groups(as_json: AsJson = False) -> None:
    """Count what waits, by queue and reason: where to begin.

    Example: `catraca dead-letters groups`
    """
    from catraca.domains.dead_letters import find_groups

    found = run(lambda db, _: find_groups(db))
    if as_json:
        from catraca.domains.dead_letters.schemas import GroupsOut

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
    after: Annotated[UUID | None, typer.Option(help="Go on behind this letter.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100)] = 20,
    as_json: AsJson = False,
) -> None:
    """List letters, the newest first. What their bodies say is not shown.

    Example: `catraca dead-letters list --queue audit_log_queue --reason KeyError`
    """
    from catraca.domains.dead_letters import LetterId, find_letters

    wanted = filter_of(queue, reason, key, message_id, died_after, died_before, state=state)
    start = None if after is None else LetterId(after)
    found = run(lambda db, _: find_letters(db, wanted, after=start, limit=limit + 1))
    if as_json:
        from catraca.domains.dead_letters.schemas import LetterPage

        typer.echo(LetterPage.of(found, limit=limit).model_dump_json(indent=2))
    else:
        from catraca.cli.dead_letter_tables import print_letters

        print_letters(found[:limit], more=len(found) > limit)


@app.command()
def show(
    letter: TheLetter,
    body: Annotated[bool, typer.Option("--body", help="Print the body alone, byte for byte.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show one letter with its whole body. The reading is written to the audit log.

    Example: `catraca dead-letters show ID --body > letter.json`
    """
    from catraca.domains.dead_letters import LetterId, open_letter

    found = run(lambda db, _: open_letter(db, LetterId(letter), by=None))
    if body:
        typer.get_binary_stream("stdout").write(found.body)
    elif as_json:
        from catraca.domains.dead_letters.schemas import OpenLetterOut

        typer.echo(OpenLetterOut.of_open(found).model_dump_json(indent=2))
    else:
        from catraca.cli.dead_letter_tables import print_letter

        print_letter(found)


@app.command()
def edit(
    letter: TheLetter,
    file: Annotated[Path, typer.Option(help="The new body, JSON; - reads standard input.", allow_dash=True)],
) -> None:
    """Put another body in a letter's place, if its queue can read it. The original is kept beside it.

    Example: `catraca dead-letters edit ID --file letter.json`
    """
    from catraca.domains.dead_letters import LetterId, edit_letter

    try:
        body = typer.get_binary_stream("stdin").read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        fail(f"cannot read {file}: {error.strerror}", REFUSED)
    run(lambda db, duties: edit_letter(db, LetterId(letter), body, duties=duties, by=None))
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
    rate: Annotated[int, typer.Option(min=1, max=1000, help="At most so many a second.")] = 50,
    limit: Limit = 10_000,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Send letters once more to the queue they died in, and to no other.

    Safe to repeat: what was handled once is not handled again. The relay sends them, at the rate given.

    Examples: `catraca dead-letters replay ID`,
    `catraca dead-letters replay --queue audit_log_queue --reason KeyError --rate 20 --dry-run`
    """
    from catraca.domains.dead_letters import LetterId, replay_letter, replay_letters

    wanted = filter_of(queue, reason, key, message_id, died_after, died_before, state=state)
    if letter is not None:
        refuse_both(wanted, everything=everything)
        one = LetterId(letter)
        run(lambda db, duties: replay_letter(db, one, duties=duties, by=None))
        typer.echo("Replayed: the relay sends it within a second.")
        return

    def act(dry_run: bool) -> "Outcome":
        return run(
            lambda db, duties: replay_letters(
                db,
                wanted,
                everything=everything,
                rate_per_second=rate,
                limit=limit,
                dry_run=dry_run,
                duties=duties,
                by=None,
            )
        )

    _act_on_many(act, "replay", "Replayed", dry_run=dry_run, yes=yes)


@app.command()
def discard(
    because: Annotated[str, typer.Option(help="Why; kept with the letter.")],
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
    """Say of letters that wait that nobody will replay them, and why. They stay until their retention ends.

    Examples: `catraca dead-letters discard ID --because "a test"`,
    `catraca dead-letters discard --queue raffle_queue --reason malformed_json --because "a test" --dry-run`
    """
    import re

    from catraca.domains.dead_letters import LetterId, discard_letter, discard_letters
    from catraca.domains.dead_letters.model import REASON_MAX_CHARACTERS, REASON_PATTERN

    if not re.fullmatch(REASON_PATTERN, because) or len(because) > REASON_MAX_CHARACTERS:
        fail(f"--because takes one line of at most {REASON_MAX_CHARACTERS} characters", REFUSED)
    wanted = filter_of(queue, reason, key, message_id, died_after, died_before)
    if letter is not None:
        refuse_both(wanted, everything=everything)
        one = LetterId(letter)
        run(lambda db, duties: discard_letter(db, one, reason=because, duties=duties, by=None))
        typer.echo("Discarded.")
        return

    def act(dry_run: bool) -> "Outcome":
        return run(
            lambda db, duties: discard_letters(
                db,
                wanted,
                everything=everything,
                reason=because,
                limit=limit,
                dry_run=dry_run,
                duties=duties,
                by=None,
            )
        )

    _act_on_many(act, "discard", "Discarded", dry_run=dry_run, yes=yes)


def _act_on_many(act: Callable[[bool], "Outcome"], verb: str, done: str, *, dry_run: bool, yes: bool) -> None:
    """Say what would happen, ask, and do it."""
    from catraca.cli.dead_letter_tables import summary

    would = act(True)
    if dry_run or would.done == 0:
        typer.echo(f"Would {verb}: {summary(would)}")
        return
    if not yes:
        typer.echo(f"This will {verb}: {summary(would)}", err=True)
        if not typer.get_text_stream("stdin").isatty():
            fail("nobody to ask: say --yes to do it, or --dry-run", REFUSED)
        typer.confirm("Go on?", abort=True, err=True)
    typer.echo(f"{done}: {summary(act(False))}")
