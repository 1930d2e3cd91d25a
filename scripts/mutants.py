"""Mutation check: change one line of the source, run a test command, see whether it fails.

`list` chooses mutants with a fixed seed; `run` applies them one at a time. A mutant is found by
file, function and source line, not by line number, so one list also fits a later tree.
"""

import argparse
import ast
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

PACKAGES = ("render", "trust", "status", "operator", "fleet", "kube")
SOURCE = Path("src/flower_operator")
PER_FILE, PER_KIND = 2, 3  # at most, in one package, while there are enough others
OUTCOMES = ("killed", "timeout", "survived", "gone", "not run")
_PAIRS = (
    *((ast.Eq, "==", ast.NotEq, "!="), (ast.In, "in", ast.NotIn, "not in")),
    *((ast.Is, "is", ast.IsNot, "is not"), (ast.And, "and", ast.Or, "or")),
    *((ast.Lt, "<", ast.LtE, "<="), (ast.Gt, ">", ast.GtE, ">="), (ast.Add, "+", ast.Sub, "-")),
)
SWAPS: dict[type[ast.AST], tuple[str, str]] = {
    **{first: (old, new) for first, old, _, new in _PAIRS},
    **{second: (new, old) for _, old, second, new in _PAIRS},
}
# `-` on one of these is a TypeError.
SEQUENCES = (ast.JoinedStr, ast.List, ast.ListComp, ast.Tuple)
FALSY = [f"return {value}".rstrip() for value in ("", "False", "0", '""', "()", "[]", "{}")]
# Negating one of these is removing `not`, or swapping the operator.
NEGATED = re.compile(r"not |[^()]+( is | in | not in |==|!=)[^()]+$")
# Mutants that cannot change behaviour, by key; each is replaced by the next candidate.
SKIP = {
    "846fbbef78": "render/node_config.py: a pool that needs files has replicas >= 1, by the CRD",
    "71f9bc86a3": "kube/client.py: the indentation of a request body",
    "b377113529": "kube/forward.py: both tasks are cancelled before; nobody reads their result",
}


@dataclass(frozen=True)
class Mutant:
    id: str
    package: str
    file: str
    function: str
    line: int  # when listed, for the reader only
    occurrence: int  # among equal lines of the function
    kind: str
    before: str
    after: str

    @property
    def key(self) -> str:
        return _digest(self.file, self.function, self.before, self.occurrence, self.after)[:10]


class Gone(Exception):
    """The line to mutate is not in this tree."""


# A replacement of columns in a line: kind, line, first column, column after the last, new text.
Edit = tuple[str, int, int, int, str]


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _functions(tree: ast.AST, prefix: str = "") -> dict[str, list[int]]:
    """The line numbers of each function and class, by qualified name."""
    functions: dict[str, list[int]] = {}
    for node in ast.iter_child_nodes(tree):
        name = prefix
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}.{node.name}".lstrip(".")
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            functions.setdefault(name, []).extend(lines)
        for inner, numbers in _functions(node, name).items():
            functions.setdefault(inner, []).extend(numbers)
    return functions


def _walk(node: ast.AST, returns: str = "") -> Iterator[tuple[ast.AST, str]]:
    """Nodes inside functions, each with the return annotation of its function.

    Messages, logging, assertions, annotations and the declarations of classes are left out.
    """
    children: Iterable[ast.AST | None] = ast.iter_child_nodes(node)
    match node:
        case ast.Raise() | ast.Assert() | ast.JoinedStr() | ast.keyword(arg="strict"):
            return
        case ast.Call() if _is_logging(node):
            return
        case ast.Module() | ast.ClassDef():
            definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
            children = [child for child in node.body if isinstance(child, definitions)]
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            if node.name in ("__repr__", "__str__"):
                return
            children = (*node.args.defaults, *node.args.kw_defaults, *node.body)
            returns = ast.unparse(node.returns) if node.returns else ""
        case ast.AnnAssign():
            children = [node.value]
        case _:
            yield node, returns
    for child in children:
        if child:
            yield from _walk(child, returns)


def _is_logging(call: ast.Call) -> bool:
    return ast.unparse(call.func).split(".")[0] in ("log", "logger", "logging")


def _operators(node: ast.AST) -> list[tuple[str, ast.AST, ast.expr, ast.expr]]:
    """Kind, operator and operands of what can be swapped."""
    match node:
        case ast.Compare(left=left, ops=operators, comparators=others):
            operands = zip(operators, [left, *others], others, strict=False)
            return [("comparison", *operation) for operation in operands]
        case ast.BoolOp(op=operator, values=values):
            return [("boolean", operator, *pair) for pair in pairwise(values)]
        case ast.BinOp(left=left, op=operator, right=right):
            is_text = any(isinstance(getattr(x, "value", None), str | bytes) for x in (left, right))
            is_sequence = isinstance(left, SEQUENCES) or isinstance(right, SEQUENCES)
            return [] if is_text or is_sequence else [("arithmetic", operator, left, right)]
    return []


def _swaps(node: ast.AST, lines: list[str]) -> Iterator[Edit]:
    """Swap an operator that stands on the line of its right operand."""
    for kind, operator, left, right in _operators(node):
        old, new = SWAPS.get(type(operator), ("\n", ""))
        start = (left.end_col_offset or 0) if left.end_lineno == right.lineno else 0
        at = lines[right.lineno - 1].rfind(old, start, right.col_offset)
        if at >= 0:
            yield kind, right.lineno, at, at + len(old), new


def _replacements(node: ast.AST, returns: str, lines: list[str]) -> Iterator[Edit]:
    """Replace a node that stands on one line."""
    tests = [node.test] if isinstance(node, ast.If | ast.IfExp) else getattr(node, "ifs", [])
    for target in (node, *tests):
        if isinstance(target, ast.expr | ast.stmt) and target.lineno == target.end_lineno:
            line, start, end = target.lineno, target.col_offset, target.end_col_offset or 0
            text = lines[line - 1][start:end]
            if target is not node and not NEGATED.match(text):
                yield "negate", line, start, end, f"not ({text})"
            elif target is node and (change := _change(node, returns, text)):
                yield change[0], line, start, end, change[1]


def _change(node: ast.AST, returns: str, text: str) -> tuple[str, str] | None:
    match node:
        case ast.UnaryOp(op=ast.Not()):
            return "remove not", text.removeprefix("not ")
        case ast.Constant(value=bool(value)):
            return "flip", repr(not value)
        case ast.Constant(value=int(number) | float(number)):
            return "number", repr(number + 1)
        case (
            ast.Expr(value=ast.Call() as call) | ast.Expr(value=ast.Await(value=ast.Call() as call))
        ):
            return None if _is_logging(call) else ("remove call", "pass")
        case ast.Return() if returns and not re.search(r"\b(None|Any|object)\b", returns):
            return None if text in FALSY else ("return None", "return None")
    return None


def find_mutants(package: str, file: str, source: str) -> Iterator[Mutant]:
    tree, lines = ast.parse(source), source.splitlines()
    functions = _functions(tree)
    for node, returns in _walk(tree):
        for kind, line, start, end, new in (
            *_swaps(node, lines),
            *_replacements(node, returns, lines),
        ):
            text = lines[line - 1]
            function = max((name for name, own in functions.items() if line in own), key=len)
            equal = [n for n in functions[function] if lines[n - 1].strip() == text.strip()]
            place = (package, file, function, line, equal.index(line))
            if text.isascii():  # columns are bytes
                after = f"{text[:start]}{new}{text[end:]}"
                yield Mutant("", *place, kind, text.strip(), after.strip())


def mutate(source: str, mutant: Mutant) -> str:
    """The source with the mutant's line replaced."""
    lines, functions = source.splitlines(keepends=True), _functions(ast.parse(source))
    if mutant.function not in functions:
        raise Gone(f"no function {mutant.function}")
    own = functions[mutant.function]
    numbers = [number for number in own if lines[number - 1].strip() == mutant.before]
    if len(numbers) <= mutant.occurrence:
        raise Gone(f"{len(numbers)} such lines in {mutant.function}: {mutant.before}")
    at = numbers[mutant.occurrence] - 1
    lines[at] = lines[at].replace(mutant.before, mutant.after)
    compile("".join(lines), mutant.file, "exec")
    return "".join(lines)


def choose(checkout: Path, package: str, count: int, seed: int) -> list[Mutant]:
    """Mutants of one package, spread over files and kinds, in an order that the seed decides."""
    candidates: list[Mutant] = []
    for path in sorted((checkout / SOURCE / package).rglob("*.py")):
        candidates += find_mutants(package, str(path.relative_to(checkout)), path.read_text())
    candidates.sort(key=lambda mutant: _digest(seed, mutant.key))
    chosen: list[Mutant] = []

    def take() -> Mutant:
        """The next candidate; the limits are raised when no candidate is within them."""
        used = Counter(word for mutant in chosen for word in (mutant.file, mutant.kind))
        for factor in range(1, count + 1):
            for mutant in candidates:
                in_file, of_kind = used[mutant.file] // factor, used[mutant.kind] // factor
                if in_file < PER_FILE and of_kind < PER_KIND:
                    candidates.remove(mutant)
                    return mutant
        raise SystemExit(f"{package}: fewer than {count} mutants")

    while len(chosen) < count:
        chosen.append(take())
    for index in range(count):  # a replacement takes over the id, so that other ids stay
        while chosen[index].key in SKIP:
            del chosen[index]
            chosen.insert(index, take())
    return chosen


def list_mutants(options: argparse.Namespace) -> None:
    mutants: list[Mutant] = []
    for package in PACKAGES:
        mutants += choose(options.checkout, package, options.count // len(PACKAGES), options.seed)
    mutants = [replace(mutant, id=f"m{n:02}") for n, mutant in enumerate(mutants, start=1)]
    for mutant in mutants:
        mutate((options.checkout / mutant.file).read_text(), mutant)  # it must compile
        print(mutant.id, mutant.key, f"{mutant.file}:{mutant.line}", mutant.function, mutant.kind)
        print(f"    - {mutant.before}\n    + {mutant.after}")
    if options.write:
        options.write.write_text(json.dumps([asdict(mutant) for mutant in mutants], indent=1))


def run_mutants(options: argparse.Namespace) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the file is restored
    mutants = [Mutant(**fields) for fields in json.loads(options.mutants.read_text())]
    results: dict[str, dict[str, Any]] = {}
    if options.results.exists():
        results = json.loads(options.results.read_text())
    for mutant in mutants:
        result = results.setdefault(mutant.id, {}).get(options.label, {})
        is_done = result.get("key") == mutant.key and result["outcome"] != "gone"
        if is_done or (options.only and mutant.id not in options.only.split(",")):
            continue
        result = run_mutant(options, mutant)
        results[mutant.id][options.label] = result
        options.results.write_text(json.dumps(results, indent=1))
        print(mutant.id, result["outcome"], result["seconds"], result["line"], flush=True)
    print(f"{options.label:14}", *(f"{outcome:>9}" for outcome in OUTCOMES))
    for package in (*PACKAGES, "all"):
        own = [results[mutant.id] for mutant in mutants if package in (mutant.package, "all")]
        counts = Counter(runs.get(options.label, {}).get("outcome", "not run") for runs in own)
        print(f"{package:14}", *(f"{counts[outcome]:9}" for outcome in OUTCOMES))


def run_mutant(options: argparse.Namespace, mutant: Mutant) -> dict[str, object]:
    """Run the command on the mutated tree and restore the file."""
    started, path = time.monotonic(), options.checkout / mutant.file
    try:
        original, times = path.read_text(), path.stat()
        mutated = mutate(original, mutant)
    except (Gone, SyntaxError, OSError) as error:
        outcome, line = "gone", str(error)
    else:
        try:
            path.write_text(mutated)
            outcome, line = run_command(options)
        finally:
            path.write_text(original)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # its .pyc is valid again
    seconds, killed = round(time.monotonic() - started, 1), outcome in ("killed", "timeout")
    result = {"key": mutant.key, "killed": killed, "outcome": outcome}
    return {**result, "seconds": seconds, "line": line}


def run_command(options: argparse.Namespace) -> tuple[str, str]:
    """The outcome, and the last line that names a failure."""
    # A .pyc of the mutated file must not outlive it.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        where: dict[str, Any] = {"cwd": options.checkout, "env": environment, "stdout": output}
        process = subprocess.Popen(
            options.command, **where, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            outcome = "killed" if process.wait(options.timeout) else "survived"
        except subprocess.TimeoutExpired:
            outcome = "timeout"
        finally:
            _stop(process)
        output.seek(0)
        lines = [line for line in output.read().splitlines() if line.strip()]
    failures = [line for line in lines if line.startswith(("FAILED", "ERROR", "E   "))]
    return outcome, (failures or lines or [""])[-1]


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Interrupt the command, so that its fixtures clean up; kill its process group after 30 s."""
    try:
        process.send_signal(signal.SIGINT)  # does nothing if it has ended
        process.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.mutants", description=__doc__)
    actions = parser.add_subparsers(required=True)
    listing = actions.add_parser("list", help="choose mutants and print them")
    listing.set_defaults(action=list_mutants)
    listing.add_argument("--count", type=int, default=60)
    listing.add_argument("--seed", type=int, default=1)
    listing.add_argument("--write", type=Path, help="JSON file for `run`")
    running = actions.add_parser("run", help="run a command once for each mutant")
    running.set_defaults(action=run_mutants)
    running.add_argument("--mutants", type=Path, required=True)
    running.add_argument("--results", type=Path, required=True)
    running.add_argument("--label", required=True, help="name of the command in the results")
    running.add_argument("--only", help="ids, separated by commas")
    running.add_argument("--timeout", type=float, default=600, help="seconds for each mutant")
    running.add_argument("command", nargs="+", help="after `--`")
    for subparser in (listing, running):
        subparser.add_argument("--checkout", type=Path, default=Path())
    options = parser.parse_args()
    options.action(options)


if __name__ == "__main__":
    main()
