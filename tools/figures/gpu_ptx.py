"""Combines the CUDA engine's kernels into one PTX file for GPGPU-Sim, for
tools/figures/gpu-simulate."""
import re
import subprocess

BYTES = {"8": 1, "16": 2, "32": 4, "64": 8}
# Unknown to GPGPU-Sim's parser, and not needed for functional simulation: bounds of a launch, and
# the used bytes of a load.
NOT_READ = re.compile(r"\s*(\.(maxntid|minnctapersm|maxnreg)\b|\.pragma\s+\"used_bytes_mask)")
SHUFFLE = re.compile(r"(shfl\.sync\.\w+\.b32\s+%\w+)\|%\w+")
# GPGPU-Sim represents false by 1, but not in constants of instructions: it does not execute this
# form of "not".
OPPOSITE = re.compile(r"\bxor\.pred(\s+%\w+,\s*%\w+),\s*-1;")
STORE = re.compile(r"(?P<before>\s*(?:@!?%\w+\s+)?)st(?P<kinds>[.\w]*?)\.v[248]\.(?P<type>[a-z](?P<bits>\d+))\s+"
                   r"\[(?P<at>[^]+]+)(?:\+(?P<offset>-?\d+))?\],\s*\{(?P<values>[^}]*)\};")


def statements(text):
    """The parts of a PTX file: directives, variables, functions and kernels, without comments."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    found, begin, depth = [], 0, 0
    for mark in re.finditer(r"[(){};\n]", text):
        letter, end = mark[0], mark.end()
        depth += (letter in "{(") - (letter in "})")
        if depth or letter not in ";}\n":
            continue
        part = text[begin:end].strip()
        if letter == ";" or (letter == "}" and "=" not in part.split("{")[0]) or (
                letter == "\n" and re.match(r"\.(version|target|address_size)\b", part)):
            found.append(part)
            begin = end
    rest = text[begin:].strip()
    return [part for part in [*found, rest] if part]


def name_of(statement):
    """The name of a kernel, a function or a variable; None for a directive."""
    head = re.sub(r"^(\s*\.(visible|weak|extern))*", "", re.split(r"[{=]", statement)[0])
    found = (re.match(r"\s*\.entry\s+([\w$]+)", head) or re.match(r"\s*\.func\s*(?:\([^)]*\))?\s*([\w$]+)", head)
             or re.match(r"\s*\.(?:shared|global|const)\b.*?([\w$]+)\s*(?:\[[^]]*\])*\s*;?$", head, re.S))
    return found[1] if found else None


def joined(texts):
    """Several files as one. Equal names must have equal definitions."""
    whole, known = [], {}
    for text in texts:
        for statement in statements(text):
            name = name_of(statement)
            key = (name or statement.split()[0], statement.startswith(".func") and statement.endswith(";"))
            if key not in known:
                known[key] = statement
                whole.append(statement)
            elif known[key] != statement:
                raise ValueError(f"{name or key[0]} is not the same in two files of PTX")
    return "\n".join(whole) + "\n"


def kernels(text):
    """The mangled names of its kernels."""
    return [name_of(part) for part in statements(text) if re.match(r"(\.(visible|weak)\s+)*\.entry\b", part)]


def single_stores(line):
    """Splits a vector store with a constant: GPGPU-Sim expects registers there."""
    found = STORE.match(line)
    if not found:
        return [line]
    values = [value.strip() for value in found["values"].split(",")]
    if all(value.startswith("%") for value in values):
        return [line]
    offset, step = int(found["offset"] or 0), BYTES[found["bits"]]
    return [f"{found['before']}st{found['kinds']}.{found['type']} [{found['at']}+{offset + k * step}], {value};"
            for k, value in enumerate(values)]


def readable(text):
    """The same program in the language of GPGPU-Sim's parser."""
    lines = []
    for line in text.splitlines():
        if not NOT_READ.match(line):
            lines += single_stores(OPPOSITE.sub(r"not.pred\1;", SHUFFLE.sub(r"\1", line)))
    return "\n".join(lines) + "\n"


def plain_names(names):
    """{mangled: readable name}"""
    done = subprocess.run(["c++filt", "-p", *names], stdout=subprocess.PIPE, text=True, check=False)
    found = done.stdout.splitlines() if done.returncode == 0 else names
    return {name: re.sub(r"(\d)ul\b", r"\1", plain.removeprefix("void ")) for name, plain in zip(names, found)}
