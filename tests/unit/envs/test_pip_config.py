"""The user's pip configuration in uv's words."""

from __future__ import annotations

import sys

from dsregress.envs import pip_config
from dsregress.envs.pip_config import PipConfig

LISTING = """\
:env:.find-links='/srv/wheels /srv/more'
:env:.timeout='20'
download.index-url='https://not-for-us/simple'
global.cert='/etc/mine.pem'
global.extra-index-url='\\nhttps://a/simple\\nhttps://user:secret@b/simple'
global.find-links='/overruled'
global.index-url='https://mirror/simple'
global.timeout='60'
install.no-index='false'
install.trusted-host='mirror b'
"""


def test_sections_are_merged_as_pip_does() -> None:
    assert pip_config.parse_pip_config(LISTING) == PipConfig(
        index_url="https://mirror/simple",
        extra_index_urls=("https://a/simple", "https://user:secret@b/simple"),
        find_links=("/srv/wheels", "/srv/more"),
        trusted_hosts=("mirror", "b"),
        cert="/etc/mine.pem",
        timeout_s="20",
    )


def test_indexes_reach_uv_as_variables_so_that_no_password_is_on_a_command_line() -> None:
    config = pip_config.parse_pip_config(LISTING)
    assert config.uv_environment({}) == {
        "UV_DEFAULT_INDEX": "https://mirror/simple",
        "UV_INDEX": "https://mirror/simple https://a/simple https://user:secret@b/simple",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_HTTP_TIMEOUT": "20",
        "SSL_CERT_FILE": "/etc/mine.pem",
    }
    assert "secret" not in " ".join(config.uv_options())
    assert config.uv_options() == [
        *("--find-links", "/srv/wheels", "--find-links", "/srv/more"),
        *("--allow-insecure-host", "mirror", "--allow-insecure-host", "b"),
    ]


def test_the_main_index_comes_before_extra_ones_whoever_names_it() -> None:
    config = PipConfig(extra_index_urls=("https://a/simple",))
    assert config.uv_environment({})["UV_INDEX"] == "https://pypi.org/simple https://a/simple"
    own = {"UV_DEFAULT_INDEX": "https://mine/simple"}
    assert config.uv_environment(own)["UV_INDEX"] == "https://mine/simple https://a/simple"
    assert "UV_INDEX" not in PipConfig().uv_environment({})


def test_what_the_user_set_for_uv_itself_is_left_alone() -> None:
    config = PipConfig(index_url="https://mirror/simple", extra_index_urls=("https://a/simple",))
    own = {"UV_INDEX_URL": "https://mine/simple", "UV_INDEX": "https://mine2/simple"}
    assert config.uv_environment(own) == {"UV_INDEX_STRATEGY": "unsafe-best-match"}


def test_no_index_is_an_option() -> None:
    assert pip_config.parse_pip_config("global.no-index='true'").uv_options() == ["--no-index"]


def test_pip_itself_is_asked() -> None:
    environment = {"PATH": "/usr/bin:/bin", "PIP_CONFIG_FILE": "/dev/null", "PIP_EXTRA_INDEX_URL": "https://a/simple"}
    assert pip_config.read_pip_config(sys.executable, environment) == PipConfig(extra_index_urls=("https://a/simple",))


def test_no_pip_is_the_default_configuration() -> None:
    assert pip_config.read_pip_config("/does/not/exist") == PipConfig()
