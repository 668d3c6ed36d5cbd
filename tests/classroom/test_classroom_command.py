"""`python -m edutorch classroom`: a table of subcommands; folders are whole or not there."""

from __future__ import annotations

import pytest

from edutorch.__main__ import main
from edutorch.classroom.new_folder import NewFolderError, new_folder
from edutorch.cli.classroom import SUBCOMMANDS


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_each_subcommand_says_what_it_does(name, capsys):
    with pytest.raises(SystemExit) as end:
        main(["classroom", name, "--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: edutorch classroom {name}")
    assert SUBCOMMANDS[name].help in " ".join(text.split())


def test_all_subcommands_are_listed(capsys):
    with pytest.raises(SystemExit):
        main(["classroom", "--help"])
    text = capsys.readouterr().out
    assert all(f"  {name} " in text and one.help in text for name, one in SUBCOMMANDS.items())


def test_an_unknown_subcommand_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["classroom", "party"])
    assert "invalid choice: 'party'" in capsys.readouterr().err


def test_a_folder_is_whole_or_not_there(tmp_path):
    path = tmp_path / "deep" / "new"
    with new_folder("test", path) as folder:
        (folder / "a.txt").write_text("a")
        assert not path.exists()
    assert [file.name for file in path.iterdir()] == ["a.txt"]
    with pytest.raises(ZeroDivisionError), new_folder("test", tmp_path / "other") as folder:
        (folder / "a.txt").write_text(str(1 / 0))
    assert [file.name for file in tmp_path.iterdir()] == ["deep"]


def test_an_empty_folder_is_taken_and_a_file_is_not(tmp_path):
    with new_folder("test", tmp_path) as folder:
        (folder / "a.txt").write_text("a")
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]
    with (
        pytest.raises(NewFolderError, match=r"a\.txt' is a file"),
        new_folder("test", tmp_path / "a.txt"),
    ):
        pass


def test_what_the_system_refuses_is_one_sentence(tmp_path):
    with (
        pytest.raises(NewFolderError, match=r"b\.txt' cannot be written: No such file"),
        new_folder("test", tmp_path / "new") as folder,
    ):
        (folder / "none" / "b.txt").write_text("b")
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(NewFolderError, match="cannot be made: "),
        new_folder("test", tmp_path / "file" / "new"),
    ):
        pass
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
