"""Files are written whole or not at all, whatever happens meanwhile."""

import os
import stat
import threading

import pytest

from mercer.files import written_whole


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_a_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "a.csv"
    with written_whole(path) as new:
        assert new.suffix == ".csv" and new.parent == tmp_path
        new.write_text("half")
        assert not path.exists()
    assert path.read_text() == "half" and names(tmp_path) == ["a.csv"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_after_an_error_nothing_has_changed(tmp_path, error):
    path = tmp_path / "a.csv"
    path.write_text("old")
    with pytest.raises(error), written_whole(path) as new:
        new.write_text("half")
        raise error
    assert path.read_text() == "old" and names(tmp_path) == ["a.csv"]


def test_permissions_and_links_stay(tmp_path):
    path, link = tmp_path / "a.csv", tmp_path / "link.csv"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    with written_whole(link) as new:
        new.write_text("new")
    assert link.is_symlink() and path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_pipe_is_written_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    heard = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_text()))
    reader.start()
    with written_whole(pipe) as new:
        new.write_text("told")
    reader.join()
    assert heard == ["told"] and stat.S_ISFIFO(pipe.stat().st_mode)


def test_errors_name_the_file_that_was_asked_for(tmp_path):
    with pytest.raises(FileNotFoundError) as caught, written_whole(tmp_path / "no" / "a.csv") as new:
        new.write_text("")
    assert caught.value.filename == str(tmp_path / "no" / "a.csv")


def test_of_many_writers_one_is_last(tmp_path):
    path = tmp_path / "a.txt"

    def write(i):
        with written_whole(path) as new:
            new.write_text(str(i) * 100_000)

    threads = [threading.Thread(target=write, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    text = path.read_text()
    assert len(text) == 100_000 and len(set(text)) == 1 and names(tmp_path) == ["a.txt"]
