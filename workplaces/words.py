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
    "ssh.name": "{host} over SSH",
    "ssh.line": "Your machine, over SSH. Works on a copy of the folder.",
    "cloud.name": "Daytona",
    "cloud.where": "Daytona",
    "cloud.line": "A sandbox in the cloud.",
    # A text that names no place
    "bad.place": "“{place}” is not a place. Use computer, container, ssh:HOST or cloud.",
    "bad.host": "“{host}” cannot be a machine's name in your SSH settings.",
    "later": "{name} is not part of this version of Conch yet.",
    "later.next": "Choose another place",
    # How a place stands while it has not said
    "place.checking": "Still looking at it.",
    "place.broken": "It could not be asked how it stands.",
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
    # The engine that makes containers
    "engine.none": "There is no container engine on this computer. A container needs Docker or Podman.",
    "engine.down": "{name} is not running.",
    "engine.gone": "Nothing is there.",
    "engine.denied": "{engine} is running, but you may not use it ({address}).",
    "engine.silent": "{name} does not answer ({address}).",
    "engine.broken": "What answers at {address} does not speak as Docker does.",
    "engine.old": "This {engine} is too old for Conch. It needs version {oldest} or newer.",
    "engine.windows": "This {engine} makes Windows containers. Conch needs Linux containers.",
    "engine.userns": "This {engine} gives a container's files to other users (userns-remap), so Conch does not use it.",
    "engine.whose": "This {engine} is another user's, so what a command made in a container would not be yours.",
    "engine.unstarted": "Podman is here, but its service could not be started. {reason}",
    "engine.elsewhere": "It is on another computer, where your folder is not.",
    "engine.named": "Conch was told to use {engine} at {address} by {source}, and cannot. {reason}",
    "engine.source.context": "the docker context “{name}”",
    "engine.source.own": "started by Conch from the Podman that is installed",
    "engine.context-gone": "The docker context “{name}” is chosen, but it does not exist.",
    "engine.context-bad": "The docker context “{name}” is chosen, but its settings cannot be read.",
    "engine.address": "“{address}”, from {source}, is not an address that Conch can use for Docker.",
    "engine.next.install": "Install Podman",
    "engine.next.start": "Start {engine}",
    "engine.next.restart": "Restart {engine}",
    "engine.next.update": "Update {engine}",
    "engine.next.ask": "See what {engine} says of itself",
    "engine.next.group": "Join the docker group, then log out and in again",
    "engine.next.linux": "Switch Docker to Linux containers",
    "engine.next.other": "Use a Docker that runs as a system service",
    "engine.next.context": "Correct or unset DOCKER_HOST, DOCKER_CONTEXT or the docker context",
    # An engine that is here and sleeps
    "wake.line": "A fresh, locked-down box for each command. {engine} is started when a command needs it.",
    "wake.opening": "Opening {engine}",
    "wake.starting": "Starting {engine}",
    "wake.making": "Making {engine}. Its system is fetched once, which takes a while.",
    "wake.waiting": "Waiting for {engine} to be ready",
    "wake.failed": "{engine} could not be started. {reason}",
    "wake.silent": "{engine} was started, but does not answer yet.",
    "wake.opening.fixed": "Opened {engine}",
    "wake.starting.fixed": "Started {engine}",
    "wake.fixed.made": "Made and started {engine}",
    "wake.fixed.why": "A command needed it",
    # The image a container is made from
    "image.pulling": "Getting {image}",
    "image.missing": "The image {image} does not exist.",
    "image.offline": "The image {image} is not on this computer, and {registry} could not be reached to get it.",
    "image.space": "There is no room on the disk for the image {image}.",
    "image.login": "{registry} gives the image {image} only to people who are logged in, or it does not exist.",
    "image.name": "“{image}” is not an image's name.",
    "image.arch": "The image {image} is not made for this kind of processor.",
    "image.many": "{registry} says that you have asked for too many images. Wait a while.",
    "image.failed": "The image {image} could not be got. {reason}",
    "image.no-shell": "The image {image} has no /bin/sh, or lacks the small tools (stat, mkdir) that commands need.",
    "image.next.name": "Choose another image in Settings",
    "image.next.online": "Go online and try again",
    "image.next.space": "Make room",
    "image.next.login": "Log in, then try again",
    "image.next.wait": "Try again later",
    "image.fixed": "Got the container's system ready",
    "image.fixed.why": "{size}, once",
    # A container
    "container.first": "A fresh, locked-down box for each command. The first one gets its image, once.",
    "container.starting": "Making the container ready",
    "container.about": (
        "Each command runs in a fresh container made from {image}, with the work folder at the same path ({folder}). "
        "Nothing else of this computer is there, and nothing outside the work folder is kept between commands. "
        "There is no network, and .git is read-only, unless the command is allowed to leave the box. "
        "{limits} /tmp is empty each time."
    ),
    "limits.kept": "At most {what}.",
    "limits.none": "{engine} cannot limit {what} on this computer.",
    "limits.memory": "{amount} GB of memory",
    "limits.cpus": "{amount} processors",
    "limits.pids": "{amount} processes",
    "limits.memory.none": "memory",
    "limits.cpus.none": "processors",
    "limits.pids.none": "the number of processes",
    "limits.and": " and ",
    "limits.or": " or ",
    "container.elsewhere": (
        "{engine} does not see the folder {folder} of this computer, so a container would work on another one."
    ),
    "container.elsewhere.next": "Share the folder with {engine}, or choose another folder",
    "container.selinux": (
        "SELinux guards this computer, and Docker can then not be given a folder with a “:” in its name: {folder}."
    ),
    "container.empty-folder": (
        "The folder {folder} is empty, so it cannot be told whether a container would see this one or another."
    ),
    "container.empty-folder.next": "Put a file into it, or choose another folder",
    "container.changed": "The folder's .git changed while its container was made, so nothing ran.",
    "container.git-other": (
        "The folder's .git is a file that leads to {place}, which does not belong to this folder, so the container was "
        "not given it."
    ),
    "container.git-elsewhere": (
        "The folder is a part of the repository {place}, and the container sees the folder alone. Choose the whole "
        "one to use git."
    ),
    "container.git-records": (
        "The container does not see this repository's other worktrees, so git may not change what is known of them "
        "there. Run that on this computer."
    ),
    "container.folder-tmp": "{folder} is where a container keeps its own files. Choose another folder.",
    "container.refused": "{engine} would not make the container. {reason}",
    "container.space": "{engine} has no room on its disk for a container.",
    "container.too-long": "The command is too long to be given to a container. Put it into a file in the work folder.",
    "container.not-text": "The command holds what is not text, so it cannot be given to a container.",
    "container.empty": "There is no command to run.",
    "container.lost": "{engine} stopped answering while the command ran. Whether it still runs is not known.",
    "container.cut": "The connection to {engine} broke, so part of the output is missing.",
    "container.ended": "{engine} stopped answering while the command ran, so its container was removed.",
    "container.unsure": "{engine} did not say that the command's container is gone. It may still run.",
    "container.oom": "The container ran out of its {memory} of memory, and the system ended what ran.",
    "container.oom.all": "The command ran out of memory, and the system ended what ran.",
    "container.runtime": "{engine} has no runtime called “{name}”, so nothing ran. It has: {has}.",
    "container.runtime.own": "its own alone",
    "container.gpus": "{engine} has no graphics processors to give to a container, so nothing ran.",
    "container.options.next": "Change it in Settings",
    "container.not-found": "{program} is not in the image {image}.",
    "container.not-executable": "{program} is there but cannot be run.",
    "container.fixed": "Removed containers left behind",
    "container.fixed.why": "{count} from a Conch that ended suddenly",
    # The hosts that an open box may reach
    "hosts.bad.name": "“{name}” is not a host's name. One looks like pypi.org, or *.npmjs.org for all below it.",
    "hosts.bad.wide": "“{name}” would let through nearly everything. Name what comes before it, like *.npmjs.org.",
    "hosts.bad.many": "That is too many hosts. There can be {count}.",
    "hosts.next": "Change the allowed hosts in Settings",
    "hosts.next.again": "Try again",
    "hosts.engine": (
        "{engine}, at an address with TLS, has not been seen to keep a container to the allowed hosts, so nothing ran."
    ),
    "hosts.runtime": (
        "The runtime {runtime} has not been seen to keep a container to the allowed hosts, so nothing ran. "
        "Use the engine's own runtime, or no list."
    ),
    "hosts.image": "The image {image} has no Python 3, which keeping a container to the allowed hosts needs.",
    "hosts.failed": "What keeps a container to the allowed hosts could not be started with {engine}. {reason}",
    "hosts.about": (
        "A command that is open reaches only these hosts, by https through the proxy that HTTPS_PROXY names, and "
        "nothing else: {hosts}."
    ),
    "hosts.tried": "Tried to reach {tried}, which is not allowed.",
    "hosts.more": "and {count} more",
    "hosts.note": (
        "It tried to reach {tried} and was refused: an open command reaches only {hosts}, by https through the proxy "
        "that HTTPS_PROXY names. Do not look for a way round. If the work needs another host, tell the person which "
        "and why."
    ),
    "hosts.note.inward": (
        "{tried} is on the list of allowed hosts, but it leads to an address in a private network, so it was refused."
    ),
    "hosts.answer.not-http": "Conch: this is not a request that a proxy takes.",
    "hosts.answer.not-listed": "Conch: {host} is not one of the allowed hosts.",
    "hosts.answer.port": "Conch: an allowed host is reached at port 443 alone.",
    "hosts.answer.plain": "Conch: allowed hosts are reached by https alone, not by plain http.",
    "hosts.answer.unknown": "Conch: {host} is an allowed host, but its address could not be found.",
    "hosts.answer.inward": "Conch: {host} is an allowed host, but it leads to an address in a private network.",
    "hosts.answer.silent": "Conch: {host} is an allowed host, but it does not answer.",
    # What a command printed
    "output.left-out": "… {size} not shown …",
    # What a sealed command put where git would come to it
    "git.moved": "It put something at {place} that your next git command could have run. That is now called {name}.",
    "git.link": "It removed the link {place}, which git follows. The link is back.",
    "git.link-moved": "It changed {place}, a link that git follows. The link is back; what it made is called {name}.",
    "git.stuck": "Your next git command could run what is at {place}, and it could not be moved. Look at it first.",
    # The sealed box on this computer
    "box.missing": "This computer has no bubblewrap, the program that seals a command in its box.",
    "box.missing.next": "Install bubblewrap",
    "box.old": "The bubblewrap of this computer ({version}) is too old to seal a command in its box.",
    "box.old.next": "Install a newer bubblewrap",
    "box.refused": "This computer does not let bubblewrap seal a command in its box (user namespaces are refused).",
    "box.apparmor": "This computer's AppArmor does not let bubblewrap seal a command in its box.",
    "box.refused.next": "Allow it with this line, once",
    "box.failed": "The sealed box could not be made on this computer.",
    "box.failed.next": "Choose another place",
    "box.none": "This system has no box to seal a command in, so every command here would run with your own reach.",
    "computer.about": (
        "Commands run on the person's own computer, in a sealed box: /bin/sh reads the line in {folder}. Only that "
        "folder, an empty /tmp of the command's own and its caches can be written; the rest of the computer can be "
        "read, without keys and sign-ins. There is no network at all, and a .git that is there cannot be written (so "
        "no commit and no checkout). Standard input is at its end; what a command started ends with it. A command that "
        "needs the network, or must write elsewhere, is asked for as open, with a reason; sudo does not work even then."
    ),
    "computer.about.open": (
        "Commands run on the person's own computer with the person's own reach: this system has no box to seal them "
        "in. /bin/sh reads the line in {folder}. Standard input is at its end; what a command started ends with it."
    ),
    "computer.note.network": (
        "It ran sealed, without any network. If it needs the network, ask for it as open, with a reason."
    ),
    "computer.note.read-only": "It ran sealed: only the work folder can be written, and its .git cannot.",
    "computer.unsure": "Something that the command started did not end when it was told to. It may still run.",
    "command.long": "The command is longer than this system takes. Put the text in a file first.",
    "command.zero": "A command cannot hold a zero byte.",
    "command.not-text": "The command holds what is not text.",
    "command.empty": "There is no program to run.",
    # Your machine, over SSH
    "ssh.first": "Works on a copy of the folder. Reached when you pick it.",
    "ssh.answers": "Answers in {time}. Works on a copy of the folder.",
    "ssh.connecting": "Reaching {host}",
    "ssh.about": (
        "Commands run on the person's own machine {host}, over SSH, as that machine's user: /bin/sh reads the line in "
        "{folder}, a copy of the work folder that is kept in step (what changed there comes back after each command). "
        "File tools work on the folder here. That machine's network and programs are its own: nothing is sealed. "
        "Dependency folders (node_modules, .venv…) are not carried: install them there. Standard input is at its end; "
        "what a command started ends with it."
    ),
    "ssh.about.folder": "a folder of its own under ~/.conch-work",
    "ssh.missing": "This computer has no ssh, the program that reaches other machines.",
    "ssh.missing.next": "Install OpenSSH’s client",
    "ssh.unlisted": "Your SSH settings name no machine {host}.",
    "ssh.unlisted.next": "Choose another place, or add it to ~/.ssh/config",
    "ssh.unmet": "This computer has not met {host} yet, so it cannot tell it from an impostor.",
    "ssh.unmet.next": "Connect once from a terminal and compare its key",
    "copy.left": "Some of it could not be removed on {host}: it belongs to somebody else there.",
    "ssh.changed": (
        "Danger: {host} shows another host key than the one this computer knows. It may have been set up anew, or "
        "someone may be listening in between. Nothing was sent."
    ),
    "ssh.changed.next": "Ask whoever runs {host} whether its key was changed, before you connect to it again",
    "ssh.revoked": "Danger: {host} shows a host key that your settings say is not to be trusted any more.",
    "ssh.revoked.next": "Ask whoever runs {host} for its new key",
    "ssh.denied": "{host} does not take your key.",
    "ssh.denied.next": "Give it your key",
    "ssh.locked": "{host} was not given your key: the key needs its passphrase.",
    "ssh.locked.next": "Unlock the key once",
    "ssh.key-open": "Your key can be read by others on this computer, so ssh does not use it.",
    "ssh.key-open.next": "Make the key file yours alone (chmod 600)",
    "ssh.no-name": "The name of {host} cannot be found on the network.",
    "ssh.no-name.next": "Check its HostName in your SSH settings, and whether you are online or on its VPN",
    "ssh.asleep": "{host} does not answer. It may be asleep, off, or on another network.",
    "ssh.asleep.next": "Wake it, then try again",
    "ssh.refused": "{host} is on, but takes no SSH connections.",
    "ssh.refused.next": "Start its SSH server, or check its Port in your SSH settings",
    "ssh.old": "{host} and this computer have no way to encrypt in common: one of them is too old.",
    "ssh.old.next": "Update the SSH server on {host}",
    "ssh.closed": "{host} closed the connection.",
    "ssh.closed.next": "Try again, or connect from a terminal to see why",
    "ssh.failed": "{host} could not be reached.",
    "ssh.failed.next": "Connect from a terminal to see why",
    "ssh.silent": "{host} let you in and then said nothing.",
    "ssh.silent.next": "Try again",
    "ssh.full": "{host} lets no more commands run on one connection.",
    "ssh.full.next": "Wait until another command has ended",
    "ssh.jump": "{jump}, on the way to {host}, is the trouble.",
    "ssh.settings": "Your SSH settings cannot be read: there is a mistake in {file}{line}.",
    "ssh.settings.line": ", line {line}",
    "ssh.settings.next": "Correct {file}",
    "ssh.settings.owner": "Your SSH settings are not used: others may write to {file}.",
    "ssh.settings.owner.next": "Make {file} yours alone (chmod 600)",
    "ssh.no-shell": "{host} has no /bin/sh, which commands need.",
    "ssh.no-shell.next": "Choose another place",
    "ssh.login": "{host} ends the session before a command runs: an rc file there exits, most likely.",
    "ssh.login.next": "Let the rc file on {host} (~/.bashrc or its like) not exit when nobody types",
    "ssh.space": "{host} has no room on its disk for the copy of the folder.",
    "ssh.space.next": "Make room on {host}",
    "ssh.home": "Your home folder on {host} cannot be written to, and the copy of the folder lies in it.",
    "ssh.home.next": "Let your user write to its home folder on {host}",
    "ssh.copy-gone": "The copy of the folder on {host} cannot be worked in.",
    "ssh.copy-gone.next": "Look at ~/.conch-work on {host}",
    "ssh.unsupported": "{host} needs a way to sign in that Conch cannot use on this system.",
    "ssh.unsupported.next": "Choose another place",
    "ssh.lost": ("The connection to {host} broke while the command ran, and how it ended was not seen. {state}"),
    "ssh.lost.ended": "Nothing of it runs there any more.",
    "ssh.lost.unknown": "Whether it still runs there is not known. It ends once {host} hears nothing for a minute.",
    "ssh.unsure": "{host} did not say that all of the command has ended. Some of it may still run there.",
    "ssh.recovered": "{count} files that an earlier command changed on {host} came back only now.",
    "ssh.kept-twice": "{path} changed on both sides: yours stays, the other is {copy}.",
    "ssh.left-more": "{count} more were not carried.",
    "ssh.silence": "{host} heard nothing from this computer for a minute, so it ended the command.",
    "ssh.cut": "The connection to {host} broke, so part of the output is missing.",
    # The mirror: the folder here, and its copy on another machine
    "mirror.lost": "The connection to {where} broke.",
    "mirror.lost.next": "Try again",
    "mirror.silent": "{where} does not answer any more.",
    "mirror.silent.next": "Try again",
    "mirror.broken": "{where} answered in a way that Conch does not understand.",
    "mirror.here": "The copy could not be kept in step on this computer: {reason}.",
    "mirror.system": "A copy on another machine cannot be kept in step on this system yet.",
    "mirror.system.next": "Use a container",
    "mirror.many": (
        "The folder has more than {most} files, which is too many to keep a copy of on {where}. "
        "A container works on the folder itself."
    ),
    "mirror.many.next": "Use a container",
    "mirror.large": (
        "The folder holds more than {most}, which is too much to keep a copy of on {where}. "
        "A container works on the folder itself."
    ),
    "mirror.large.next": "Use a container",
    "mirror.much": "{where} listed more files than a copy can have, so nothing came back.",
    "mirror.back": "More than {most} MB changed on {where}, so none of it came back. It is still there.",
    "mirror.there.home": "The account on {where} has no home folder.",
    "mirror.there.home.next": "Give the account a home folder",
    "mirror.there.home-closed": "Conch may not write in the home folder on {where}.",
    "mirror.there.home-closed.next": "Let your user write in its home folder there",
    "mirror.there.copy-closed": "Conch may not open its copy of the folder on {where}.",
    "mirror.there.copy-closed.next": "Look at ~/.conch-work there",
    "mirror.there.link": "Where the copy should be on {where} is a link, and Conch goes through none.",
    "mirror.there.link.next": "Remove the link from ~/.conch-work there",
    "mirror.there.no-stat": "{where} has no find or stat that tells when a file changed.",
    "mirror.there.no-stat.next": "Use another machine, or install find there",
    "mirror.there.no-tar": "{where} has no tar, which files travel with.",
    "mirror.there.no-tar.next": "Install tar there",
    "mirror.there.space": "There is no room on {where} for the copy.",
    "mirror.there.space.next": "Make room there",
    # What the mirror says in a row
    "mirror.new-copy": "The copy on {where} was gone, so the whole folder was sent again.",
    "mirror.resent": "{count} files were missing on {where} and were sent again.",
    "mirror.here-empty": "The folder here is empty. Nothing was removed on {where}.",
    "mirror.unsure": "{where} could not be listed in full, so nothing was deleted here.",
    "mirror.empty": "Nothing is left of the copy on {where}. Nothing was deleted here.",
    "mirror.emptied": "{count} files were deleted on {where}. They were kept here.",
    "mirror.kept": "{path} was deleted on {where} and changed here, so it was kept.",
    "mirror.ask": "The command deleted {count} of {of} files on {where}. Delete them here too?",
    # What it did not carry, and why
    "mirror.left.link": "{path} is a link. Links are not carried.",
    "mirror.left.special": "{path} is not a plain file.",
    "mirror.left.protected": "{path} is a protected place.",
    "mirror.left.dependency": "{path} is made by each side for itself.",
    "mirror.left.outside": "{path} leads out of the folder.",
    "mirror.left.deep": "{path} lies too deep.",
    "mirror.left.name": "{path} is a name that this computer cannot hold. It stays on {where}.",
    "mirror.left.folds": "{path} and another file have one name to this computer. It stays on {where}.",
    "mirror.left.in-the-way": "{path} is another kind of thing on each side. Both stay as they are.",
    "mirror.left.closed-here": "{path} cannot be read here.",
    "mirror.left.closed-there": "{path} could not be read on {where}.",
    "mirror.left.refused": "{path} could not be written here. It stays on {where}.",
    "mirror.left.busy": "{path} keeps changing on {where}, so yours was not sent.",
    "mirror.left.runs": "{path} would run by itself here the next time git is used. It stays on {where}.",
    "mirror.left.linked": "{path} has a second name here, so it was not deleted.",
    # How a command ended, in its row
    "ended.timed-out": "Ended after {span}, the time it was given.",
    "ended.unseen": "How it ended was not seen.",
    "ended.unsure": "Some of it may still be running there.",
}
