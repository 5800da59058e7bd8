"""Where a person's keys, sign-ins and private words lie, by what the programs that keep them say."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path

# Names from the home folder, between bars. A folder and a file are written alike: what is there decides.
_SECRETS = """
# Keys to other machines and to signing
.ssh | .gnupg | .gpg | .pki | .putty | .step | .age | .config/age | .config/sops | .minisign | .netrc | _netrc
.authinfo | .authinfo.gpg | .pgpass | .my.cnf | .mylogin.cnf | .s3cfg | .boto
# Clouds and clusters
.aws | .azure | .config/gcloud | .config/doctl | .config/hcloud | .config/scw | .config/linode-cli | .config/flyctl
.fly/config.yml | .config/rclone | .oci | .aliyun | .bluemix | .kube | .minikube | .talos | .config/helm/registry
.config/heroku | .config/netlify | .config/vercel | .local/share/com.vercel.cli | .config/configstore | .config/stripe
.config/firebase | .config/wrangler | .wrangler | .databrickscfg | .terraform.d/credentials.tfrc.json | .terraformrc
.vault-token | .pulumi/credentials.json | .config/snowflake | .snowflake | .snowsql | .config/daytona | .modal.toml
.config/e2b | .e2b | .ngrok2 | .config/ngrok
# Code hosts and package registries
.config/gh | .config/hub | .config/glab-cli | .config/tea | .git-credentials | .config/git/credentials
.git-credential-cache | .cache/git/credential | .gem/credentials | .local/share/gem/credentials | .npmrc | .yarnrc.yml
.pypirc | .config/pypoetry/auth.toml | .hex/hex.config | .cargo/credentials | .cargo/credentials.toml
.m2/settings.xml | .m2/settings-security.xml | .gradle/gradle.properties | .nuget/NuGet/NuGet.Config
.composer/auth.json | .config/composer/auth.json | .huggingface | .cache/huggingface/token
.cache/huggingface/stored_tokens | .kaggle | .config/uv/credentials | .local/share/uv/credentials | .sentryclirc
.docker/config.json | .dockercfg | .config/containers/auth.json | .local/share/containers/auth.json
# Passwords and keyrings
.password-store | .local/share/password-store | .local/share/keyrings | .local/share/kwalletd | .keyrings | .config/op
.op | .config/1Password | .config/Bitwarden | .config/Bitwarden CLI | .config/keepassxc | .local/share/keepassxc
.cache/keepassxc | .keepass | .lastpass | .config/lastpass | .config/pass-git-helper | .config/enpass
.config/Dashlane | .config/Proton Pass | .config/protonmail | .config/proton-pass-cli | .local/share/secrets
.config/keyring | .local/share/python_keyring | .config/rbw | .local/share/rbw | .ecryptfs | .Private | .cryptomator
.electrum | .bitcoin | .ethereum | .config/solana | .monero
"""
_WORDS = """
# Browsers
.mozilla | .config/mozilla | .cache/mozilla | .librewolf | .waterfox | .zen | .floorp | .tor-browser
.local/share/torbrowser | .config/google-chrome | .config/google-chrome-beta | .config/google-chrome-unstable
.config/chromium | .config/BraveSoftware | .config/microsoft-edge | .config/microsoft-edge-beta
.config/microsoft-edge-dev | .config/vivaldi | .config/opera | .config/opera-beta | .config/yandex-browser
.config/epiphany | .local/share/epiphany | .config/falkon | .config/qutebrowser
.local/share/qutebrowser | snap/firefox | snap/chromium | snap/brave | snap/opera
snap/vivaldi | snap/thunderbird | snap/bitwarden | .cache/google-chrome | .cache/chromium
.cache/BraveSoftware | .cache/microsoft-edge
# Mail, messages
.thunderbird | .icedove | .config/evolution | .local/share/evolution | .local/share/geary | .config/geary | .mutt
.config/mutt | .config/neomutt | .mbsyncrc | .msmtprc | .config/msmtp | .offlineimaprc | .fetchmailrc | Mail | .mail
.maildir | Maildir | .local/share/mail | .config/Signal | .config/discord | .config/Slack | .config/Element
.local/share/TelegramDesktop | .config/WhatsApp | .config/teams | .config/Microsoft
# Other assistants and editors
.claude | .claude.json | .claude.json.backup | .config/claude | .config/Claude | .codex | .config/openai | .gemini
.config/github-copilot | .copilot | .cursor | .config/Cursor | .config/goose | .aider.conf.yml | .continue
.config/opencode | .local/share/opencode | .qwen | .config/zed/credentials | .config/anthropic
.config/Code/User/globalStorage | .config/JetBrains | .openclaw | .hermes
# What was typed
.bash_history | .zsh_history | .histfile | .local/share/fish/fish_history | .python_history | .node_repl_history
.psql_history | .mysql_history | .sqlite_history | .rediscli_history | .lesshst | .viminfo | .wget-hsts | .irb_history
.local/state/bash/history | .local/share/nushell | .config/nushell/history.txt | .local/share/atuin
# Remote desktops, VPNs
.config/remmina | .local/share/remmina | .vnc | .cert | .config/tailscale | .config/wireguard
# Programs in a flatpak keep all theirs under here
.var/app
"""
_MAC = """
Library/Keychains | Library/Cookies | Library/Mail | Library/Messages | Library/Safari | Library/Accounts
Library/Containers | Library/Group Containers | Library/IdentityServices | Library/Passes
Library/Application Support/Google/Chrome | Library/Application Support/Chromium
Library/Application Support/BraveSoftware | Library/Application Support/Microsoft Edge
Library/Application Support/Firefox | Library/Application Support/Vivaldi | Library/Application Support/Arc
Library/Application Support/com.operasoftware.Opera | Library/Thunderbird | Library/Preferences/op
Library/Application Support/1Password | Library/Application Support/Bitwarden | Library/Group Containers
Library/Application Support/Claude | Library/Application Support/Cursor | Library/Application Support/Signal
Library/Application Support/Slack | Library/Application Support/discord | Library/Application Support/gcloud
Library/Application Support/com.vercel.cli | Library/Application Support/doctl | .zsh_sessions
Library/Application Support/AddressBook | Library/Calendars | Library/Metadata/CoreSpotlight
"""
_KEYS = _SECRETS + _WORDS
# What only root may read: it matters when Conch runs as root.
_ROOT = """
shadow | shadow- | krb5.keytab | ssh | wireguard | ipsec.secrets | ppp | NetworkManager/system-connections
ssl/private | pki/tls/private
"""
# What the environment may name instead.
_MOVED = """
GNUPGHOME | KUBECONFIG | AWS_SHARED_CREDENTIALS_FILE | AWS_CONFIG_FILE | CLOUDSDK_CONFIG | AZURE_CONFIG_DIR
GOOGLE_APPLICATION_CREDENTIALS | GH_CONFIG_DIR | NETRC | PGPASSFILE | HISTFILE | NPM_CONFIG_USERCONFIG
PASSWORD_STORE_DIR | CLAUDE_CONFIG_DIR | CODEX_HOME | VAULT_TOKEN_PATH | REGISTRY_AUTH_FILE | HF_TOKEN_PATH
TF_CLI_CONFIG_FILE | BUNDLE_USER_CONFIG
"""

# Where programs lie. A link from a key folder to there leads to no key.
_SYSTEM = ("/usr/", "/bin/", "/sbin/", "/lib", "/etc/", "/opt/", "/nix/", "/gnu/", "/snap/", "/dev/", "/proc/", "/sys/")
_MOST_ENTRIES = 1000
_MOST_LISTED = 500


def key_places(home: Path | None = None) -> tuple[Path, ...]:
    """Where the keys, sign-ins and private words of whose ``home`` it is may lie; most are not there. Touches nothing.

    Unless given, ``home`` is the person's. What an environment variable moves elsewhere (GNUPGHOME, KUBECONFIG…) is
    among them.
    """
    home = home or Path.home()
    return (*_places(home), *_moved(home))


@lru_cache(maxsize=8)
def known_keys(home: Path) -> frozenset[Path]:
    """The key places by name, to tell them from others. What the environment moved elsewhere is not among them."""
    return frozenset(_places(home))


def present_keys(home: Path) -> Iterator[str]:
    """The key places that are there, by name (a link to nowhere is among them). Asked for every command, so it reads a
    few folders instead of asking for hundreds of names."""
    for folder, names in _by_folder(home):
        try:
            listed = os.listdir(folder)  # noqa: PTH208
        except FileNotFoundError:
            continue
        except OSError:
            listed = list(names)  # it can be passed through and not read
        yield from (f"{folder}/{name}" for name in names.intersection(listed))
    yield from map(str, _moved(home))


def linked_keys(home: Path, present: Iterable[str] | None = None) -> tuple[str, ...]:
    """Files that lie elsewhere and that links in the folders of keys lead to (whoever keeps their settings in one
    folder has such). Looks one folder deep; what belongs to the system is no key. Asked for every command, so a folder
    is read again only once it changed. ``present`` is what ``present_keys`` gives, where that was asked already."""
    found: dict[str, None] = {}
    secrets = _secrets(home)
    for name in filter(secrets.__contains__, present_keys(home) if present is None else present):
        for folder in (name, *_read(name).folders):
            for link in _read(folder).links:
                real = os.path.realpath(link)
                if not real.startswith((*_SYSTEM, f"{name}/")):
                    found.update(dict.fromkeys((real,) if os.path.isfile(real) else _read(real).files))  # noqa: PTH113
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Listed:
    """What lies directly in a folder, by whole path, and when that was so."""

    changed: int = -1
    folders: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    links: tuple[str, ...] = ()


_NOTHING = _Listed()
_listed: dict[str, _Listed] = {}


def _read(folder: str) -> _Listed:
    known = _listed.get(folder, _NOTHING)
    try:
        changed = os.stat(folder).st_mtime_ns  # noqa: PTH116 - many, for every command
        if changed == known.changed:
            return known
        with os.scandir(folder) as entries:
            seen = list(islice(entries, _MOST_ENTRIES))
        links = tuple(entry.path for entry in seen if entry.is_symlink())
        folders = tuple(entry.path for entry in seen if entry.is_dir(follow_symlinks=False))
        files = tuple(entry.path for entry in seen if entry.is_file(follow_symlinks=False))
    except OSError:
        return _NOTHING
    if len(_listed) >= _MOST_LISTED:
        _listed.clear()
    _listed[folder] = made = _Listed(changed, folders, files, links)
    return made


@lru_cache(maxsize=8)
def _secrets(home: Path) -> frozenset[str]:
    return frozenset(f"{home}/{name}" for name in _names(_SECRETS))


@lru_cache(maxsize=8)
def _by_folder(home: Path) -> tuple[tuple[str, frozenset[str]], ...]:
    found: dict[str, set[str]] = {}
    for place in _places(home):
        found.setdefault(str(place.parent), set()).add(place.name)
    return tuple((folder, frozenset(names)) for folder, names in found.items())


@lru_cache(maxsize=8)
def _places(home: Path) -> tuple[Path, ...]:
    return tuple(home / name for name in _names(_KEYS + _MAC if sys.platform == "darwin" else _KEYS))


def _moved(home: Path) -> Iterator[Path]:
    """What the environment names. One that holds the whole home folder is a mistake, and would close everything."""
    named = [part for name in _names(_MOVED) if (value := os.environ.get(name)) for part in value.split(os.pathsep)]
    if folder := os.environ.get("DOCKER_CONFIG"):
        named.append(f"{folder}/config.json")
    for text in named:
        path = Path(text)
        if path.is_absolute() and path != home and path not in home.parents:
            yield path


@lru_cache
def _names(text: str) -> tuple[str, ...]:
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return tuple(dict.fromkeys(name.strip() for line in lines for name in line.split("|") if name.strip()))


@lru_cache(maxsize=1)
def root_places() -> tuple[Path, ...]:
    """What of the system's own is secret, and what a command run as root could read."""
    return tuple(Path("/etc", name) for name in _names(_ROOT))
