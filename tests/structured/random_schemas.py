# SPDX-License-Identifier: Apache-2.0
"""Schemas of the kinds that are met: configurations, records, forms, calls of tools (JSONSchemaBench's, written anew)."""
import random

WORDS = ["id", "name", "type", "value", "items", "tags", "url", "count", "price", "enabled", "created_at", "a/b", "x~y", "größe", "with space",
         'quo"te', "back\\slash", "line\nbreak", "", "ok", "status", "error", "lat", "lon", "children", "parent", "next", "kind", "data", "meta"]
PATTERNS = ["^[a-z]+$", "^[A-Z]{2}[0-9]{4}$", r"^\d{3}-\d{2}-\d{4}$", r"^\w+$", r"^[^\s@]+@[^\s@]+\.[a-z]+$", "^#[0-9a-fA-F]{6}$", "^(foo|bar|baz)$", "abc", "^a", "b$",
            r'^"quoted"$', r"^C:\\[a-z]+$", r"^[^\"]*$", r"^a\tb\nc$", r"^[\x00-\x1f]{1,3}$", r"^\S+$", r"^\D{2,5}$", r"^\W{1,4}$", r"^.{3,8}$", r"^[^/]+/[^/]+$",
            r"^v?\d+\.\d+\.\d+(-[a-z]+)?$", "^(a|b)*c$", r"^[\u00e4\u00f6\u00fc\u20ac]+$", "^[^a-z]{1,5}$", r"^\\d$", "^$", r"^(?:[01]\d|2[0-3]):[0-5]\d$", "^x{0,3}y{2,}z?$",
            r"^[\[\]{}()]+$", r"^[\\\"]+$", r"^\$ref$", r"^https?://[a-z]+\.(com|org)(/[a-z]*)*$", r"^-?\d+(\.\d+)?$", r"^[A-Za-z_][A-Za-z0-9_]*$", r"[0-9]", r"^(?P<n>a+)b*?$",
            "^\U0001F600?$", r"^[^\\]$", r"^a|b$", r"^\u00e9\/$"]
FORMATS = ["date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uri-reference", "uuid", "json-pointer", "relative-json-pointer",
           "idn-email", "iri"]
REFUSED = [{"not": {"type": "null"}}, {"type": "array", "uniqueItems": True}, {"if": {"type": "string"}, "then": {"minLength": 1}},
           {"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"required": ["a"]}]}, {"type": "array", "contains": {"type": "null"}},
           {"type": "string", "pattern": "^(?!a)b$"}, {"type": "string", "format": "color"}, {"type": "number", "multipleOf": 0.01},
           {"type": "object", "minProperties": 3, "additionalProperties": True}, {"type": "string", "pattern": "(a"},
           {"oneOf": [{"type": "integer", "minimum": 0}, {"type": "number", "maximum": 5}]}, {"$ref": "#/nowhere"},
           {"type": "object", "dependentRequired": {"a": ["b"]}}]


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.definitions = []

    def pick(self, *ways):
        return self.random.choice(ways)

    def chance(self, share):
        return self.random.random() < share

    def schema(self):
        """A whole one, with definitions that lead to each other."""
        names = self.random.sample(["node", "a/b", "x~y", "item", "per%cent", "größe"], self.random.randrange(0, 3))
        self.definitions = names
        definitions = {name: self.object(2) if self.chance(0.7) else self.any(2) for name in names}
        root = self.object(0) if self.chance(0.75) else self.any(0)
        if names:
            root = {**root, "$defs": definitions}
        if self.chance(0.3):
            root = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "T", "description": "of it", **root}
        return root

    def any(self, depth):
        if self.chance(0.012):
            return self.random.choice(REFUSED)
        if depth > 4:
            return self.leaf()
        ways = [self.leaf] * 5 + [lambda: self.object(depth)] * 3 + [lambda: self.array(depth)] * 2 + [lambda: self.choice(depth)]
        if self.definitions:
            ways += [self.reference] * 2
        return self.random.choice(ways)()

    def leaf(self):
        made = self.pick(self.string, self.string, self.string, self.number, self.number, self.literal, self.literal,
                         lambda: {"type": "boolean"}, lambda: {"type": "null"}, lambda: {"type": ["string", "null"]},
                         lambda: {"type": ["integer", "string", "boolean"]})()
        if self.chance(0.2):
            made = {**made, "description": "what it is", "default": None, "examples": [1]}
        return made

    def string(self):
        kind = self.random.randrange(6)
        if kind == 0:
            return {"type": "string"}
        if kind == 1:
            least = self.random.randrange(0, 6)
            return {"type": "string", **({"minLength": least} if self.chance(0.7) else {}), "maxLength": least + self.random.randrange(0, 20)}
        if kind == 2:
            return {"type": "string", "format": self.random.choice(FORMATS)}
        made = {"type": "string", "pattern": self.random.choice(PATTERNS)}
        if kind == 3:
            made["maxLength"] = self.random.randrange(2, 12)
        if kind == 4 and self.chance(0.3):
            made["minLength"] = self.random.randrange(1, 4)
        return made

    def number(self):
        made = {"type": self.pick("integer", "integer", "number")}
        point = made["type"] == "number"
        low = self.random.choice([-1000, -17, -1, 0, 0, 1, 5, 99]) + (self.random.choice([0, 0.5, 0.25, 0.001]) if point else 0)
        if self.chance(0.5):
            made[self.pick("minimum", "exclusiveMinimum")] = low
        if self.chance(0.5):
            made[self.pick("maximum", "exclusiveMaximum")] = low + self.random.choice([2, 9, 10, 100, 12345]) + (0.75 if point and self.chance(0.3) else 0)
        if not point and self.chance(0.15):
            made["multipleOf"] = self.random.choice([1, 2, 5, 10, 7])
        return made

    def literal(self):
        values = ["a", "b", 'quo"te', "back\\slash", "new\nline", "é€😀", "", 1, -2.5, 1e21, 0, True, False, None, [1, "x"], {"k": [None]}]
        if self.chance(0.3):
            return {"const": self.random.choice(values)}
        if self.chance(0.5):
            return {"type": "string", "enum": self.random.sample(["red", "green", "blue", 'x"y', "größe", "a\\b"], self.random.randrange(1, 5))}
        return {"enum": self.random.sample(values, self.random.randrange(1, 5))}

    def array(self, depth):
        made = {"type": "array"}
        if self.chance(0.15):
            made["prefixItems"] = [self.any(depth + 1) for _ in range(self.random.randrange(1, 4))]
            if self.chance(0.5):
                made["items"] = self.pick(False, {"type": "integer"})
        elif self.chance(0.93):
            made["items"] = self.any(depth + 1)
        least = self.random.randrange(0, 3)
        if self.chance(0.4) and "prefixItems" not in made:
            made["minItems"] = least
        if self.chance(0.5):
            made["maxItems"] = least + self.random.randrange(0, 4)
        return made

    def choice(self, depth):
        kind = self.random.randrange(4)
        if kind == 0:
            return {"anyOf": [self.any(depth + 1), {"type": "null"}]}
        if kind == 1:
            return {"anyOf": [self.any(depth + 1) for _ in range(self.random.randrange(1, 4))]}
        if kind == 2:
            return {"oneOf": [{"type": "object", "properties": {"kind": {"const": name}, "value": self.any(depth + 2)}, "required": ["kind"],
                               "additionalProperties": False} for name in ("circle", "square", "line")[:self.random.randrange(2, 4)]]}
        return {"oneOf": [{"type": "string", "maxLength": 5}, {"type": "integer", "minimum": 0}, {"type": "null"}]}

    def reference(self):
        name = self.random.choice(self.definitions)
        pointer = name.replace("~", "~0").replace("/", "~1").replace("%", "%25")
        made = {"$ref": "#/$defs/" + pointer}
        return self.pick(made, {"anyOf": [made, {"type": "null"}]}, {"type": "array", "items": made, "maxItems": 2})

    def object(self, depth):
        made = {"type": "object"}
        names = self.random.sample(WORDS, self.random.randrange(0, 6))
        if names or self.chance(0.5):
            made["properties"] = {name: self.any(depth + 1) for name in names}
        if names and self.chance(0.8):
            made["required"] = self.random.sample(names, self.random.randrange(0, len(names) + 1))
        if self.chance(0.5):
            made["additionalProperties"] = self.pick(False, False, True, {"type": "integer"}, self.leaf())
        if self.chance(0.12):
            made["patternProperties"] = {self.random.choice(["^x-", "^[a-z]+_id$", '^"', r"^\d+$", "_at$", r"\\"]): self.leaf()}
        if self.chance(0.08):
            made["propertyNames"] = self.pick({"maxLength": 9}, {"pattern": r"^[a-z_\"]*$"}, {"minLength": 1, "maxLength": 12}, {"enum": ["id", "name", "other"]})
            made.pop("required", None)
        if self.chance(0.12):
            made["minProperties"] = self.random.randrange(0, 3)
        if self.chance(0.12):
            made["maxProperties"] = self.random.randrange(2, 6)
            made["required"] = made.get("required", [])[:2]
        return made


def schema_of(seed):
    return Maker(seed).schema()
