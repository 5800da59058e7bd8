"""Every word a person reads about a place, once."""

from __future__ import annotations

from typing import Final

PLACE_WORDS: Final[dict[str, str]] = {
    # Names and sentences
    "computer.name": "This computer",
    "computer.where": "this computer",
    "computer.line": "In the sealed box: writes to the work folder, no network, no keys.",
    "computer.line.open": "Commands run with your own reach: this system has no box to seal them in.",
    "container.name": "Container",
    "container.where": "container",
    "container.line": "A fresh, locked-down box for each command.",
    "ssh.line": "Your machine, over SSH. Works on a copy of the folder.",
    "cloud.name": "Daytona",
    "cloud.where": "Daytona",
    "cloud.line": "A sandbox in the cloud.",
    # A text that names no place
    "bad.place": "“{place}” is not a place. Use computer, container, ssh:HOST or cloud.",
    "bad.host": "“{host}” cannot be a machine's name in your SSH settings.",
    "later": "{name} is not part of this version of Conch yet.",
    # What a row and the model read
    "ran.on": "Ran on {where}",
    "ran.in.container": "Ran in a container",
    "model.did-not-run": (
        "The command did not run, here or anywhere else. Tell the person what happened and the next step. "
        "Do not try to run it another way or in another place."
    ),
    # The work folder
    "folder.gone": "The folder {folder} is not there.",
    "folder.file": "{folder} is a file, not a folder.",
    "folder.closed": "The folder {folder} cannot be opened.",
    "folder.name": "The folder's name {folder} is not readable text, so commands cannot be given it.",
    "folder.disk": "{folder} is the whole disk. Commands get one folder, not everything.",
    "folder.home": "{folder} is or holds your whole home folder. Commands get one folder inside it, not everything.",
    "folder.system": "{folder} belongs to the system. Commands get a folder of yours.",
    "folder.protected": "{folder} is in {place}, which is protected: nothing may touch it, wherever it runs.",
    "folder.next": "Choose another folder",
}
