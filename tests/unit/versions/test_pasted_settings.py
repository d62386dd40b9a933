"""accelerate's settings in pasted reports."""

from __future__ import annotations

import pytest

from dsregress.versions.pasted_settings import pasted_settings

OF_TRANSFORMERS = """- Accelerate version: 1.3.0
- Accelerate config: \t- compute_environment: LOCAL_MACHINE
        - distributed_type: DEEPSPEED
        - num_processes: 8
        - deepspeed_config: {'gradient_accumulation_steps': 8, 'zero3_init_flag': True, 'zero_stage': 3}
        - tpu_env: []
- PyTorch version (GPU?): 2.6.0+cu124 (True)
"""
OF_ACCELERATE = """- `Accelerate` version: 1.3.0
- PyTorch version (GPU?): 2.6.0 (True)
- `Accelerate` default config:
\t- compute_environment: LOCAL_MACHINE
\t- distributed_type: DEEPSPEED
\t- num_processes: 8
\t- deepspeed_config: {'gradient_accumulation_steps': 8, 'zero3_init_flag': True, 'zero_stage': 3}
"""


@pytest.mark.parametrize("text", [OF_TRANSFORMERS, OF_ACCELERATE])
def test_both_commands_print_the_same_settings(text: str) -> None:
    found = pasted_settings(text)
    assert (found["distributed_type"], found["num_processes"]) == ("DEEPSPEED", "8")
    assert found["deepspeed_config"] == {"gradient_accumulation_steps": 8, "zero3_init_flag": True, "zero_stage": 3}
    assert "PyTorch" not in "".join(found)


def test_a_report_without_settings_has_none() -> None:
    assert pasted_settings("- Accelerate config: \tnot found\n- PyTorch version (GPU?): 2.6.0 (True)\n") == {}
    assert pasted_settings("- `Accelerate` default config:\n\tNot found\n") == {}
    assert pasted_settings("deepspeed==0.16.4\n") == {}


def test_what_is_no_dictionary_is_a_text() -> None:
    text = "- Accelerate config: \t- deepspeed_config: {__import__('os')}\n"
    assert pasted_settings(text) == {"deepspeed_config": "{__import__('os')}"}
