"""Adds a built site to a folder that has one for each version: `release_site.py SITE FOLDER`.

The theme offers what `versions.json` lists there, in the layout of the tool mike, in its header.
"""

import json
import pathlib
import shutil
import sys

import quintain


def release(site: pathlib.Path, folder: pathlib.Path, version: str) -> None:
    """Copies a site to the folder of its minor version, and lists all, the newest first."""
    target = folder / ".".join(version.split(".")[:2])
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(site, target)
    found = [path.name for path in folder.iterdir() if (path / "index.html").is_file()]
    found.sort(key=lambda name: [int(part) for part in name.split(".")], reverse=True)
    entries = [{"version": name, "title": name, "aliases": []} for name in found]
    entries[0]["aliases"] = ["latest"]
    (folder / "versions.json").write_text(json.dumps(entries))
    (folder / "index.html").write_text(
        f'<!doctype html><meta http-equiv="refresh" content="0; url={found[0]}/index.html">\n'
    )


if __name__ == "__main__":
    release(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), quintain.__version__)
