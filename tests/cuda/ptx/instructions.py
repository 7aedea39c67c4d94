"""What each instruction of PTX is in C++: a statement, with the functions of ptx.h and of the simulator (cudasim.h).

The table names the instructions that the kernels have. One that is not in it is an error, and so is a known one with
other modifiers.
"""
import functools, re

import syntax

C_TYPES = {"pred": "bool", "f32": "float", "f64": "double",
           **{f"s{bits}": f"int{bits}_t" for bits in (8, 16, 32, 64)},
           **{f"{kind}{bits}": f"uint{bits}_t" for kind in "bu" for bits in (8, 16, 32, 64)}}
FLOATS = ("float", "double")
SPECIAL = {"%tid.x": "threadIdx.x", "%laneid": "(uint32_t)sim::lane()", "%globaltimer": "global_timer()",
           **{f"%{of}.{axis}": f"{name}.{axis}" for of, name in (("ctaid", "blockIdx"), ("nctaid", "gridDim"))
              for axis in "xyz"}}
FIRST_SHARED = 64  # the lowest address of shared memory, so that 0 is none


def bytes_of(type):
    return syntax.BYTES[type.lstrip("busf")]


def identifier(name):
    """The name in C++ of a register, variable, label or function, which is no other name's."""
    return name.lstrip("%") + "_"


class Names:
    """What the names in a function stand for: registers, variables in memory, and places in shared memory."""

    def __init__(self, variables):
        self.registers, self.pointers, self.shared, self.shared_end = {}, set(), {}, FIRST_SHARED
        for variable in variables:
            self.add_variable(variable)

    def add_variable(self, variable):
        if variable.space == "shared":
            begin = -(-self.shared_end // variable.align) * variable.align
            self.shared[variable.name], self.shared_end = begin, begin + variable.bytes
        else:
            self.pointers.add(variable.name)

    def add_registers(self, registers):
        """What scopes declare stays known after them: nvcc gives a name one type only."""
        for name in registers.names:
            self.registers[name.split("<")[0]] = C_TYPES[registers.type]

    def type_of(self, register):
        """The type in C of a register that has a name of its own, or is one of %name<N>."""
        for name in (register, register.rstrip("0123456789")):
            if name in self.registers:
                return self.registers[name]
        raise syntax.Unknown(f"unknown register {register}")

    def value(self, operand, type):
        """An operand as an expression of this type of PTX's."""
        c_type = C_TYPES[type]
        if operand in SPECIAL:
            return f"({c_type}){SPECIAL[operand]}"
        if operand.startswith("!"):
            return f"!{self.value(operand[1:], type)}"
        if operand.startswith("%"):
            return convert(identifier(operand), self.type_of(operand), c_type)
        if operand[:2] in ("0f", "0d"):
            return f"bits_as<{c_type}>(0x{operand[2:]}{'u' if operand[1] == 'f' else 'ull'})"
        if re.fullmatch(r"-?\d+", operand):
            return f"({c_type}){operand}{'ull' if int(operand) >= 1 << 63 else 'll'}"
        if operand in self.shared:
            return f"({c_type}){self.shared[operand]}"
        if operand in self.pointers:
            return f"({c_type})(uintptr_t){identifier(operand)}"
        raise syntax.Unknown(f"unknown operand {operand}")

    def assign(self, register, expression, type):
        """The statement that gives a register a value of this type of PTX's, which says how integers are extended."""
        if register == "_":
            return f"(void)({expression});"
        return f"{identifier(register)} = {convert(f'({expression})', C_TYPES[type], self.type_of(register))};"

    def address(self, operand, space, size, at):
        """A pointer to `size` bytes at [base+offset], whose alignment, and bounds in shared memory, are checked."""
        found = re.fullmatch(r"\[([^+]+)(?:\+(-?\d+))?\]", operand)
        if not found:
            raise syntax.Unknown(f"unknown address {operand}")
        base, offset = found[1], found[2] or "0"
        if space == "shared":
            return f"in_shared(shared, {self.value(base, 'u32')} + (int64_t){offset}, {size}, {at})"
        return f"aligned({self.value(base, 'u64')} + (int64_t){offset}, {size}, {at})"


def convert(expression, given, wanted):
    """Bits stay where one of two types is of floating point, as registers have them."""
    if given == wanted:
        return expression
    return f"bits_as<{wanted}>({expression})" if given in FLOATS or wanted in FLOATS else f"({wanted}){expression}"


class Operand:
    """A source, in the text of an expression: {a} has the instruction's own type, {a:u32} another one."""

    def __init__(self, names, text, type):
        self.names, self.text, self.type = names, text, type

    def __format__(self, type):
        return self.names.value(self.text, type or self.type)


# ---- types of results -----------------------------------------------------------------------------

def last(parts):
    return parts[-1]


def before_last(parts):
    return parts[-2]


def twice_as_wide(parts):
    return f"{parts[-1][0]}{2 * int(parts[-1][1:])}"


# ---- statements that are more than an expression --------------------------------------------------

def place(instruction):
    return f"AT({instruction.line})"


def memory(instruction):
    """The space, the type and the number of elements that a load or store names."""
    spaces = [part for part in instruction.parts if part in ("param", "global", "shared", "local")]
    counts = [int(part[1]) for part in instruction.parts if part in ("v2", "v4")]
    return (spaces or [""])[0], instruction.parts[-1], (counts or [1])[0]


def load(names, instruction):
    space, type, count = memory(instruction)
    to, address = instruction.operands
    size = bytes_of(type)
    pointer = names.address(address, space, size * count, place(instruction))
    loads = [names.assign(register, f"load<{C_TYPES[type]}>(from + {i * size})", type)
             for i, register in enumerate(syntax.elements(to))]
    return f"{{ const char *from = {pointer}; {' '.join(loads)} }}"


def store(names, instruction):
    space, type, count = memory(instruction)
    address, values = instruction.operands
    size = bytes_of(type)
    pointer = names.address(address, space, size * count, place(instruction))
    stores = [f"store<{C_TYPES[type]}>(to + {i * size}, {names.value(value, type)});"
              for i, value in enumerate(syntax.elements(values))]
    return f"{{ char *to = {pointer}; {' '.join(stores)} }}"


def move(names, instruction):
    """Where one side is a list, its parts are parts of the other side's bits, the lowest first."""
    to, value = instruction.operands
    type = instruction.parts[-1]
    lists = [operand for operand in (to, value) if syntax.is_list(operand)]
    if not lists:
        return names.assign(to, names.value(value, type), type)
    parts = syntax.elements(lists[0])
    bits = int(type[1:])
    step = bits // len(parts)
    if syntax.is_list(value):
        whole = " | ".join(f"(uint{bits}_t){names.value(part, f'b{step}')} << {i * step}"
                           for i, part in enumerate(parts))
        return names.assign(to, whole, f"b{bits}")
    assignments = [names.assign(part, f"(uint{step}_t)(all >> {i * step})", f"b{step}") for i, part in enumerate(parts)]
    return f"{{ const uint{bits}_t all = {names.value(value, f'b{bits}')}; {' '.join(assignments)} }}"


def branch(names, instruction):
    return f"goto {identifier(instruction.operands[0])};"


def leave(names, instruction):
    return "return;"


def call(names, instruction):
    results, function, arguments = instruction.operands
    variables = map(identifier, syntax.elements(results) + syntax.elements(arguments))
    return f"{identifier(function)}({', '.join(variables)});"


def barrier(names, instruction):
    return f"sim::barrier({place(instruction)});"


def shuffle(names, instruction):
    """The value of the lane that has a number, or whose number differs in some bits, and, as a second result, whether
    there is one: always, because all 32 lanes take part."""
    to, value, number, *_ = instruction.operands
    register, _, exists = to.partition("|")
    number = names.value(number, "s32")
    lane = f"{number} & 31" if ".idx." in instruction.name else f"sim::lane() ^ {number}"
    shuffled = f"sim::shuffle({place(instruction)}, {names.value(value, 'b32')}, {lane})"
    return f"{{ {names.assign(register, shuffled, 'b32')} {names.assign(exists or '_', 'true', 'pred')} }}"


def ballot(names, instruction):
    to, predicate, _ = instruction.operands
    return names.assign(to, f"sim::vote({place(instruction)}, {names.value(predicate, 'pred')})", "b32")


def maximum_in_memory(names, instruction):
    to, address, value = instruction.operands
    pointer = names.address(address, "global", 4, place(instruction))
    return names.assign(to, f"atomicMax((int *){pointer}, {names.value(value, 's32')})", "s32")


def load_matrices(names, instruction):
    to, address = instruction.operands
    pointer = names.address(address, "shared", 16, place(instruction))
    transposed = "true" if "trans" in instruction.parts else "false"
    assignments = [names.assign(register, f"words[{i}].bits", "b32") for i, register in enumerate(syntax.elements(to))]
    return (f"{{ pair words[4]; sim::load_matrices({place(instruction)}, {pointer}, {transposed}, words); "
            f"{' '.join(assignments)} }}")


def multiply_matrices(names, instruction):
    to, a, b, c = (syntax.elements(operand) for operand in instruction.operands)
    words = [", ".join(f"{{{names.value(word, 'b32')}}}" for word in words) for words in (a, b)]
    sums = ", ".join(names.value(value, "f32") for value in c)
    assignments = [names.assign(register, f"sums[{i}]", "f32") for i, register in enumerate(to)]
    return (f"{{ float sums[4] = {{{sums}}}; const pair a[4] = {{{words[0]}}}, b[2] = {{{words[1]}}}; "
            f"sim::multiply_add({place(instruction)}, sums, a, b[0], b[1], yki_{instruction.parts[-2]}_to_float); "
            f"{' '.join(assignments)} }}")


# ---- the table ------------------------------------------------------------------------------------
# A row is the name of instructions, where INT, FLOAT, BITS and ANY stand for types; their C++, a function above or the
# text of an expression; and, for an expression, the type of its result. In the text, a, b, c and d are the sources, of
# the type that the name ends with, T is the result's type in C, and `bits` the number of its bits. Integers wrap around
# (-fwrapv).

CLASSES = {"INT": "[su](?:8|16|32|64)", "FLOAT": "f(?:32|64)", "BITS": "b(?:16|32|64)",
           "ANY": "(?:[bus](?:8|16|32|64)|f(?:32|64))"}


def row(name, translation, result=last):
    return re.compile(re.sub("[A-Z]+", lambda found: CLASSES[found[0]], name.replace(".", r"\."))), translation, result


MOVES = (
    row("mov.(ANY|pred)", move),
    row("cvta(.to.global|.to.local|.local).u64", "{a}"),
    row("selp.ANY", "{c:pred} ? {a} : {b}"),
)

CONTROL = (
    row("bra(.uni)?", branch),
    row("ret", leave),
    row("call.uni", call),
)

INTEGERS = (
    row("add.INT", "({T})({a} + {b})"),
    row("sub.INT", "({T})({a} - {b})"),
    row("neg.INT", "({T})-{a}"),
    row("abs.s(32|64)", "({T})({a} < 0 ? -{a} : {a})"),
    row("mul.lo.INT", "({T})({a} * {b})"),
    row("mul.hi.u32", "({T})((uint64_t){a} * {b} >> 32)"),
    row("mul.wide.INT", "({T}){a} * ({T}){b}", twice_as_wide),
    row("mad.lo.INT", "({T})({a} * {b} + {c})"),
    row("mad.wide.u32", "({T}){a} * {b} + {c:u64}", twice_as_wide),
    row("div.INT", "({T})({a} / {b})"),
    row("rem.INT", "({T})({a} % {b})"),
    row("min.INT", "{a} < {b} ? {a} : {b}"),
    row("max.INT", "{a} > {b} ? {a} : {b}"),
)

# Parts of wide integers: `carry` goes from one to the next.
WIDE_INTEGERS = (
    row("add.cc.u32", "add_parts({a}, {b}, 0, &carry)"),
    row("addc.cc.u32", "add_parts({a}, {b}, carry, &carry)"),
    row("addc.u32", "{a} + {b} + carry"),
    row("sub.cc.u32", "subtract_parts({a}, {b}, 0, &carry)"),
    row("subc.cc.u32", "subtract_parts({a}, {b}, carry, &carry)"),
    row("subc.u32", "{a} - {b} - carry"),
    row("mad.lo.cc.u32", "add_parts({a} * {b}, {c}, 0, &carry)"),
    row("madc.lo.cc.u32", "add_parts({a} * {b}, {c}, carry, &carry)"),
    row("madc.hi.cc.u32", "add_parts((uint64_t){a} * {b} >> 32, {c}, carry, &carry)"),
    row("madc.hi.u32", "(uint32_t)((uint64_t){a} * {b} >> 32) + {c} + carry"),
)

BITWISE = (
    row("and.(BITS|pred)", "({T})({a} & {b})"),
    row("or.(BITS|pred)", "({T})({a} | {b})"),
    row("xor.(BITS|pred)", "({T})({a} ^ {b})"),
    row("not.BITS", "({T})~{a}"),
    row("not.pred", "!{a}"),
    row("shl.BITS", "({T})({b:u32} < {bits} ? {a} << {b:u32} : 0)"),
    row("shr.(u|b)(16|32|64)", "({T})({b:u32} < {bits} ? {a} >> {b:u32} : 0)"),
    row("shr.s(16|32|64)", "({T})({a} >> ({b:u32} < {bits} ? {b:u32} : {bits} - 1))"),
    row("shf.l.wrap.b32", "(uint32_t)((((uint64_t){b} << 32 | {a}) << ({c} & 31)) >> 32)"),
    row("prmt.b32", "permute({a}, {b}, {c})"),
    row("popc.b32", "__builtin_popcount({a})"),
    row("brev.b32", "reverse({a})"),
    row("clz.b64", "{a} ? __builtin_clzll({a}) : 64", "u32"),
    row("bfind.shiftamt.u32", "{a} ? __builtin_clz({a}) : ~0u"),
    row("bfi.b64", "insert({a}, {b}, {c:u32}, {d:u32})"),
)

FLOATING_POINT = (
    row("add.rn.FLOAT", "{a} + {b}"),
    row("add.rz.f32", "rounded(FE_TOWARDZERO, {a}, 1, {b})"),
    row("sub.rn.FLOAT", "{a} - {b}"),
    row("mul.rn.FLOAT", "{a} * {b}"),
    row("fma.rn.FLOAT", "std::fma({a}, {b}, {c})"),
    row("fma.rm.f32", "rounded(FE_DOWNWARD, {a}, {b}, {c})"),
    row("div.rn.FLOAT", "{a} / {b}"),
    row("rcp.rn.FLOAT", "1 / {a}"),
    row("rcp.approx.ftz.FLOAT", "about_reciprocal({a})"),
    row("sqrt.rn.FLOAT", "std::sqrt({a})"),
    row("ex2.approx.f32", "about_exp2({a})"),
    row("ex2.approx.ftz.f32", "flush(about_exp2({a}))"),
    row("neg.FLOAT", "-{a}"),
    row("abs.FLOAT", "std::fabs({a})"),
    row("copysign.FLOAT", "std::copysign({b}, {a})"),
)

# Those whose names end with u hold for NaN, too.
COMPARISONS = (
    *(row(f"setp.{name}.ANY", f"{{a}} {operator} {{b}}", "pred")
      for name, operator in (("eq", "=="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="))),
    row("setp.ne.(INT|BITS)", "{a} != {b}", "pred"),
    row("setp.neu.FLOAT", "{a} != {b}", "pred"),
    *(row(f"setp.{name}.FLOAT", f"!({{a}} {opposite} {{b}})", "pred")
      for name, opposite in (("ltu", ">="), ("leu", ">"), ("gtu", "<="), ("geu", "<"))),
    row("setp.nan.FLOAT", "std::isunordered({a}, {b})", "pred"),
    row("setp.num.FLOAT", "!std::isunordered({a}, {b})", "pred"),
)

CONVERSIONS = (
    row("cvt.f32.f16", "yki_f16_to_float({a:b16})", "f32"),
    row("cvt.rn.f16.f32", "yki_f16_from_float({a})", "b16"),
    row("cvt.rn.bf16.f32", "yki_bf16_from_float({a})", "b16"),
    row("cvt.f64.f32", "(double){a}", "f64"),
    row("cvt.rn.f32.f64", "(float){a}", "f32"),
    row("cvt.sat.f32.f32", "saturate({a})"),
    row("cvt.INT.INT", "({T}){a}", before_last),
    row("cvt.rn.FLOAT.INT", "({T}){a}", before_last),
    row("cvt.rni.INT.FLOAT", "to_integer<{T}>(std::nearbyint({a}))", before_last),
    row("cvt.rzi.INT.FLOAT", "to_integer<{T}>(std::trunc({a}))", before_last),
    row("cvt.rni.(f32.f32|f64.f64)", "std::nearbyint({a})"),
    row("cvt.rzi.(f32.f32|f64.f64)", "std::trunc({a})"),
    row("cvt.rmi.(f32.f32|f64.f64)", "std::floor({a})"),
)

MEMORY = (
    row("ld(.param|.global|.global.nc|.shared|.local)?(.v2|.v4)?.ANY", load),
    row("st(.param|.global|.shared|.local)?(.v2|.v4)?.ANY", store),
    row("atom.global.max.s32", maximum_in_memory),
)

WARPS = (
    row("bar.sync", barrier),
    row("shfl.sync.(bfly|idx).b32", shuffle),
    row("vote.sync.ballot.b32", ballot),
)

TENSOR_CORES = (
    row("ldmatrix.sync.aligned.m8n8.x4(.trans)?.shared.b16", load_matrices),
    row("mma.sync.aligned.m16n8k16.row.col.f32.(f16.f16|bf16.bf16).f32", multiply_matrices),
)

TABLE = (*MOVES, *CONTROL, *INTEGERS, *WIDE_INTEGERS, *BITWISE, *FLOATING_POINT, *COMPARISONS, *CONVERSIONS, *MEMORY,
         *WARPS, *TENSOR_CORES)


@functools.lru_cache(maxsize=None)
def find(name):
    """How the instruction of this name is translated, and the type of its result."""
    for pattern, translation, result in TABLE:
        if pattern.fullmatch(name):
            return translation, result
    raise syntax.Unknown("unknown instruction")


def unguarded(names, instruction):
    """The statement without the predicate that an instruction may depend on."""
    translation, result = find(instruction.name)
    if callable(translation):
        return translation(names, instruction)
    to, *sources = instruction.operands
    type = instruction.parts[-1]
    result = result(instruction.parts) if callable(result) else result
    expression = translation.format(T=C_TYPES[result], bits=result[1:],
                                    **{letter: Operand(names, source, type) for letter, source in zip("abcd", sources)})
    return names.assign(to, expression, result)


def translate(names, instruction):
    """The statement in C++ of an instruction."""
    try:
        statement = unguarded(names, instruction)
        return f"if ({names.value(instruction.guard, 'pred')}) {statement}" if instruction.guard else statement
    except syntax.Unknown as unknown:
        raise syntax.Unknown(f"{instruction.line}: {unknown}: {instruction}") from None
    except (KeyError, ValueError):  # another number of operands than the translation takes
        raise syntax.Unknown(f"{instruction.line}: unknown operands: {instruction}") from None
