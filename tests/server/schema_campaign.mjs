// Random schemas, answers of real models under them at temperature 1, and ajv's judgement of every answer.
//
//     node tests/server/schema_campaign.mjs [COUNT]     COUNT schemas for each of three models; 1000
//
// Prints one `name=value` line per figure; exit status 1 when an answer is invalid, hangs, or more than 5 % are cut off.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { makeSchema, random } from "./random_schema.mjs";
import { models, modules, Server, skip } from "./server.mjs";

const load = async (path) => (await import(pathToFileURL(join(modules, path)))).default;
if (!existsSync(join(modules, "ajv"))) skip("ajv is not installed; run `make setup`");
const Ajv = await load("ajv/dist/2020.js");
const addFormats = await load("ajv-formats/dist/index.js");

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
