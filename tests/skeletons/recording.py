"""Record what other projects' tables say of known models, as ``independent_tables.json`` beside this file.

    PYTHONPATH=harness python tests/skeletons/recording.py

Run it where litgpt, open_clip_torch, timm, torchtune, transformers and torch are installed; versions are recorded as well.
litgpt's and torchtune's files are read without importing the packages, whose own dependencies are large.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

from skeletons.known_models import known_models

RECORDED = Path(__file__).parent / "independent_tables.json"

#: Fields of litgpt's configuration -> facts, as `confirming.FIELDS` names them.
LITGPT = {
    "n_layer": "layers", "n_embd": "hidden", "n_head": "heads", "n_query_groups": "key_value_heads",
    "head_size": "head_size", "intermediate_size": "feed_forward", "padded_vocab_size": "vocabulary",
    "block_size": "positions", "norm_eps": "norm_eps", "rope_base": "rope_theta", "rotary_percentage": "rotary_share",
    "n_expert": "experts", "n_expert_per_token": "experts_per_token", "moe_intermediate_size": "expert_feed_forward",
    "sliding_window_size": "sliding_window",
}  # fmt: skip

#: Arguments of torchtune's component builders -> facts.
TORCHTUNE = {
    "num_layers": "layers", "embed_dim": "hidden", "num_heads": "heads", "num_kv_heads": "key_value_heads",
    "head_dim": "head_size", "intermediate_dim": "feed_forward", "vocab_size": "vocabulary", "max_seq_len": "positions",
    "norm_eps": "norm_eps", "rope_base": "rope_theta", "tie_word_embeddings": "tied", "scale_factor": "rope_factor",
}  # fmt: skip

#: torchtune's model builders -> the known models that they build, as patterns.
BUILDERS = {
    "llama2_7b": r"meta-llama/Llama-2-7b(-chat)?-hf",
    "llama2_13b": r"meta-llama/Llama-2-13b(-chat)?-hf",
    "llama2_70b": r"meta-llama/Llama-2-70b(-chat)?-hf",
    "code_llama2_7b": r"(codellama|meta-llama)/CodeLlama-7b(-Instruct)?-hf",
    "code_llama2_13b": r"(codellama|meta-llama)/CodeLlama-13b(-Instruct)?-hf",
    "llama3_8b": r"meta-llama/Meta-Llama-3-8B(-Instruct)?",
    "llama3_70b": r"meta-llama/Meta-Llama-3-70B(-Instruct)?",
    "llama3_1_8b": r"meta-llama/(Meta-)?Llama-3\.1-8B(-Instruct)?",
    "llama3_1_70b": r"meta-llama/(Meta-)?Llama-3\.1-70B(-Instruct)?",
    "llama3_1_405b": r"meta-llama/(Meta-)?Llama-3\.1-405B(-Instruct)?",
    "llama3_2_1b": r"meta-llama/Llama-3\.2-1B(-Instruct)?",
    "llama3_2_3b": r"meta-llama/Llama-3\.2-3B(-Instruct)?",
    "mistral_7b": r"mistralai/Mistral-7B(-Instruct)?-v0\.1",
    "gemma_2b": r"google/gemma-2b(-it)?",
    "gemma_7b": r"google/gemma-7b(-it)?",
    "gemma2_2b": r"google/gemma-2-2b(-it)?",
    "gemma2_9b": r"google/gemma-2-9b(-it)?",
    "gemma2_27b": r"google/gemma-2-27b(-it)?",
    "phi3_mini": r"microsoft/Phi-3-mini-4k-instruct",
    "phi4_14b": r"microsoft/phi-4",
    "qwen2_7b": r"Qwen/Qwen2-7B-Instruct",
    "qwen2_0_5b": r"Qwen/Qwen2-0\.5B-Instruct",
    "qwen2_1_5b": r"Qwen/Qwen2-1\.5B-Instruct",
    "qwen2_5_0_5b": r"Qwen/Qwen2\.5-0\.5B(-Instruct)?",
    "qwen2_5_1_5b_base": r"Qwen/Qwen2\.5-1\.5B",
    "qwen2_5_1_5b_instruct": r"Qwen/Qwen2\.5-1\.5B-Instruct",
    "qwen2_5_3b": r"Qwen/Qwen2\.5-3B(-Instruct)?",
    "qwen2_5_7b_base": r"Qwen/Qwen2\.5-7B",
    "qwen2_5_7b_instruct": r"Qwen/Qwen2\.5-7B-Instruct",
    "qwen2_5_14b_base": r"Qwen/Qwen2\.5-14B",
    "qwen2_5_14b_instruct": r"Qwen/Qwen2\.5-14B-Instruct",
    "qwen2_5_32b_base": r"Qwen/Qwen2\.5-32B",
    "qwen2_5_32b_instruct": r"Qwen/Qwen2\.5-32B-Instruct",
    "qwen2_5_72b_base": r"Qwen/Qwen2\.5-72B",
    "qwen2_5_72b_instruct": r"Qwen/Qwen2\.5-72B-Instruct",
}

#: open_clip's configurations of OpenAI's models -> those.
OPEN_CLIP = {
    "ViT-B-32-quickgelu": "openai/clip-vit-base-patch32",
    "ViT-B-16-quickgelu": "openai/clip-vit-base-patch16",
    "ViT-L-14-quickgelu": "openai/clip-vit-large-patch14",
    "ViT-L-14-336-quickgelu": "openai/clip-vit-large-patch14-336",
}

#: timm's models -> known ones of the same weights.
TIMM = {
    "vit_base_patch16_224": ("google/vit-base-patch16-224",),
    "vit_large_patch16_224": ("google/vit-large-patch16-224",),
    "deit_tiny_patch16_224": ("facebook/deit-tiny-patch16-224",),
    "deit_small_patch16_224": ("facebook/deit-small-patch16-224",),
    "deit_base_patch16_224": ("facebook/deit-base-patch16-224",),
    "swin_tiny_patch4_window7_224": ("microsoft/swin-tiny-patch4-window7-224",),
    "swin_base_patch4_window7_224": ("microsoft/swin-base-patch4-window7-224",),
    "resnet50": ("microsoft/resnet-50",),
    "resnet101": ("microsoft/resnet-101",),
    "vit_small_patch14_dinov2": ("facebook/dinov2-small",),
    "vit_base_patch14_dinov2": ("facebook/dinov2-base",),
    "vit_large_patch14_dinov2": ("facebook/dinov2-large",),
}

Facts = dict[str, dict[str, Any]]


def of_litgpt() -> Facts:
    """Return hub name -> facts of litgpt's table, of the known models."""
    spec = importlib.util.spec_from_file_location("litgpt_config", _folder("litgpt") / "config.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["litgpt_config"] = module
    spec.loader.exec_module(module)
    found: Facts = {}
    for fields in module.configs:
        name = f"{fields['hf_config'].get('org')}/{fields['hf_config']['name']}"
        if name in known_models():
            config = module.Config(**fields)
            found[name] = {fact: getattr(config, field) for field, fact in LITGPT.items()}
    return found


def of_torchtune() -> Facts:
    """Return hub name -> facts of torchtune's model builders: the constants that each passes to its component builder."""
    calls: dict[str, dict[str, Any]] = {}
    for file in sorted(_folder("torchtune").glob("models/*/_model_builders.py")):
        for function in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(function, ast.FunctionDef) and function.name in BUILDERS:
                call = next(
                    node for node in ast.walk(function) if isinstance(node, ast.Call) and len(node.keywords) > 5
                )
                given = {word.arg: word.value.value for word in call.keywords if isinstance(word.value, ast.Constant)}
                calls[function.name] = {TORCHTUNE[name]: value for name, value in given.items() if name in TORCHTUNE}
    missing = set(BUILDERS) - set(calls)
    assert not missing, f"torchtune has no {sorted(missing)}"
    return {
        name: calls[builder]
        for builder, pattern in BUILDERS.items()
        for name in known_models()
        if re.fullmatch(pattern, name)
    }


def of_open_clip() -> Facts:
    """Return hub name -> facts of open_clip's configurations. Heads of the tower that sees are 64 wide by default."""
    found: Facts = {}
    for own, name in OPEN_CLIP.items():
        fields = json.loads((_folder("open_clip") / "model_configs" / f"{own}.json").read_text(encoding="utf-8"))
        text, vision = fields["text_cfg"], fields["vision_cfg"]
        found[name] = {
            "projection": fields["embed_dim"], "vocabulary": text["vocab_size"], "text_layers": text["layers"],
            "text_hidden": text["width"], "text_heads": text["heads"], "vision_layers": vision["layers"],
            "vision_hidden": vision["width"], "vision_heads": vision["width"] // vision.get("head_width", 64),
            "image_size": vision["image_size"], "patch_size": vision["patch_size"],
        }  # fmt: skip
    return found


def of_timm() -> Facts:
    """Return hub name -> facts of timm's models, which it builds without memory."""
    import torch

    from dsregress.probe import cuda_wheels

    cuda_wheels.import_without_extensions()  # of torchvision, which needs a card's libraries
    import timm

    found: Facts = {}
    for own, names in TIMM.items():
        with torch.device("meta"):
            model = timm.create_model(own)
        facts: dict[str, Any] = {"parameters": sum(parameter.numel() for parameter in model.parameters())}
        if hasattr(model, "patch_embed"):
            facts |= {"patch_size": model.patch_embed.patch_size[0], "image_size": model.patch_embed.img_size[0]}
        if hasattr(model, "blocks"):
            block = model.blocks[0]
            facts |= {"layers": len(model.blocks), "hidden": model.embed_dim, "heads": block.attn.num_heads}
            facts |= {"feed_forward": block.mlp.fc1.out_features, "norm_eps": block.norm1.eps}
        elif own.startswith("swin"):
            facts |= {"stages": [len(layer.blocks) for layer in model.layers], "hidden": model.embed_dim}
            facts |= {"stage_heads": [layer.blocks[0].attn.num_heads for layer in model.layers]}
        else:
            stages = [model.layer1, model.layer2, model.layer3, model.layer4]
            facts |= {"stages": [len(stage) for stage in stages]}
        found |= dict.fromkeys(names, facts)
    return found


def of_transformers() -> tuple[Facts, Facts]:
    """Return hub name -> the defaults of the configuration class whose documentation names the model, and ``model_type`` ->
    the defaults of its class, as a ``config.json`` spells them."""
    import transformers

    kinds = {model.config["model_type"] for model in known_models().values()}
    by_lower = {name.lower(): name for name in known_models()}
    named: Facts = {}
    defaults: Facts = {}
    for kind in sorted(kinds):
        config = transformers.AutoConfig.for_model(kind)
        fields = {name: value for name, value in config.to_dict().items() if _is_plain(value)}
        defaults[kind] = fields
        said = " ".join((type(config).__doc__ or "").split())
        match = re.search(r"similar configuration to that of.{0,200}?huggingface\.co/([\w.-]+(?:/[\w.-]+)?)", said)
        if match and match[1].rstrip(").").lower() in by_lower:
            named[by_lower[match[1].rstrip(").").lower()]] = fields
    return named, defaults


def _is_plain(value: Any) -> bool:
    return isinstance(value, (bool, int, float, str))


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None, f"{package} is not installed"
    return Path(next(iter(spec.submodule_search_locations or ())))


def main() -> None:
    """Write the recording."""
    named, defaults = of_transformers()
    tables = {
        "litgpt": of_litgpt(),
        "torchtune": of_torchtune(),
        "open_clip_torch": of_open_clip(),
        "timm": of_timm(),
        "transformers": named,
    }
    lines = []
    for package, table in tables.items():
        rows = ",\n".join(f"    {json.dumps(name)}: {json.dumps(facts)}" for name, facts in sorted(table.items()))
        version = importlib.metadata.version(package)
        lines.append(
            f'  {json.dumps(package)}: {{\n   "version": {json.dumps(version)},\n   "models": {{\n{rows}\n   }}\n  }}'
        )
    rows = ",\n".join(f"  {json.dumps(kind)}: {json.dumps(fields)}" for kind, fields in defaults.items())
    packages = ",\n".join(lines)
    RECORDED.write_text(f'{{\n"tables": {{\n{packages}\n}},\n"defaults": {{\n{rows}\n}}\n}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
