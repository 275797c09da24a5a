// Random schemas from a seed.
// Numbers from a seed, so that a schema that failed can be made again (Mulberry32).
export function random(seed) {
    return () => {
        seed = (seed + 0x6d2b79f5) | 0;
        let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
        t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
        return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
}

const patterns = ["^[a-z]{2,8}$", "^\\d{3}-\\d{4}$", "^(red|green|blue)$", "[0-9]$", "^[A-Z][a-z]* [A-Z][a-z]*$", "^[^\"\\\\]{1,6}$"];
const formats = ["date", "time", "date-time", "uuid", "email", "ipv4"];

// Conditions on one string that must hold together.
const names = ["^[a-z]+(-[a-z]+)*$", "^(?!x)[a-z0-9_]{2,}$", "^[A-Z][a-zA-Z ]*$", "^(?=.*[0-9])(?=.*[a-z])[a-z0-9]+$", "[0-9]{2}", "^\\w+[.]\\w+$"];
const mail = "^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$";
function together(pick, whole, bounded) {
    const min = whole(0, 6), max = min + whole(4, 30);
    return pick([
        { type: "string", pattern: pick(names), minLength: min, maxLength: max },
        bounded({ type: "string", pattern: pick(names), minLength: min }),
        { type: "string", pattern: mail, format: "email" },
        { type: "string", pattern: mail, format: "email", maxLength: 20 + max },
        { type: "string", format: "email", maxLength: 10 + max },
        { type: "string", pattern: "^(19|20)", format: "date" },
    ]);
}

// A schema within what json_schema.h promises; deeper ones end sooner.
export function makeSchema(next, depth = 0) {
    const pick = (list) => list[Math.floor(next() * list.length)];
    const whole = (min, max) => min + Math.floor(next() * (max - min + 1));
    const chance = (p) => next() < p;
    // What could go on for ever seldom may: small models find no end of it, and an answer that is cut off proves nothing.
    const bounded = (schema) => (chance(0.08) ? schema : { ...schema, maxLength: whole(12, 40) });
    const kinds = ["string", "string", "integer", "number", "boolean", "enum", "const", "null"];
    if (depth < 3) kinds.push("object", "object", "object", "array", "array", "anyOf", "tuple", chance(0.2) ? "map" : "object");
    const kind = depth === 0 ? pick(["object", "object", "object", "object", "object", "object", "array", "array", "anyOf", "anyOf", "allOf", "allOf", "recursive"]) : pick(kinds);
    const inner = () => makeSchema(next, depth + 1);
    const object = (counted = true) => {
        const properties = {};
        for (let i = whole(0, 4); i >= 0; i--) properties[pick(["a", "ab", "name", "x y", "é", "q\"t", "id", "n_1"]) + (chance(0.3) ? i : "")] = inner();
        const required = Object.keys(properties).filter(() => chance(0.7));
        const schema = { type: "object", properties, required };
        if (chance(0.85)) schema.additionalProperties = false; // as strict mode asks; any others may go on for ever
        else if (chance(0.3)) schema.additionalProperties = { type: pick(["integer", "boolean"]) };
        if (counted && chance(0.3)) {
            const most = Object.keys(properties).length + (typeof schema.additionalProperties === "object" ? 1 : 0);
            if (chance(0.6)) schema.minProperties = whole(0, most);
            if (chance(0.6)) schema.maxProperties = whole(Math.max(required.length, schema.minProperties ?? 0), most + 2);
        }
        return schema;
    };
    switch (kind) {
        case "string": {
            if (chance(0.25)) return bounded({ type: "string", pattern: pick(patterns) });
            if (chance(0.2)) return { type: "string", format: pick(formats) };
            if (chance(0.2)) return together(pick, whole, bounded);
            const min = whole(0, 5);
            return chance(0.15) ? bounded({ type: "string" }) : { type: "string", minLength: min, maxLength: min + whole(0, 40) };
        }
        case "integer": {
            if (chance(0.3)) return { type: "integer" };
            const min = whole(-2000, 2000), span = whole(0, 5000);
            return chance(0.3) ? { type: "integer", exclusiveMinimum: min, maximum: min + 1 + span } : { type: "integer", minimum: min, maximum: min + span };
        }
        case "number": {
            if (chance(0.3)) return { type: "number" };
            const min = whole(-300, 300) / pick([1, 2, 4, 10, 100]);
            return chance(0.5) ? { type: "number", minimum: min, maximum: min + 0.25 + next() * 10 } : chance(0.5) ? { type: "number", exclusiveMinimum: min } : { type: "number", exclusiveMaximum: min };
        }
        case "boolean": return { type: "boolean" };
        case "null": return { type: "null" };
        case "const": return { const: pick([1, "x", null, true, { a: [1, "é"] }, [1.5], "quo\"te"]) };
        case "enum": return { enum: [["a", "ab", "abc"], [1, 2.5, "x"], [null, false], ["\n", "\\"]][whole(0, 3)] };
        case "object": return object();
        case "map": return { type: "object", additionalProperties: { type: "integer", minimum: 0, maximum: 9 }, propertyNames: { pattern: "^[a-z]{1,3}$" }, ...pick([{}, { minProperties: 1 }, { minProperties: 1, maxProperties: whole(1, 5) }]) };
        case "array": {
            const min = whole(0, 2);
            return { type: "array", items: inner(), minItems: min, maxItems: min + whole(0, 2) };
        }
        case "tuple": return { type: "array", prefixItems: [inner(), inner()], items: false, minItems: whole(0, 2) };
        case "anyOf": return { anyOf: [inner(), inner(), { type: "null" }] };
        case "allOf": {
            const [a, b] = [object(false), object(false)];
            for (const part of [a, b]) delete part.additionalProperties;
            for (const name of Object.keys(a.properties)) delete b.properties[name];
            b.required = b.required.filter((name) => name in b.properties);
            return { allOf: [{ $ref: "#/$defs/a" }, b], $defs: { a } };
        }
        case "recursive":
            return { $defs: { node: { type: "object", properties: { v: inner(), next: { anyOf: [{ type: "null" }, { $ref: "#/$defs/node" }] } }, required: ["v", "next"], additionalProperties: false } }, $ref: "#/$defs/node" };
    }
}
