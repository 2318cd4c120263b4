"""The training binary: `python -m quintain.nlp.train` is `quintain train`."""

import sys

from quintain.cli import main

if __name__ == "__main__":
    main.main(["train", *sys.argv[1:]])
