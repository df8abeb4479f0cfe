"""What can go wrong, as exceptions. Each says in a sentence what happened, to what, and what to do."""
from __future__ import annotations

TEXT_MAX = 4000  # characters of a sentence


def printable(text: str, most: int = TEXT_MAX, keep: str = "") -> str:
    """The text with control characters (but `keep`) as escapes: others wrote it, and a terminal obeys them."""
    text = text if len(text) <= most else text[:most] + "..."
    return text if text.isprintable() else "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode("ascii") for c in text)


class RunnelError(Exception):
    """Anything that this package raises of its own, but for wrong arguments (TypeError, ValueError)."""

    def __str__(self) -> str:
        return printable(super().__str__(), keep="\n")


class Malformed(RunnelError, ValueError):
    """A message or a file is not as a daemon sends or writes it; nothing of it was used."""


class Unavailable(RunnelError, ConnectionError):
    """No daemon was reached, or none answered, within the time that a call may take. What a `Client`
    had not been told to be safe is kept: a later call, `flush` for example, tries again."""


class CommandError(RunnelError):
    """The daemon refused a command; the text is the daemon's own."""

    def __str__(self) -> str:
        return printable(Exception.__str__(self))


class Refused(RunnelError, ValueError):
    """The daemon did not take an example, and learned nothing of it.

    reason      the row of the table in docs/reference/protocol.md: "x_size", "conflict", ...
    sentence    what the daemon found, in its words; "" where it says the reason only
    stream      of the example,
    sequence    and its number; 0 where it is not about one example (a schema)
    more        how many others were refused and not raised before this was
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


# What a reason means, where the daemon sends no sentence.
REASONS = {
    "frames": "it has too many frames",
    "json": "it is not the JSON of an example: a name that the model does not have, or a wrong type",
    "key": "its stream is longer than 255 bytes, or has a NUL",
    "x_size": "x has not as many numbers as the model takes",
    "x_value": "x has a number that is not finite, missing, or outside the alphabet",
    "y_size": "there is not one target for each step",
    "y_value": "y is infinite, no class, or outside its range",
    "y_given": "there is a y, but this model's target is the next x, or comes as a label; "
               "or it is a label, but the target is not `later`",
    "header": "its header is wrong",
    "conflict": "its number came before with another content: another client uses this producer",
    "sequence_jump": "its number is too far above its stream's newest (examples.max_jump)",
    "not_allowed": "this key may not send this stream (security.allow.examples)",
    "schema": "it does not fit the model",
    "label": "the label changes nothing: its example is unknown, closed or labelled already",
    "vocabulary": "a word is one more than its vocabulary may have, with unknown: reject",
    "outdated": "its stream has a greater epoch there: the daemon cannot know whether it came before",
}
