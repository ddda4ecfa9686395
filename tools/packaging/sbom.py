# SPDX-License-Identifier: Apache-2.0
"""A bill of materials (CycloneDX 1.5, JSON) of the rows of NOTICE that ship, and checksums of what was made."""
import hashlib
import json
import re
import uuid

from . import notice, stage

EXPRESSION = re.compile(r"[\w.+-]+( (OR|AND|WITH) [\w.+-]+)*")


def sha256(path):
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def licences(text):
    """CycloneDX's list: one expression, or a licence each where NOTICE names several."""
    if EXPRESSION.fullmatch(text):
        return [{"expression": text}] if " " in text else [{"license": {"name": text} if text.startswith("LicenseRef") else {"id": text}}]
    return [{"license": {"id": each}} for each in text.split(", ")]


def identity(row):
    """A package URL where there is one."""
    for kind, form in (("pypi:", "pkg:pypi/{0}@{1}"), ("deb:", "pkg:deb/debian/{0}?upstream_version={1}")):
        for name in sorted(row.names):
            if name.startswith(kind):
                return form.format(name.removeprefix(kind), row.version.split(";")[0].split(",")[0])
    return None


def bill(files):
    """`files`: what was made; each is a component of its own, with its hash."""
    version = stage.version()
    components = [{"type": "file", "name": path.name, "version": version, "bom-ref": path.name,
                   "hashes": [{"alg": "SHA-256", "content": sha256(path)}], "licenses": [{"license": {"id": "Apache-2.0"}}]}
                  for path in files]
    for row in notice.read_rows():
        if not row.ships:
            continue
        component = {"type": "library", "name": row.name, "version": row.version, "bom-ref": f"notice:{row.name}",
                     "scope": "required", "licenses": licences(row.licence),
                     "properties": [{"name": "sinter:in", "value": " ".join(sorted(row.where))}, {"name": "sinter:how", "value": row.how}]}
        if url := identity(row):
            component["purl"] = url
        components.append(component)
    serial = uuid.uuid5(uuid.NAMESPACE_URL, "sinter " + " ".join(each["hashes"][0]["content"] for each in components if "hashes" in each))
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "serialNumber": f"urn:uuid:{serial}", "version": 1,
            "metadata": {"component": {"type": "application", "name": "sinter", "version": version, "bom-ref": "sinter",
                                       "licenses": [{"license": {"id": "Apache-2.0"}}]},
                         "supplier": {"name": "Sinter contributors"}},
            "components": components,
            "dependencies": [{"ref": "sinter", "dependsOn": [each["bom-ref"] for each in components if each["type"] == "library"]}]}


def write(into, files):
    path = into / f"sinter-{stage.version()}.cdx.json"
    path.write_text(json.dumps(bill(files), indent=1) + "\n")
    return path


def write_sums(into, files):
    path = into / "SHA256SUMS"
    path.write_text("".join(f"{sha256(each)}  {each.name}\n" for each in sorted(files)))
    return path
