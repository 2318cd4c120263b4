"""Builds a corpus of many languages from the translations that programs on this machine carry.

Catalogues of messages (`*.mo`) lie below /usr/share/locale on most Linux systems. Each message has
an English original and, in each language, a translation: short texts whose language is known.

    python make_corpus.py corpus/                                # all languages with enough text
    python make_corpus.py corpus/ --languages de,fr,uk --locale-dir /usr/share/locale

writes

    corpus/text/LANG.txt              texts to pretrain on, one a line, without those for testing
    corpus/train.tsv, valid.tsv, test.tsv      `text<TAB>language` with a header line
    corpus/languages.txt              the languages, one a line, in the order of their class ids

All translations of an original are in the same part, which depends on the original alone. Texts
that occur in several languages are left out: nothing says which one they are. Only the standard
library of Python is needed.
"""

import argparse
import collections
import gettext
import hashlib
import pathlib
import random
import re
import sys
from collections.abc import Iterator

WORD = re.compile(r"[^\W\d_]{2,}")
LANGUAGE = re.compile(r"[a-z]{2,3}(_[A-Z]{2})?")
ENGLISH = "en"
PARTS = {"valid": 5, "test": 10}
"""Percent of the originals in each part; the rest is for training."""


def read_messages(directory: pathlib.Path) -> Iterator[tuple[str, str]]:
    """Yields the original and the translation of every message of a language."""
    for path in sorted(directory.glob("**/*.mo")):
        try:
            with path.open("rb") as file:
                catalogue = gettext.GNUTranslations(file)._catalog
        except (OSError, ValueError, UnicodeDecodeError, LookupError) as error:
            print(f"{path}: left out ({error})", file=sys.stderr)
            continue
        for original, translation in catalogue.items():
            if isinstance(original, str) and original and isinstance(translation, str):
                # What distinguishes equal originals stands before them, parted by \x04.
                yield clean(original.rpartition("\x04")[2]), clean(translation)


def clean(text: str) -> str:
    """Returns a text on one line, without the marks of keys in menus."""
    return " ".join(text.replace("_", "").replace("\0", " ").split())


def is_usable(text: str, original: str) -> bool:
    """Whether a text has words, is not too long, and is no copy of the original."""
    has_words = len("".join(WORD.findall(text))) >= 8
    return has_words and len(text) <= 300 and text.lower() != original.lower()


def choose_part(original: str) -> str:
    """Returns the part that an original belongs to, by its text alone."""
    place = int(hashlib.sha1(original.lower().encode()).hexdigest(), 16) % 100
    for part, percent in PARTS.items():
        if place < percent:
            return part
        place -= percent
    return "train"


def collect(locale_dir: pathlib.Path, languages: list[str] | None) -> dict[str, dict[str, str]]:
    """Returns the part of each text, by language; English is that of the originals."""
    texts: dict[str, dict[str, str]] = collections.defaultdict(dict)
    for directory in sorted(path for path in locale_dir.iterdir() if path.is_dir()):
        language = directory.name
        is_english = language.startswith("en")
        if is_english or not LANGUAGE.fullmatch(language):
            continue
        if languages is not None and language not in languages and ENGLISH not in languages:
            continue
        for original, translation in read_messages(directory):
            part = choose_part(original)
            if is_usable(translation, original):
                texts[language].setdefault(translation, part)
            if is_usable(original, ""):
                texts[ENGLISH].setdefault(original, part)
    counts = collections.Counter(text for found in texts.values() for text in found)
    return {
        language: {text: part for text, part in found.items() if counts[text] == 1}
        for language, found in texts.items()
    }


def choose_languages(
    texts: dict[str, dict[str, str]], wanted: list[str] | None, min_texts: int
) -> list[str]:
    """Returns the languages to tell apart: of pt and pt_BR, that with more text."""
    if wanted is not None:
        missing = [name for name in wanted if not texts.get(name)]
        if missing:
            sys.exit(f"--languages: no text in {', '.join(missing)}; there is {', '.join(texts)}")
        return sorted(wanted)
    best: dict[str, str] = {}
    for language in sorted(texts, key=lambda name: len(texts[name])):
        if len(texts[language]) >= min_texts:
            best[language.partition("_")[0]] = language
    return sorted(best.values())


def main() -> None:
    """Reads the catalogues and writes the corpus."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=pathlib.Path, help="directory to write to")
    parser.add_argument(
        "--locale-dir", type=pathlib.Path, default=pathlib.Path("/usr/share/locale")
    )
    parser.add_argument("--languages", help="such as de,fr,uk; all with enough text by default")
    parser.add_argument("--min-texts", type=int, default=3_000, help="texts a language must have")
    parser.add_argument("--max-texts", type=int, default=4_000, help="texts to take of a language")
    args = parser.parse_args()
    if not args.locale_dir.is_dir():
        sys.exit(f"--locale-dir: there is no directory {args.locale_dir}")

    wanted = args.languages.split(",") if args.languages else None
    texts = collect(args.locale_dir, wanted)
    languages = choose_languages(texts, wanted, args.min_texts)
    if len(languages) < 2:
        sys.exit(f"found text of {len(languages)} languages below {args.locale_dir}, expected two")

    (args.output / "text").mkdir(parents=True, exist_ok=True)
    rows: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    chance = random.Random(0)
    for language in languages:
        found = sorted(texts[language].items())
        chosen = chance.sample(found, min(args.max_texts, len(found)))
        training = [text for text, part in chosen if part == "train"]
        (args.output / "text" / f"{language}.txt").write_text("\n".join(training) + "\n", "utf-8")
        for text, part in chosen:
            rows[part].append(f"{text}\t{language}\n")
    for part, lines in rows.items():
        chance.shuffle(lines)
        (args.output / f"{part}.tsv").write_text("text\tlanguage\n" + "".join(lines), "utf-8")
        print(f"{part}: {len(lines)} texts")
    (args.output / "languages.txt").write_text("\n".join(languages) + "\n", "utf-8")
    print(f"{len(languages)} languages: {' '.join(languages)}")


if __name__ == "__main__":
    main()
