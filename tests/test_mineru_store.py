"""The model cache: found without network, downloaded whole or not at all, verified against a manifest of sums."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from typer.testing import CliRunner

from derender.cli import app
from derender.errors import ModelError
from derender.mineru import store

ID = "opendatalab/MinerU-Diffusion-V1-0320-2.5B"
FILES = {"config.json": b"{}", "model.safetensors": b"weights", "README.md": b"not needed"}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DERENDER_MODELS", str(tmp_path / "models"))
    return tmp_path / "models"


class Hub(ModuleType):
    """Stands in for huggingface_hub: publishes FILES, delivers `arrives`, knows whether it was asked."""

    def __init__(self) -> None:
        super().__init__("huggingface_hub")
        self.arrives = dict(FILES)
        self.asked: list[str] = []
        self.down = False
        self.HfApi = lambda: self

    def model_info(self, model: str, revision: str | None, files_metadata: bool) -> SimpleNamespace:
        self.asked.append(model)
        if self.down:
            raise ConnectionError("no route\nto the hub")
        siblings = [
            SimpleNamespace(
                rfilename=name,
                size=len(data),
                lfs=SimpleNamespace(sha256=hashlib.sha256(data).hexdigest()) if name.endswith("safetensors") else None,
            )
            for name, data in FILES.items()
        ]
        return SimpleNamespace(sha="c0ffee", siblings=siblings)

    def snapshot_download(self, model: str, **options: object) -> str:
        if options.get("local_files_only"):
            raise FileNotFoundError("not in the cache")
        self.asked.append(model)
        folder = Path(str(options["local_dir"]))
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in self.arrives.items():
            if any(Path(name).match(pattern) for pattern in options["allow_patterns"]):  # type: ignore[attr-defined]
                (folder / name).write_bytes(data)
        return str(folder)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Hub:
    made = Hub()
    monkeypatch.setitem(sys.modules, "huggingface_hub", made)
    return made


def run(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["models", *arguments])
    return done.exit_code, done.stdout, done.stderr


def test_a_download_is_checked_recorded_and_found_without_network(cache: Path, hub: Hub) -> None:
    code, out, _ = run("download", ID)
    folder = cache / ID.replace("/", "--")
    assert code == 0 and out.strip() == str(folder)
    assert sorted(p.name for p in folder.iterdir()) == ["config.json", store.MANIFEST, "model.safetensors"]
    data = json.loads((folder / store.MANIFEST).read_text())
    assert (data["model"], data["revision"]) == (ID, "c0ffee")
    assert data["files"]["model.safetensors"] == {
        "size": 7,
        "sha256": hashlib.sha256(b"weights").hexdigest(),
        "published": True,
    }
    assert data["files"]["config.json"]["published"] is False
    hub.asked.clear()
    assert store.find_model(ID) == folder == store.download(ID)
    assert run("verify", ID)[0] == 0
    assert hub.asked == []


@pytest.mark.parametrize("arrives", [b"weights!", b"weighty", b""])
def test_what_arrives_otherwise_than_published_is_refused(cache: Path, hub: Hub, arrives: bytes) -> None:
    hub.arrives["model.safetensors"] = arrives
    code, _, err = run("download", ID)
    assert code == 1 and "model.safetensors did not arrive as the hub publishes it" in err
    with pytest.raises(ModelError, match="not on this machine"):
        store.find_model(ID)
    hub.arrives = dict(FILES)
    assert run("download", ID)[0] == 0, "the next attempt fetches it again"


def test_a_hub_that_cannot_be_reached_is_one_sentence(cache: Path, hub: Hub) -> None:
    hub.down = True
    code, _, err = run("download", ID)
    assert code == 1 and err == f"Error: {ID} could not be downloaded: no route to the hub\n"
    assert run("download", "just-a-name")[0] == 1


def test_verify_names_every_difference(cache: Path, hub: Hub) -> None:
    folder = store.download(ID)
    (folder / "model.safetensors").write_bytes(b"weighty")
    (folder / "config.json").write_bytes(b"{ }")
    (folder / "more.json").write_bytes(b"1")
    code, out, _ = run("verify", ID)
    assert code == 1
    assert out.splitlines() == [
        "config.json has 3 bytes, not 2",
        "model.safetensors has changed: its SHA-256 is another",
        "more.json is not in the manifest",
    ]
    (folder / "config.json").unlink()
    assert "config.json is missing" in run("verify", str(folder))[1]
    assert run("verify", str(folder), "--write")[0] == 2, "the hub's sums are not written over"


def test_a_folder_from_elsewhere_is_recorded_and_then_verified(tmp_path: Path, cache: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    code, _, err = run("verify", str(folder))
    assert code == 1 and "--write records it" in err
    assert run("verify", str(folder), "--write")[0] == 0
    assert run("verify", str(folder))[:2] == (0, "all files are as recorded\n")
    (folder / "model.safetensors").write_bytes(b"weighty")
    assert run("verify", str(folder))[0] == 1
    (folder / store.MANIFEST).write_text('{"files": 3}')
    code, _, err = run("verify", str(folder))
    assert code == 1 and "is damaged" in err


def test_list_says_what_is_here(cache: Path, hub: Hub) -> None:
    assert f"{ID}\tnot downloaded" in run("list")[1]
    folder = store.download(ID)
    (cache / "some--model.part").mkdir()
    out = run("list")[1]
    assert f"{ID}\t{folder}\t" in out and "2 files" in out
    assert "derender-compact\tpackaged" in out and "some/model\tdownload interrupted" in out
