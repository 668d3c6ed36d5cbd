"""`edutorch distributed manifest`: what it writes is valid, runs, and is in docs/deploy/."""

from __future__ import annotations

import copy
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from edutorch.__main__ import main
from edutorch.cli.distributed import KINDS
from edutorch.distributed.deploy import MANIFESTS, TrainingJob, write_manifest
from edutorch.distributed.run.options import parse
from edutorch.errors import InvalidValueError
from tests.distributed.manifest_check import problems

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "deploy"
VALIDATORS = ("kubernetes_validate", "kubeflow_trainer_api", "kubeflow.training")


def absent(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is None
    except ModuleNotFoundError:  # the package around it
        return True


validated = pytest.mark.skipif(
    any(map(absent, VALIDATORS)),
    reason="manifests are not validated: pip install kubernetes-validate kubeflow-trainer-api "
    "kubeflow-training",
)


def commands() -> list[list[str]]:
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    block = re.search(r"<!-- commands -->\n```sh\n(.*?)```", text, re.DOTALL)
    return [shlex.split(line)[3:] for line in block[1].splitlines()]


def documents(format: str, **settings: Any) -> list[dict[str, Any]]:
    training = TrainingJob(("train.py", "--lr", "0.1"), **{"nodes": 3, "processes": 2, **settings})
    return list(yaml.safe_load_all(MANIFESTS[format](training)))


# The examples ------------------------------------------------------------------------


def test_the_examples_are_what_the_commands_write(tmp_path, capsys):
    for words in commands():
        assert (
            main(
                [*words[: words.index("-o")], "-o", str(tmp_path), *words[words.index("-o") + 2 :]]
            )
            == 0
        )
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    secrets = {name: written.pop(name) for name in list(written) if "rendezvous" in name}
    assert sorted(secrets) == [
        "edutorch-rendezvous.yaml", "pytorch-training-rendezvous.yaml", "train-rendezvous.yaml",
    ]  # fmt: skip
    shown = [path for path in EXAMPLES.iterdir() if path.suffix in (".yaml", ".sbatch")]
    examples = {path.name: path.read_text() for path in shown if "rendezvous" not in path.name}
    assert written == examples
    assert {word for words in commands() for word in words if word in KINDS} == set(MANIFESTS)


def test_the_seeds_pytorchjob():
    """One master and three workers, a GPU for each, as the customer's description has it."""
    job = yaml.safe_load((EXAMPLES / "pytorch-training-pytorchjob.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v1", "PyTorchJob")
    assert job["metadata"] == {"name": "pytorch-training"}
    roles = job["spec"]["pytorchReplicaSpecs"]
    assert {role: replica["replicas"] for role, replica in roles.items()} == {
        "Master": 1,
        "Worker": 3,
    }
    for replica in roles.values():
        (container,) = replica["template"]["spec"]["containers"]
        assert container["name"] == "pytorch"
        assert container["resources"]["limits"] == {"nvidia.com/gpu": "1"}


# Valid, and refused ------------------------------------------------------------------


@validated
@pytest.mark.parametrize("gpus", [0, 2])
@pytest.mark.parametrize("format", [format for format in KINDS if format != "sbatch"])
def test_every_manifest_is_valid(format, gpus, tmp_path):
    training = TrainingJob(("train.py",), nodes=2, gpus=gpus)
    for path in write_manifest(format, training, tmp_path):
        for document in yaml.safe_load_all(path.read_text()):
            assert problems(document) == []


@validated
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_is_valid(path):
    assert [line for text in yaml.safe_load_all(path.read_text()) for line in problems(text)] == []


POD = "spec.template.spec"
MASTER = "spec.pytorchReplicaSpecs.Master.template.spec"
NODE = "spec.template.spec.replicatedJobs.0.template.spec.template.spec"
GONE = object()
FAULTS = [
    ("job", "spec.completionMod", "Indexed", "spec: Additional .*'completionMod'"),
    ("job", "spec.completions", "three", "spec.completions: 'three' is not"),
    ("job", f"{POD}.containers.0.image", GONE, f"{POD}.containers.0.image: there is none"),
    ("job", f"{POD}.containers.0.name", GONE, f"{POD}.containers.0: 'name' is a required"),
    ("job", f"{POD}.containers.0.comand", ["x"], f"{POD}.containers.0: Additional .*'comand'"),
    ("job", f"{POD}.containers.0.env.0.value", 1, f"{POD}.containers.0.env.0.value: 1 is not"),
    ("pytorchjob", "spec.pytorchReplicaSpec", {}, "spec.pytorchReplicaSpec: no such field"),
    ("pytorchjob", "spec.pytorchReplicaSpecs.Master.replicas", "1", "spec.*Master.replicas: '1'"),
    ("pytorchjob", f"{MASTER}.containers.0.image", GONE, f"{MASTER}.containers.0.image: there"),
    ("pytorchjob", f"{MASTER}.volumes.0.secrets", {}, f"{MASTER}.volumes.0: Additional"),
    ("trainjob", "spec.trainer.numNode", 2, "spec.trainer.numNode: no such field"),
    ("trainjob", "spec.trainer.numNodes", "2", "spec.trainer.numNodes: Input should be"),
    ("trainjob", "spec.runtimeRef", GONE, "spec.runtimeRef: Field required"),
    ("runtime-torch", "spec.mlPolicy.torsh", {}, "spec.mlPolicy.torsh: no such field"),
    ("runtime-torch", f"{NODE}.containers.0.image", GONE, f"{NODE}.containers.0.image: there is"),
    ("runtime-mpi", "spec.mlPolicy.mpi.runLauncherAsNode", "yes", "spec.*runLauncherAsNode: Input"),
    ("runtime-mpi", f"{NODE}.containers.0.command", "sshd", f"{NODE}.containers.0.command: "),
    ("runtime-mpi", "kind", "ClusterTrainRuntime", "kind: 'ClusterTrainRuntime' is none"),
]  # fmt: skip


@validated
@pytest.mark.parametrize(
    ("format", "path", "value", "message"), FAULTS, ids=lambda value: str(value)[:40]
)
def test_a_mutated_manifest_is_refused_with_the_path(format, path, value, message):
    document = copy.deepcopy(documents(format)[-1])
    assert problems(document) == []
    *inner, last = path.split(".")
    place: Any = document
    for key in inner:
        place = place[int(key) if key.isdigit() else key]
    if value is GONE:
        del place[last]
    else:
        place[last] = value
    lines = problems(document)
    assert any(re.match(message, line) for line in lines), lines


# What the commands in them mean to our launcher --------------------------------------


def launcher_options(command: list[str], monkeypatch, **variables: str):
    """Return what the launcher reads, with variables as Kubernetes puts them in."""
    assert command[:3] == ["python", "-m", "edutorch.distributed.run"]
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    words = [re.sub(r"(?<!\$)\$\((\w+)\)", lambda m: variables[m[1]], word) for word in command[3:]]
    return parse([word.replace("$$", "$") for word in words])


def container_of(document: dict[str, Any]) -> dict[str, Any]:
    return document["spec"]["template"]["spec"]["containers"][0]


def test_the_launcher_reads_a_job(monkeypatch):
    service, job = documents("job")
    container = container_of(job)
    variables = {v["name"]: v.get("value", "") for v in container["env"]} | {"NODE_RANK": "2"}
    options = launcher_options(container["command"], monkeypatch, **variables)
    assert (options.nodes, options.processes, options.node_rank) == ((3, 3), 2, 2)
    name = job["spec"]["template"]["spec"]["subdomain"]
    assert options.master == (f"train-0.{name}", 29500) and service["metadata"]["name"] == name
    assert options.program == ("train.py", "--lr", "0.1")
    mount = container["volumeMounts"][0]["mountPath"]
    assert options.rendezvous["secret_file"] == f"{mount}/secret"


def test_the_launcher_reads_a_pytorchjob(monkeypatch):
    (job,) = documents("pytorchjob")
    worker = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
    variables = {"RANK": "2", "MASTER_ADDR": "train-master-0", "MASTER_PORT": "23456"}
    options = launcher_options(worker["command"], monkeypatch, **variables)
    assert (options.nodes, options.node_rank) == ((3, 3), 2)
    assert options.master == ("train-master-0", 23456)


def test_the_launcher_reads_a_trainjob(monkeypatch):
    """The policy `torch: {}` says everything by PET_…, and the runtime names the secret."""
    (job,), (runtime,) = documents("trainjob"), documents("runtime-torch")
    pod = runtime["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    variables = {v["name"]: v["value"] for v in pod["spec"]["containers"][0]["env"]}
    variables |= {
        "PET_NNODES": "3", "PET_NPROC_PER_NODE": "2", "PET_NODE_RANK": "1",
        "PET_MASTER_ADDR": "train-node-0-0.train", "PET_MASTER_PORT": "29500",
    }  # fmt: skip
    options = launcher_options(job["spec"]["trainer"]["command"], monkeypatch, **variables)
    assert (options.nodes, options.processes, options.node_rank) == ((3, 3), 2, 1)
    assert options.rendezvous["secret_file"] == "/run/rendezvous/secret"
    assert runtime["metadata"]["name"] == job["spec"]["runtimeRef"]["name"]


def test_words_of_the_program_arrive_as_they_are(monkeypatch):
    job = TrainingJob(("train.py", "$(HOME)", 'a "b"', "ü: #", "{x}", "5"))
    document = list(yaml.safe_load_all(MANIFESTS["job"](job)))[1]
    options = launcher_options(container_of(document)["command"], monkeypatch, NODE_RANK="0")
    assert options.program == job.program


def test_secrets_differ_and_are_kept(tmp_path):
    training = TrainingJob(("train.py",))
    (_, path), (_, other) = (write_manifest("job", training, tmp_path / name) for name in "ab")
    assert path.read_text() != other.read_text()
    secret = yaml.safe_load(path.read_text())
    assert re.fullmatch("[0-9a-f]{64}", secret["stringData"]["secret"])
    assert [file.name for file in write_manifest("job", training, tmp_path / "a")] == [
        "train-job.yaml"
    ]


# Slurm -------------------------------------------------------------------------------

SRUN = """#!/bin/bash
shift
SLURM_NODEID=${NODE-0} exec "$@"
"""


def run_batch(folder: Path, program: str, python: str, **variables: str):
    """Run the script of a job, with stand-ins for Slurm's programs."""
    tools = folder / "bin"
    tools.mkdir()
    for name, text in {
        "srun": SRUN, "scontrol": "#!/bin/bash\necho node7\necho node8\n", "python": python,
    }.items():  # fmt: skip
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    (script,) = write_manifest("sbatch", TrainingJob((program,), nodes=2, processes=2), folder)
    environment = {
        **os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "SLURM_JOB_ID": "4711",
        "SLURM_JOB_NODELIST": "node[7-8]", "SLURM_JOB_NUM_NODES": "2", "PYTHONPATH": str(ROOT),
        "EDUTORCH_TEST_PYTHON": sys.executable, **variables,
    }  # fmt: skip
    return subprocess.run(
        ["bash", str(script)],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )


TELLS = """#!/bin/bash
[ "$1" = -c ] && exec "$EDUTORCH_TEST_PYTHON" "$@"
stat -c %a "$PET_RDZV_SECRET_FILE"
env | grep -E '^(PET|PRTE)_' | sort
echo "$@"
"""


def test_a_batch_script_says_everything_to_the_launcher(tmp_path):
    done = run_batch(tmp_path, "train.py", TELLS, NODE="1")
    assert done.returncode == 0, done.stderr
    mode, *variables, words = done.stdout.splitlines()
    assert mode == "600"
    told = dict(line.split("=", 1) for line in variables)
    assert not Path(told.pop("PET_RDZV_SECRET_FILE")).exists()  # it is gone with the job
    assert told == {
        "PET_MASTER_ADDR": "node7", "PET_MASTER_PORT": "24711", "PET_NNODES": "2",
        "PET_NODE_RANK": "1", "PET_NPROC_PER_NODE": "2", "PRTE_MCA_plm": "ssh",
        "PRTE_MCA_ras": "^slurm",
    }  # fmt: skip
    assert words == "-m edutorch.distributed.run train.py"


PROGRAM = """
import edutorch as torch, edutorch.distributed as dist
dist.init_process_group("gloo")
x = torch.tensor(float(dist.get_rank() + 1))
dist.all_reduce(x)
print("sum", x.item(), "of", dist.get_world_size(), flush=True)
"""


def test_a_batch_script_runs(tmp_path):
    """On one node; the variables of Slurm must not lead mpirun to its own ways."""
    (tmp_path / "train.py").write_text(PROGRAM)
    done = run_batch(
        tmp_path, "train.py", '#!/bin/bash\nexec "$EDUTORCH_TEST_PYTHON" "$@"\n',
        SLURM_JOB_NUM_NODES="1", SLURM_NTASKS="1", SLURM_PROCID="0", SLURM_NODELIST="node7",
        SLURM_TASKS_PER_NODE="1", SLURM_JOBID="4711",
    )  # fmt: skip
    assert done.stdout.splitlines() == ["sum 3.0 of 2"] * 2, done.stdout + done.stderr


# Bad input ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "settings", "message"),
    [
        ((), {}, "there is no program to run"),
        (("-m",), {}, "there is no program to run"),
        (("--epochs", "3"), {}, "there is no program to run"),
        (("train.py",), {"nodes": 0}, "--nodes is at least 1, not 0"),
        (("train.py",), {"gpus": -1}, "--gpus is at least 0, not -1"),
        (("train.py",), {"image": ""}, "--image is the name of an image, not ''"),
        (("train.py",), {"image": "a\nb: c"}, "--image is the name of an image"),
        (("train.py",), {"runtime": "a\nb: c"}, "--runtime is a name in Kubernetes"),
    ],
)
def test_bad_input(program, settings, message):
    with pytest.raises(InvalidValueError, match=message):
        TrainingJob(program, **settings)


def test_the_command_line_knows_all_kinds(capsys):
    assert set(KINDS) == set(MANIFESTS)
    assert main(["distributed", "manifest", "--kind", "job"]) == 1
    assert "there is no program to run" in capsys.readouterr().err
