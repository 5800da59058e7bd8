"""What a step did, in words: never more than the command's own text says.

The exact command is always shown below it, so words are given only where they are sure and help; else the program.
"""

from __future__ import annotations

import re
import shlex

from app.tools.folder import show

_TESTS = (
    r"pytest|py\.test|tox|nox|jest|vitest|phpunit|rspec|ctest"
    r"|python3? -m (pytest|unittest)|(npm|pnpm|yarn|bun) (test|t|run test)|npx (jest|vitest)"
    r"|(cargo|go|mix|deno|dotnet|mvn|gradle|\./gradlew|swift|make|just) test|make check|cargo nextest run"
)
_TESTING = re.compile(rf"({_TESTS})(?= |$)")
# With one of these a test program says something of itself and runs nothing.
_NOT_TESTING = {"--version", "-V", "--help", "-h", "--collect-only", "--co", "--no-run", "--list", "--dry-run", "-n"}
# What comes second says what is done.
_TWO_WORDS = {
    "git", "npm", "pnpm", "yarn", "bun", "pip", "pip3", "uv", "poetry", "cargo", "go", "docker", "podman", "apt",
    "apt-get", "brew", "make", "just", "kubectl", "helm", "gem", "bundle", "dotnet", "mvn", "gradle", "systemctl", "gh",
    "terraform",
}  # fmt: skip
_INTERPRETERS = {"python", "python3", "node", "ruby", "perl", "sh", "bash", "zsh", "deno", "php"}
_FIND_ACTS = {"-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprintf", "-fls", "-fprint0"}
_SHELL_WORDS = {"for", "while", "until", "if", "case", "{", "(", "!", "[", "[[", "function", "set", "export", "."}
_COMPOUND = re.compile(r"[;&|<>`\n(){}]|\$\(")
_CD = re.compile(r"\s*cd\s+[^\s;&|<>`$()]+\s*&&\s*")
LONGEST_READ = 4000
_TODO = {
    "Ran": "Run", "Listed": "List", "Read": "Read", "Looked": "Look", "Searched": "Search", "Wrote": "Write",
    "Edited": "Edit",
}  # fmt: skip


def todo(words: str) -> str:
    """The same words for a step that is not done yet, or never was: "Ran the tests" is "Run the tests"."""
    first, space, rest = words.partition(" ")
    return f"{_TODO.get(first, first)}{space}{rest}"


def command_words(command: str) -> str:
    """What a shell line does, as its row says it once it ran."""
    text = _CD.sub("", command.strip(), count=1)
    if (lines := sum(1 for line in text.split("\n") if line.strip())) > 1:
        return f"Ran {lines} lines of shell"
    if len(text) > LONGEST_READ:
        return _program(text[:200])
    if _COMPOUND.search(text):
        return _program(text)
    try:
        words = shlex.split(text)
    except ValueError:
        return _program(text)
    while words and re.fullmatch(r"[A-Za-z_]\w*=.*", words[0], re.DOTALL):
        words.pop(0)
    return _simple(words) if words else "Ran a command"


def _simple(words: list[str]) -> str:
    line = " ".join(words)
    if (found := _TESTING.match(line)) and not _NOT_TESTING & set(words):
        return "Ran the tests" if found.end() == len(line) else "Ran tests"
    program, rest = words[0], words[1:]
    plain = [word for word in rest if not word.startswith("-")]
    match program:
        case "ls" | "tree" | "dir":
            return f"Listed the files in {show(plain[0])}" if len(plain) == 1 else "Listed files"
        case "find" if not _FIND_ACTS & set(rest):
            return "Looked for files"
        case "cat" if plain and plain == rest:
            return f"Read {show(plain[0])}" if len(plain) == 1 else f"Read {len(plain)} files"
        case "grep" | "rg" | "ag" if rest and not any(word.startswith("--pre") for word in rest):
            return f"Searched with {program}"
    if program in _INTERPRETERS and rest:
        if rest[0] == "-c" and len(rest) > 1:
            return command_words(rest[1]) if program.endswith("sh") else f"Ran a line of {program}"
        if not rest[0].startswith("-"):
            return _ran(show(rest[0]), len(rest) > 1)
    if program in _TWO_WORDS and rest and re.fullmatch(r"[a-z][\w:-]*", rest[0]):
        two = f"{program} {rest[0]}"
        if rest[0] == "run" and len(rest) > 1 and re.fullmatch(r"[a-z][\w:-]*", rest[1]):
            return _ran(f"{two} {rest[1]}", len(rest) > 2)
        return _ran(two, len(rest) > 1)
    return _ran(show(program), bool(rest))


def _program(text: str) -> str:
    """For what only a shell could read: the first word, when it is a program's name."""
    found = re.match(r"(?:[A-Za-z_]\w*=[^\s;&|<>`$()'\"]*\s+)*([A-Za-z0-9_./+-]+)(?=[\s;&|<>]|$)", text)
    if found is None or found.group(1) in _SHELL_WORDS:
        return "Ran a line of shell"
    return _ran(show(found.group(1)), True)


def _ran(what: str, more: bool) -> str:
    what = what if len(what) <= 60 else f"{what[:57]}…"
    return f"Ran {what} …" if more else f"Ran {what}"
