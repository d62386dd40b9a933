"""The requirements of a program's project, in each of the files that state them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsregress.run.project_requirements import declared_requirements, project_scripts


def stated(folder: Path) -> dict[str, str]:
    return {name: f"{one.requirement.specifier} {one.file}" for name, one in declared_requirements([folder]).items()}


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("requirements.txt", "trl>=0.9,<1  # of its time\n-e .\n--index-url https://x\ngit+https://x/y\nnot [ one\n"),
        ("requirements-train.txt", "trl<1,>=0.9 --hash=sha256:1\n"),
        ("requirements/train.txt", "trl<1,>=0.9\n"),
        ("requirements/train.in", "-c constraints.txt\ntrl<1,>=0.9\n"),
        ("pyproject.toml", "[project]\nname = 'own'\ndependencies = ['trl>=0.9,<1', 3]\n"),
        ("pyproject.toml", "[project]\nname = 'own'\n[project.optional-dependencies]\ntrain = ['trl>=0.9,<1']\n"),
        ("pyproject.toml", "[dependency-groups]\ntrain = ['trl>=0.9,<1', {include-group = 'own'}]\n"),
        ("pyproject.toml", "[tool.poetry.group.train.dependencies]\ntrl = '>=0.9,<1'\n"),
        ("setup.py", "from setuptools import setup\nsetup(install_requires=['trl>=0.9,<1', name])\n"),
        ("setup.py", "REQUIREMENTS = ['trl>=0.9,<1']\nsetup(install_requires=REQUIREMENTS)\n"),
        ("setup.py", "_deps = ['trl>=0.9,<1']\nsetup(install_requires=[deps['trl']])\n"),
        ("README.md", "Run `pip install 'trl>=0.9,<1'` first.\n"),
        ("get_started.md", "pip install 'trl>=0.9,<1'\n"),
        ("GettingStarted.md", "pip install 'trl>=0.9,<1'\n"),
        (
            "README.md",
            "$ pip3 install -U -i https://x -r more.txt \\\n  'trl>=0.9,<1' git+https://x/y && echo peft # ray\n",
        ),
        ("install.sh", "python -m pip install 'trl>=0.9,<1' -e .; pip install ./own\n"),
        ("setup.cfg", "[options]\ninstall_requires =\n  trl>=0.9,<1\n"),
        ("environment.yml", "dependencies:\n  - python\n  - pip:\n    - trl>=0.9,<1 # of its time\n"),
        ("requirements.yaml", "dependencies:\n  - python=3.9\n  - pip:\n    - trl>=0.9,<1\n"),
    ],
)
def test_a_range_is_read(tmp_path: Path, file: str, content: str) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(content)
    assert stated(tmp_path) == {"trl": f"<1,>=0.9 {file}"}


def test_an_extra_of_a_setup_that_a_readme_installs_is_required(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "training").mkdir()
    (tmp_path / "setup.py").write_text(
        "EXTRA_PACKAGES = {'dev': ['fvcore>=0.1', 'pandas'], 'notebooks': ['jupyter']}\n"
        "setup(name='own', extras_require=EXTRA_PACKAGES)\n"
    )
    (tmp_path / "training" / "README.md").write_text('Run `pip install -e ".[dev]"`.\n')
    found = declared_requirements([tmp_path / "training"])
    assert {name: one.is_optional for name, one in found.items()} == {"fvcore": False, "pandas": False, "jupyter": True}


def test_a_module_of_pythons_own_is_no_package(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("typing\ndataclasses==0.6\ntyping-extensions\n")
    assert [*stated(tmp_path)] == ["typing-extensions"]


@pytest.mark.parametrize(
    ("said", "spec"),
    [
        ("'^0.9.1'", "==0.9.*,>=0.9.1"),
        ("'^1.2'", "==1.*,>=1.2"),
        ("'~1.2.3'", "==1.2.*,>=1.2.3"),
        ("'~=1.2.3'", "~=1.2.3"),
        ("'0.9.1'", "==0.9.1"),
        ("{ version = '<2' }", "<2"),
        ("'*'", ""),
        ("[{ version = '1' }, { version = '2' }]", ""),
    ],
)
def test_poetrys_spelling_is_read(tmp_path: Path, said: str, spec: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.poetry.dependencies]\ntrl = {said}\n")
    assert stated(tmp_path) == {"trl": f"{spec} pyproject.toml"}


def test_condas_single_equals_sign_is_a_pin(tmp_path: Path) -> None:
    (tmp_path / "environment.yaml").write_text("dependencies:\n  - torch=2.4.1\n  - pip:\n      - peft==0.10.0\n")
    assert stated(tmp_path) == {"torch": "==2.4.1 environment.yaml", "peft": "==0.10.0 environment.yaml"}


@pytest.mark.parametrize(
    ("entry", "package", "spec"),
    [
        ("pytorch=2.2.2", "torch", "==2.2.2"),
        ("pytorch::pytorch=2.2.2=py3.10_cuda12.1_cudnn8.9.2_0", "torch", "==2.2.2"),
        ("transformers=4.40", "transformers", "==4.40.*"),
        ("transformers>=4.40", "transformers", ">=4.40"),
    ],
)
def test_conda_names_torch_otherwise_and_adds_a_build(tmp_path: Path, entry: str, package: str, spec: str) -> None:
    (tmp_path / "environment.yml").write_text(f"dependencies:\n  - {entry}\n  - pytorch-cuda=12.1\n")
    assert stated(tmp_path) == {package: f"{spec} environment.yml"}


def test_a_file_that_another_one_names_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("-r more/train.txt\n-r requirements.txt\n")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "train.txt").write_text("trl==0.9\n")
    assert stated(tmp_path) == {"trl": "==0.9 requirements.txt"}


def test_files_of_what_does_not_train_are_read_last(tmp_path: Path) -> None:
    (tmp_path / "requirements-eval.txt").write_text("trl==1.0\npandas==2\n")
    (tmp_path / "requirements-train.txt").write_text("trl==0.9\n")
    assert stated(tmp_path) == {"trl": "==0.9 requirements-train.txt", "pandas": "==2 requirements-eval.txt"}


def test_neither_constraints_nor_the_sources_of_pins_are_requirements(tmp_path: Path) -> None:
    folder = tmp_path / "requirements"
    folder.mkdir()
    for name, content in {"constraints.txt": "idna==3\n", "train.in": "trl\n", "train.txt": "trl==0.9\n"}.items():
        (folder / name).write_text(content)
    assert stated(tmp_path) == {"trl": "==0.9 requirements/train.txt"}


def test_files_of_requirements_come_before_what_a_readme_tells_one_to_install(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(
        "pip install torch==2.4.0+cu118 trl==0.9 numerize\nWe pip install nothing else.\n"
    )
    (tmp_path / "requirements.txt").write_text("trl==0.10\n")
    found = stated(tmp_path)
    assert {name: found[name] for name in ("trl", "numerize", "torch")} == {
        "trl": "==0.10 requirements.txt",
        "numerize": " README.md",
        "torch": " README.md",
    }


README = """# A model

It is based on [`timm==0.3.2`](https://example.com/timm), for which `a==b` is a fix. On CUDA 11.8 it trains.

## Dependencies

```shell
collie-lm
einops>=0.6
```

- Python 3.8
- [PyTorch](https://pytorch.org) >= 1.7.1
* `transformers` 4.28.1
- peft: see below
- CUDA 11.3

```shell
# with another set-up
- resnet 50.1
```

## Results

- resnet 50.1
```
# of the environment
accuracy
```
"""


def test_a_readme_states_pins_between_backquotes_and_the_lists_of_its_dependencies(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(README)
    found = {name: str(one.requirement.specifier) for name, one in declared_requirements([tmp_path]).items()}
    assert found == {"timm": "==0.3.2", "collie-lm": "", "einops": ">=0.6", "torch": "", "transformers": "==4.28.1"}


def test_a_lock_pins_what_nothing_else_limits(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'own'\ndependencies = ['trl', 'peft>=0.10']\n")
    names = {"trl": "0.9.6", "peft": "0.12.0", "idna": "3.0"}
    lock = "".join(f"[[package]]\nname = '{name}'\nversion = '{version}'\n" for name, version in names.items())
    (tmp_path / "uv.lock").write_text(lock)
    assert stated(tmp_path) == {"trl": "==0.9.6 uv.lock", "peft": ">=0.10 pyproject.toml"}


def test_the_nearest_folder_counts_up_to_that_of_the_repository(tmp_path: Path) -> None:
    script = tmp_path / "repository" / "examples" / "sft"
    script.mkdir(parents=True)
    (tmp_path / "requirements.txt").write_text("torch==1.0\n")
    (tmp_path / "repository" / "requirements.txt").write_text("trl==0.9\npeft==0.10\n")
    (script / "requirements.txt").write_text("trl==0.11\n")
    assert stated(script) == {"trl": "==0.11 requirements.txt"}
    (tmp_path / "repository" / ".git").mkdir()
    assert stated(script) == {"trl": "==0.11 requirements.txt", "peft": "==0.10 requirements.txt"}


def test_what_another_system_needs_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("trl; sys_platform == 'win32'\npeft; python_version >= '3'\n")
    assert stated(tmp_path) == {"peft": " requirements.txt"}


@pytest.mark.parametrize("file", ["requirements.txt", "pyproject.toml", "setup.py", "setup.cfg", "uv.lock"])
@pytest.mark.parametrize(
    "content", [b"\xff\xfe", b"[[[", b"[options\n", b"\0", b"package = 3\nproject = 3\ntool = 3\n"]
)
def test_a_damaged_file_says_nothing(tmp_path: Path, file: str, content: bytes) -> None:
    (tmp_path / file).write_bytes(content)
    assert all(one.file == "requirements.txt" for one in declared_requirements([tmp_path]).values())
    assert project_scripts(tmp_path) == {}


def test_a_pin_is_one_release(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("a==1.0\nb==1.*\nc>=1\nd===2.0\n")
    pins = {name: one.pin for name, one in declared_requirements([tmp_path]).items()}
    assert pins == {"a": "1.0", "b": "", "c": "", "d": "2.0"}


@pytest.mark.parametrize(
    ("file", "content"), [("pyproject.toml", "[project]\nname = 'Own_LLM'\n"), ("setup.py", "setup(name='own-llm')\n")]
)
def test_a_project_does_not_require_its_own_releases(tmp_path: Path, file: str, content: str) -> None:
    (tmp_path / "README.md").write_text("    pip install own-llm 'trl>=0.9,<1'\n")
    (tmp_path / file).write_text(content)
    assert stated(tmp_path) == {"trl": "<1,>=0.9 README.md"}
