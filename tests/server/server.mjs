// Starts the real server for a suite and stops it afterwards. Exit code 77 of a suite: something it needs is not there.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

export function skip(why) {
    console.error(`\n*** SERVER TEST SKIPPED: ${why}\n`);
    process.exit(77);
}

const deps = process.env.RUVLLM_DEPS_DIR ?? "";
const modules = join(deps, "node", "node_modules");
const data = join(process.env.RUVLLM_TEST_DATA ?? "", "models");

export const program = process.env.RUVLLM ?? "";
export const models = { chat: join(data, "minimind2-26m-f16.gguf"), text: join(data, "stories260K.gguf") };

for (const path of [program, models.chat, models.text, join(modules, "openai")])
    if (!existsSync(path)) skip(`'${path}' is not there; run \`make setup\` and set RUVLLM_TEST_DATA`);

export const { default: OpenAI } = await import(pathToFileURL(join(modules, "openai", "index.mjs")));

// Waits for a line of standard output that matches; fails with all that was said when the program ends first.
function waitFor(child, said, pattern) {
    return new Promise((resolve, reject) => {
        const look = () => {
            const found = said.out.match(pattern);
            if (found) resolve(found);
        };
        child.stdout.on("data", look);
        child.on("exit", (code) => reject(new Error(`the server ended with ${code}: ${said.out}${said.err}`)));
        look();
    });
}

export class Server {
    // `args` go after those every test wants: a free port and a store of its own.
    static async start(args, { folder, env } = {}) {
        const server = new Server();
        server.folder = folder ?? mkdtempSync(join(tmpdir(), "ruvllm-server-"));
        server.ownsFolder = !folder;
        server.store = join(server.folder, "store.db");
        server.said = { out: "", err: "" };
        const all = ["serve", ...args, "--store", server.store];
        if (!args.includes("--listen")) all.push("--listen", "127.0.0.1:0");
        server.child = spawn(program, all, { env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
        server.child.stdout.on("data", (bytes) => (server.said.out += bytes));
        server.child.stderr.on("data", (bytes) => (server.said.err += bytes));
        server.ended = new Promise((resolve) => server.child.on("exit", (code, signal) => resolve({ code, signal })));
        server.url = (await waitFor(server.child, server.said, /listens on (\S+)/))[1];
        await waitFor(server.child, server.said, /^Ready\./m);
        return server;
    }

    client(key = "none", more = {}) {
        return new OpenAI({ apiKey: key, baseURL: `${this.url}/v1`, maxRetries: 0, ...more });
    }

    fetch(path, options = {}) {
        return fetch(this.url + path, options);
    }

    post(path, body, headers = {}) {
        const text = typeof body === "string" ? body : JSON.stringify(body);
        return this.fetch(path, { method: "POST", body: text, headers: { "content-type": "application/json", ...headers } });
    }

    // The log as objects; every line must be one.
    log() {
        return this.said.err.split("\n").filter(Boolean).map((line) => JSON.parse(line));
    }

    async stop(signal = "SIGTERM") {
        if (this.child.exitCode === null) this.child.kill(signal);
        const end = await this.ended;
        if (this.ownsFolder) rmSync(this.folder, { recursive: true, force: true });
        return end;
    }
}

// Until `check` gives something that is not false, for up to `ms`.
export async function eventually(check, what, ms = 5000) {
    const end = Date.now() + ms;
    for (;;) {
        const result = await check();
        if (result) return result;
        if (Date.now() > end) throw new Error(`never happened: ${what}`);
        await new Promise((resolve) => setTimeout(resolve, 20));
    }
}
