"""`wireroom demo`: asks for messages that show every state, in the sandbox and nowhere else."""

import click

from dashboard.access.models import Source
from dashboard.commands.database import command_session
from dashboard.dispatch.intake import SourceUnknown, add_email, add_sms, find_source
from dashboard.settings import current

SANDBOX = "sandbox"
SOURCE = "demo"
EMAILS = (
    ("ada@example.com", "Your talk at PyCon 2027: please confirm", "invitation", "482"),
    ("delivered@simulator.example", "Badge pick-up times 🎟", "badge", "17"),
    ("delivered+grace@simulator.example", "Shift plan for Saturday", "shift", "3"),
    ("bounced@simulator.example", "Receipt 2027-0482", "receipt", "482"),
    ("refused@simulator.example", "Booth 14: power and tables", "booth", "14"),
    ("deferred@simulator.example", "Catering numbers for Thursday", "order", "9"),
    ("silent@simulator.example", "Speakers' dinner", "invitation", "483"),
    ("drop-after-accept@simulator.example", "Travel grant 31", "grant", "31"),
)
TEXTS = (
    ("+12025550143", "Doors open at 13:00"),
    ("+12025550100", "Your room changed to Hall 2"),
    ("+12025550109", "The shuttle leaves in ten minutes"),
)


@click.command()
def demo() -> None:
    """Ask for a dozen example messages, so that there is something to look at.

    Works only while both routes are the sandbox: nothing leaves this machine.
    """
    settings = current()
    if {settings.email_route, settings.sms_route} != {SANDBOX}:
        raise click.ClickException(
            "The demo sends to made-up people: it needs both routes in the"
            " sandbox. Unset SMTP_URL and TWILIO_ACCOUNT_SID."
        )
    with command_session() as session:
        try:
            source = find_source(session, SOURCE)
        except SourceUnknown:
            source = Source(name=SOURCE)
            session.add(source)
            session.flush()
        for to, subject, target_type, target_id in EMAILS:
            add_email(
                session=session,
                source=source,
                to=to,
                subject=subject,
                text=f"{subject}.\n\nThis is an example.",
                html=f"<h1>{subject}</h1><p>This is an <b>example</b>.</p>",
                target={"type": target_type, "id": target_id},
                labels={"conference": "pycon-2027"},
            )
        for to, body in TEXTS:
            add_sms(session=session, source=source, to=to, body=body)
        session.commit()
    click.echo(f"Asked for {len(EMAILS) + len(TEXTS)} example messages; see /dispatches.")
