"""A host application that invites a speaker: its own row and the email, in one transaction.

If the transaction rolls back, there is neither row nor email. If it commits, the email goes out,
even where Redis is away at that moment. Wireroom's tables are in the same database, and the
application is a source there (`wireroom token add conference-site` makes it).

    DATABASE_URL=postgresql+psycopg://… REDIS_URL=redis://… \
        python examples/in_your_transaction.py "Queues that tell the truth" ada@example.com
"""

import sys

from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import dashboard.dispatch.tables  # noqa: F401  Wireroom's models know each other
from dashboard.dispatch.intake import add_email
from dashboard.dispatch.request.requests import InvalidRequest
from dashboard.settings import current

SOURCE = "conference-site"


class Base(DeclarativeBase):
    """The application's own tables."""


class Talk(Base):
    """A talk that was accepted."""

    __tablename__ = "conference_talk"

    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    speaker: Mapped[str]


def accept_talk(session: Session, title: str, speaker: str) -> Talk:
    """Store a talk and tell its speaker. Does not commit: both happen, or neither.

    Raises:
        InvalidRequest: the speaker's address cannot be sent to.
    """
    talk = Talk(title=title, speaker=speaker)
    session.add(talk)
    session.flush()  # the email is about the talk's id
    add_email(
        session=session,
        source=SOURCE,
        to=speaker,
        subject=f"Your talk was accepted: {title}",
        text=f"We are glad to have “{title}” in the programme.\n",
        target={"type": "talk", "id": str(talk.id)},
        labels={"conference": "pycon-2027"},
    )
    return talk


def main() -> int:
    """Accept the talk of the command line."""
    title, speaker = sys.argv[1:]
    engine = create_engine(current().database_url)
    Base.metadata.create_all(engine)
    with Session(engine, expire_on_commit=False) as session:
        try:
            talk = accept_talk(session, title, speaker)
        except InvalidRequest as error:
            sys.stderr.writelines(f"{one.field}: {one.message}\n" for one in error.problems)
            return 1
        session.commit()  # published here, after the commit
    sys.stdout.write(f"accepted talk {talk.id}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
