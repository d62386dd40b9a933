from __future__ import annotations

import time
from pathlib import Path

import pytest

from dsregress.probe.border.masking import masked_launch_line, without_secrets


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("WANDB_API_KEY=abc torchrun train.py", "WANDB_API_KEY=*** torchrun train.py"),
        ("HF_TOKEN='a b' train.py", "HF_TOKEN='***' train.py"),
        ("MY_KEY=a,b;c train.py", "MY_KEY=*** train.py"),
        ("train.py --api_key X --lr 1", "train.py --api_key *** --lr 1"),
        ("train.py --api-key=X", "train.py --api-key=***"),
        ("train.py --hub_token  Xyz", "train.py --hub_token  ***"),
        ("train.py --token Xyz", "train.py --token ***"),
        ("train.py --db.password 'a b'", "train.py --db.password '***'"),
        ('train.py --db_password "a b"c', "train.py --db_password ***"),
        ("train.py trainer.apiKey=X ++logger.api_key=Y", "train.py trainer.apiKey=*** ++logger.api_key=***"),
        ("train.py --client-secret X", "train.py --client-secret ***"),
        ("train.py --credentials X", "train.py --credentials ***"),
        ("train.py --use_wandb " + "0a" * 20, "train.py --use_wandb ***"),
        ("train.py --dash_key 0123456789abcdef0", "train.py --dash_key ***"),
        ("""train.py --c '{"api_key": "X", "lr": 1}'""", """train.py --c '{"api_key": "***", "lr": 1}'"""),
        ("train.py --x hf_" + "aB3" * 10, "train.py --x ***"),
        ("train.py sk-proj-0123456789abcdef", "train.py ***"),
        ("train.py --x=ghp_" + "a1" * 18, "train.py --x=***"),
        ("train.py AKIAIOSFODNN7EXAMPLE", "train.py ***"),
        ("train.py https://me:pw@host/x", "train.py https://***@host/x"),
        ("train.py git+https://" + "t0" * 15 + "@host/x", "train.py git+https://***@host/x"),
        ("train.py https://host/x?token=abc", "train.py https://host/x?token=***"),
        ("train.py --db_password 123456 --password=0042", "train.py --db_password *** --password=***"),
        ("PGPASSWORD=abc train.py", "PGPASSWORD=*** train.py"),
        ("train.py postgresql://me:p@ss:w@host/db", "train.py postgresql://***@host/db"),
        ("train.py https://a.blob.net/c?sv=1&sig=a%3D&se=2", "train.py https://a.blob.net/c?sv=1&sig=***&se=2"),
        ("train.py https://s3/k?X-Amz-Signature=0a", "train.py https://s3/k?X-Amz-Signature=***"),
        ("train.py https://s3/k?X-Amz-Security-Token=I%2F%2F", "train.py https://s3/k?X-Amz-Security-Token=***"),
        ("train.py --header 'Authorization: Bearer abc'", "train.py --header 'Authorization: Bearer ***'"),
        (r'''train.py --c "{\"hf_token\": \"abc\"}"''', r'''train.py --c "{\"hf_token\": \"***\"}"'''),
        ("train.py --data /home/me/data", "train.py --data ~/data"),
        ("A=/home/me/a:/Users/you/b train.py", "A=~/a:~/b train.py"),
        ("/root/venv/bin/python train.py --out=/root", "~/venv/bin/python train.py --out=~"),
        ("train.py file:///home/me/x", "train.py file://~/x"),
    ],
)
def test_secrets_and_homes_of_a_line_are_not_published(line: str, shown: str) -> None:
    assert masked_launch_line(line) == shown


@pytest.mark.parametrize(
    "line",
    [
        "TOKENIZERS_PARALLELISM=false PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True train.py",
        "train.py --max_tokens 512 --tokenizer_name Qwen/Qwen2.5-7B --num_tokens 1000000000",
        "train.py --pad_token '<|endoftext|>' --eos_token </s> --image_token <image>",
        "train.py --input_key question --label_key answer --chosen_key chosen --key_dim 64",
        "train.py --use_auth_token true --hub_token {token} --api_key EMPTY --token --lr 1",
        "train.py --revision 0123456789abcdef0123456789abcdef01234567 --use_wandb true",
        "train.py --model hf_olmo --other sk-learn ssh://git@github.com/a/b s3://bucket/key",
        "train.py --data /mnt/home/x /homes/x a/home/x ./root /rooted ~/x",
        "train.py --keyword value --monkey banana --num_secrets 3 --password_length 12 --password ''",
        "train.py --data https://host/x?signatures=2&design=a --authorization",
    ],
)
def test_what_tells_workloads_apart_stays(line: str) -> None:
    assert masked_launch_line(line) == line


def test_a_published_line_stays_as_it_is() -> None:
    once = masked_launch_line("API_KEY='x y' train.py --password z --data /home/me/x https://a:b@c/")
    assert masked_launch_line(once) == once


def test_the_home_of_who_runs_it_is_shortened_wherever_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/data/people/me")
    assert masked_launch_line("train.py /data/people/me/x /data/people/meg") == "train.py ~/x /data/people/meg"
    monkeypatch.setenv("HOME", "/")
    assert masked_launch_line("train.py /x") == "train.py /x"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "CalledProcessError: Command '['python', 'train.py', '--hf_token', 'abc', '--lr', '1']' returned 1",
            "CalledProcessError: Command '['python', 'train.py', '--hf_token', '***', '--lr', '1']' returned 1",
        ),
        ("{'Authorization': 'Bearer abc', 'x': 1}", "{'Authorization': 'Bearer ***', 'x': 1}"),
        ("authorization: Basic bWU6cHc=", "authorization: Basic ***"),
        ('    api_key = "abc"', '    api_key = "***"'),
    ],
)
def test_secrets_of_an_output_are_not_published(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


def test_a_message_keeps_its_words() -> None:
    text = "error: unrecognized arguments: --api_key X\nKeyError: 'token'\nthe key: value of it isn't there"
    assert without_secrets(text) == text.replace("--api_key X", "--api_key ***")


@pytest.mark.parametrize(
    "part", ["key", "-", "'", "key=", "sk-", "://", "--key ", "a_key:", "/home/", "eyJ", ":", "\\", "Authorization: "]
)
def test_a_long_text_takes_no_longer_than_its_length(part: str) -> None:
    begun = time.perf_counter()
    masked_launch_line(part * (100_000 // len(part)))
    assert time.perf_counter() - begun < 2
