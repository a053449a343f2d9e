"""OpenML data sets of a few rows, as the openml package keeps them in its cache.

write_data_set(cache / "org/openml/www/datasets", 7, rows(60), target="label")
"""

import hashlib
from pathlib import Path

HEADER = """\
@RELATION small
@ATTRIBUTE width NUMERIC
@ATTRIBUTE colour {red,green,blue}
@ATTRIBUTE height REAL
@ATTRIBUTE label {yes,no}
@DATA
"""
FOLDER = Path("org", "openml", "www", "datasets")


def rows(count: int) -> list[str]:
    """Lines of the ARFF file above: every third one is 'yes'."""
    return [
        f"{i / 7:.3f},{'red' if i % 2 else 'blue'},{(-1) ** i * i},{'no' if i % 3 else 'yes'}"
        for i in range(count)
    ]


def arff(lines: list[str], header: str = HEADER) -> str:
    return header + "\n".join(lines) + "\n"


def description(openml_id: int, text: str, target: str | None = "label", **fields: str) -> str:
    """description.xml of a data set whose ARFF file is `text`."""
    target_field = {} if target is None else {"default_target_attribute": target}
    known = {
        "id": str(openml_id),
        "name": f"small{openml_id}",
        "version": "3",
        "description": "Made by a test. It means nothing.",
        "format": "ARFF",
        "upload_date": "2014-04-06T23:21:11",
        "licence": "Public",
        "url": f"https://www.openml.org/data/v1/download/{openml_id}/small.arff",
        **target_field,
        "md5_checksum": hashlib.md5(text.encode()).hexdigest(),
        **fields,
    }
    inner = "\n".join(f"  <oml:{key}>{value}</oml:{key}>" for key, value in known.items())
    start = '<oml:data_set_description xmlns:oml="http://openml.org/openml">'
    return f"{start}\n{inner}\n</oml:data_set_description>\n"


def write_data_set(
    cache: Path, openml_id: int, text: str, target: str | None = "label", **fields: str
) -> Path:
    """Its folder in a cache."""
    folder = cache / FOLDER / str(openml_id)
    folder.mkdir(parents=True)
    (folder / "dataset.arff").write_text(text, encoding="utf-8")
    words = description(openml_id, text, target, **fields)
    (folder / "description.xml").write_text(words, encoding="utf-8")
    return folder


def contents(folder: Path) -> dict[str, tuple[str, int]]:
    """Every file in a folder: its sha256 and when it was last written."""
    return {
        str(path.relative_to(folder)): (
            hashlib.sha256(path.read_bytes()).hexdigest(),
            path.stat().st_mtime_ns,
        )
        for path in folder.rglob("*")
        if path.is_file()
    }
