"""How a shell is started there, whatever the login shell takes (``script`` has the first lines)."""

from __future__ import annotations

from workplaces.ssh import script
from workplaces.ssh.channel import Channel
from workplaces.ssh.lines import Line
from workplaces.ssh.talk import Take, Talk


def begin_talk(line: Line, boot: str, mark: str, take: Take) -> Talk:
    """Starts a shell for a script that is told ``mark``. ``boot`` is what the login shell takes. Raises Gone."""
    return Talk(start_shell(line, boot or "\n" + script.BOOT), mark, take)


def close(channel: Channel) -> None:
    """Ends a channel on which nobody reads or writes."""
    channel.close()
    channel.let_go()


def start_shell(line: Line, command: str) -> Channel:
    """Starts a command line there. One that begins with a line break is told to a login shell on its input instead."""
    if not command.startswith("\n"):
        return line.channel(command)
    channel = line.channel("")
    channel.write(command.encode()[1:] + b"\n")
    return channel


def as_taken(command: str, boot: str) -> str:
    """A command line that begins as BOOT does, as a login shell takes it that takes ``boot``."""
    if boot == script.BOOT:
        return command
    return "\n" + command if not boot else "sh" + command.removeprefix("exec /bin/sh")
