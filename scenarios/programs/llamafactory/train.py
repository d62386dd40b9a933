"""LLaMA-Factory's ``src/train.py``: how several ranks are started with 0.7.1, whose command starts one process.

torchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen2.5-7B-Instruct ...
"""

from llamafactory.train.tuner import run_exp

if __name__ == "__main__":
    run_exp()
