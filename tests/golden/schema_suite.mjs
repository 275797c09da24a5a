// Every keyword of draft 2020-12 against our grammars and ajv: node schema_suite.mjs <schema_judge> [-v].
//
// The schemas below are ours, some for each keyword; each is held against every value of the pool. A schema that is not
// supported must be refused with a message that names the keyword it stands under. Of those that are, the grammar takes no
// value that ajv calls invalid; of the valid ones a part: a keyword that speaks of one type leaves values of that type only,
// properties come in the schema's order, and numbers and dates are narrower than they could be.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const modules = join(process.env.RUVLLM_DEPS_DIR ?? "", "node", "node_modules");
if (!existsSync(join(modules, "ajv"))) {
    console.error(`\n*** REFERENCE TEST SKIPPED: ajv is not installed; run \`make setup\`\n`);
    process.exit(77);
}
const load = async (path) => (await import(pathToFileURL(join(modules, path)))).default;
const Ajv = await load("ajv/dist/2020.js");
const addFormats = await load("ajv-formats/dist/index.js");
const ajv = new Ajv({ strict: false });
addFormats(ajv);

const supported = {
    type: [{ type: "null" }, { type: "boolean" }, { type: "integer" }, { type: "number" }, { type: "string" }, { type: "array" }, { type: "object" }, { type: ["integer", "string"] }, { type: ["null", "object", "boolean"] }],
    boolean_schema: [true, { properties: { a: true } }, { items: true }, { prefixItems: [true, false] }, { properties: { a: false, b: true } }],
    enum: [{ enum: [1, "1", null] }, { enum: [{ a: 1 }, [1, 2], []] }, { type: "string", enum: ["a", 1, "é"] }, { enum: [true, false] }, { enum: ["", "a\"b", "\\", "\n"] }, { enum: [0, -1, 1.5] }],
    const: [{ const: 1 }, { const: "ab" }, { const: null }, { const: [1, 2] }, { const: { a: 1, b: [true] } }, { const: false }, { const: "" }],
    properties: [{ properties: { a: { type: "integer" } } }, { type: "object", properties: { a: { type: "integer" }, b: { type: "string" } } }, { properties: { a: { properties: { b: { type: "null" } } } } }, { properties: { "a b": {}, "é": { type: "integer" }, "q\"": { type: "integer" } } }],
    required: [{ required: ["a"] }, { properties: { a: {}, b: {} }, required: ["b"] }, { properties: { b: {} }, required: ["a", "b"] }, { required: [] }],
    additionalProperties: [{ properties: { a: {} }, additionalProperties: false }, { properties: { a: {} }, additionalProperties: { type: "integer" } }, { additionalProperties: { type: "boolean" } }, { additionalProperties: true }, { type: "object", additionalProperties: false }],
    propertyNames: [{ propertyNames: { pattern: "^[a-z]$" } }, { propertyNames: { maxLength: 1 } }, { propertyNames: { enum: ["a", "b"] } }],
    minProperties: [{ minProperties: 0 }, { minProperties: 1 }, { type: "object", properties: { a: {}, b: {} }, minProperties: 1 }, { properties: { a: {}, b: {} }, minProperties: 2 }, { properties: { a: {} }, additionalProperties: { type: "integer" }, minProperties: 2 }, { properties: { a: {}, b: {} }, required: ["b"], minProperties: 1 }],
    maxProperties: [{ maxProperties: 0 }, { type: "object", maxProperties: 1 }, { additionalProperties: { type: "integer" }, maxProperties: 2 }, { properties: { a: {}, b: {} }, additionalProperties: true, maxProperties: 2 }, { properties: { a: {}, b: {}, c: {} }, maxProperties: 2 }, { properties: { a: {}, b: {} }, required: ["b"], maxProperties: 1 }, { allOf: [{ properties: { a: {}, b: {} }, maxProperties: 2 }, { properties: { c: {} }, maxProperties: 1, minProperties: 1 }] }, { propertyNames: { maxLength: 1 }, minProperties: 1, maxProperties: 2 }],
    unevaluatedProperties: [{ properties: { a: {} }, unevaluatedProperties: false }, { allOf: [{ properties: { a: {} } }, { properties: { b: {} } }], unevaluatedProperties: false }],
    items: [{ items: { type: "integer" } }, { type: "array", items: { type: "array", items: { type: "string" } } }, { items: false }, { items: { properties: { a: { type: "integer" } }, required: ["a"] } }],
    prefixItems: [{ prefixItems: [{ type: "integer" }, { type: "string" }] }, { prefixItems: [{ type: "integer" }], items: false }, { prefixItems: [{}], items: { type: "string" } }, { prefixItems: [{ type: "integer" }], minItems: 1, maxItems: 2 }],
    minItems: [{ minItems: 0 }, { minItems: 1 }, { minItems: 2, items: { type: "integer" } }, { minItems: 2.0 }],
    maxItems: [{ maxItems: 0 }, { maxItems: 1 }, { minItems: 1, maxItems: 2 }, { type: "array", maxItems: 3, items: { type: "integer" } }],
    uniqueItems: [{ uniqueItems: false }],
    minLength: [{ minLength: 0 }, { minLength: 2 }, { type: "string", minLength: 5 }, { minLength: 12 }],
    maxLength: [{ maxLength: 0 }, { maxLength: 1 }, { maxLength: 2, minLength: 1 }, { type: "string", maxLength: 9 }, { type: "string", maxLength: 1000 }],
    pattern: [{ pattern: "^a" }, { pattern: "b$" }, { pattern: "a.c" }, { pattern: "^[a-z]{2,3}$" }, { pattern: "^\\d+$" }, { pattern: "^(ab|é)+$" }, { pattern: "[\\s\\S]" }, { pattern: "^$" }, { pattern: "^(?!a)[a-z]*$" }, { pattern: "^[^\"]*\"" }, { pattern: "^[a-z]+$", maxLength: 2 }, { pattern: "a", minLength: 2, maxLength: 3 }],
    format: ["date", "time", "date-time", "uuid", "email", "ipv4"].flatMap((format) => [{ format }, { type: "string", format, maxLength: 40 }, { format, pattern: "[a-z0-9]" }]),
    minimum: [{ minimum: 1 }, { type: "integer", minimum: -3 }, { type: "number", minimum: 1.5 }, { minimum: 0, maximum: 0 }],
    maximum: [{ maximum: 1 }, { type: "integer", maximum: 99 }, { type: "number", maximum: -0.5 }, { type: "integer", minimum: 5, maximum: 120 }],
    exclusiveMinimum: [{ exclusiveMinimum: 1 }, { type: "integer", exclusiveMinimum: 0 }, { type: "number", exclusiveMinimum: 1.5, maximum: 3 }],
    exclusiveMaximum: [{ exclusiveMaximum: 1 }, { type: "integer", exclusiveMaximum: 0 }, { type: "number", exclusiveMaximum: 1.5, minimum: 1 }],
    multipleOf: [{ type: "integer", multipleOf: 1 }],
    anyOf: [{ anyOf: [{ type: "integer" }, { minLength: 2, type: "string" }] }, { anyOf: [{ const: 1 }, { items: { type: "null" } }] }, { anyOf: [true, false] }],
    oneOf: [{ oneOf: [{ type: "integer" }, { type: "string" }] }, { oneOf: [{ const: 1 }, { const: "a" }] }, { oneOf: [{ properties: { a: { const: "x" } }, required: ["a"], type: "object" }, { properties: { a: { const: "y" } }, required: ["a"], type: "object" }] }],
    allOf: [{ allOf: [{ type: "string" }] }, { allOf: [{ properties: { a: { type: "integer" } }, required: ["a"] }, { properties: { b: { type: "string" } } }] }],
    $ref: [{ $ref: "#/$defs/n", $defs: { n: { type: "integer" } } }, { properties: { a: { $ref: "#" } }, additionalProperties: false }, { properties: { a: { $ref: "#/properties/b" }, b: { type: "integer" } } }, { $defs: { "a/b": { type: "null" } }, $ref: "#/$defs/a~1b" }, { $ref: "#/definitions/x", definitions: { x: { $ref: "#/definitions/y" }, y: { type: "array" } } }],
    notes: [{ title: "x", description: "y", default: 1, examples: [1], $comment: "z", deprecated: true, readOnly: true, writeOnly: false, $schema: "https://json-schema.org/draft/2020-12/schema" }],
};
const refused = {
    not: [{ not: {} }, { properties: { a: { not: { type: "integer" } } } }],
    if: [{ if: { type: "integer" }, then: { minimum: 1 } }],
    then: [{ then: { minimum: 1 } }],
    contains: [{ contains: { type: "integer" } }],
    minContains: [{ minContains: 2 }],
    patternProperties: [{ patternProperties: { "^a": {} } }],
    dependentRequired: [{ dependentRequired: { a: ["b"] } }],
    dependentSchemas: [{ dependentSchemas: { a: {} } }],
    minProperties: [{ minProperties: 2 }, { properties: { a: {} }, additionalProperties: {}, minProperties: 3 }, { properties: { a: {} }, minProperties: 2 }, { minProperties: 1, maxProperties: 0 }, { minProperties: -1 }],
    maxProperties: [{ required: ["a", "b"], maxProperties: 1 }, { maxProperties: "1" }, { type: "object", properties: Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`p${i}`, {}])), maxProperties: 50 }],
    uniqueItems: [{ uniqueItems: true }],
    multipleOf: [{ multipleOf: 0.5 }, { type: "integer", multipleOf: 3 }],
    unevaluatedItems: [{ unevaluatedItems: false }],
    unevaluatedProperties: [{ unevaluatedProperties: { type: "integer" } }],
    $dynamicRef: [{ $dynamicRef: "#a" }],
    $ref: [{ $ref: "other.json" }, { $ref: "#/$defs/none" }],
    contentEncoding: [{ contentEncoding: "base64" }],
    format: [{ format: "uri" }, { format: "hostname" }],
    pattern: [{ pattern: "(?<=a)b" }, { pattern: "\\bword" }, { pattern: "^a*b*$", maxLength: 100000 }],
    type: [{ type: "float" }],
    enum: [{ enum: [] }],
    anyOf: [{ anyOf: [{ type: "integer" }], minimum: 1 }],
    oneOf: [{ oneOf: [{ type: "integer" }, { type: "number" }] }],
    allOf: [{ allOf: [{ minimum: 1 }, { maximum: 2 }] }],
};

const strings = ["", "a", "b", "ab", "abc", "aXc", "é", "éé", "ab é", "\"", "a\"b", "\\", "\n", "1", "12", "hello world", "twelve chars", "x".repeat(1000), "x".repeat(1001), "😀", "😀😀",
    "2024-02-28", "2024-02-30", "2023-11-31", "24-1-1", "23:59:59Z", "24:00:00Z", "10:20:30+01:00", "2024-02-28T10:20:30Z", "2024-02-28 10:20", "123e4567-e89b-12d3-a456-426614174000", "123e4567e89b12d3a456426614174000", "a@b.cd", "a.b@c.de", ".a@b.cd", "a..b@c.de", "a@b", "1.2.3.4", "1.2.3", "256.1.1.1", "192.168.0.255"];
const numbers = [0, 1, -1, 2, -3, -4, 5, 12, 99, 100, 120, 121, 0.5, 1.5, -0.5, -0.25, 1.25, 2.999, 3.5, 1e20, 123456789];
const flat = [null, true, false, ...numbers, ...strings];
const arrays = [[], [1], [1, 2], [1, 2, 3], [1, 2, 3, 4], ["a"], [1, "a"], ["a", 1], [1, "a", null], [[]], [["a"], []], [[1]], [{}], [{ a: 1 }], [{ a: 1 }, { a: "x" }], [null], [true, [1]]];
const objects = [{}, { a: 1 }, { a: 2 }, { a: "x" }, { a: 1.5 }, { a: null }, { a: {} }, { a: { b: null } }, { a: { b: 1 } }, { a: { a: {} } }, { b: 1 }, { b: "x" }, { a: 1, b: "x" }, { a: 1, b: 2 }, { b: 1, a: 1 }, { a: 1, b: [true] }, { a: 1, c: 1 }, { a: 1, c: "x" }, { ab: 1 }, { ab: true }, { A: 1 }, { "a b": 1 }, { "é": 1 }, { "é": "x" }, { "q\"": 1 }, { "q\"": "x" }, { a: true, b: false }, { a: 1, b: 1, c: 1 }];
const pool = [...flat, ...arrays, ...objects];
const texts = pool.map((value) => JSON.stringify(value));

const tasks = [supported, refused].flatMap((table, isRefused) => Object.entries(table).flatMap(([keyword, schemas]) => schemas.map((schema) => ({ keyword, schema, isRefused: isRefused === 1 }))));
const input = tasks.map(({ schema }) => JSON.stringify({ schema, texts, answers: 0, seed: 0 }) + "\n").join("");
const run = spawnSync(process.argv[2], { input, maxBuffer: 1 << 28, encoding: "utf8" });
const replies = run.stdout.trimEnd().split("\n").map((line) => JSON.parse(line));
const faults = [];
if (run.status !== 0 || replies.length !== tasks.length) faults.push(`schema_judge ended with ${run.status ?? run.signal} after ${replies.length} of ${tasks.length}`);

const counts = new Map();
const all = { schemas: 0, refused: 0, invalid: 0, valid: 0, taken: 0 };
replies.forEach((reply, i) => {
    const { keyword, schema, isRefused } = tasks[i];
    const label = JSON.stringify(schema).slice(0, 160);
    if (isRefused) {
        all.refused++;
        if (reply.error === undefined) faults.push(`${label} is not refused`);
        else if (!reply.error.includes(`'${keyword}'`)) faults.push(`${label}: '${reply.error}' does not name '${keyword}'`);
        return;
    }
    const own = counts.get(keyword) ?? { schemas: 0, invalid: 0, valid: 0, taken: 0 };
    counts.set(keyword, own);
    if (reply.error !== undefined) return faults.push(`${label} is refused: ${reply.error}`);
    const validate = ajv.compile(schema);
    for (const count of [own, all]) count.schemas++;
    let taken = 0;
    pool.forEach((value, k) => {
        const valid = validate(value);
        if (!valid && reply.takes[k]) faults.push(`${label} takes ${texts[k].slice(0, 80)}`);
        taken += valid && reply.takes[k];
        for (const count of [own, all]) {
            if (!valid) count.invalid++;
            else count.valid++;
            if (valid && reply.takes[k]) count.taken++;
        }
    });
    if (taken === 0 && pool.some((value) => validate(value))) faults.push(`${label} takes nothing that is valid`);
});
if (process.argv[3] === "-v")
    for (const [keyword, c] of counts) console.log(`${keyword}: ${c.schemas} schemas, ${c.invalid} invalid values refused, ${c.taken} of ${c.valid} valid ones taken`);
console.log(`schema_suite.keywords=${counts.size}`);
console.log(`schema_suite.schemas=${all.schemas}`);
console.log(`schema_suite.values=${pool.length}`);
console.log(`schema_suite.invalid=${all.invalid}`);
console.log(`schema_suite.valid=${all.valid}`);
console.log(`schema_suite.valid_taken=${all.taken}`);
console.log(`schema_suite.unsupported=${all.refused}`);
console.log(`schema_suite.faults=${faults.length}`);
for (const fault of faults.slice(0, 20)) console.error(fault);
process.exit(faults.length > 0 ? 1 : 0);
