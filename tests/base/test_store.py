"""Entries on disk: what comes back, what is refused, and how a store stays within its size."""

import os
import threading
from pathlib import Path

import pytest

from slangrad.base.disk import store
from slangrad.base.disk.store import CacheWarning, Store, content_key


def entry_file(folder: Path) -> Path:
    (found,) = [each for each in folder.rglob("*") if each.is_file()]
    return found


def test_bytes_come_back_in_another_process(tmp_path: Path) -> None:
    key = content_key("a")
    Store(str(tmp_path / "s")).put(key, b"code")
    assert Store(str(tmp_path / "s")).get(key) == b"code"
    assert Store(str(tmp_path / "s")).get(content_key("b")) is None


def test_parts_of_a_key_do_not_run_together() -> None:
    keys = [
        content_key("ab", "c"),
        content_key("a", "bc"),
        content_key(("a", "b"), "c"),
        content_key("a", ("b", "c")),
        content_key(b"ab", "c"),
        content_key(1),
        content_key("1"),
        content_key(True),
        content_key(None),
    ]
    assert len(set(keys)) == len(keys)
    assert content_key("ab", (1, None)) == content_key("ab", (1, None))


def test_the_folder_belongs_to_its_user_alone(tmp_path: Path) -> None:
    made = Store(str(tmp_path / "deep" / "s"))
    made.put(content_key("a"), b"code")
    assert (tmp_path / "deep" / "s").stat().st_mode & 0o777 == 0o700
    assert Path(made.folder).stat().st_mode & 0o777 == 0o700
    assert entry_file(tmp_path).stat().st_mode & 0o777 == 0o600


def test_a_folder_open_to_others_is_not_used(tmp_path: Path) -> None:
    key = content_key("a")
    Store(str(tmp_path)).put(key, b"code")
    (tmp_path / "entries").chmod(0o770)
    opened = Store(str(tmp_path))
    with pytest.warns(CacheWarning, match=f"open to other users. Close it: chmod 700 {tmp_path}/entries"):
        assert "open to other users" in opened.problem
    assert opened.get(key) is None
    assert opened.usage().entries == 0


def test_a_folder_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store(str(tmp_path)).put(content_key("a"), b"code")
    monkeypatch.setattr(store, "_own_user", lambda: os.geteuid() + 1)
    foreign = Store(str(tmp_path))
    with pytest.warns(CacheWarning, match="belongs to another user. Choose a folder that only you"):
        assert "belongs to another user" in foreign.problem
    assert foreign.get(content_key("a")) is None


def test_an_entry_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Store(str(tmp_path))
    mine.put(content_key("a"), b"code")
    assert mine.problem == ""
    monkeypatch.setattr(store, "_own_user", lambda: os.geteuid() + 1)
    assert mine.get(content_key("a")) is None


def test_an_entry_that_others_may_write_is_not_used(tmp_path: Path) -> None:
    mine = Store(str(tmp_path))
    mine.put(content_key("a"), b"code")
    entry_file(tmp_path).chmod(0o620)
    assert mine.get(content_key("a")) is None


def test_a_link_in_place_of_an_entry_is_not_followed(tmp_path: Path) -> None:
    mine = Store(str(tmp_path / "s"))
    mine.put(content_key("a"), b"code")
    file = entry_file(tmp_path / "s")
    os.rename(file, tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert mine.get(content_key("a")) is None


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "longer", "text", "header"])
def test_a_damaged_entry_is_not_there_and_is_replaced(tmp_path: Path, damage: str) -> None:
    mine = Store(str(tmp_path))
    key = content_key("a")
    mine.put(key, b"code" * 100)
    file = entry_file(tmp_path)
    data = file.read_bytes()
    changed = {
        "cut": data[:-1],
        "flip": data[:200] + bytes([data[200] ^ 1]) + data[201:],
        "empty": b"",
        "longer": data + b"\0",
        "text": b"hello",
        "header": b"slangrad entry 0" + data[16:],
    }[damage]
    file.write_bytes(changed)
    assert mine.get(key) is None
    mine.put(key, b"code again")
    assert mine.get(key) == b"code again"


def test_an_entry_under_the_name_of_another_is_not_taken(tmp_path: Path) -> None:
    mine = Store(str(tmp_path))
    mine.put(content_key("a"), b"code of a")
    source = entry_file(tmp_path)
    key = content_key("b")
    target = Path(mine.folder) / key[:2] / key[2:]
    target.parent.mkdir(exist_ok=True)
    os.rename(source, target)
    assert mine.get(key) is None


def test_a_place_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    blocked = Store(str(tmp_path / "file" / "s"))
    blocked.put(content_key("a"), b"code")
    assert blocked.get(content_key("a")) is None
    assert str(tmp_path / "file") in blocked.problem
    assert blocked.clear() == 0


def test_what_is_there_is_read_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = Store(str(tmp_path))
    mine.put(content_key("a"), b"code")

    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(store, "_write", refuse)
    monkeypatch.setattr(os, "utime", refuse)
    mine.put(content_key("b"), b"more")
    assert mine.get(content_key("a")) == b"code"
    assert mine.get(content_key("b")) is None


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    mine = Store(str(tmp_path), limit=64 << 10)
    keys = [content_key(i) for i in range(40)]
    for age, key in enumerate(keys):
        mine.put(key, bytes(4000))
        file = Path(mine.folder) / key[:2] / key[2:]
        if file.exists():
            os.utime(file, (1e9 + age, 1e9 + age))
    assert mine.usage().size <= 64 << 10
    kept = [key for key in keys if mine.get(key) is not None]
    assert keys[-1] in kept and keys[0] not in kept


def test_use_keeps_an_entry(tmp_path: Path) -> None:
    mine = Store(str(tmp_path), limit=64 << 10)
    first = content_key("first")
    mine.put(first, bytes(4000))
    for i in range(40):
        key = content_key(i)
        mine.put(key, bytes(4000))
        file = Path(mine.folder) / key[:2] / key[2:]
        if file.exists():
            os.utime(file, (1e9 + i, 1e9 + i))
        assert mine.get(first) is not None, i


def test_an_entry_larger_than_a_quarter_is_not_kept(tmp_path: Path) -> None:
    mine = Store(str(tmp_path), limit=1000)
    mine.put(content_key("a"), bytes(300))
    assert mine.usage().entries == 0


def test_clear_removes_all_entries(tmp_path: Path) -> None:
    mine = Store(str(tmp_path))
    for i in range(5):
        mine.put(content_key(i), b"code")
    assert mine.usage().entries == 5
    assert mine.clear() == 5
    assert mine.usage().entries == 0
    assert mine.get(content_key(1)) is None


def test_many_threads_fill_it_at_once(tmp_path: Path) -> None:
    mine = Store(str(tmp_path))
    key = content_key("shared")

    def fill() -> None:
        for _ in range(50):
            mine.put(key, b"code" * 1000)
            assert mine.get(key) == b"code" * 1000

    threads = [threading.Thread(target=fill) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert mine.usage().entries == 1


def test_the_environment_names_the_folder(tmp_path: Path) -> None:
    assert Store.of_environment({"SLANGRAD_CACHE": str(tmp_path)}).folder == str(tmp_path / "entries")
    assert Store.of_environment({"XDG_CACHE_HOME": str(tmp_path)}).folder == str(
        tmp_path / "slangrad" / "entries"
    )
    assert Store.of_environment({"SLANGRAD_CACHE": "off"}).problem == "switched off (SLANGRAD_CACHE)"
    assert Store.of_environment({"SLANGRAD_CACHE": "0"}).get(content_key("a")) is None
    with pytest.raises(ValueError, match="SLANGRAD_CACHE_SIZE must be a whole number of MiB, not 'big'"):
        Store.of_environment({"SLANGRAD_CACHE_SIZE": "big"})


def as_another_user(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder belongs to another user than the one that runs the program."""
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
    else:
        monkeypatch.setattr("slangrad.base.disk.store._own_user", lambda: os.geteuid() + 1)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system knows no owners")
@pytest.mark.parametrize("above", ["parent", "parent/named"])
def test_a_folder_below_one_that_is_open_to_all_is_not_used(tmp_path: Path, above: str) -> None:
    """Another user could put a folder of the same name in its place."""
    named = tmp_path / "parent" / "named"
    named.mkdir(parents=True)
    (tmp_path / above).chmod(0o777)
    with pytest.warns(
        CacheWarning, match=f"not kept: {tmp_path / above} is open to all users. Choose"
    ) as told:
        store = Store(str(named))
        store.put("a" * 40, b"data")
        assert store.get("a" * 40) is None and store.problem
    assert len(told) == 1
    assert not any(named.iterdir())
    (tmp_path / above).chmod(0o1777)  # as /tmp: only owners rename what is in it
    assert Store(str(named)).problem == ""
    (tmp_path / above).chmod(0o775)
    assert Store(str(named)).problem == ""


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system knows no owners")
def test_a_folder_below_one_of_another_user_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = tmp_path / "parent" / "named"
    named.mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "parent")
    as_another_user(tmp_path / "parent", monkeypatch)
    for path in (named, tmp_path / "link" / "named"):
        with pytest.warns(CacheWarning, match="belongs to another user. Choose a folder that only you"):
            assert "belongs to another user" in Store(str(path)).problem
