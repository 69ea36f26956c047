"""The wheel: everything that is needed is in it, and it runs from anywhere."""

import subprocess
import sys
import zipfile

import pytest
from conftest import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    ignored = [
        "--exclude=./.venv*",
        "--exclude=./build",
        "--exclude=./*.egg-info",
        "--exclude=./.git",
    ]
    source.mkdir()
    packed = subprocess.run(
        ["tar", "-C", ROOT, *ignored, "-cf", "-", "."], capture_output=True, check=True
    ).stdout
    subprocess.run(["tar", "-C", source, "-xf", "-"], input=packed, check=True)
    build = [sys.executable, "-m", "build", "--wheel", "--outdir", folder, source]
    done = subprocess.run(build, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_every_yaml_sample_and_page_of_the_tasks(wheel):
    packed = set(zipfile.ZipFile(wheel).namelist())
    data = [p for p in (ROOT / "tasks").rglob("*") if p.suffix in (".yaml", ".jsonl", ".md")]
    assert len(data) > 70
    missing = [
        str(p.relative_to(ROOT)) for p in data if f"tcb_bench/{p.relative_to(ROOT)}" not in packed
    ]
    assert missing == []


def test_the_wheel_holds_every_module(wheel):
    packed = set(zipfile.ZipFile(wheel).namelist())
    for folder, prefix in [
        ("tcb_bench", ""),
        ("metrics", "tcb_bench/"),
        ("leaderboards", "tcb_bench/"),
    ]:
        for path in (ROOT / folder).rglob("*.py"):
            assert f"{prefix}{path.relative_to(ROOT)}" in packed


def test_the_installed_wheel_lists_its_tasks_from_another_folder(wheel, tmp_path):
    target = tmp_path / "site"
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        target,
        wheel,
    ]
    subprocess.run(install, check=True, capture_output=True)
    script = f"import sys; sys.path.insert(0, {str(target)!r}); import tcb_bench.tasks, tcb_bench.__main__ as m; assert tcb_bench.tasks.__file__.startswith({str(target)!r}); sys.exit(m.main(['ls', 'groups']))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "mmlu_tcb_reasoning" in done.stdout


def test_the_console_script_is_installed_and_knows_its_version():
    from pathlib import Path

    from tcb_bench import __version__

    script = Path(sys.executable).with_name("tcb-bench")
    done = subprocess.run([script, "--version"], capture_output=True, text=True)
    assert done.stdout.strip() == f"tcb-bench {__version__}"


def test_doctests_hold():
    import doctest
    import importlib.util
    import pkgutil

    import tcb_bench.metrics
    import tcb_bench.models

    ran, has_vllm = 0, importlib.util.find_spec("vllm") is not None
    for package in (tcb_bench.metrics, tcb_bench.models):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            if module.name.startswith("tcb_bench.models.vllm") and not has_vllm:
                continue
            outcome = doctest.testmod(importlib.import_module(module.name))
            assert outcome.failed == 0, module.name
            ran += outcome.attempted
    assert ran > 3
