"""Fit a thousand weights to one."""

from dsregress.probe.scenario import Scenario, one_by_one

SCENARIO = Scenario(
    version=1,
    summary="tinyframe: forward, backward, step",
    framework="tinyframe.adapter",
    parameters={"world_size": 2, "gradient_accumulation_steps": 1},
    devices={"cpu": {}},
    variants=({}, *one_by_one(gradient_accumulation_steps=(3,))),
    remedies={
        "accumulate over three": {"gradient_accumulation_steps": 3},
        "one rank": {"world_size": 1},
        "two ranks": {"world_size": 2},
    },
    pins={"pin the first release": {"tinyframe": "1.0.0"}},
)
