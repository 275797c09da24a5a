// Random schemas, answers of real models under them at temperature 1, and ajv's judgement of every answer.
//
//     node tests/server/schema_campaign.mjs [COUNT]     COUNT schemas for each of three models; 1000
//
// Prints one `name=value` line per figure; exit status 1 when an answer is invalid, hangs, or more than 5 % are cut off.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { models, modules, Server, skip } from "./server.mjs";

const load = async (path) => (await import(pathToFileURL(join(modules, path)))).default;
if (!existsSync(join(modules, "ajv"))) skip("ajv is not installed; run `make setup`");
const Ajv = await load("ajv/dist/2020.js");
const addFormats = await load("ajv-formats/dist/index.js");

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

// A schema within what json_schema.h promises; deeper ones end sooner.
export function makeSchema(next, depth = 0) {
    const pick = (list) => list[Math.floor(next() * list.length)];
    const whole = (min, max) => min + Math.floor(next() * (max - min + 1));
    const chance = (p) => next() < p;
    const kinds = ["string", "string", "integer", "number", "boolean", "enum", "const", "null"];
    if (depth < 3) kinds.push("object", "object", "object", "array", "array", "anyOf", "tuple", "map");
    const kind = depth === 0 ? pick(["object", "object", "object", "array", "anyOf", "recursive", "allOf"]) : pick(kinds);
    const inner = () => makeSchema(next, depth + 1);
    const object = () => {
        const properties = {};
        for (let i = whole(0, 4); i >= 0; i--) properties[pick(["a", "ab", "name", "x y", "é", "q\"t", "id", "n_1"]) + (chance(0.3) ? i : "")] = inner();
        const required = Object.keys(properties).filter(() => chance(0.7));
        const schema = { type: "object", properties, required };
        if (chance(0.6)) schema.additionalProperties = false;
        else if (chance(0.3)) schema.additionalProperties = { type: pick(["integer", "boolean"]) };
        return schema;
    };
    switch (kind) {
        case "string": {
            if (chance(0.25)) return { type: "string", pattern: pick(patterns) };
            if (chance(0.25)) return { type: "string", format: pick(formats) };
            const min = whole(0, 5);
            return chance(0.15) ? { type: "string" } : { type: "string", minLength: min, maxLength: min + whole(0, 40) };
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
        case "map": return { type: "object", additionalProperties: { type: "integer", minimum: 0, maximum: 9 }, propertyNames: { pattern: "^[a-z]{1,3}$" } };
        case "array": {
            const min = whole(0, 2);
            return { type: "array", items: inner(), minItems: min, maxItems: min + whole(0, 2) };
        }
        case "tuple": return { type: "array", prefixItems: [inner(), inner()], items: false, minItems: whole(0, 2) };
        case "anyOf": return { anyOf: [inner(), inner(), { type: "null" }] };
        case "allOf": {
            const [a, b] = [object(), object()];
            for (const part of [a, b]) delete part.additionalProperties;
            for (const name of Object.keys(a.properties)) delete b.properties[name];
            b.required = b.required.filter((name) => name in b.properties);
            return { allOf: [{ $ref: "#/$defs/a" }, b], $defs: { a } };
        }
        case "recursive":
            return { $defs: { node: { type: "object", properties: { v: inner(), next: { anyOf: [{ type: "null" }, { $ref: "#/$defs/node" }] } }, required: ["v", "next"], additionalProperties: false } }, $ref: "#/$defs/node" };
    }
}

const ajv = new Ajv({ strict: false, allErrors: false });
addFormats(ajv);

// Runs `count` schemas against each of the served models, a few at a time. The counts, and what was invalid.
export async function campaign(client, names, count, { seed = 1, maxTokens = 400, atOnce = 8, timeout = 120000 } = {}) {
    const result = { schemas: 0, whole: 0, cut: 0, refused: 0, hung: 0, invalid: [] };
    const one = async (name, i) => {
        const schema = makeSchema(random(seed * 1000003 + i));
        const options = { temperature: 1, top_p: 1, repetition_penalty: 1, seed: i, max_tokens: maxTokens, response_format: { type: "json_schema", json_schema: { name: "s", strict: true, schema } } };
        let choice;
        result.schemas++;
        try {
            const reply = await (name === "chat"
                ? client.chat.completions.create({ model: name, messages: [{ role: "user", content: "Answer in JSON." }], ...options }, { timeout })
                : client.completions.create({ model: name, prompt: "Once upon a time", ...options }, { timeout }));
            choice = reply.choices[0];
        } catch (error) {
            if (error.status === 400) result.refused++;
            else result.hung++;
            result.invalid.push({ name, i, why: `${error.status} ${error.message}`, schema });
            return;
        }
        if (choice.finish_reason === "length") {
            result.cut++;
            return;
        }
        const text = choice.message?.content ?? choice.text;
        let why = null;
        try {
            const validate = ajv.compile(schema);
            if (!validate(JSON.parse(text))) why = ajv.errorsText(validate.errors);
        } catch (error) {
            why = error.message;
        }
        if (why) result.invalid.push({ name, i, why, text, schema });
        else result.whole++;
    };
    const jobs = names.flatMap((name) => Array.from({ length: count }, (_, i) => [name, i]));
    await Promise.all(Array.from({ length: atOnce }, async () => {
        while (jobs.length) await one(...jobs.shift());
    }));
    return result;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
    const count = Number(process.argv[2] ?? 1000);
    const third = join(process.env.RUVLLM_MODELS_DIR ?? "", "stories15M-q8_0.gguf");
    if (!existsSync(third)) skip(`'${third}' is not there; run \`make models\``);
    const server = await Server.start([`chat=${models.chat}`, `text=${models.text}`, `tales=${third}`, "--max-sequences", "16"]);
    const result = await campaign(server.client("none", { fetch }), ["chat", "text", "tales"], count);
    await server.stop();
    for (const fault of result.invalid.slice(0, 10)) console.error(JSON.stringify(fault));
    for (const name of ["schemas", "whole", "cut", "refused", "hung"]) console.log(`schema.${name}=${result[name]}`);
    console.log(`schema.invalid=${result.invalid.length}`);
    console.log(`schema.cut_share=${(result.cut / result.schemas).toFixed(4)}`);
    process.exit(result.invalid.length > 0 || result.cut > 0.05 * result.schemas ? 1 : 0);
}
