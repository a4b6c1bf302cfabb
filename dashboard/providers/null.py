"""The `null` route: accepts everything at once and sends nothing, to measure what is around it."""

from dashboard.providers.base import Capabilities, Email, Key, Outcome, OutcomeKind, Sms


class NullProvider:
    """A way out that leads nowhere."""

    name = "null"
    capabilities = Capabilities()

    def send(self, message: Email | Sms, key: Key) -> Outcome:  # noqa: ARG002 - the port's shape
        """Accept the message without doing anything."""
        return Outcome(
            OutcomeKind.ACCEPTED,
            detail="The null route sends nothing.",
            provider_message_id=key.tracking,
        )

    def probe(self) -> Outcome:
        """Say that it is usable; it always is."""
        return Outcome(OutcomeKind.ACCEPTED, detail="The null route sends nothing.")

    def close(self) -> None:
        """Nothing is open."""
