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

// All renderings of one template in one process; the tool separates them with NULs.
function ours(path, cases) {
    const run = spawnSync(tool, [path], { input: cases.map((item) => JSON.stringify(item.variables)).join("\n") });
    const parts = run.stdout.toString("utf8").split("\0");
    if (run.status !== 0 || parts.length !== cases.length + 1)
        return cases.map(() => ({ crashed: `exit status ${run.status}, signal ${run.signal}` }));
    return cases.map((_, i) => (parts[i].startsWith("ERROR: ") ? { error: parts[i].slice(7) } : { text: parts[i] }));
}

let rendered = 0, refused = 0, different = 0;
for (const file of readdirSync(folder).filter((name) => name.endsWith(".jinja")).sort()) {
    const path = join(folder, file);
    const source = readFileSync(path, "utf8");
    const notes = [];
    const cases = [];
    for (const [name, messages] of Object.entries(conversations))
        for (const add_generation_prompt of [true, false])
            cases.push({ name, variables: { messages, add_generation_prompt, bos_token: "<s>", eos_token: "</s>" } });
    // Templates may write the date or time: rendered on both sides of ours, one of the two must agree.
    const before = cases.map((item) => reference(source, item.variables));
    const got = ours(path, cases);
    const after = cases.map((item) => reference(source, item.variables));
    cases.forEach(({ name, variables }, i) => {
        if (before[i].error !== undefined && got[i].error !== undefined) {
            refused++;
            notes.push(`${name}: both fail (${got[i].error})`);
        } else if (got[i].text !== undefined && (got[i].text === before[i].text || got[i].text === after[i].text)) {
            rendered++;
        } else {
            different++;
            notes.push(`${name}, prompt ${variables.add_generation_prompt}: DIFFERENT` +
                       `\n      reference: ${JSON.stringify(before[i])}\n      ours:      ${JSON.stringify(got[i])}`);
        }
    });
    console.log(`${notes.some((note) => note.includes("DIFFERENT")) ? "FAIL" : "ok  "} ${file}`);
    for (const note of new Set(notes)) console.log(`     ${note}`);
}
console.log(`${rendered} renderings equal, ${refused} refused by both, ${different} different`);
process.exit(different > 0 || rendered === 0 ? 1 : 0);
