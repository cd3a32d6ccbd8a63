"""Every block of Python or of the command runs, in the order of its page; every `make` target and link is real."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from proportio import cli

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
RUNNABLE = re.compile(r"^```(python|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_code_block_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a page may write files
    names: dict[str, object] = {}
    for language, block in RUNNABLE.findall(page.read_text()):
        if language == "python":
            exec(compile(block, str(page), "exec"), names)
        else:
            for line in block.strip().splitlines():
                command, *arguments = shlex.split(line)
                assert command == "proportio", line
                done = CliRunner().invoke(cli.app, arguments)
                assert done.exit_code == 0, f"{line}\n{done.output}"


def test_the_readme_shows_the_answer_that_its_code_gives(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "README.md").read_text()
    first = BLOCK.findall(text)[0]
    exec(compile(first, "README.md", "exec"), {})
    shown = re.search(r"\n\n((?:    .*\n)+)", text[text.index(first) + len(first) :])
    assert shown is not None
    lines = [line[4:] for line in shown[1].splitlines()]
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed] == [line.split()[0] for line in lines]
    for mine, theirs in zip(printed[2:], lines[2:], strict=True):  # the last digit may differ between machines
        assert abs(float(mine.split()[1]) - float(theirs.split()[1])) < 0.002


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_make_target_named_is_in_the_makefile(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:`| {4})make ([a-z-]+)", page.read_text()))
    assert named <= targets


def test_pages_link_to_files_that_exist() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.relative_to(ROOT)} links to {link}"
