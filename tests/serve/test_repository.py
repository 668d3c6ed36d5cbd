"""The folder of models, where something in it is odd: links in a circle, files that vanish."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from edutorch.serve.errors import RequestError
from edutorch.serve.metrics import Metrics
from edutorch.serve.repository import Repository
from edutorch.serve.settings import Settings
from tests.serve.faulty_models import BROKEN, NOT
from tests.serve.running import write_handler


@pytest.fixture
def repository(tmp_path) -> Repository:
    write_handler(tmp_path, "not", NOT)
    trusted = tuple(tmp_path.rglob("handler.py"))
    return Repository(Settings(tmp_path, trusted=trusted), Metrics())


def started(repository: Repository, scenario=None) -> None:
    """Start a repository, run a scenario with it, and close it."""

    async def main() -> None:
        await repository.start()
        if scenario is not None:
            await scenario()
        await repository.close()

    asyncio.run(main())


def error_of(repository: Repository, name: str, version: str | None = None) -> tuple[int, str]:
    with pytest.raises(RequestError) as caught:
        repository.find(name, version)
    return caught.value.status, caught.value.message


def test_links_in_a_circle_are_no_models(repository, tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    (tmp_path / "not" / "2").symlink_to(tmp_path / "not" / "2")
    started(repository)
    assert list(repository.models) == ["not"] and repository.is_ready()
    assert error_of(repository, "a")[0] == 404


def test_a_model_that_is_being_loaded_says_so(repository):
    from edutorch.serve.repository import Model

    repository.models["late"] = Model("late", required=True)
    assert error_of(repository, "late") == (503, "model 'late' is not loaded: it is being loaded")
    started(repository, lambda: repository.update(repository.models["late"]))
    assert error_of(repository, "late")[1] == "model 'late' is not loaded: it has no version"


def test_a_folder_that_cannot_be_read_ends_nothing(repository, monkeypatch):
    def fail(name: str) -> None:
        raise FileNotFoundError("gone")

    async def load() -> None:
        with pytest.raises(RequestError, match="the folder of 'not' cannot be read: gone"):
            await repository.load("not")

    monkeypatch.setattr(repository, "scan_versions", fail)
    started(repository, load)
    assert repository.started and not repository.is_ready()


def test_a_new_version_that_fails_leaves_the_default_where_it_is(repository, tmp_path):
    async def add() -> None:
        handler = write_handler(tmp_path, "not", BROKEN, version=2) / "handler.py"
        repository.trusted.texts[handler.resolve()] = handler.read_bytes()
        await repository.look_again()
        assert repository.find("not").number == 1  # it is loaded at the second look
        await repository.look_again()

    started(repository, add)
    assert repository.find("not").number == 1
    assert "the warm-up failed" in error_of(repository, "not", "2")[1]
    assert error_of(repository, "not", "3") == (404, "model 'not' has no version 3; it has 1")


def test_the_root_may_be_a_link(tmp_path: Path):
    write_handler(tmp_path / "real", "not", NOT)
    (tmp_path / "models").symlink_to(tmp_path / "real")
    trusted = tuple((tmp_path / "models").rglob("handler.py"))
    repository = Repository(Settings(tmp_path / "models", trusted=trusted), Metrics())
    started(repository)
    assert repository.is_ready()
