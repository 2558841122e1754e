"""What a release says of itself: its version in one place, changelog, citation, and the Pythons that it is tested on."""

import re
from pathlib import Path

import pytest
import yaml
from packaging.version import Version

import fairseq_groc

ROOT = Path(__file__).parents[1]
SECTIONS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]  # those of Keep a Changelog
HEADING = re.compile(r"## \[(?P<version>[\d.]+|Unreleased)\](?: - (?P<date>\d{4}-\d\d-\d\d))?")


@pytest.fixture(scope="module")
def changelog():
    """The versions of the changelog, newest first: (version, date, lines)."""
    releases = []
    for line in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            found = HEADING.fullmatch(line)
            assert found, line
            releases.append((found["version"], found["date"], []))
        elif releases:
            releases[-1][2].append(line)
    return releases


def test_the_version_is_in_one_place():
    files = [*(ROOT / "fairseq_groc").rglob("*.py"), ROOT / "pyproject.toml", ROOT / "setup.py"]
    number = re.compile(rf"[\"']{re.escape(fairseq_groc.__version__)}[\"']")
    assert [path for path in files if number.search(path.read_text(encoding="utf-8"))] == [ROOT / "fairseq_groc" / "__init__.py"]


def test_the_package_is_the_newest_release_or_goes_on_from_it(changelog):
    version, newest = Version(fairseq_groc.__version__), Version(changelog[1][0])
    assert version > newest if version.is_devrelease else version == newest


def test_the_citation_is_of_the_newest_release(changelog):
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["version"], str(citation["date-released"])) == changelog[1][:2]


def test_changes_are_told_in_order(changelog):
    assert changelog[0][:2] == ("Unreleased", None)
    versions = [Version(version) for version, _, _ in changelog[1:]]
    assert versions == sorted(versions, reverse=True) and changelog[1][1]
    for version, _, lines in changelog:
        sections = [line.removeprefix("### ") for line in lines if line.startswith("#")]
        assert sections == [name for name in SECTIONS if name in sections], version
        assert [line for line in lines if line and not line.startswith(("### ", "- "))] == [], version


def test_every_python_that_is_named_is_tried():
    described = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    named = re.findall(r'"Programming Language :: Python :: ([\d.]+)"', described)
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))["jobs"]
    tried = [*jobs["tests"]["strategy"]["matrix"]["python"], jobs["oldest"]["env"]["UV_PYTHON"]]
    assert sorted(tried, key=Version) == named
    assert re.search(r'requires-python = ">=([\d.]+)"', described)[1] == named[0] == jobs["oldest"]["env"]["UV_PYTHON"]
