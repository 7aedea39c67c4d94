"""What a file of PTX says, as far as nvcc's have it: its variables, and its functions with their statements."""
import bisect, collections, re

BYTES = {"8": 1, "16": 2, "32": 4, "64": 8}

Variable = collections.namedtuple("Variable", "space name align bytes values")  # values: those it begins with, as text
Registers = collections.namedtuple("Registers", "type names")  # a name that ends with <N> is that of N registers
Label = collections.namedtuple("Label", "name")
Brace = collections.namedtuple("Brace", "text")  # a scope begins or ends
Function = collections.namedtuple("Function", "kind name results parameters statements")  # kind: entry or func
Module = collections.namedtuple("Module", "variables functions")

DIRECTIVE = re.compile(r"\s*\.(version|target|address_size)\b.*")
HEADER = re.compile(r"\s*(?:\.(?:visible|extern|weak)\s+)?\.(?P<kind>entry|func)\s*(?P<results>\([^)]*\))?"
                    r"\s*(?P<name>[\w$]+)\s*(?P<parameters>\([^)]*\))?(?P<limits>[^;{]*)(?P<end>[;{])")
VARIABLE = re.compile(r"(?:\.visible\s+)?\.(?P<space>global|const|shared|local|param)"
                      r"\s+(?:\.align\s+(?P<align>\d+)\s+)?\.[busf](?P<bits>\d+)\s+(?P<name>[\w$]+)"
                      r"(?:\[(?P<count>\d+)\])?(?:\s*=\s*\{(?P<values>[^}]*)\})?")
REGISTERS = re.compile(r"\.reg\s+\.(?P<type>pred|[bus](?:8|16|32|64)|f(?:32|64))\s+(?P<names>.*)", re.S)
STATEMENT = re.compile(r"\s*(?:(?P<brace>[{}])|(?P<label>\$[\w$]+):|(?P<text>[^;]+);)")
INSTRUCTION = re.compile(r"(?:@(?P<guard>!?%\w+)\s+)?(?P<name>[\w.]+)\s*(?P<operands>.*)", re.S)
END = re.compile(r"\s*\Z")
IGNORED = (".pragma ", ".loc ", ".file ")


class Unknown(Exception):
    """Something that this does not translate; the text says in which line, and what."""


class Instruction:
    """One instruction: `parts` are those of its name, between dots; `guard` is the predicate it depends on, or None."""

    def __init__(self, line, guard, name, operands):
        self.line, self.guard, self.name, self.operands = line, guard, name, split(operands)
        self.parts = name.split(".")

    def __str__(self):
        return f"{self.name} {', '.join(self.operands)}"


def split(text):
    """The parts of a list, whose commas within brackets are not its own."""
    parts = re.findall(r"(?:[^,{}()\[\]]|\{[^}]*\}|\([^)]*\)|\[[^]]*\])+", text)
    return [part.strip() for part in parts if part.strip()]


def is_list(operand):
    """Whether an operand is several registers in braces, or several arguments in parentheses."""
    return operand[0] in "{("


def elements(operand):
    """What is in an operand's braces or parentheses; an operand without them is its own only element."""
    return split(operand[1:-1]) if is_list(operand) else [operand]


def variable(found):
    """The variable of a match of VARIABLE."""
    size = BYTES[found["bits"]]
    return Variable(found["space"], found["name"], int(found["align"] or size), size * int(found["count"] or 1),
                    found["values"] or "")


class Parser:
    """Reads a file from its beginning to its end."""

    def __init__(self, text):
        self.text, self.at = re.sub(r"//.*", "", text), 0
        self.ends = [found.start() for found in re.finditer("\n", self.text)]

    def line(self, place):
        return bisect.bisect_left(self.ends, place) + 1

    def take(self, pattern):
        """The match of a pattern that comes next, which is read then, or None."""
        found = pattern.match(self.text, self.at)
        if found:
            self.at = found.end()
        return found

    def module(self):
        """All of the file. Declarations of functions that are defined later are left out."""
        module = Module([], [])
        while not self.take(END):
            header = self.take(HEADER)
            if header and header["end"] == "{":
                module.functions.append(self.function(header))
            elif not header and not self.take(DIRECTIVE):
                line, text = self.statement()
                found = VARIABLE.fullmatch(text)
                if not found:
                    raise Unknown(f"{line}: neither a variable nor a function: {text}")
                module.variables.append(variable(found))
        return module

    def function(self, header):
        results, parameters = ([variable(found) for found in VARIABLE.finditer(header[part] or "")]
                               for part in ("results", "parameters"))
        return Function(header["kind"], header["name"], results, parameters, list(self.body()))

    def body(self):
        """The statements of a function, up to the brace that ends it, which is read."""
        depth = 1
        while True:
            found = self.take(STATEMENT)
            if not found:
                raise Unknown(f"{self.line(self.at)}: the file ends within a function")
            if found["brace"]:
                depth += 1 if found["brace"] == "{" else -1
                if depth == 0:
                    return
                yield Brace(found["brace"])
            elif found["label"]:
                yield Label(found["label"])
            elif not found["text"].startswith(IGNORED):
                yield self.parse(self.line(found.start("text")), found["text"].strip())

    def statement(self):
        """The line and the text of what ends with the next semicolon."""
        found = self.take(STATEMENT)
        if not found or not found["text"]:
            raise Unknown(f"{self.line(self.at)}: no statement")
        return self.line(found.start("text")), found["text"].strip()

    def parse(self, line, text):
        registers, found, instruction = (p.fullmatch(text) for p in (REGISTERS, VARIABLE, INSTRUCTION))
        if registers:
            return Registers(registers["type"], split(registers["names"]))
        if found:
            return variable(found)
        if not instruction:
            raise Unknown(f"{line}: not a statement: {text}")
        return Instruction(line, instruction["guard"], instruction["name"], instruction["operands"])


def parse(text):
    """The module that a file's text is."""
    return Parser(text).module()
