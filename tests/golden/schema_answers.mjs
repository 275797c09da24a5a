// Random answers under schemas, judged by ajv: node schema_answers.mjs <schema_judge> [COUNT]. COUNT random schemas (300)
// and those that libraries of types emit for strings. Nothing may be refused, and every answer must be valid.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { makeSchema, random } from "../server/random_schema.mjs";

function skip(why) {
    console.error(`\n*** REFERENCE TEST SKIPPED: ${why}\n`);
    process.exit(77);
}

const modules = join(process.env.RUVLLM_DEPS_DIR ?? "", "node", "node_modules");
for (const name of ["ajv", "ajv-formats", "zod"]) if (!existsSync(join(modules, name))) skip(`${name} is not installed; run \`make setup\``);
const load = async (path) => await import(pathToFileURL(join(modules, path)));
const { default: Ajv } = await load("ajv/dist/2020.js");
const { default: addFormats } = await load("ajv-formats/dist/index.js");
const { z } = await load("zod/index.js");

const ajv = new Ajv({ strict: false });
addFormats(ajv);

// What zod emits, and beside it zod itself as a second judge.
const types = [
    z.email(), z.email().max(30), z.string().max(40).regex(/^[a-z]+( [a-z]+)*$/), z.uuid(), z.iso.date(), z.iso.datetime(), z.iso.time(), z.ipv4(),
    z.string().min(3).max(8), z.string().regex(/^[A-Z]{2}\d+$/).min(4).max(9), z.string().startsWith("ab").max(9), z.string().endsWith("z").min(4),
    z.object({ mail: z.email(), id: z.uuid(), when: z.iso.datetime().nullable() }),
];
const tasks = types.map((type) => ({ type, schema: z.toJSONSchema(type) }));
// What Pydantic emits for constr(pattern=..., max_length=...) and the like.
for (const schema of [
    { type: "string", title: "Slug", pattern: "^[a-z0-9-]+$", maxLength: 50 },
    { type: "string", title: "Name", pattern: "^[A-Za-z][A-Za-z0-9_]*$", minLength: 3, maxLength: 32 },
    { type: "string", title: "Password", pattern: "^(?=.*[A-Z])(?=.*[0-9]).{8,}$", maxLength: 20 },
    { type: "string", title: "Code", pattern: "^\\w{2,4}-\\w+$", minLength: 8, maxLength: 8 },
    { type: "string", title: "Quoted", pattern: "^\"[^\"\\\\]*\"\\\\?$", maxLength: 9 },
    { type: "string", title: "Other letters", pattern: "^[éü€😀]+[^a]$", minLength: 3, maxLength: 5 },
]) tasks.push({ schema });
const count = Number(process.argv[3] ?? 300);
for (let i = 0; i < count; i++) tasks.push({ schema: makeSchema(random(77000 + i)) });

const input = tasks.map(({ schema }, i) => JSON.stringify({ schema, texts: [], answers: 6, seed: i }) + "\n").join("");
const run = spawnSync(process.argv[2], { input, maxBuffer: 1 << 28, encoding: "utf8" });
const replies = run.stdout.trimEnd().split("\n").map((line) => JSON.parse(line));
let answers = 0;
const faults = [];
if (run.status !== 0 || replies.length !== tasks.length) faults.push(`schema_judge ended with ${run.status ?? run.signal} after ${replies.length} of ${tasks.length}`);
replies.forEach((reply, i) => {
    const { schema, type } = tasks[i];
    if (reply?.error !== undefined) return faults.push(`${JSON.stringify(schema)} is refused: ${reply.error}`);
    const validate = ajv.compile(schema);
    for (const text of reply.answers) {
        answers++;
        let value;
        try {
            value = JSON.parse(text);
        } catch (error) {
            faults.push(`${JSON.stringify(schema)}: ${text}: ${error.message}`);
            continue;
        }
        if (!validate(value)) faults.push(`${JSON.stringify(schema)}: ${text}: ${ajv.errorsText(validate.errors)}`);
        else if (type && !type.safeParse(value).success) faults.push(`${JSON.stringify(schema)}: ${text}: zod says no`);
    }
});
console.log(`schema_answers.schemas=${tasks.length}`);
console.log(`schema_answers.answers=${answers}`);
console.log(`schema_answers.faults=${faults.length}`);
for (const fault of faults.slice(0, 10)) console.error(fault);
process.exit(faults.length > 0 || answers < 3 * tasks.length ? 1 : 0);
