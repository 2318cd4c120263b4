"""Builds translation corpora from the message catalogues (`*.mo`) of this machine's programs.

python benchmarks/catalogue_pairs.py DIR LANGUAGE [LANGUAGE ...] [--locale-dir=/usr/share/locale]
    [--together]

writes DIR/LANGUAGE/train.tsv, valid.tsv and test.tsv, lines of English, tab and translation. The
part of a message depends on its English alone, so that languages share them. `--together` writes
one corpus of all languages, DIR/together, whose English begins with the language, as in `<de>`.
"""

import argparse
import pathlib
import random
import sys

sys.path.append(str(pathlib.Path(__file__).parents[1] / "examples" / "language_identification"))

import make_corpus


def read_pairs(folder: pathlib.Path) -> dict[str, str]:
    """Returns the first translation of each usable message of a language."""
    pairs: dict[str, str] = {}
    for original, translation in make_corpus.read_messages(folder):
        if make_corpus.is_usable(translation, original) and make_corpus.is_usable(original, ""):
            pairs.setdefault(original, translation)
    return pairs


def main() -> None:
    """Writes the corpora, and prints their sizes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("languages", nargs="+")
    parser.add_argument(
        "--locale-dir", type=pathlib.Path, default=pathlib.Path("/usr/share/locale")
    )
    parser.add_argument("--together", action="store_true", help="write one corpus of all")
    options = parser.parse_args()
    corpora: dict[str, dict[str, list[str]]] = {}
    for language in options.languages:
        corpus = corpora.setdefault(
            "together" if options.together else language, {"train": [], "valid": [], "test": []}
        )
        mark = f"<{language}> " if options.together else ""
        for source, target in sorted(read_pairs(options.locale_dir / language).items()):
            corpus[make_corpus.choose_part(source)].append(f"{mark}{source}\t{target}\n")
    for name, parts in corpora.items():
        if not all(parts.values()):
            parser.error(f"{name}: {options.locale_dir} has too few messages")
        folder = options.output / name
        folder.mkdir(parents=True, exist_ok=True)
        for part, lines in parts.items():
            random.Random(0).shuffle(lines)
            (folder / f"{part}.tsv").write_text("".join(lines), encoding="utf-8")
        print(f"{folder}: {', '.join(f'{len(lines)} {part}' for part, lines in parts.items())}")


if __name__ == "__main__":
    main()
