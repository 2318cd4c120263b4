import gzip

import make_bundled_corpus
from quintain.nlp.data.corpora import bundled_corpora


def test_the_bundled_files_are_what_the_grammar_makes():
    files = sorted(make_bundled_corpus.DIRECTORY.iterdir())

    bundled = {
        file.name.removesuffix(".tsv.gz"): gzip.decompress(file.read_bytes()) for file in files
    }

    assert bundled == make_bundled_corpus.make_texts()


def test_a_bundled_pair_is_a_line_of_the_file():
    pairs = bundled_corpora.get_pairs("numbers_and_dates/train")

    text = "".join(f"{source}\t{target}\n" for source, target in pairs)
    assert text.encode() == make_bundled_corpus.make_texts()["train"]
