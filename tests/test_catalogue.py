"""Every numbered line of the catalogue of bad input has a test, or says where it is answered.

A test takes a line, or several, with a mark; so does one case of a table of cases:

    @pytest.mark.catalogue(22, 23)
    def test_...

    catalogue = pytest.mark.catalogue
    CASES = [pytest.param("empty.jsonl", b"", marks=catalogue(22)), ...]

`tests/catalogue.md` is the table: line, what it is, and the tests, which are read here from the
source of all tests. A line without a mark says `elsewhere: ...` or `missing: ...` in their place,
written there by hand. After marking a test:

    python tests/test_catalogue.py
"""

import ast
import re
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).parent
TABLE = TESTS / "catalogue.md"
LAST_LINE = 117
LAST_MARK = 146
"""The lines above 117 are of run time and environment: they may be marked, and have no row."""
ROW = re.compile(r"^\| (\d+) \| (.*?) \| (.*) \|$")


def marked_tests() -> dict[int, list[str]]:
    """Catalogue line -> `file::test` of every test that is marked with it."""
    found: dict[int, set[str]] = defaultdict(set)
    for path in sorted(TESTS.rglob("test_*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        tables = {
            target.id: _lines(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        name = path.relative_to(TESTS).as_posix()
        for test in tree.body:
            if not isinstance(test, ast.FunctionDef) or not test.name.startswith("test_"):
                continue
            for decorator in test.decorator_list:
                lines = _lines(decorator)
                for used in ast.walk(decorator):
                    if isinstance(used, ast.Name):
                        lines |= tables.get(used.id, set())
                for line in lines:
                    found[line].add(f"{name}::{test.name}")
    return {line: sorted(tests) for line, tests in sorted(found.items())}


def _lines(node: ast.AST) -> set[int]:
    """The numbers in all `catalogue(...)` calls below a node."""
    return {
        argument.value
        for call in ast.walk(node)
        if isinstance(call, ast.Call)
        and (getattr(call.func, "attr", None) or getattr(call.func, "id", None)) == "catalogue"
        for argument in call.args
        if isinstance(argument, ast.Constant)
    }


def rendered(table: str, marks: dict[int, list[str]]) -> str:
    """The table with the tests of every marked line filled in, the rest as it was."""
    lines: list[str] = []
    for line in table.split("\n"):
        row = ROW.match(line)
        if row and int(row[1]) in marks:
            line = f"| {row[1]} | {row[2]} | {', '.join(f'`{t}`' for t in marks[int(row[1])])} |"
        lines.append(line)
    return "\n".join(lines)


def unanswered(table: str, marks: dict[int, list[str]]) -> dict[int, str]:
    """Line -> its last column, of every line without a marked test."""
    rows = [row for line in table.split("\n") if (row := ROW.match(line))]
    return {int(row[1]): row[3] for row in rows if int(row[1]) not in marks}


def test_the_table_has_every_line_once_and_in_order():
    numbers = [int(r[1]) for line in TABLE.read_text("utf-8").split("\n") if (r := ROW.match(line))]
    assert numbers == list(range(1, LAST_LINE + 1))
    assert set(marked_tests()) <= set(range(1, LAST_MARK + 1))


def test_every_line_has_a_test_or_says_where_it_is_answered():
    open_lines = unanswered(TABLE.read_text("utf-8"), marked_tests())
    missing = [line for line, cell in open_lines.items() if cell.startswith("missing: ")]
    print(f"{len(missing)} lines of the catalogue have no test yet: {missing}")
    lost = {
        line: cell
        for line, cell in open_lines.items()
        if line not in missing and not cell.startswith("elsewhere: ")
    }
    assert not lost, f"no test is marked with these lines: {lost}; see the top of this file"


def test_the_table_names_the_tests_that_are_marked():
    table = TABLE.read_text("utf-8")
    assert table == rendered(table, marked_tests()), "run `python tests/test_catalogue.py`"


if __name__ == "__main__":
    text = TABLE.read_text("utf-8")
    TABLE.write_text(rendered(text, marked_tests()), "utf-8")
    for line, cell in unanswered(text, marked_tests()).items():
        print(f"line {line}: {cell}")
