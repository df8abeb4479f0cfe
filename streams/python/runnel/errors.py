"""Exceptions. Each message has what failed, why, and what to do."""
from __future__ import annotations

TEXT_MAX = 4000  # characters of a message


def printable(text: str, most: int = TEXT_MAX, keep: str = "") -> str:
    """Return the text with control characters (except `keep`) as escapes: a terminal would execute
    those of an untrusted text."""
    text = text if len(text) <= most else text[:most] + "..."
    return text if text.isprintable() else "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode("ascii") for c in text)


class RunnelError(Exception):
    """Base of this package's exceptions, except wrong arguments (TypeError, ValueError)."""

    def __str__(self) -> str:
        return printable(super().__str__(), keep="\n")


class Malformed(RunnelError, ValueError):
    """A message or file of a daemon is malformed; nothing of it was used."""


class Unavailable(RunnelError, ConnectionError):
    """No daemon was reached, or none answered, within the time limit of a call. A `Client` keeps
    unacknowledged examples: a later call, for example `flush`, sends them again."""


class CommandError(RunnelError):
    """The daemon refused a command; the text is the daemon's."""

    def __str__(self) -> str:
        return printable(Exception.__str__(self))


class Refused(RunnelError, ValueError):
    """The daemon rejected an example and did not learn it.

    reason      the row of the table in docs/reference/protocol.md: "x_size", "conflict", ...
    sentence    the daemon's message; "" if it has only the reason
    stream      stream of the example
    sequence    number of the example; 0 if the error is not about one example (a schema)
    more        number of other rejections that were not raised before this one
    """

    def __init__(self, reason: str, sentence: str = "", stream: str = "", sequence: int = 0,
                 more: int = 0) -> None:
        self.reason, self.sentence = reason, sentence
        self.stream, self.sequence, self.more = stream, sequence, more
        super().__init__(reason, sentence, stream, sequence, more)

    def __str__(self) -> str:
        what = f"example {self.sequence} of stream {self.stream!r}" if self.sequence else "the example"
        text = f"{what} was refused ({self.reason})"
        text += f": {printable(self.sentence) or REASONS.get(self.reason, 'see docs/reference/protocol.md')}"
        return text + (f"; and {self.more} more" if self.more else "")


# Texts of the reasons, if the daemon sends no message.
REASONS = {
    "frames": "too many frames",
    "json": "invalid JSON for an example: a name that the model does not have, or a wrong type",
    "key": "the stream name is longer than 255 bytes, or has a NUL",
    "x_size": "x does not have the model's number of columns",
    "x_value": "x has a number that is not finite, missing, or outside the alphabet",
    "y_size": "expected one target for each step",
    "y_value": "y is infinite, not a class, or outside its range",
    "y_given": "y is not allowed: this model's target is the next x, or a label; "
               "or the label is not allowed: the target is not `later`",
    "header": "invalid header",
    "conflict": "its number was already used for another example: another client uses this producer",
    "sequence_jump": "its number exceeds the newest number of its stream by more than examples.max_jump",
    "not_allowed": "this key may not send this stream (security.allow.examples)",
    "schema": "it does not fit the model",
    "label": "the label has no effect: its example is unknown, closed or already labelled",
    "vocabulary": "the vocabulary is full for a new word, with unknown: reject",
    "outdated": "the daemon has a greater epoch of its stream: the example may be a repetition",
}
