"""Pretraining of a small GPT as Megatron-LM's functional tests do it (``gpt3_mcore_*``, ``--transformer-impl local``), with
megatron.core's own model, pipeline, data parallelism and optimizer."""

import argparse
import os
from functools import partial

import apex_kernels

apex_kernels.install()

import torch  # noqa: E402
from megatron.core import parallel_state, tensor_parallel  # noqa: E402
from megatron.core.distributed import (  # noqa: E402
    DistributedDataParallel,
    DistributedDataParallelConfig,
    finalize_model_grads,
)
from megatron.core.models.gpt import GPTModel  # noqa: E402
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec  # noqa: E402
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer  # noqa: E402
from megatron.core.pipeline_parallel import get_forward_backward_func  # noqa: E402
from megatron.core.transformer import TransformerConfig  # noqa: E402
from megatron.core.transformer.module import Float16Module  # noqa: E402

LENGTH, MICRO_BATCH, GLOBAL_BATCH, ITERATIONS = 1024, 4, 32, 3
TOKENS = 50257  # of GPT-2's tokenizer


def transformer(args) -> TransformerConfig:
    dtype = torch.float16 if args.fp16 else torch.bfloat16
    return TransformerConfig(
        num_layers=12,
        hidden_size=512,
        num_attention_heads=8,
        tensor_model_parallel_size=args.tp,
        pipeline_model_parallel_size=args.pp,
        fp16=args.fp16,
        bf16=not args.fp16,
        params_dtype=dtype,
        pipeline_dtype=dtype,
        apply_query_key_layer_scaling=True,
        deterministic_mode=True,
        gradient_accumulation_fusion=False,
        masked_softmax_fusion=not args.unfused,
        persist_layer_norm=not args.unfused,
        bias_activation_fusion=True,
        bias_dropout_fusion=True,
        batch_p2p_comm=True,
        async_tensor_model_parallel_allreduce=True,
    )


def loaded(config, args) -> DistributedDataParallel:
    padded = -(-TOKENS // (128 * args.tp)) * 128 * args.tp
    model = GPTModel(
        config,
        get_gpt_layer_local_spec(),
        padded,
        LENGTH,
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
        share_embeddings_and_output_weights=True,
    )
    for parameter in model.parameters():
        tensor_parallel.set_defaults_if_not_set_tensor_model_parallel_attributes(parameter)
    model = Float16Module(config, model.cuda(torch.cuda.current_device()))
    sharded = DistributedDataParallelConfig(
        grad_reduce_in_fp32=not args.fp16,
        check_for_nan_in_grad=True,
        use_distributed_optimizer=args.distributed_optimizer,
        overlap_grad_reduce=args.distributed_optimizer,
        overlap_param_gather=args.distributed_optimizer,
        bucket_size=40_000_000 if args.distributed_optimizer else None,
    )
    with torch.cuda.stream(torch.cuda.Stream()):
        return DistributedDataParallel(config, sharded, model)


def batches():
    """Yield micro-batches as the dataset's loader does, with the causal mask of each row."""
    mask = torch.ones(1, LENGTH, LENGTH).tril() < 0.5
    rows = torch.arange(LENGTH).repeat(MICRO_BATCH, 1)
    while True:
        yield {
            "tokens": rows,
            "labels": rows,
            "loss_mask": torch.ones(MICRO_BATCH, LENGTH),
            "attention_mask": mask.repeat(MICRO_BATCH, 1, 1, 1),
            "position_ids": rows,
        }


def on_tensor_parallel_ranks(iterator, args):
    """Return what a rank needs of a micro-batch; the first of a tensor parallel group reads it and sends it."""
    names = ["tokens", "labels", "loss_mask", "attention_mask", "position_ids"]
    first, last = parallel_state.is_pipeline_first_stage(), parallel_state.is_pipeline_last_stage()
    if not first and not last:
        return dict.fromkeys(names)
    unneeded = set() if args.pp == 1 else {"labels", "loss_mask"} if first else {"tokens", "position_ids"}
    batch = next(iterator)
    if parallel_state.get_tensor_model_parallel_rank() == 0:
        batch = {name: batch[name].cuda(non_blocking=True) for name in names}
    else:
        batch = {name: torch.empty_like(batch[name], device=torch.cuda.current_device()) for name in names}
    group = parallel_state.get_tensor_model_parallel_group()
    for name in names:
        if name in unneeded:
            batch[name] = None if parallel_state.get_tensor_model_parallel_rank() else batch[name]
        else:
            torch.distributed.broadcast(batch[name], parallel_state.get_tensor_model_parallel_src_rank(), group=group)
    return batch


def loss_of(mask, output):
    mask = mask.view(-1).float()
    loss = torch.sum(output.view(-1).float() * mask)
    tokens = mask.sum().clone().detach().to(torch.int)
    return loss, tokens, {"lm loss": torch.cat([loss.clone().detach().view(1), tokens.view(1)])}


def forward_step(iterator, model, args):
    batch = on_tensor_parallel_ranks(iterator, args)
    output = model(batch["tokens"], batch["position_ids"], batch["attention_mask"], labels=batch["labels"])
    return output, partial(loss_of, batch["loss_mask"])


def after_iteration():
    return torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tp", type=int, default=1)
    parser.add_argument("--pp", type=int, default=1)
    parser.add_argument("--distributed-optimizer", action="store_true")
    parser.add_argument("--fp16", action="store_true")
    parser.add_argument("--unfused", action="store_true", help="torch's layer norm, and no fused softmax")
    args = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl")
    parallel_state.initialize_model_parallel(args.tp, args.pp)
    tensor_parallel.model_parallel_cuda_manual_seed(1234)
    config = transformer(args)
    model = loaded(config, args)
    optimizer = get_megatron_optimizer(
        OptimizerConfig(
            optimizer="adam",
            lr=1.5e-4,
            min_lr=1e-5,
            weight_decay=1e-2,
            clip_grad=1.0,
            fp16=args.fp16,
            bf16=not args.fp16,
            params_dtype=config.params_dtype,
            use_distributed_optimizer=args.distributed_optimizer,
            overlap_param_gather=args.distributed_optimizer,
            log_num_zeros_in_grad=True,
        ),
        [model],
    )
    config.grad_scale_func = optimizer.scale_loss
    config.finalize_model_grads_func = finalize_model_grads
    if args.distributed_optimizer:
        config.no_sync_func = model.no_sync
        model.disable_forward_pre_hook(param_sync=False)
    model.train()
    iterator = batches()
    for iteration in range(ITERATIONS):
        model.zero_grad_buffer()
        optimizer.zero_grad()
        get_forward_backward_func()(
            forward_step_func=partial(forward_step, args=args),
            data_iterator=iterator,
            model=[model],
            num_microbatches=GLOBAL_BATCH // MICRO_BATCH // parallel_state.get_data_parallel_world_size(),
            seq_length=LENGTH,
            micro_batch_size=MICRO_BATCH,
            forward_only=False,
        )
        optimizer.step()
        if args.distributed_optimizer and not iteration:
            model.enable_forward_pre_hook()
        after_iteration()


if __name__ == "__main__":
    main()
