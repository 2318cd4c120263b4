import gzip

import pytest

from quintain.server import page_files
from quintain.server.http import page_modules

MOST_BYTES = 150_000
FOR_PEOPLE = (".md", ".d.ts")


def test_all_that_a_browser_may_load_is_light():
    """File by file, as it is served."""
    joined = page_modules.list_modules(page_files.DIRECTORY)
    others = [
        path.read_bytes()
        for path in page_files.DIRECTORY.rglob("*")
        if path.is_file() and path.name not in joined and not path.name.endswith(FOR_PEOPLE)
    ]
    served = [page_modules.join(page_files.DIRECTORY).encode(), *others]

    assert sum(len(gzip.compress(content)) for content in served) < MOST_BYTES


def test_every_module_is_loaded_by_one():
    alone = {"theme.js", "arriving.js"}
    names = {path.name for path in page_files.DIRECTORY.glob("*.js")}
    assert set(page_modules.list_modules(page_files.DIRECTORY)) == names - alone


def test_modules_become_functions_in_the_order_of_their_needs(tmp_path):
    (tmp_path / "vendor").mkdir()
    (tmp_path / "vendor" / "x.js").write_text("export const x = 1;\n")
    (tmp_path / "app.js").write_text(
        'import { x } from "./vendor/x.js";\nimport { a as b } from "./own.js";\n'
        'const later = "./later.js";\nexport const app = () => import(later).then(() => b + x);\n'
    )
    (tmp_path / "own.js").write_text("// Mine.\nexport const a = /** @type {any} */ (2);\n")
    (tmp_path / "later.js").write_text('import * as own from "./own.js";\nown.a;\n')

    text = page_modules.join(tmp_path)

    assert page_modules.list_modules(tmp_path) == ["own.js", "app.js", "later.js"]
    assert text.startswith('import * as other0 from "./vendor/x.js";\n')
    assert '$makers["own.js"] = () => {\nconst a = (2);\nreturn { a };\n};' in text
    assert 'const { a: b } = $need("own.js");' in text
    assert "const app = () => $load(later).then(" in text
    assert text.endswith('$need("app.js");\n')


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('import { app } from "./app.js";\n', "import each other: app.js -> own.js -> app.js"),
        ("export default 1;\n", "has 'export default 1;'"),
        ('import "./other.js";\n', "has 'import"),
    ],
)
def test_what_can_not_be_joined_is_named(tmp_path, text, words):
    (tmp_path / "app.js").write_text('import { a } from "./own.js";\nexport const app = a;\n')
    (tmp_path / "own.js").write_text(text)
    (tmp_path / "other.js").write_text("")

    with pytest.raises(ValueError, match=words):
        page_modules.join(tmp_path)
