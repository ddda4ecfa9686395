# SPDX-License-Identifier: Apache-2.0
"""Compares printed graphs: equal but for the names and the order of values."""
import hashlib
import re

NAME = r'%(?:"[^"]*"|[^\s,(){}]+)'


def digest(text):
    """A hash of what the graph's outputs compute. `text` is what `sinter compile --stop-after` prints."""
    known, results, block, body_of = {}, [], [], None

    def hashed(line):
        return hashlib.sha256(re.sub(NAME, lambda m: known.get(m[0], m[0]), line).encode()).hexdigest()[:16]

    for line in text.splitlines():
        line = re.sub(r"\s+# from .*$", "", line.rstrip())
        if body_of is not None:
            if line.strip() != "}":
                block.append(line.strip())
                continue
            head, body_of = body_of, None
            known[head[0]] = hashed(head[1] + digest("\n".join(block)))
            continue
        made = re.match(rf"\s*({NAME}) = (.*)$", line)
        if line.lstrip().startswith("graph "):
            block_inputs = re.findall(rf"({NAME}):", line)
            known.update({name: f"in{i}" for i, name in enumerate(block_inputs)})
        elif made and made[2].endswith("{"):
            head, arguments = made[2].rstrip("{").split(" body ")
            body_of = (made[1], head)
            names = re.findall(NAME, arguments[arguments.index("("):])
            block = [f"graph @body({', '.join(name + ': _' for name in names)})"]
        elif made:
            known[made[1]] = hashed(made[2])
        elif line.strip().startswith("return"):
            results.append(hashed(line.strip()))
    return hashlib.sha256(" ".join(results).encode()).hexdigest()[:16]
