"""What of this computer's environment a command gets: a short list, by name, and nothing else.

Never a key: a name that is not here does not go along, whatever it holds.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

_ALWAYS = ("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "LC_NUMERIC", "LC_TIME", "LC_COLLATE", "TZ")
_WHO = ("USER", "LOGNAME")
# Where certificates, compilers and language versions are: names of places that a build needs, and no secret.
_TOOLS = (
    *(
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "NIX_SSL_CERT_FILE",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "NODE_EXTRA_CA_CERTS",
    ),
    *("GIT_SSL_CAINFO", "PIP_CERT", "JAVA_HOME", "ANDROID_HOME", "ANDROID_SDK_ROOT", "GOROOT", "GOPATH", "GOTOOLCHAIN"),
    *("RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "NVM_DIR", "VOLTA_HOME", "FNM_DIR", "PYENV_ROOT", "RBENV_ROOT", "ASDF_DIR"),
    *("ASDF_DATA_DIR", "MISE_DATA_DIR", "SDKMAN_DIR", "DOTNET_ROOT", "DENO_INSTALL", "BUN_INSTALL", "HOMEBREW_PREFIX"),
    *("NIX_PATH", "LOCALE_ARCHIVE", "CUDA_HOME", "CUDA_PATH", "PKG_CONFIG_PATH", "CC", "CXX"),
)
# What reaches the person's own session and network. Only for a command that leaves the box.
_REACH = (
    *("SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"),
    *("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "CONTAINER_HOST"),
    *("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"),
    *("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY"),
)
_WINDOWS = (
    *("SystemRoot", "SystemDrive", "ComSpec", "PATHEXT", "USERNAME", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "TEMP"),
    *("TMP", "ProgramData", "ProgramFiles", "ProgramFiles(x86)", "NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE"),
)
_CACHES = (
    ("XDG_CACHE_HOME", "xdg"),
    ("npm_config_cache", "npm"),
    ("npm_config_store_dir", "pnpm"),  # pnpm's
    ("npm_config_devdir", "node-gyp"),
    ("YARN_CACHE_FOLDER", "yarn"),
    ("YARN_GLOBAL_FOLDER", "yarn-berry"),
    ("BUN_INSTALL_CACHE_DIR", "bun"),
    ("DENO_DIR", "deno"),
    ("PIP_CACHE_DIR", "pip"),
    ("UV_CACHE_DIR", "uv"),
    ("POETRY_CACHE_DIR", "poetry"),
    ("PIPENV_CACHE_DIR", "pipenv"),
    ("PRE_COMMIT_HOME", "pre-commit"),
    ("CARGO_HOME", "cargo"),
    ("GOCACHE", "go-build"),
    ("GOMODCACHE", "go-mod"),
    ("GRADLE_USER_HOME", "gradle"),
    ("NUGET_PACKAGES", "nuget"),
    ("COMPOSER_CACHE_DIR", "composer"),
    ("BUNDLE_USER_CACHE", "bundle"),
    ("CCACHE_DIR", "ccache"),
    ("SCCACHE_DIR", "sccache"),
    ("PUB_CACHE", "pub"),
)
_PLAIN_PATH = "/usr/local/bin:/usr/bin:/bin"


def environment(home: Path, caches: Path, *, reach: bool, source: Mapping[str, str] | None = None) -> dict[str, str]:
    """The whole environment of a command. ``reach`` is for one that leaves the box; ``caches`` is the folder's own."""
    source = os.environ if source is None else source
    names = (*_ALWAYS, *_WHO, *_TOOLS, *(_REACH if reach else ()), *(_WINDOWS if sys.platform == "win32" else ()))
    env = {name: source[name] for name in names if source.get(name)}
    env["PATH"] = _path(source.get("PATH") or _PLAIN_PATH)
    env["HOME"] = str(home)
    env["SHELL"] = "/bin/sh"
    env["TERM"] = "dumb"
    env.setdefault("LANG", "C.UTF-8")
    if not reach and sys.platform == "linux":
        env["TMPDIR"] = "/tmp"  # noqa: S108 - the command's own, empty one
    elif not reach and sys.platform == "darwin":
        env["TMPDIR"] = str(caches / "tmp")
    elif source.get("TMPDIR"):
        env["TMPDIR"] = source["TMPDIR"]
    env.update(cache_names(caches))
    return env


def cache_names(caches: Path) -> dict[str, str]:
    """Points what keeps a cache at ``caches``, so that nothing is planted in the person's own for later.

    A sealed and an open command on one folder share them: what the one fetched the other builds with, without network.
    """
    at = str(caches)
    named = {name: f"{at}/{folder}" for name, folder in _CACHES}
    named["MAVEN_ARGS"] = f"-Dmaven.repo.local={at}/maven"
    named["GOFLAGS"] = "-modcacherw"  # or Go makes its cache read-only, and nobody can remove it
    named["UV_LINK_MODE"] = "copy"  # the cache and the work folder are mounted apart
    return named


@lru_cache(maxsize=4)
def _path(text: str) -> str:
    """PATH without Conch's own programs: ``python`` is the person's, not the one Conch runs on."""
    own = {str(Path(sys.prefix, name)) for name in ("bin", "Scripts") if sys.prefix != sys.base_prefix}
    parts = [part for part in text.split(os.pathsep) if os.path.isabs(part) and os.path.normpath(part) not in own]  # noqa: PTH117
    return os.pathsep.join(dict.fromkeys(parts)) or _PLAIN_PATH
