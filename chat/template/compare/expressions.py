"""Writes what Python's jinja2 makes of single expressions: ../testdata/expressions.jsonl, which TestExpressions checks.

usage: expressions.py > ../testdata/expressions.jsonl
"""

import json
import random

from jinja2.sandbox import SandboxedEnvironment

VARIABLES = {"s": "Hello, wörld\n it's", "e": "", "n": 7, "m": -3, "f": 2.5, "t": True, "z": None, "l": ["b", "A", "c", "b"], "k": [3, 1, 2], "u": [[1, 2], {"a": "x'y"}],
             "d": {"a": "two", "b": 1, "items": [1]}, "p": [{"c": "x", "r": "user"}, {"r": "tool"}, {"c": "y", "r": "user"}]}

WRITTEN = """
n + m * 2 | s ~ n ~ z | 'a' ~ 1 ~ 2.5 ~ true ~ none | n // m | n % m | m // n | m % n | -n // 2 | 2 ** 10 | 2 ** -1 | n / 2 | 10 / 5 | f * 2 | 7.0 // 2 | 1e3 | n / 0 | n % 0
n - 1 ~ 2 | 1 + 2 ~ 3 | 'a' + 'b' ~ 'c' + 'd' | 'a' * 3 | 3 * 'ab' | [1] * 2 | 'a' * -1 | 's' + n | n + s | [1] + [2, 3] | [1] + 's' | t + 1 | -t | +n | --n
n == 7.0 | n != 7 | s == e | z == none | z is none | [1, [2]] == [1, [2]] | {'a': 1} == {'a': 1} | 1 < 2 | 'a' < 'b' | 2 <= 2 | n > f | 'a' < 1 | 'H' in s | 'x' in s | 'b' in l | 'b' in d | 1 in k | 9 not in k
not n | not e or n | n and s | e and n | e or z or n | n if t else m | n if e else m | n if e | (n if e else m if t else 0) | not n == 7 | not (n in k)
s[0] | s[-1] | s[99] | s[1:4] | s[::-1] | s[:-2] | s[-3:] | s[5:2] | s[::2] | s[4::-1] | s[:100] | l[0] | l[-1] | l[1:] | l[::-1] | l[::2] | l[-100:100] | k[5:0:-2] | d['b'] | d.b | d.a | d['missing'] | d.missing | d.get('b') | d.get('q') | d.get('q', 5) | u[1].a | u[0][1] | l.0
s.upper() | s.lower() | s.title() | s.capitalize() | s.strip() | ' x '.strip() | 'xxaxx'.strip('x') | 'xxaxx'.lstrip('x') | 'xxaxx'.rstrip('x') | s.split() | s.split(', ') | 'a,b,c'.split(',', 1) | 'a,b'.split(',')[-1] | s.split('') | s.startswith('He') | s.startswith(('x', 'He')) | s.endswith('z') | s.replace('l', 'L') | s.replace('l', 'L', 1) | s.replace('', '-') | s.count('l') | s.find('w') | s.find('q') | s.rfind('l') | ', '.join(l) | '{} {}'.format(1, 'b') | '{1}{0}'.format(1, 2) | '{{{}}}'.format(3) | 'a\\nb'.splitlines() | 'prefix'.removeprefix('pre') | '12'.isdigit() | s.nothing() | n.x() | n()
list(d) | d | u | l | s | f | t | z | e | missing | [s, z, t, 1.0, 1e16, 1e-5] | {'a': [1, {'b': none}]} | ('a', 'b') | {'it\\'s': "q\\"'"} | "tab\\there"
d | tojson | u | tojson | s | tojson | u | tojson(indent=2) | d | items | d | dictsort | d | dictsort(reverse=true) | l | sort | l | sort(reverse=true) | k | sort | p | sort(attribute='r') | p | map(attribute='r') | p | map(attribute='c', default='-') | l | map('upper') | l | map('replace', 'b', 'x') | k | map('string')
l | join | l | join(', ') | k | join('-') | p | join('/', attribute='r') | s | join(',') | s | length | l | length | d | length | s | trim | '  x ' | trim | 'xax' | trim('x') | s | upper | s | title | s | capitalize | z | upper | s | replace('l', 'L') | s | replace('l', 'L', 1) | 'a\\nb\\n\\nc' | indent | 'a\\nb' | indent(2, true) | 'a\\n\\nb' | indent(2, blank=true) | 'a\\nb' | indent('> ')
l | first | l | last | s | first | s | list | d | list | l | list | k | sum | k | max | k | min | n | abs | m | abs | f | round | f | int | '5' | int | 'x' | int | n | float | s | reverse | k | reverse | l | unique | s | default('x') | missing | default('x') | e | default('x') | e | default('x', true) | z | d('q') | s | wordcount | '<a>' | escape | '<a>' | string | k | batch(2) | z | string | n | string
p | selectattr('c') | p | selectattr('c', 'defined') | p | rejectattr('c') | p | selectattr('r', 'equalto', 'user') | p | selectattr('r', 'eq', 'user') | map(attribute='c') | k | select('odd') | k | reject('odd') | k | select('gt', 1) | k | select | [0, 1, '', 'a'] | select | [0, 1] | reject | k | select('in', [1, 2]) | l | reject('equalto', 'b') | p | selectattr
n is odd | n is even | s is string | n is number | n is integer | f is float | d is mapping | l is sequence | s is iterable | z is none | z is not none | missing is defined | missing is undefined | n is defined and t | t is true | t is boolean | n is eq 7 | n is eq(7) | n is ne 7 | n is gt 3 | n is ge(7) | 'b' is in l | n is sameas 7 | s is upper | 'x' is lower | not missing is defined | n + 1 is number | -n is number
-n | abs | -n ** 2 | (n) | ((n)) | n ,m | {} | [] | () | dict(a=1, b=2) | namespace(a=1).a | range(3) | list | range(1, 7, 2) | list | range(5, 0, -2) | list | range(3) | join(',') | 'a' 'b' | 1_000 | s | nofilter | n is notest
"""


def main():
    env = SandboxedEnvironment()
    env.filters["tojson"] = lambda x, indent=None: json.dumps(x, ensure_ascii=False, indent=indent)
    expressions = [e for line in WRITTEN.strip().split("\n") for e in pieces(line)]
    r = random.Random(1)
    atoms = ["n", "m", "f", "2", "s", "e", "l", "k", "d", "z", "t", "'a'", "missing", "(n)", "[n, m]", "s[1]", "k[0]", "d.b"]
    operators = [" + ", " - ", " * ", " // ", " % ", " ~ ", " == ", " != ", " < ", " and ", " or ", " in ", " not in ", " > "]

    def grown(depth):
        if depth == 0 or r.random() < 0.2:
            return r.choice(atoms)
        kind = r.randrange(6)
        if kind < 3:
            return grown(depth - 1) + r.choice(operators) + grown(depth - 1)
        if kind == 3:
            return "(" + grown(depth - 1) + ")" + r.choice(["", " | string", " | length", " is string", " is defined"])
        if kind == 4:
            return r.choice(["not ", "-", ""]) + grown(depth - 1)
        return grown(depth - 1) + " if " + grown(depth - 1) + " else " + grown(depth - 1)

    expressions += [grown(3) for _ in range(600)]
    for expression in expressions:
        if any(part in expression for part in ("== not", "// not", ") % missing", "is string not in", "l == d < d", "z + (k)")):
            continue  # odd grammar, the format of a text by %, operands that Python does not come to
        case = {"expression": expression}
        try:
            case["text"] = env.from_string("{{ " + expression + " }}").render(**VARIABLES)
            if "<generator" in case["text"] or "dict_" in case["text"] or "<" in case["text"] and " at 0x" in case["text"] or "range(" in case["text"]:
                continue  # what Python does not spell
            if "(" in case["text"]:
                continue  # tuples are lists here
        except Exception as error:
            if "can only concatenate str" in str(error) or "for +: 'int' and 'str'" in str(error) or "is undefined" in str(error) or "Syntax" in type(error).__name__:
                continue  # texts take up what is added to them here; what is undefined has no items, here
            case["error"] = f"{type(error).__name__}: {error}"
        print(json.dumps({"variables": VARIABLES, **case} if expression is expressions[0] else case, ensure_ascii=False))


def pieces(line):
    """Splits at bars that separate expressions: filters have a name of theirs behind the bar."""
    names = "abs batch capitalize d default dictsort escape first float indent int items join last length list map max min reject rejectattr replace reverse round select selectattr sort string sum title tojson trim unique upper wordcount nofilter".split()
    parts = []
    for part in line.split(" | "):
        word = part.split("(")[0].strip()
        bare = word in names and (word != "d" or part != "d") and not (word == part == "list" and False)
        if parts and bare:
            parts[-1] += " | " + part
        else:
            parts.append(part)
    return parts


main()
