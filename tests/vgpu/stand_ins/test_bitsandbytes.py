"""bitsandbytes' optimizers: sizes by hand from its source, steps near those of torch."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from vgpu.device.books import Books  # noqa: E402
from vgpu.meters.ledger import DEVICE, HOST  # noqa: E402

MIB = 1 << 20
MAPS = 2 * 256 * 4


def held_by_states(books: Books, name: str, elements: int) -> tuple[int, int]:
    """Bytes on the card and on the host that the first step adds."""
    import bitsandbytes

    parameter = torch.nn.Parameter(torch.zeros(elements, dtype=torch.bfloat16, device="cuda"))
    optimizer = getattr(bitsandbytes.optim, name)([parameter])
    parameter.grad = torch.zeros_like(parameter)
    before = {memory: books.ledger.live[memory] for memory in (DEVICE, HOST)}
    optimizer.step()
    assert optimizer.state[parameter]["step"] == 1
    return tuple(books.ledger.live[memory] - before[memory] for memory in (DEVICE, HOST))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("name", "elements", "on_card", "on_host"),
    [
        ("AdamW8bit", MIB, 2 * MIB + 2 * (MIB // 256) * 4 + MAPS, 0),
        ("Adam8bit", 5000, 2 * 5000 + 2 * 20 * 4 + MAPS, 0),
        ("AdamW8bit", 4095, 2 * 4095 * 4, 0),
        ("AdamW32bit", MIB, 8 * MIB, 0),
        ("Adagrad8bit", MIB, MIB + (MIB // 256) * 4 + MAPS, 0),
        ("Adagrad32bit", MIB, 4 * MIB, 0),
        ("Lion8bit", MIB, MIB + (MIB // 256) * 4 + MAPS, 0),
        ("PagedAdamW8bit", MIB, 2 * (MIB // 256) * 4 + MAPS, 2 * MIB),
        ("PagedAdamW32bit", MIB, 0, 8 * MIB),
        ("PagedAdamW32bit", 99_999, 8 * 99_999, 0),
    ],
)
def test_states_take_what_they_take_on_a_card(
    books: Books, name: str, elements: int, on_card: int, on_host: int
) -> None:
    assert held_by_states(books, name, elements) == (on_card, on_host)


@pytest.mark.parametrize(
    ("name", "tolerance"),
    [("AdamW32bit", 1e-6), ("PagedAdamW32bit", 1e-6), ("AdamW8bit", 2e-2), ("Adagrad32bit", 1e-6)],
)
def test_on_the_cpu_a_step_is_torchs(meter: Any, name: str, tolerance: float) -> None:
    import bitsandbytes

    start = torch.randn(64, 128)
    mine, theirs = (torch.nn.Parameter(start.clone()) for _ in range(2))
    optimizers = [
        getattr(bitsandbytes.optim, name)([mine], lr=0.01, weight_decay=0.1),
        getattr(torch.optim, "Adagrad" if "Adagrad" in name else "AdamW")([theirs], lr=0.01, weight_decay=0.1),
    ]
    for _ in range(4):
        gradient = torch.randn(64, 128)
        for parameter, optimizer in zip((mine, theirs), optimizers):
            parameter.grad = gradient.clone()
            optimizer.step()
    moved = (theirs - start).detach().norm()
    assert float((mine - theirs).detach().norm() / moved) < tolerance


def _with_a_loop_of_its_own() -> Any:
    """As GaLore's AdamW8bit: another package's optimizer, of parts of the package's."""
    from bitsandbytes.optim.optimizer import Optimizer2State

    class Own(Optimizer2State):  # type: ignore[misc]
        def __init__(self, params: Any, lr: float = 0.01) -> None:
            super().__init__("adam", params, lr, (0.9, 0.999), 1e-8, 0.1, 8, None, 4096, 100, True, is_paged=False)

        @torch.no_grad()  # type: ignore[untyped-decorator]
        def step(self, closure: Any = None) -> None:
            if not self.initialized:
                self.check_overrides()
                self.to_gpu()
                self.initialized = True
            for at, group in enumerate(self.param_groups):
                for index, parameter in enumerate(group["params"]):
                    if "state1" not in self.state[parameter]:
                        self.init_state(group, parameter, at, index)
                    self.prefetch_state(parameter)
                    self.update_step(group, parameter, at, index)

    return Own


def test_another_packages_optimizer_with_a_loop_of_its_own_steps_as_the_packages_does(meter: Any) -> None:
    from bitsandbytes.optim.adamw import AdamW8bit

    start = torch.randn(64, 128)
    mine, theirs = (torch.nn.Parameter(start.clone()) for _ in range(2))
    for parameter, optimizer in (
        (mine, _with_a_loop_of_its_own()([mine])),
        (theirs, AdamW8bit([theirs], lr=0.01, weight_decay=0.1)),
    ):
        parameter.grad = start.sin()
        optimizer.step()
    assert torch.equal(mine, theirs)
    assert not torch.equal(mine, start)


def test_another_packages_optimizer_holds_8_bit_states(books: Books) -> None:
    parameter = torch.nn.Parameter(torch.zeros(MIB, dtype=torch.bfloat16, device="cuda"))
    optimizer = _with_a_loop_of_its_own()([parameter])
    parameter.grad = torch.zeros_like(parameter)
    before = books.ledger.live[DEVICE]
    optimizer.step()
    assert books.ledger.live[DEVICE] - before == 2 * MIB + 2 * (MIB // 256) * 4 + MAPS


def test_an_update_that_has_no_stand_in_is_named(books: Books) -> None:
    from bitsandbytes.optim.optimizer import Optimizer2State

    with pytest.raises(NotImplementedError, match=r"optimizer.Optimizer2State has no stand-in for 'lamb'"):
        Optimizer2State("lamb", [torch.nn.Parameter(torch.zeros(3))])


def test_the_trainers_8_bit_optimizer_is_found(books: Books) -> None:
    trainer = pytest.importorskip("transformers")
    arguments = trainer.TrainingArguments("out", optim="paged_adamw_8bit", report_to=[])
    kind, options = trainer.Trainer.get_optimizer_cls_and_kwargs(arguments)
    assert "bitsandbytes" in str(kind)
    assert kind([torch.nn.Parameter(torch.zeros(3, device="cuda"))], **options).is_paged


def test_embeddings_are_excepted_by_module(books: Books) -> None:
    from bitsandbytes.optim import AdamW, GlobalOptimManager

    layer = torch.nn.Embedding(100, 64, device="cuda")
    GlobalOptimManager.get_instance().register_module_override(layer, "weight", {"optim_bits": 32})
    optimizer = AdamW(layer.parameters(), optim_bits=8)
    layer.weight.grad = torch.zeros_like(layer.weight)
    optimizer.step()
    assert optimizer.state[layer.weight]["state1"].dtype == torch.float32


def test_what_has_no_stand_in_is_one_line(books: Books) -> None:
    import bitsandbytes

    with pytest.raises(AttributeError, match="Embedding4bit has no stand-in"):
        bitsandbytes.nn.Embedding4bit(4, 4)
    with pytest.raises(NotImplementedError, match="percentile_clipping=5"):
        bitsandbytes.optim.Adam8bit([torch.nn.Parameter(torch.zeros(3))], percentile_clipping=5)


def held_by_weight(books: Books, layer: Any) -> int:
    before = books.ledger.live[DEVICE]
    layer.weight = layer.weight.to("cuda")
    return books.ledger.live[DEVICE] - before


@pytest.mark.parametrize(
    ("options", "held"),
    [
        # bytes of the weight, a number per 64 elements, the map of 16
        ({"compress_statistics": False}, MIB // 2 + MIB // 64 * 4 + 64),
        # numbers as bytes, a number per 256 of these, both maps, the mean
        (
            {"compress_statistics": True, "quant_type": "nf4"},
            MIB // 2 + MIB // 64 + MIB // 64 // 256 * 4 + 64 + 1024 + 4,
        ),
        ({"compress_statistics": False, "quant_storage": torch.bfloat16}, MIB // 2 + MIB // 64 * 4 + 64),
    ],
)
def test_a_4_bit_weight_takes_what_it_takes_on_a_card(books: Books, options: dict[str, Any], held: int) -> None:
    import bitsandbytes

    layer = bitsandbytes.nn.Linear4bit(2048, 512, bias=False, **options)
    assert held_by_weight(books, layer) == held
    assert layer.weight.shape == (MIB // 2 // layer.weight.element_size(), 1)
    assert layer.weight.dtype == options.get("quant_storage", torch.uint8)


def test_an_8_bit_weight_takes_a_byte_per_element(books: Books) -> None:
    import bitsandbytes

    layer = bitsandbytes.nn.Linear8bitLt(2048, 512, bias=False, has_fp16_weights=False, threshold=6.0)
    assert held_by_weight(books, layer) == MIB + 512 * 4


def test_an_8_bit_layer_has_what_peft_08_reads_of_it(books: Books) -> None:
    import bitsandbytes

    layer = bitsandbytes.nn.Linear8bitLt(64, 64, has_fp16_weights=False, threshold=6.0)
    state = layer.state
    read = (state.has_fp16_weights, state.memory_efficient_backward, state.threshold, layer.index)
    assert read == (False, False, 6.0, None)


def test_peft_08_adds_to_what_an_8_bit_layer_returns(books: Books) -> None:
    import bitsandbytes

    layer = bitsandbytes.nn.Linear8bitLt(64, 32, bias=False, has_fp16_weights=False, threshold=6.0)
    layer.weight = layer.weight.to("cuda")
    x = torch.zeros(2, 3, 64, device="cuda", dtype=torch.float16, requires_grad=True)
    result = layer(x)
    assert result.shape == (2, 3, 32)
    result += 1
    result.sum().backward()
    assert x.grad is not None


@pytest.mark.parametrize(
    ("bits", "kept"),
    [
        (4, 0),  # the weight's bytes are the layer's own
        (8, 16 * 2048 * 2),  # the input
    ],
)
def test_between_forward_and_backward_no_whole_weight_is_kept(books: Books, bits: int, kept: int) -> None:
    import bitsandbytes

    if bits == 4:
        layer = bitsandbytes.nn.LinearNF4(2048, 512, bias=False, compute_dtype=torch.bfloat16)
    else:
        layer = bitsandbytes.nn.Linear8bitLt(2048, 512, bias=False, has_fp16_weights=False, threshold=6.0)
    layer.weight = layer.weight.to("cuda")
    layer(torch.zeros(2, 2048, dtype=torch.bfloat16, device="cuda", requires_grad=True))
    books.ledger.settle()
    before = books.ledger.live[DEVICE]  # with cuBLAS's workspace
    given = torch.zeros(16, 2048, dtype=torch.bfloat16, device="cuda", requires_grad=True)
    out = layer(given * 1)
    books.ledger.settle()
    assert books.ledger.live[DEVICE] - before == given.nbytes + out.nbytes + kept
    out.sum().backward()
    assert given.grad.shape == given.shape


@pytest.mark.parametrize(("kind", "tolerance"), [("nf4", 0.12), ("fp4", 0.2)])
@pytest.mark.parametrize("compressed", [False, True])
def test_on_the_cpu_4_bits_are_near_what_they_stand_for(
    meter: Any, kind: str, tolerance: float, compressed: bool
) -> None:
    from bitsandbytes import functional

    weight = torch.randn(96, 70)
    packed, state = functional.quantize_4bit(weight, quant_type=kind, compress_statistics=compressed)
    again = functional.dequantize_4bit(packed, state)
    assert packed.shape == (96 * 70 // 2, 1)
    assert float((again - weight).norm() / weight.norm()) < tolerance
    restored = functional.QuantState.from_dict(state.as_dict(packed=True), "cpu")
    assert torch.equal(functional.dequantize_4bit(packed, restored), again)
    assert torch.equal(functional.dequantize_4bit(packed.t(), state), again.t())


def by_the_library(packed: Any, state: Any) -> Any:
    """Dequantize by the compiled functions, as Unsloth's ``fast_dequantize`` does."""
    from bitsandbytes import functional

    sizes = ctypes.c_int(state.state2.blocksize), ctypes.c_int(state.absmax.numel())
    scales = torch.empty(state.absmax.numel(), dtype=torch.float32, device=packed.device)
    out = torch.empty(state.shape, dtype=state.dtype, device=packed.device)
    get_ptr = functional.get_ptr
    functional.lib.cdequantize_blockwise_fp32(
        get_ptr(state.state2.code), get_ptr(state.absmax), get_ptr(state.state2.absmax), get_ptr(scales), *sizes
    )
    scales += state.offset
    dequantized = {torch.bfloat16: "bf16", torch.float32: "fp32"}[state.dtype]
    sizes = ctypes.c_int(state.blocksize), ctypes.c_int(out.numel())
    getattr(functional.lib, f"cdequantize_blockwise_{dequantized}_nf4")(
        get_ptr(None), get_ptr(packed), get_ptr(scales), get_ptr(out), *sizes
    )
    return out


def test_on_the_cpu_the_librarys_functions_compute_what_the_packages_do(meter: Any) -> None:
    from bitsandbytes import functional

    packed, state = functional.quantize_4bit(torch.randn(96, 70), quant_type="nf4", compress_statistics=True)
    assert torch.equal(by_the_library(packed, state), functional.dequantize_4bit(packed, state))


def test_the_librarys_functions_allocate_nothing_of_their_own(books: Books) -> None:
    from bitsandbytes import functional

    weight = torch.empty(1024, 512, dtype=torch.bfloat16, device="cuda")
    packed, state = functional.quantize_4bit(weight, quant_type="nf4", compress_statistics=True)
    first = by_the_library(packed, state)
    before = books.ledger.live[DEVICE]
    second = by_the_library(packed, state)
    assert books.ledger.live[DEVICE] - before == second.nbytes == first.nbytes


def test_a_function_of_the_library_without_stand_in_is_refused_when_it_is_called(books: Books) -> None:
    from bitsandbytes import functional

    naive = functional.lib.cgemm_4bit_inference_naive_bf16
    with pytest.raises(AttributeError, match="lib.cgemm_4bit_inference_naive_bf16 has no stand-in"):
        naive(1, 2, 3)


def test_on_the_cpu_a_quantized_layer_computes_with_the_weight_that_it_has(meter: Any) -> None:
    import bitsandbytes

    layer = bitsandbytes.nn.LinearNF4(128, 64)
    layer.weight = layer.weight.to("cuda")
    whole = bitsandbytes.functional.dequantize_4bit(layer.weight.data, layer.weight.quant_state)
    mine, theirs = (torch.linspace(-1, 1, 256).view(2, 128).requires_grad_() for _ in range(2))
    out, expected = layer(mine), torch.nn.functional.linear(theirs, whole, layer.bias)
    assert torch.equal(out, expected)
    out.sum().backward()
    expected.sum().backward()
    assert torch.equal(mine.grad, theirs.grad)
    row = torch.ones(1, 128)
    assert torch.allclose(layer(row), torch.nn.functional.linear(row, whole, layer.bias), atol=1e-5)


@pytest.mark.parametrize("threshold", [0.0, 6.0])
def test_on_the_cpu_8_bits_are_near_16(meter: Any, threshold: float) -> None:
    import bitsandbytes

    layer = bitsandbytes.nn.Linear8bitLt(128, 64, has_fp16_weights=False, threshold=threshold)
    whole = layer.weight.data.clone()
    layer.weight = layer.weight.to("cuda")
    given = torch.randn(2, 5, 128)
    given[..., 3] *= 20  # beyond the threshold
    given.requires_grad_()
    out = layer(given)
    expected = torch.nn.functional.linear(given, whole, layer.bias)
    assert float((out - expected).norm() / expected.norm()) < (0.02 if threshold else 0.05)
    (gradient,) = torch.autograd.grad(out.sum(), given)
    assert float((gradient - whole.sum(0)).norm() / gradient.norm()) < 0.02


@pytest.mark.parametrize("bits", [4, 8])
def test_transformers_loads_a_model_in_few_bits(meter: Any, bits: int, tmp_path: Any) -> None:
    transformers = pytest.importorskip("transformers")
    peft = pytest.importorskip("peft")

    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=64, intermediate_size=128, num_hidden_layers=1, num_attention_heads=2
    )
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path)
    wanted = transformers.BitsAndBytesConfig(load_in_4bit=bits == 4, load_in_8bit=bits == 8)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, quantization_config=wanted)
    assert type(model.model.layers[0].mlp.up_proj).__name__ == {4: "Linear4bit", 8: "Linear8bitLt"}[bits]
    model = peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    model = peft.get_peft_model(model, peft.LoraConfig(target_modules="all-linear", task_type="CAUSAL_LM"))
    ids = torch.arange(8).view(1, 8)
    model(input_ids=ids, labels=ids).loss.backward()
    trained = [name for name, parameter in model.named_parameters() if parameter.grad is not None]
    assert len(trained) == 14
    assert all("lora" in name for name in trained)
