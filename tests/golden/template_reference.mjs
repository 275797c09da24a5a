// Compares our chat template renderer with @huggingface/jinja: node template_reference.mjs <render_template>.
// Every template, on plain conversations, must render to the same bytes or fail in both. Exit code 77: the
// reference or the data is not there.
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

function skip(why) {
    console.error(`\n*** REFERENCE TEST SKIPPED: ${why}\n`);
    process.exit(77);
}

const tool = process.argv[2];
const deps = process.env.RUVLLM_DEPS_DIR ?? "";
const folder = join(process.env.RUVLLM_TEST_DATA ?? "", "templates", "jinja");
const entry = join(deps, "node", "node_modules", "@huggingface", "jinja", "dist", "index.js");
if (!existsSync(entry)) skip(`'${entry}' is not there; run \`make setup\``);
if (!existsSync(folder)) skip(`'${folder}' is not there; set RUVLLM_TEST_DATA`);
const { Template } = await import(pathToFileURL(entry));

const system = { role: "system", content: "You are a helpful assistant." };
const hello = { role: "user", content: "Hello, who are you?" };
const answer = { role: "assistant", content: "I am a small test model." };
const more = { role: "user", content: '  Add 2 and 3.\nThen say "done": Grüße, 你好 🙂.  ' };
const conversations = { full: [system, hello, answer, more], user: [hello], pair: [hello, answer, more] };

function reference(source, variables) {
    try {
        return { text: new Template(source).render(variables) };
    } catch (error) {
        return { error: error.message };
    }
}

function ours(path, variables) {
    const run = spawnSync(tool, [path], { input: JSON.stringify(variables) });
    if (run.status !== 0) return { error: `exit status ${run.status}, signal ${run.signal}`, crashed: true };
    const out = run.stdout.toString("utf8");
    return out.startsWith("ERROR: ") ? { error: out.slice(7) } : { text: out };
}

let rendered = 0, refused = 0, different = 0;
for (const file of readdirSync(folder).filter((name) => name.endsWith(".jinja")).sort()) {
    const path = join(folder, file);
    const source = readFileSync(path, "utf8");
    const notes = [];
    for (const [name, messages] of Object.entries(conversations)) {
        for (const add_generation_prompt of [true, false]) {
            const variables = { messages, add_generation_prompt, bos_token: "<s>", eos_token: "</s>" };
            // Templates may write the date or time: rendered on both sides of ours, one of the two must agree.
            const before = reference(source, variables);
            const got = ours(path, variables);
            const after = reference(source, variables);
            const both_fail = before.error !== undefined && got.error !== undefined && !got.crashed;
            if (both_fail) {
                refused++;
                notes.push(`${name}: both fail (${got.error})`);
            } else if (got.text !== undefined && (got.text === before.text || got.text === after.text)) {
                rendered++;
            } else {
                different++;
                notes.push(`${name}, prompt ${add_generation_prompt}: DIFFERENT\n      reference: ${JSON.stringify(before)}` +
                           `\n      ours:      ${JSON.stringify(got)}`);
            }
        }
    }
    console.log(`${notes.some((note) => note.includes("DIFFERENT")) ? "FAIL" : "ok  "} ${file}`);
    for (const note of new Set(notes)) console.log(`     ${note}`);
}
console.log(`${rendered} renderings equal, ${refused} refused by both, ${different} different`);
process.exit(different > 0 || rendered === 0 ? 1 : 0);
