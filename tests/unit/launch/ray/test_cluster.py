"""Ray's complaints as one line each. The complaints are spelled as Ray 2.60 spells them."""

from __future__ import annotations

import pytest

from dsregress.config.ray import Ray
from dsregress.errors import UsageError
from dsregress.launch.ray import cluster

_OTHER_RAY = """Version mismatch: The cluster was started with:
    Ray: 2.51.0
    Python: 3.10.14
This process on Ray node 10.0.0.7 was started with:
    Ray: 2.60.0
    Python: 3.11.7
"""


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            RuntimeError(_OTHER_RAY),
            "ray head:6379: the cluster runs another Ray or Python than this process "
            "(Ray: 2.51.0; Python: 3.10.14; Ray: 2.60.0; Python: 3.11.7); "
            "install the cluster's Ray here, under the same minor release of Python",
        ),
        (
            RuntimeError(
                "No node info found matching attributes: '10.0.0.7' when trying to resolve node to connect to."
            ),
            "ray head:6379: this machine is not a node of that cluster; "
            "run the command on the head node, or give ray://HEAD:10001",
        ),
        (
            ImportError("Ray Client requires pip package `ray[client]`. If you installed the minimal Ray (e.g. ..."),
            "ray head:6379: a ray:// address needs Ray's client; pip install 'ray[client]'",
        ),
        (
            ConnectionError("something else\nover two lines"),
            "ray head:6379: something else over two lines; check with `ray status`",
        ),
    ],
)
def test_a_complaint_is_one_line_that_says_what_to_do(error: Exception, line: str) -> None:
    assert str(cluster.ray_fault(error, "head:6379")) == line


@pytest.mark.parametrize("address", ["head", "head:", ":6379", "ray://head"])
def test_what_is_no_address_is_refused_before_anything_is_asked(address: str) -> None:
    with pytest.raises(UsageError, match="not an address"):
        cluster._check_answers(address)


def test_settings_say_what_they_do_not_take() -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        Ray(ranks_per_node=-1)
    with pytest.raises(ValueError, match=r"by device mode: sim, cpu or cuda \(and not gpu\)"):
        Ray(resources={"gpu": {"A800": 1.0}})
