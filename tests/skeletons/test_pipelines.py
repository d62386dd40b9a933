"""Skeletons of diffusers' pipelines have the published number of parameters, and load. Needs diffusers."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
diffusers = pytest.importorskip("diffusers")

from dsregress.probe import cuda_wheels  # noqa: E402
from skeletons import make, make_pipeline, parameters  # noqa: E402
from skeletons.pipelines import known_pipelines  # noqa: E402

cuda_wheels.import_without_extensions()

#: As the weights of each folder count them; Flux's transformer is "12B", that of Stable Diffusion 3 "2B".
PUBLISHED = {
    ("CompVis/stable-diffusion-v1-4", "unet"): 859_520_964,
    ("CompVis/stable-diffusion-v1-4", "vae"): 83_653_863,
    ("CompVis/stable-diffusion-v1-4", "text_encoder"): 123_060_480,
    ("stabilityai/stable-diffusion-2-1", "unet"): 865_910_724,
    ("stabilityai/stable-diffusion-2-1", "text_encoder"): 340_387_840,
    ("stabilityai/stable-diffusion-xl-base-1.0", "unet"): 2_567_463_684,
    ("stabilityai/stable-diffusion-xl-base-1.0", "text_encoder_2"): 694_659_840,
    ("stabilityai/stable-diffusion-3-medium-diffusers", "transformer"): 2_028_328_000,
    ("black-forest-labs/FLUX.1-dev", "transformer"): 11_901_408_320,
    ("black-forest-labs/FLUX.1-dev", "text_encoder_2"): 4_762_310_656,
    ("black-forest-labs/FLUX.1-dev", "vae"): 83_819_683,
    ("stabilityai/sd-vae-ft-mse", ""): 83_653_863,
    ("lllyasviel/control_v11p_sd15_canny", ""): 361_279_120,
    ("stabilityai/stable-diffusion-3.5-large", "transformer"): 8_056_627_520,
    ("stabilityai/stable-diffusion-3.5-medium", "transformer"): 2_243_171_520,
    ("black-forest-labs/FLUX.1-schnell", "transformer"): 11_891_178_560,
    ("Wan-AI/Wan2.1-T2V-1.3B-Diffusers", "transformer"): 1_418_996_800,
    ("Wan-AI/Wan2.1-T2V-1.3B-Diffusers", "text_encoder"): 5_680_910_336,
    ("Wan-AI/Wan2.1-T2V-1.3B-Diffusers", "vae"): 126_892_531,
    ("Wan-AI/Wan2.1-T2V-14B-Diffusers", "transformer"): 14_288_491_584,
    ("THUDM/CogVideoX-5b", "transformer"): 5_570_283_072,
    ("THUDM/CogVideoX-5b", "vae"): 215_583_907,
    ("google/ddpm-cifar10-32", "unet"): 35_746_307,
}

#: Billions as the card or the paper rounds them.
STATED = {
    ("stabilityai/stable-diffusion-xl-refiner-1.0", "unet"): "2.3",
    ("PixArt-alpha/PixArt-Sigma-XL-2-1024-MS", "transformer"): "0.6",
    ("stabilityai/stable-video-diffusion-img2vid-xt", "unet"): "1.5",
    ("Qwen/Qwen-Image", "transformer"): "20",
    ("Tongyi-MAI/Z-Image-Turbo", "transformer"): "6",
    ("Alpha-VLLM/Lumina-Image-2.0", "transformer"): "2.6",
}


def counted(name: str, place: str) -> int:
    """Return the number of parameters of a component; skip one whose class the installed diffusers lacks."""
    part = known_pipelines()[name].components[place]
    if part.library == "diffusers":
        if not hasattr(diffusers, part.kind):
            pytest.skip(f"diffusers {diffusers.__version__} has no {part.kind}")
        model = make_pipeline.build_component(part.kind, part.fields, "meta")
    else:
        model = parameters.build_model(make.loaded_config(dict(part.fields)), "meta")
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(("name", "place"), PUBLISHED)
def test_a_component_has_the_published_number_of_parameters(name: str, place: str) -> None:
    assert counted(name, place) == PUBLISHED[name, place]


@pytest.mark.parametrize(("name", "place"), STATED)
def test_a_component_has_the_stated_number_of_parameters(name: str, place: str) -> None:
    digits = len(STATED[name, place].partition(".")[2])
    assert f"{counted(name, place) / 1e9:.{digits}f}" == STATED[name, place]


@pytest.mark.parametrize("name", ["CompVis/stable-diffusion-v1-4", "stabilityai/stable-diffusion-xl-base-1.0"])
def test_a_small_pipeline_loads_and_draws(name: str, tmp_path: Path) -> None:
    make_pipeline.make_pipeline(name, tmp_path, shrunk=True, contents=True)
    pipe = diffusers.DiffusionPipeline.from_pretrained(tmp_path, safety_checker=None)
    images = pipe("a prompt", num_inference_steps=1, height=64, width=64, output_type="pt").images
    assert images.shape == (1, 3, 64, 64)


@pytest.mark.parametrize(
    "name",
    [
        "PixArt-alpha/PixArt-Sigma-XL-2-512-MS",
        "Qwen/Qwen-Image",
        "Tongyi-MAI/Z-Image",
        "Alpha-VLLM/Lumina-Image-2.0",
        "stabilityai/stable-diffusion-xl-refiner-1.0",
        "stabilityai/stable-video-diffusion-img2vid-xt",
        "Wan-AI/Wan2.1-I2V-14B-480P-Diffusers",
    ],
)
def test_a_small_pipeline_loads(name: str, tmp_path: Path) -> None:
    kind = known_pipelines()[name].kind
    if not hasattr(diffusers, kind):
        pytest.skip(f"diffusers {diffusers.__version__} has no {kind}")
    make_pipeline.make_pipeline(name, tmp_path, shrunk=True, contents=True)
    assert type(diffusers.DiffusionPipeline.from_pretrained(tmp_path)).__name__ == kind


def test_a_repository_of_one_component_has_it_at_the_top(tmp_path: Path) -> None:
    make_pipeline.make_pipeline("stabilityai/sd-vae-ft-ema", tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["config.json", "diffusion_pytorch_model.safetensors"]
    with torch.device("meta"):
        loaded = diffusers.AutoencoderKL.from_config(diffusers.AutoencoderKL.load_config(tmp_path))
    assert loaded.config.block_out_channels == [128, 256, 512, 512]
