// Random schemas, answers of real models under them at temperature 1, and ajv's judgement of every answer.
//
//     node tests/server/schema_campaign.mjs [COUNT [FILE]]     COUNT schemas for each of three models; 1000
//
// With a FILE, every outcome is written there, a line each, and what is in it already, but for what hung, is not asked again: a campaign that was broken off goes on.
// Prints one `name=value` line per figure; exit status 1 when an answer is invalid, hangs, or more than 5 % are cut off.
import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { editGguf } from "./gguf_edit.mjs";
import { makeSchema, random } from "./random_schema.mjs";
import { models, modules, Server, skip } from "./server.mjs";

const load = async (path) => (await import(pathToFileURL(join(modules, path)))).default;
if (!existsSync(join(modules, "ajv"))) skip("ajv is not installed; run `make setup`");
const Ajv = await load("ajv/dist/2020.js");
const addFormats = await load("ajv-formats/dist/index.js");

const ajv = new Ajv({ strict: false, allErrors: false });
addFormats(ajv);

// What one schema gave on one model: { name, i, outcome } and, where something is wrong, why.
async function judge(client, name, i, { seed, maxTokens, timeout }) {
    const schema = makeSchema(random(seed * 1000003 + i));
    const options = { temperature: 1, top_p: 1, repetition_penalty: 1, seed: i, max_tokens: maxTokens, response_format: { type: "json_schema", json_schema: { name: "s", strict: true, schema } } };
    let choice;
    try {
        const reply = await (name === "chat"
            ? client.chat.completions.create({ model: name, messages: [{ role: "user", content: "Answer in JSON." }], ...options }, { timeout })
            : client.completions.create({ model: name, prompt: "Once upon a time", ...options }, { timeout }));
        choice = reply.choices[0];
    } catch (error) {
        return { name, i, outcome: error.status === 400 ? "refused" : "hung", why: `${error.status} ${error.message}`, schema };
    }
    if (choice.finish_reason === "length") return { name, i, outcome: "cut" };
    const text = choice.message?.content ?? choice.text;
    try {
        const validate = ajv.compile(schema);
        if (validate(JSON.parse(text))) return { name, i, outcome: "whole" };
        return { name, i, outcome: "invalid", why: ajv.errorsText(validate.errors), text, schema };
    } catch (error) {
        return { name, i, outcome: "invalid", why: error.message, text, schema };
    }
}

// Runs `count` schemas against each of the served models, a few at a time, the models in turns so that none waits for the others. `done` are outcomes
// of an earlier run, `note` is told every new one. The counts, and all that went wrong.
export async function campaign(client, names, count, { seed = 1, maxTokens = 1200, atOnce = 9, timeout = 600000, done = [], note = () => {} } = {}) {
    const result = { schemas: 0, whole: 0, cut: 0, refused: 0, hung: 0, invalid: [] };
    const known = new Map(done.map((outcome) => [`${outcome.name} ${outcome.i}`, outcome]));
    const add = (outcome) => {
        result.schemas++;
        if (outcome.outcome in result && outcome.outcome !== "invalid") result[outcome.outcome]++;
        if (outcome.why) result.invalid.push(outcome);
    };
    const jobs = [];
    for (let i = 0; i < count; i++)
        for (const name of names)
            if (known.has(`${name} ${i}`)) add(known.get(`${name} ${i}`));
            else jobs.push([name, i]);
    await Promise.all(Array.from({ length: atOnce }, async () => {
        while (jobs.length) {
            const outcome = await judge(client, ...jobs.shift(), { seed, maxTokens, timeout });
            note(outcome);
            add(outcome);
        }
    }));
    return result;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
    const count = Number(process.argv[2] ?? 1000), file = process.argv[3];
    const done = file && existsSync(file) ? readFileSync(file, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line)).filter(({ outcome }) => outcome !== "hung") : [];
    const third = join(process.env.RUVLLM_MODELS_DIR ?? "", "stories15M-q8_0.gguf");
    if (!existsSync(third)) skip(`'${third}' is not there; run \`make models\``);
    // The third was trained for 256 tokens, which is no room for an answer: its positions are stretched to 2048.
    const folder = mkdtempSync(join(tmpdir(), "ruvllm-campaign-"));
    const tales = editGguf(third, join(folder, "tales.gguf"), { "llama.context_length": 2048, "llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": { real: 8 }, "llama.rope.scaling.original_context_length": 256 });
    // One thread for each: three models on a few cores would otherwise wait for each other at every step.
    const server = await Server.start([`chat=${models.chat}`, `text=${models.text}`, `tales=${tales}`, "--max-sequences", "16", "--threads", "1"]);
    const note = (outcome) => file && appendFileSync(file, `${JSON.stringify(outcome)}\n`);
    const result = await campaign(server.client("none", { fetch }), ["chat", "text", "tales"], count, { done, note });
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
    for (const fault of result.invalid.slice(0, 10)) console.error(JSON.stringify(fault));
    for (const name of ["schemas", "whole", "cut", "refused", "hung"]) console.log(`schema.${name}=${result[name]}`);
    console.log(`schema.invalid=${result.invalid.length}`);
    console.log(`schema.cut_share=${(result.cut / result.schemas).toFixed(4)}`);
    process.exit(result.invalid.length > 0 || result.cut > 0.05 * result.schemas ? 1 : 0);
}
