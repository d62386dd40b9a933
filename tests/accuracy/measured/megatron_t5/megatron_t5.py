"""Pretraining of a small T5 as Megatron-LM's functional tests do it (``t5_mcore_*``, ``--transformer-impl local``), with
megatron.core's own model, data parallelism and optimizer."""

import argparse
import os
from copy import deepcopy
from functools import partial

import apex_kernels

apex_kernels.install()

import torch  # noqa: E402
from megatron.core import parallel_state, tensor_parallel  # noqa: E402
from megatron.core.datasets.t5_dataset import T5MaskedWordPieceDataset  # noqa: E402
from megatron.core.distributed import (  # noqa: E402
    DistributedDataParallel,
    DistributedDataParallelConfig,
    finalize_model_grads,
)
from megatron.core.models.T5 import T5Model  # noqa: E402
from megatron.core.models.T5.t5_spec import (  # noqa: E402
    get_t5_decoder_with_local_block_spec,
    get_t5_encoder_with_local_block_spec,
)
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer  # noqa: E402
from megatron.core.pipeline_parallel import get_forward_backward_func  # noqa: E402
from megatron.core.transformer import TransformerConfig  # noqa: E402
from megatron.core.transformer.module import Float16Module  # noqa: E402

ENCODED, DECODED, LAYERS = 512, 128, 12
MICRO_BATCH, GLOBAL_BATCH, ITERATIONS = 4, 32, 3
TOKENS = 29184  # of cased BERT and 100 sentinels, padded


def transformer(args) -> TransformerConfig:
    return TransformerConfig(
        num_layers=LAYERS,
        hidden_size=768,
        num_attention_heads=12,
        kv_channels=64,
        ffn_hidden_size=3072,
        tensor_model_parallel_size=args.tp,
        bf16=True,
        params_dtype=torch.bfloat16,
        pipeline_dtype=torch.bfloat16,
        init_method_std=0.015,
        deterministic_mode=True,
        calculate_per_token_loss=True,
        gradient_accumulation_fusion=False,
        masked_softmax_fusion=True,
        persist_layer_norm=True,
        bias_activation_fusion=True,
        bias_dropout_fusion=True,
    )


def loaded(config) -> DistributedDataParallel:
    model = T5Model(
        config=config,
        encoder_config=deepcopy(config),
        transformer_encoder_layer_spec=get_t5_encoder_with_local_block_spec(LAYERS),
        transformer_decoder_layer_spec=get_t5_decoder_with_local_block_spec(LAYERS),
        vocab_size=TOKENS,
        max_sequence_length=ENCODED,
        parallel_output=True,
        share_embeddings_and_output_weights=True,
        position_embedding_type="learned_absolute",
    )
    for parameter in model.parameters():
        tensor_parallel.set_defaults_if_not_set_tensor_model_parallel_attributes(parameter)
    model = Float16Module(config, model.cuda(torch.cuda.current_device()))
    replicated = DistributedDataParallelConfig(grad_reduce_in_fp32=True, check_for_nan_in_grad=True)
    with torch.cuda.stream(torch.cuda.Stream()):
        return DistributedDataParallel(config, replicated, model)


def batches():
    """Yield micro-batches as the dataset's loader does."""
    encoded, decoded = (torch.ones(MICRO_BATCH, length, dtype=torch.int64) for length in (ENCODED, DECODED))
    while True:
        yield {
            "text_enc": encoded * 5,
            "text_dec": decoded * 5,
            "labels": decoded * 5,
            "loss_mask": decoded,
            "enc_mask": encoded,
            "dec_mask": decoded,
        }


def loss_of(mask, output):
    mask = mask.view(-1).float()
    loss = torch.sum(output.view(-1).float() * mask)
    tokens = mask.sum().clone().detach().to(torch.int)
    return loss, tokens, {"lm loss": torch.cat([loss.clone().detach().view(1), tokens.view(1)])}


def on_tensor_parallel_ranks(read):
    """Return a micro-batch as ``tensor_parallel.broadcast_data`` sends it: in one tensor, of which each part is a view."""
    sent = torch.cat([part.view(-1) for part in read.values()]).cuda()
    source, group = (
        parallel_state.get_tensor_model_parallel_src_rank(),
        parallel_state.get_tensor_model_parallel_group(),
    )
    torch.distributed.broadcast(sent, source, group=group)
    parts = sent.split([part.numel() for part in read.values()])
    return {name: part.view_as(read[name]) for name, part in zip(read, parts, strict=True)}


def forward_step(iterator, model):
    batch = on_tensor_parallel_ranks(next(iterator))
    encoded, decoded, labels = (batch[name].long() for name in ("text_enc", "text_dec", "labels"))
    loss_mask = batch["loss_mask"].float()
    masks = T5MaskedWordPieceDataset.config_attention_mask(
        encoded, decoded, batch["enc_mask"] < 0.5, batch["dec_mask"] < 0.5, use_local=True
    )
    return model(encoded, decoded, *masks, lm_labels=labels), partial(loss_of, loss_mask)


def after_iteration():
    return torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tp", type=int, default=1)
    args = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl")
    parallel_state.initialize_model_parallel(args.tp)
    tensor_parallel.model_parallel_cuda_manual_seed(1234)
    config = transformer(args)
    model = loaded(config)
    optimizer = get_megatron_optimizer(
        OptimizerConfig(
            optimizer="adam",
            lr=1e-4,
            min_lr=1e-5,
            weight_decay=1e-2,
            clip_grad=1.0,
            bf16=True,
            params_dtype=torch.bfloat16,
            log_num_zeros_in_grad=True,
        ),
        [model],
    )
    config.grad_scale_func = optimizer.scale_loss
    config.finalize_model_grads_func = finalize_model_grads
    model.train()
    iterator = batches()
    for _ in range(ITERATIONS):
        model.zero_grad_buffer()
        optimizer.zero_grad()
        get_forward_backward_func()(
            forward_step_func=forward_step,
            data_iterator=iterator,
            model=[model],
            num_microbatches=GLOBAL_BATCH // MICRO_BATCH // parallel_state.get_data_parallel_world_size(),
            seq_length=ENCODED,
            micro_batch_size=MICRO_BATCH,
            decoder_seq_length=DECODED,
            forward_only=False,
        )
        optimizer.step()
        after_iteration()


if __name__ == "__main__":
    main()
