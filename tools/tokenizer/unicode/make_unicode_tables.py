#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes unicode_tables.inc of ICU's tables: pip install icukit-pyicu==78.3.1 (ICU 78.3, Unicode 17), then run this.
Characters whose values are equal share a record; a run is characters one after the other with one record."""
import sys
from pathlib import Path

import icu

LIMIT = 0x110000
# Ages that tables elsewhere stop at (README.md, "Tables of Unicode").
AGES = [(8, 0), (9, 0), (12, 0), (14, 0), (16, 0), (17, 0)]
FLAGS = [(icu.UProperty.ALPHABETIC, 1), (icu.UProperty.EXTENDED_PICTOGRAPHIC, 2), (icu.UProperty.UPPERCASE, 4), (icu.UProperty.LOWERCASE, 8)]
HANGUL = range(0xAC00, 0xD7A4)


def age_of(c):
    major, minor = (int(n) for n in icu.Char.charAge(c).split(".")[:2])
    if (major, minor) == (0, 0):
        return len(AGES)
    return next(i for i, age in enumerate(AGES) if (major, minor) <= age)


def record_of(code, scripts):
    c = chr(code)
    script = icu.Script.getScript(c)
    names = (script.getName(), script.getShortName())
    number = scripts.setdefault(names, len(scripts))
    flags = sum(bit for name, bit in FLAGS if icu.Char.hasBinaryProperty(c, name))
    return (icu.Char.charType(c), age_of(c), icu.Char.getCombiningClass(c), icu.Char.getIntPropertyValue(c, icu.UProperty.GRAPHEME_CLUSTER_BREAK),
            icu.Char.getIntPropertyValue(c, icu.UProperty.INDIC_CONJUNCT_BREAK), flags, number)


def lines(items, width=100):
    line = ""
    for item in items:
        if len(line) + len(item) + 1 > width:
            yield line
            line = ""
        line += item + ","
    if line:
        yield line


def array(out, declaration, items):
    out.append(f"constexpr {declaration}[] = {{")
    out.extend(lines(items))
    out.append("};")


def main():
    records, scripts, runs = {}, {("Unknown", "Zzzz"): 0}, []
    for code in range(LIMIT):
        number = records.setdefault(record_of(code, scripts), len(records))
        if not runs or runs[-1][1] != number:
            runs.append((code, number))
    root, lower = icu.Locale.getRoot(), []
    for code in range(LIMIT):
        if 0xD800 <= code < 0xE000 or code == 0x130:  # the one whose small letter is two characters
            continue
        small = str(icu.UnicodeString(chr(code)).toLower(root))
        assert len(small) == 1, hex(code)
        if (delta := ord(small) - code) == 0:
            continue
        if lower and lower[-1][2] == delta and code - lower[-1][1] in (1, 2) and (lower[-1][0] == lower[-1][1] or code - lower[-1][1] == lower[-1][3]):
            first, last, _, _ = lower[-1]
            lower[-1] = (first, code, delta, code - last)
        else:
            lower.append((code, code, delta, 1))
    nfc, nfd, nfkd = (getattr(icu.Normalizer2, f"get{form}Instance")().normalize for form in ("NFC", "NFD", "NFKD"))
    canonical, compatible, pairs, text = [], [], [], []
    for code in range(LIMIT):
        if code in HANGUL or 0xD800 <= code < 0xE000:
            continue
        full, wide = nfd(chr(code)), nfkd(chr(code))
        for found, differs, table in ((full, full != chr(code), canonical), (wide, wide != full, compatible)):
            if differs:
                table.append((code, len(text), len(found)))
                text.extend(map(ord, found))
        if full != chr(code) and not icu.Char.hasBinaryProperty(chr(code), icu.UProperty.FULL_COMPOSITION_EXCLUSION):
            first = nfc(full[:-1])
            assert len(first) == 1 and nfc(first + full[-1]) == chr(code), hex(code)
            pairs.append((ord(first), ord(full[-1]), code))
    out = [f"// Unicode {icu.UNICODE_VERSION}, of ICU {icu.ICU_VERSION}: make_unicode_tables.py writes this."]
    row = lambda values: "{" + ",".join(f"{v}" for v in values) + "}"
    array(out, "UnicodeRecord kRecords", [row(r) for r in records])
    array(out, "UnicodeRun kRuns", [row(r) for r in runs])
    array(out, "LowerRun kLowerRuns", [row(r) for r in lower])
    array(out, "Decomposition kCanonical", [row(r) for r in canonical])
    array(out, "Decomposition kCompatible", [row(r) for r in compatible])
    array(out, "char32_t kDecomposed", [f"{c}" for c in text])
    array(out, "Composition kCompositions", [row(r) for r in sorted(pairs)])
    array(out, "ScriptNames kScripts", [f'{{"{a}","{b}"}}' for a, b in scripts])
    Path(__file__).with_name("unicode_tables.inc").write_text("\n".join(out) + "\n")
    print(len(records), "records,", len(runs), "runs,", len(lower), "lower,", len(canonical), len(compatible), len(text), len(pairs), len(scripts), file=sys.stderr)


if __name__ == "__main__":
    main()
